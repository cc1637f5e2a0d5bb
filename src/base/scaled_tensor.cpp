#include "base/scaled_tensor.h"

#include <atomic>
#include <mutex>

namespace tenon {

namespace {

struct State {
  Scaled scaled;
  std::shared_ptr<void> memory;
  std::once_flag once;
  std::atomic<bool> done = false;
};

/// The deleter of such a tensor's memory: what is known of it goes with it.
struct Release {
  std::shared_ptr<State> state;
  void operator()(void*) { state.reset(); }
};

State* state_of(const Tensor& t) {
  const Release* release = std::get_deleter<Release>(t.storage());
  return release ? release->state.get() : nullptr;
}

void multiply(const Scaled& s, float* to) {
  const float* from = s.from.data_as<float>();
  int64_t inner = s.by.empty() ? 0 : s.from.numel() / static_cast<int64_t>(s.by.size());
  for (float by : s.by)
    for (int64_t i = 0; i < inner; i++) *to++ = *from++ * by;
}

} // namespace

Tensor scaled_tensor(Scaled s, std::shared_ptr<void> memory) {
  std::vector<int64_t> sizes = s.from.sizes(), strides = s.from.strides();
  void* data = memory.get();
  auto state = std::make_shared<State>();
  state->scaled = std::move(s), state->memory = std::move(memory);
  return Tensor(DType::F32, std::move(sizes), std::move(strides), std::shared_ptr<void>(data, Release{std::move(state)}), data);
}

const Scaled* scaled_of(const Tensor& t) {
  State* s = state_of(t);
  return s && !s->done ? &s->scaled : nullptr;
}

void settle(const Tensor& t) {
  State* s = state_of(t);
  if (!s || s->done) return;
  std::call_once(s->once, [&] {
    multiply(s->scaled, static_cast<float*>(s->memory.get()));
    s->done = true;
  });
}

} // namespace tenon
