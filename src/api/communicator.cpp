// Communicators: opened from shared libraries, made for threads, divided into groups.
#include "tenon/communicator.h"

#include <dlfcn.h>

#include <algorithm>

#include <fmt/ranges.h>

#include "api/impl.h"
#include "base/check.h"
#include "runtime/communicator.h"

namespace tenon {

namespace {

void check_table(const tenon_communicator& t) {
  require_input(t.struct_size == sizeof(tenon_communicator), "the communicator was built for another version of tenon");
  require_input(t.size > 0 && t.rank >= 0 && t.rank < t.size, "a communicator of rank {} among {}", t.rank, t.size);
  require_input(t.start && t.wait && t.abort, "a communicator without start, wait or abort");
}

void host_combine(int32_t reduction, int32_t dtype, const void* in, void* inout, int64_t count) {
  combine(static_cast<tenon_reduction>(reduction), static_cast<DType>(dtype), in, inout, count);
}
void host_divide(int32_t dtype, void* inout, int64_t count, int32_t ranks) { divide(static_cast<DType>(dtype), inout, count, ranks); }
constexpr tenon_communicator_host host{sizeof(tenon_communicator_host), host_combine, host_divide};

} // namespace

Communicator::Communicator(const tenon_communicator& table) {
  check_table(table);
  impl_ = std::make_shared<Impl>(table);
}

Result<Communicator> Communicator::open(const std::string& text) {
  return guarded([&] {
    size_t colon = std::min(text.find(':'), text.size());
    std::string name = text.substr(0, colon), arguments = text.substr(std::min(colon + 1, text.size()));
    if (name == "mpi") name = "libtenon_mpi.so";
    require_input(name.ends_with(".so"), "a communicator is mpi, or a shared library NAME.so, and not '{}'", name);
    void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    require_input(handle != nullptr, "{}", dlerror());
    std::shared_ptr<void> library(handle, [](void*) {}); // stays: threads of its own may be in it
    auto open = reinterpret_cast<decltype(&tenon_open_communicator)>(dlsym(handle, "tenon_open_communicator"));
    require_input(open != nullptr, "{} exports no tenon_open_communicator", name);
    tenon_communicator table{};
    const char* error = open(arguments.c_str(), &host, &table);
    require_input(!error, "{}: {}", name, error ? error : "");
    check_table(table);
    return Communicator(std::make_shared<Impl>(table, nullptr, std::move(library)));
  });
}

Result<std::vector<Communicator>> Communicator::local(int size, double timeout_seconds) {
  return guarded([&] {
    require_input(size > 0, "a group of {} ranks", size);
    std::vector<Communicator> all;
    for (const tenon_communicator& table : local_communicators(size, timeout_seconds)) all.emplace_back(table);
    return all;
  });
}

int Communicator::rank() const { return impl_ ? impl_->table.rank : -1; }
int Communicator::size() const { return impl_ ? impl_->table.size : 0; }

Result<int64_t> Communicator::maximum(int64_t mine) const {
  return guarded([&] {
    require_input(impl_ != nullptr, "there is no communicator");
    std::scoped_lock turn((impl_->root ? impl_->root : impl_)->turn);
    int64_t result = 0;
    tenon_collective call{TENON_ALL_REDUCE, TENON_MAX, TENON_I64, 0, &mine, &result, 1, 1, nullptr, nullptr};
    void* request = nullptr;
    const char* error = impl_->table.start(impl_->table.data, &call, &request);
    if (!error) error = impl_->table.wait(impl_->table.data, request);
    require_input(!error, "{}", error ? error : "");
    return result;
  });
}

Result<Communicator> Communicator::subgroup(std::span<const int> ranks) const {
  return guarded([&] {
    require_input(impl_ != nullptr, "there is no communicator to take a group of");
    std::vector<int> sorted(ranks.begin(), ranks.end());
    std::ranges::sort(sorted);
    bool fits = !sorted.empty() && sorted.front() >= 0 && sorted.back() < size() && std::ranges::adjacent_find(sorted) == sorted.end();
    require_input(fits && std::ranges::find(sorted, rank()) != sorted.end(), "ranks [{}] are no group of rank {} among {}",
                  fmt::join(ranks, ", "), rank(), size());
    require_input(impl_->table.subgroup != nullptr, "the communicator has no groups");
    tenon_communicator table{};
    const char* error = impl_->table.subgroup(impl_->table.data, ranks.data(), static_cast<int32_t>(ranks.size()), &table);
    require_input(!error, "{}", error ? error : "");
    check_table(table);
    return Communicator(std::make_shared<Impl>(table, impl_->root ? impl_->root : impl_, impl_->library));
  });
}

} // namespace tenon
