// Searches in sorted sequences, membership, counting into bins.
#include "runtime/library/counts.h"

namespace tenon::library {

namespace {

// For each x the elements of edges that are <= x (right) or < x; NaN is greatest. `order` gives places where the sequence is not sorted
// itself. A block of searches goes on in step, without branches, so that their reads overlap.
template <bool Right, bool Ordered, class T> TENON_WIDE void insertion_points(const T* edges, const int64_t* order, int64_t n, const T* values, int64_t count, int64_t* out) {
  constexpr int64_t block = 32;
  for (int64_t i = 0; i < count; i += block) {
    int64_t at[block] = {}, width = std::min(block, count - i);
    Wide<T> x[block] = {};
    for (int64_t k = 0; k < width; k++) x[k] = widen(values[i + k]);
    auto step = [&](int64_t half) {
      for (int64_t k = 0; k < block; k++) {
        int64_t probe = at[k] + half - 1;
        Wide<T> e = widen(edges[Ordered ? order[probe] : probe]);
        bool before = Right ? !((e > x[k]) | (nan(e) & !nan(x[k]))) : (e < x[k]) | (!nan(e) & nan(x[k]));
        at[k] += before ? half : 0;
      }
    };
    int64_t left = n;
    for (; left > 1; left -= left / 2) step(left / 2);
    if (left == 1) step(1);
    for (int64_t k = 0; k < width; k++) out[i + k] = at[k];
  }
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
    auto find = right ? sorter ? insertion_points<true, true, T> : insertion_points<true, false, T>
                      : sorter ? insertion_points<false, true, T> : insertion_points<false, false, T>;
    parallel(c, values.numel(), 1024, [&](int64_t begin, int64_t end) {
      constexpr int64_t most = 256;
      int64_t found[most];
      for (int64_t i = begin, count; i < end; i += count) {
        int64_t row = i / per_row * n;
        count = std::min({most, end - i, per_row - i % per_row});
        find(sequence.as<const T>() + row, sorter ? sorter + row : nullptr, n, values.as<const T>() + i, count, found);
        if (out.dtype == DType::I32) std::copy_n(found, count, out.as<int32_t>() + i);
        else std::copy_n(found, count, out.as<int64_t>() + i);
      }
    });
    return nullptr;
  });
}

namespace {

// Membership in a set of keys: few are compared with, those of a small range are bits, others are searched.
template <class Key> struct Members {
  const std::vector<Key>& keys; // sorted, no two alike
  std::vector<uint64_t> bits;

  explicit Members(const std::vector<Key>& k) : keys(k) {
    constexpr uint64_t most_bits = uint64_t{1} << 22;
    if (keys.size() <= 8 || static_cast<uint64_t>(keys.back() - keys.front()) >= most_bits) return;
    bits.assign(static_cast<size_t>(keys.back() - keys.front()) / 64 + 1, 0);
    for (Key key : keys) bits[static_cast<Key>(key - keys.front()) / 64] |= uint64_t{1} << (static_cast<Key>(key - keys.front()) % 64);
  }
  void test(const Key* of, int64_t n, bool* out) const {
    if (keys.size() <= 8) compare(of, n, out);
    else if (bits.empty()) search(of, n, out);
    else
      for (int64_t i = 0; i < n; i++) {
        auto at = static_cast<Key>(of[i] - keys.front());
        out[i] = at <= static_cast<Key>(keys.back() - keys.front()) && (bits[at / 64] >> (at % 64) & 1);
      }
  }
  TENON_WIDE void compare(const Key* of, int64_t n, bool* out) const {
    std::fill_n(out, n, false);
    for (Key key : keys)
      for (int64_t i = 0; i < n; i++) out[i] |= of[i] == key;
  }
  void search(const Key* of, int64_t n, bool* out) const {
    int64_t at[64];
    for (int64_t i = 0, count; i < n; i += count) {
      count = std::min<int64_t>(64, n - i);
      insertion_points<false, false>(keys.data(), nullptr, std::ssize(keys), of + i, count, at);
      for (int64_t k = 0; k < count; k++) out[i + k] = at[k] < std::ssize(keys) && keys[static_cast<size_t>(at[k])] == of[i + k];
    }
  }
};

} // namespace

const char* isin(const LibraryCall& c) {
  const LibraryTensor &elements = c.inputs[0], &tests = c.inputs[1];
  bool invert = c.ints[0] != 0;
  return for_real(elements.dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    std::vector<KeyOf<T>> keys;
    for (int64_t i = 0; i < tests.numel(); i++)
      if (T t = tests.as<const T>()[i]; !nan(widen(t))) keys.push_back(order_key(t)); // NaN equals nothing
    std::sort(keys.begin(), keys.end());
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    Members<KeyOf<T>> members(keys);
    const T* data = elements.as<const T>();
    bool* out = c.outputs[0].as<bool>();
    parallel(c, elements.numel(), 4096, [&](int64_t begin, int64_t end) {
      constexpr int64_t block = 1024;
      KeyOf<T> of[block];
      for (int64_t i = begin, count; i < end; i += count) {
        count = std::min(block, end - i);
        lane_keys(data + i, count, 1, 1, false, of);
        members.test(of, count, out + i);
        for (int64_t k = 0; k < count; k++) out[i + k] = (out[i + k] && !nan(widen(data[i + k]))) != invert;
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

namespace {

// Counts of values that are not negative, or sums of their weights.
template <class I> const char* bincount_of(const LibraryCall& c, const I* x, int64_t n) {
  int64_t size = c.ints[0];
  I least = 0, most = 0;
  if (n > 0) value_range(c, x, n, least, most);
  if (least < 0) return message("bincount takes no negative values, but there is {}", least);
  if (n > 0) size = std::max(size, static_cast<int64_t>(most) + 1);
  if (c.inputs.size() < 2) {
    auto* out = allocate<int64_t>(c, 0, {size});
    if (!out) return no_memory;
    count_all<int64_t>(c, n, size, out, [x](int64_t begin, int64_t end, auto add) {
      for (int64_t i = begin; i < end; i++) add(static_cast<int64_t>(x[i]), 1);
    });
    return nullptr;
  }
  const LibraryTensor& weights = c.inputs[1];
  if (weights.numel() != n) return message("{} weights for {} values", weights.numel(), n);
  auto add_up = [&](auto* out) -> const char* {
    if (!out) return no_memory;
    return for_real(weights.dtype, [&](auto zero) -> const char* {
      const auto* w = weights.as<const decltype(zero)>();
      count_all<double>(c, n, size, out, [x, w](int64_t begin, int64_t end, auto add) {
        for (int64_t i = begin; i < end; i++) add(static_cast<int64_t>(x[i]), static_cast<double>(widen(w[i])));
      });
      return nullptr;
    });
  };
  return weights.dtype == DType::F32 ? add_up(allocate<float>(c, 0, {size})) : add_up(allocate<double>(c, 0, {size}));
}

} // namespace

const char* bincount(const LibraryCall& c) {
  const LibraryTensor& in = c.inputs[0];
  if (c.ints[0] < 0) return message("minlength is {}, but cannot be negative", c.ints[0]);
  return for_real(in.dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) return bincount_of(c, in.as<const T>(), in.numel());
    else return "bincount counts integers";
  });
}

} // namespace tenon::library
