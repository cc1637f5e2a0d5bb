#include "runtime/backends.h"

#include <algorithm>
#include <cstring>
#include <list>
#include <map>
#include <mutex>

#include "base/check.h"
#include "runtime/linked_plan.h"

namespace tenon {

namespace {

struct Registry {
  std::mutex mutex;
  std::list<std::string> names; // where tenon_backend::name points to
  std::map<std::string, std::shared_ptr<const Backend>, std::less<>> backends;
  std::vector<std::weak_ptr<const Delegate>> delegates;
};
Registry& registry() {
  static Registry r;
  return r;
}

bool same_runtime(const tenon_backend& a, const tenon_backend& b) {
  return a.init == b.init && a.execute == b.execute && a.destroy == b.destroy && a.data == b.data;
}

/// What a function of a backend says, or throws.
template <class F> std::string message_of(const F& call) {
  try {
    const char* said = call();
    return said ? (*said ? said : "an error without a text") : "";
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

void run_parallel(const tenon_delegate_call* call, int64_t n, void (*body)(void*, int64_t), void* data) {
  static_cast<const Workers*>(call->workers)->run(n, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; i++) body(data, i);
  });
}

} // namespace

void add_backend(const Backend& given) {
  const tenon_backend& runtime = given.runtime;
  require_input(runtime.name && *runtime.name, "a backend without a name");
  require_input(runtime.init && runtime.execute, "backend {}: init or execute is missing", runtime.name);
  auto made = std::make_shared<Backend>(given);
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  auto known = r.backends.find(runtime.name);
  require_input(known == r.backends.end() || same_runtime(known->second->runtime, runtime),
                "backend {} is registered already, with another runtime", runtime.name);
  made->runtime.name = known == r.backends.end() ? r.names.emplace_back(runtime.name).c_str() : known->second->runtime.name;
  r.backends[made->runtime.name] = std::move(made);
}

std::shared_ptr<const Backend> find_backend(std::string_view name) {
  std::lock_guard lock(registry().mutex);
  auto at = registry().backends.find(name);
  return at == registry().backends.end() ? nullptr : at->second;
}

Delegate::Delegate(std::shared_ptr<const Backend> backend, Tensor bytes) : backend_(std::move(backend)), bytes_(std::move(bytes)) {
  const tenon_backend& r = backend_->runtime;
  std::string error = message_of([&] { return r.init(bytes_.data(), static_cast<size_t>(bytes_.numel()), r.data, &handle_); });
  require_input(error.empty(), "{}", error);
}

Delegate::~Delegate() {
  if (backend_->runtime.destroy) backend_->runtime.destroy(handle_);
}

std::string Delegate::execute(std::span<const tenon_tensor> tensors, size_t inputs, std::span<const int64_t> sizes,
                              const Workers& workers) const {
  tenon_delegate_call call{.inputs = tensors.data(),
                           .outputs = tensors.data() + inputs,
                           .sizes = sizes.data(),
                           .num_inputs = inputs,
                           .num_outputs = tensors.size() - inputs,
                           .num_sizes = sizes.size(),
                           .threads = workers.threads(),
                           .parallel = run_parallel,
                           .workers = &workers};
  return message_of([&] { return backend_->runtime.execute(handle_, &call); });
}

bool Delegate::serves(const Backend& backend, const Tensor& bytes) const {
  return same_runtime(backend.runtime, backend_->runtime) && bytes.numel() == bytes_.numel() &&
         (bytes.data() == bytes_.data() || std::memcmp(bytes.data(), bytes_.data(), static_cast<size_t>(bytes.numel())) == 0);
}

std::shared_ptr<const Delegate> open_delegate(const std::string& name, const Tensor& bytes, const std::string& operators) {
  std::shared_ptr<const Backend> backend = find_backend(name);
  if (!backend) unsupported("the program has steps for the backend {}, which is not registered here", name);
  Registry& r = registry();
  std::unique_lock lock(r.mutex);
  std::erase_if(r.delegates, [](auto& weak) { return weak.expired(); });
  std::vector<std::shared_ptr<const Delegate>> open;
  for (auto& weak : r.delegates)
    if (auto delegate = weak.lock()) open.push_back(std::move(delegate));
  lock.unlock(); // before any is destroyed, and while the backend works
  for (auto& delegate : open)
    if (delegate->serves(*backend, bytes)) return delegate;
  try {
    auto made = std::make_shared<const Delegate>(backend, bytes);
    lock.lock();
    r.delegates.push_back(made);
    return made;
  } catch (const Error& e) {
    throw Error(e.kind, fmt::format("backend {}: {}: {}", name, operators, e.what()), e.where);
  }
}

void open_delegates(LinkedPlan& linked) {
  linked.delegates.resize(static_cast<size_t>(linked.plan.num_delegates));
  for_each_step(linked.plan.steps, [&](const Step& step) {
    if (auto* s = std::get_if<DelegateStep>(&step.run))
      linked.delegates.at(static_cast<size_t>(s->number)) =
          open_delegate(s->backend, linked.plan.constants.at(static_cast<size_t>(s->bytes)), s->operators);
  });
}

} // namespace tenon
