// Searches in sorted sequences, membership, counting into bins.
#include "runtime/library/counts.h"

namespace tenon::library {

namespace {

// For each of the keys x, how many of n sorted ones are less, or (Right) not greater. A block of searches goes on in
// step, without branches, so that their reads overlap. key_at(i) is the i-th of the sorted ones.
template <bool Right, class Key, class At>
[[gnu::always_inline]] inline void insertion_points_at(At key_at, int64_t n, const Key* x, int64_t count, int64_t* out) {
  constexpr int64_t block = 32;
  for (int64_t i = 0; i < count; i += block) {
    int64_t at[block] = {}, width = std::min(block, count - i);
    Key of[block] = {};
    std::copy_n(x + i, width, of);
    for (int64_t left = n, half; left > 0; left -= half) {
      half = std::max<int64_t>(1, left / 2);
      for (int64_t k = 0; k < block; k++) {
        Key probe = key_at(at[k] + half - 1);
        at[k] += half & -static_cast<int64_t>(Right ? probe <= of[k] : probe < of[k]); // not ?:, which becomes a branch
      }
    }
    std::copy_n(at, width, out + i);
  }
}

template <bool Right, class Key> TENON_WIDE void insertion_points(const Key* keys, int64_t n, const Key* x, int64_t count, int64_t* out) {
  insertion_points_at<Right>([=](int64_t i) { return keys[i]; }, n, x, count, out);
}
// Among elements, whose keys are made when they are looked at: reading them takes the time, wider vectors would not help.
template <bool Right, class T> void insertion_points_in(const T* data, int64_t n, const KeyOf<T>* x, int64_t count, int64_t* out) {
  insertion_points_at<Right>([=](int64_t i) { return order_key(data[i]); }, n, x, count, out);
}

// The keys of a sequence of rows, in order.
template <class T>
std::unique_ptr<KeyOf<T>[]> sequence_keys(const LibraryCall& c, const LibraryTensor& sequence, const int64_t* sorter, int64_t n) {
  auto keys = scratch<KeyOf<T>>(sequence.numel());
  const T* data = sequence.as<const T>();
  parallel(c, sequence.numel(), 16384, [&](int64_t begin, int64_t end) {
    if (!sorter) return lane_keys(data + begin, end - begin, 1, 1, false, keys.get() + begin);
    for (int64_t i = begin; i < end; i++) keys[static_cast<size_t>(i)] = order_key(data[i / n * n + sorter[i]]);
  });
  return keys;
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
      if (values.rank() && (d >= values.sizes.size() || sequence.sizes[d] != values.sizes[d]))
        return message("rows of another size than the values' in dim {}", d);
  if (sorter && c.inputs[2].numel() != sequence.numel())
    return message("the sorter has {} elements, the sequence {}", c.inputs[2].numel(), sequence.numel());
  if (sorter)
    for (int64_t i = 0; i < c.inputs[2].numel(); i++)
      if (sorter[i] < 0 || sorter[i] >= n) return out_of_range(sorter[i], n);
  return for_real(sequence.dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    // Few searches in a long sequence look at its elements, many at keys made of them beforehand.
    bool prepare = sorter || values.numel() * static_cast<int64_t>(std::bit_width(static_cast<uint64_t>(n))) > sequence.numel();
    auto keys = prepare ? sequence_keys<T>(c, sequence, sorter, n) : nullptr;
    auto find = [&](int64_t row, const KeyOf<T>* x, int64_t count, int64_t* found) {
      if (prepare) (right ? insertion_points<true, KeyOf<T>> : insertion_points<false, KeyOf<T>>)(keys.get() + row, n, x, count, found);
      else (right ? insertion_points_in<true, T> : insertion_points_in<false, T>)(sequence.as<const T>() + row, n, x, count, found);
    };
    parallel(c, values.numel(), 1024, [&](int64_t begin, int64_t end) {
      constexpr int64_t most = 256;
      int64_t found[most];
      KeyOf<T> x[most];
      for (int64_t i = begin, count; i < end; i += count) {
        count = std::min({most, end - i, per_row - i % per_row});
        lane_keys(values.as<const T>() + i, count, 1, 1, false, x);
        find(i / per_row * n, x, count, found);
        if (out.dtype == DType::I32) std::copy_n(found, count, out.as<int32_t>() + i);
        else std::copy_n(found, count, out.as<int64_t>() + i);
      }
    });
    return nullptr;
  });
}

namespace {

template <class Key> TENON_WIDE void is_any_of(std::span<const Key> keys, const Key* of, int64_t n, bool* out) {
  std::fill_n(out, n, false);
  for (Key key : keys)
    for (int64_t i = 0; i < n; i++) out[i] |= of[i] == key;
}

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
    if (keys.size() <= 8) is_any_of<Key>(keys, of, n, out);
    else if (bits.empty()) search(of, n, out);
    else
      for (int64_t i = 0; i < n; i++) {
        auto at = static_cast<Key>(of[i] - keys.front());
        out[i] = at <= static_cast<Key>(keys.back() - keys.front()) && (bits[at / 64] >> (at % 64) & 1);
      }
  }
  void search(const Key* of, int64_t n, bool* out) const {
    int64_t at[64];
    for (int64_t i = 0, count; i < n; i += count) {
      count = std::min<int64_t>(64, n - i);
      insertion_points<false>(keys.data(), std::ssize(keys), of + i, count, at);
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
      if constexpr (std::is_integral_v<T>) out[at] ^= static_cast<uint64_t>(v);
      else out[at] ^= std::bit_cast<uint64_t>(convert<double>(v));
    }
    return nullptr;
  });
}

namespace {

// Elements of a dtype as numbers of type To.
template <class To> using Reader = void (*)(const void* data, int64_t first, int64_t count, To* to);
template <class T, class To> void read_elements(const void* data, int64_t first, int64_t count, To* to) {
  const T* from = static_cast<const T*>(data) + first;
  if constexpr (std::is_same_v<T, To>) std::copy_n(from, count, to); // as a loop it would become an instruction that starts slowly
  else
    for (int64_t i = 0; i < count; i++) to[i] = static_cast<To>(widen(from[i]));
}

template <class Out>
const char* weighted_counts(const LibraryCall& c, int64_t n, int64_t size, Reader<int64_t> bins, Reader<double> amounts) {
  auto* out = allocate<Out>(c, 0, {size});
  if (!out) return no_memory;
  const void *x = c.inputs[0].data, *weights = c.inputs[1].data;
  count_all<double>(c, n, size, true, out, [=](int64_t i, int64_t count, int64_t* bin, double* amount) {
    bins(x, i, count, bin);
    amounts(weights, i, count, amount);
  });
  return nullptr;
}

// Counts of values that are not negative, or sums of their weights, where `most` is the greatest value.
const char* count_bins(const LibraryCall& c, Reader<int64_t> bins, int64_t most) {
  int64_t n = c.inputs[0].numel(), size = std::max(c.ints[0], most + 1);
  if (c.inputs.size() < 2) {
    auto* out = allocate<int64_t>(c, 0, {size});
    if (!out) return no_memory;
    const void* x = c.inputs[0].data;
    count_all<int64_t>(c, n, size, false, out, [=](int64_t i, int64_t count, int64_t* bin, int64_t*) { bins(x, i, count, bin); });
    return nullptr;
  }
  const LibraryTensor& weights = c.inputs[1];
  if (weights.numel() != n) return message("{} weights for {} values", weights.numel(), n);
  Reader<double> amounts = nullptr;
  const char* error = for_real(weights.dtype, [&](auto zero) { return amounts = read_elements<decltype(zero), double>, nullptr; });
  if (error) return error;
  return weights.dtype == DType::F32 ? weighted_counts<float>(c, n, size, bins, amounts)
                                     : weighted_counts<double>(c, n, size, bins, amounts);
}

} // namespace

const char* bincount(const LibraryCall& c) {
  const LibraryTensor& in = c.inputs[0];
  if (c.ints[0] < 0) return message("minlength is {}, but cannot be negative", c.ints[0]);
  int64_t most = -1;
  Reader<int64_t> bins = nullptr;
  const char* error = for_real(in.dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    if constexpr (!std::is_integral_v<T> || std::is_same_v<T, bool>) return "bincount counts integers";
    else {
      T least = 0, greatest = 0;
      bins = read_elements<T, int64_t>;
      if (in.numel() == 0) return nullptr;
      value_range(c, in.as<const T>(), in.numel(), least, greatest);
      most = static_cast<int64_t>(greatest);
      if (static_cast<uint64_t>(greatest) >= INT64_MAX && least >= 0) return no_memory;
      return least < 0 ? message("bincount takes no negative values, but there is {}", least) : nullptr;
    }
  });
  return error ? error : guarded([&] { return count_bins(c, bins, most); });
}

} // namespace tenon::library
