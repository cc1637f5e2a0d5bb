// Other libraries that do the same work, each behind plain functions; none is needed to build.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>

namespace tenon::bench {

/// 64-byte aligned f32 elements with small values.
class Buffer {
public:
  explicit Buffer(int64_t n) : p_(static_cast<float*>(std::aligned_alloc(64, (static_cast<size_t>(n) * 4 + 127) / 64 * 64))) {
    for (int64_t i = 0; i < n; i++) p_.get()[i] = static_cast<float>((i * 2654435761u >> 7) % 2048) / 1024.f - 1.f;
  }
  float* data() const { return p_.get(); }

private:
  struct Free {
    void operator()(float* p) const { std::free(p); }
  };
  std::unique_ptr<float, Free> p_;
};

/// A 2-D convolution, channels last, square padding of each side.
struct RivalConv {
  int64_t batch, in_h, in_w, out_h, out_w, in_channels, out_channels, groups, kernel, stride, pad;
  const float *input, *weights, *bias;
  float* output;
  int threads;
};

struct RivalRun; // what a library prepared for one problem
struct Rival {
  const char* name;
  RivalRun* (*prepare_conv)(const RivalConv&);
  void (*run)(RivalRun*);
  void (*release)(RivalRun*);
};
std::span<const Rival> rivals();

} // namespace tenon::bench
