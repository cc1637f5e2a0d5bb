// Searches in sorted sequences, membership, counting into bins.
#include "runtime/library/common.h"

namespace tenon::library {

namespace {

// Elements of edges that are <= x (right) or < x; NaN is greatest. `order` gives places where the sequence is not
// sorted itself.
template <class T> int64_t insertion_point(const T* edges, const int64_t* order, int64_t n, Wide<T> x, bool right) {
  int64_t low = 0, high = n;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    Wide<T> e = widen(edges[order ? order[middle] : middle]);
    bool before = right ? !(e > x || (nan(e) && !nan(x))) : e < x || (!nan(e) && nan(x));
    if (before)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

} // namespace

const char* searchsorted(const LibraryCall& c) {
  const LibraryTensor &sequence = c.inputs[0], &values = c.inputs[1], &out = c.outputs[0];
  const int64_t* sorter = c.inputs.size() > 2 ? c.inputs[2].as<const int64_t>() : nullptr;
  bool right = c.ints[0] != 0;
  int64_t n = sequence.rank() ? sequence.sizes.back() : 1,
          per_row = sequence.rank() > 1 && values.rank() ? values.sizes.back() : values.numel();
  if (sequence.rank() > 1)
    for (size_t d = 0; d + 1 < sequence.sizes.size(); d++)
      if (values.rank() && (d >= values.sizes.size() || sequence.sizes[d] != values.sizes[d])) return message("rows of another size than the values' in dim {}", d);
  if (sorter && c.inputs[2].numel() != sequence.numel()) return message("the sorter has {} elements, the sequence {}", c.inputs[2].numel(), sequence.numel());
  if (sorter)
    for (int64_t i = 0; i < c.inputs[2].numel(); i++)
      if (sorter[i] < 0 || sorter[i] >= n) return out_of_range(sorter[i], n);
  return for_real(sequence.dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    parallel(c, values.numel(), 1024, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++) {
        int64_t row = i / per_row * n;
        int64_t at = insertion_point(sequence.as<const T>() + row, sorter ? sorter + row : nullptr, n,
                                     widen(values.as<const T>()[i]), right);
        if (out.dtype == DType::I32)
          out.as<int32_t>()[i] = static_cast<int32_t>(at);
        else
          out.as<int64_t>()[i] = at;
      }
    });
    return nullptr;
  });
}

const char* isin(const LibraryCall& c) {
  const LibraryTensor &elements = c.inputs[0], &tests = c.inputs[1];
  bool invert = c.ints[0] != 0;
  return for_real(elements.dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    std::vector<KeyOf<T>> keys;
    for (int64_t i = 0; i < tests.numel(); i++)
      if (T t = tests.as<const T>()[i]; !nan(widen(t))) keys.push_back(order_key(t)); // NaN equals nothing
    std::sort(keys.begin(), keys.end());
    bool* out = c.outputs[0].as<bool>();
    parallel(c, elements.numel(), 1024, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++) {
        T e = elements.as<const T>()[i];
        out[i] = (!nan(widen(e)) && std::binary_search(keys.begin(), keys.end(), order_key(e))) != invert;
      }
    });
    return nullptr;
  });
}

const char* hash_tensor(const LibraryCall& c) {
  const LibraryTensor& in = c.inputs[0];
  return for_real(in.dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    std::vector<int64_t> strides(in.sizes.size(), 0); // of the output, none for the dims reduced
    int64_t step = 1;
    for (size_t d = strides.size(); d-- > 0;)
      if (!c.ints[d]) strides[d] = step, step *= in.sizes[d];
    auto* out = c.outputs[0].as<uint64_t>();
    std::fill_n(out, c.outputs[0].numel(), uint64_t{0});
    for (int64_t i = 0, n = in.numel(); i < n; i++) {
      int64_t at = 0, rest = i;
      for (size_t d = strides.size(); d-- > 0;) at += rest % in.sizes[d] * strides[d], rest /= in.sizes[d];
      T v = in.as<const T>()[i];
      if constexpr (std::is_integral_v<T>)
        out[at] ^= static_cast<uint64_t>(v);
      else
        out[at] ^= std::bit_cast<uint64_t>(convert<double>(v));
    }
    return nullptr;
  });
}

const char* bincount(const LibraryCall& c) {
  const LibraryTensor& in = c.inputs[0];
  return guarded([&]() -> const char* {
    int64_t n = in.numel(), size = c.ints[0];
    if (size < 0) return message("minlength is {}, but cannot be negative", size);
    for (int64_t i = 0; i < n; i++) {
      int64_t v = integer_at(in, i);
      if (v < 0) return message("bincount takes no negative values, but there is {}", v);
      size = std::max(size, v + 1);
    }
    if (c.inputs.size() < 2) {
      auto* out = allocate<int64_t>(c, 0, {size});
      if (!out) return no_memory;
      std::fill_n(out, size, 0);
      for (int64_t i = 0; i < n; i++) out[integer_at(in, i)]++;
      return nullptr;
    }
    const LibraryTensor& weights = c.inputs[1];
    if (weights.numel() != n) return message("{} weights for {} values", weights.numel(), n);
    auto add_up = [&](auto* out) -> const char* {
      using O = std::remove_reference_t<decltype(*out)>;
      if (!out) return no_memory;
      std::fill_n(out, size, O(0));
      return for_real(weights.dtype, [&](auto zero) -> const char* {
        for (int64_t i = 0; i < n; i++)
          out[integer_at(in, i)] += static_cast<O>(widen(weights.as<const decltype(zero)>()[i]));
        return nullptr;
      });
    };
    return weights.dtype == DType::F32 ? add_up(allocate<float>(c, 0, {size})) : add_up(allocate<double>(c, 0, {size}));
  });
}

} // namespace tenon::library
