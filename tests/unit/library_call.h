// A call of a library step with its memory, for tests.
#pragma once
#include <algorithm>
#include <string>

#include "runtime/library_steps.h"
#include "runtime/parallel.h"

namespace tenon {

template <class T> constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, bool>) return DType::Bool;
  else if constexpr (std::is_same_v<T, int64_t>) return DType::I64;
  else if constexpr (std::is_same_v<T, int32_t>) return DType::I32;
  else if constexpr (std::is_same_v<T, uint8_t>) return DType::U8;
  else if constexpr (std::is_same_v<T, double>) return DType::F64;
  else return DType::F32;
}

// A call with its memory.
struct Bench {
  std::vector<Tensor> inputs, outputs;
  std::vector<int64_t> ints;
  std::vector<double> numbers;
  uint64_t seed = 7;
  const Workers* workers = nullptr;

  template <class T> void input(std::vector<int64_t> sizes, const std::vector<T>& values) {
    inputs.emplace_back(dtype_of<T>(), std::move(sizes));
    std::copy(values.begin(), values.end(), inputs.back().template data_as<T>());
  }
  template <class T> void output(std::vector<int64_t> sizes) { outputs.emplace_back(dtype_of<T>(), std::move(sizes)); }
  template <class T> std::vector<T> out(size_t k) const {
    const T* data = outputs[k].data_as<T>();
    return {data, data + outputs[k].numel()};
  }
  std::string run(LibraryFn step) {
    std::vector<LibraryTensor> in, to;
    for (auto& t : inputs) in.push_back({t.data(), t.dtype(), t.sizes()});
    for (auto& t : outputs) to.push_back({t.data(), t.dtype(), t.sizes()});
    auto allocate = [](void* context, int index, std::span<const int64_t> sizes) -> void* {
      if (std::ranges::any_of(sizes, [](int64_t s) { return s < 0 || s > int64_t{1} << 40; })) return nullptr;
      auto& t = static_cast<Bench*>(context)->outputs[static_cast<size_t>(index)];
      t = Tensor(t.dtype(), {sizes.begin(), sizes.end()});
      return t.data();
    };
    LibraryCall call{in, to, ints, numbers, seed, allocate, this, workers};
    const char* error = step(call);
    return error ? error : "";
  }
};

} // namespace tenon
