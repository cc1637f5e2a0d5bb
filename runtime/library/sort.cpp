// sort, topk, kthvalue, median, mode along a dim. Sorting is by unsigned keys (NaN greatest); long lanes go
// through a byte-wise radix sort.
#include <limits>
#include <numeric>

#include "runtime/library/common.h"

namespace tenon::library {

namespace {

constexpr int64_t radix_from = 256; // below, std::sort is quicker

template <class Key> struct Keyed {
  Key key;
  int64_t index;
};

// Sorts by the lowest `bytes` bytes of what `shift` leaves, least significant first.
template <class E, class Get> void radix_sort(std::vector<E>& items, std::vector<E>& spare, int bytes, Get get) {
  for (int b = 0; b < bytes; b++) {
    size_t count[257] = {};
    for (const E& e : items) count[((get(e) >> (8 * b)) & 255) + 1]++;
    if (std::find(count + 1, count + 257, items.size()) != count + 257) continue; // all alike
    for (int i = 0; i < 256; i++) count[i + 1] += count[i];
    for (const E& e : items) spare[count[(get(e) >> (8 * b)) & 255]++] = e;
    items.swap(spare);
  }
}

template <class T> KeyOf<T> directed_key(T x, bool descending) {
  KeyOf<T> k = order_key(x);
  return descending ? static_cast<KeyOf<T>>(~k) : k;
}

// The positions of a lane in sorted order. Keys of up to 32 bits share a word with the position.
template <class T> void order_packed(const T* in, int64_t* indices, Lanes l, bool descending, std::vector<uint64_t>& items, std::vector<uint64_t>& spare) {
  for (int64_t i = 0; i < l.n; i++) items[static_cast<size_t>(i)] = static_cast<uint64_t>(directed_key(in[i * l.inner], descending)) << 32 | static_cast<uint64_t>(i);
  if (l.n < radix_from) std::sort(items.begin(), items.end());
  else radix_sort(items, spare, sizeof(T), [](uint64_t e) { return e >> 32; });
  for (int64_t i = 0; i < l.n; i++) indices[i * l.inner] = static_cast<int64_t>(items[static_cast<size_t>(i)] & 0xffffffff);
}
template <class T> void order_wide(const T* in, int64_t* indices, Lanes l, bool descending, std::vector<Keyed<uint64_t>>& items, std::vector<Keyed<uint64_t>>& spare) {
  for (int64_t i = 0; i < l.n; i++) items[static_cast<size_t>(i)] = {directed_key(in[i * l.inner], descending), i};
  if (l.n < radix_from) std::sort(items.begin(), items.end(), [](auto& a, auto& b) { return a.key != b.key ? a.key < b.key : a.index < b.index; });
  else radix_sort(items, spare, 8, [](const Keyed<uint64_t>& e) { return e.key; });
  for (int64_t i = 0; i < l.n; i++) indices[i * l.inner] = items[static_cast<size_t>(i)].index;
}

// Where a stable order is not asked for, equal elements come as std::sort leaves them: torch's order.
template <class T> void reorder_ties(const T* in, int64_t* indices, Lanes l, bool descending) {
  auto key = [&](int64_t i) { return directed_key(in[indices[i * l.inner] * l.inner], descending); };
  int64_t tie = 1;
  while (tie < l.n && key(tie - 1) != key(tie)) tie++;
  if (tie >= l.n) return;
  std::vector<Keyed<KeyOf<T>>> items(static_cast<size_t>(l.n));
  for (int64_t i = 0; i < l.n; i++) items[static_cast<size_t>(i)] = {directed_key(in[i * l.inner], descending), i};
  std::sort(items.begin(), items.end(), [](auto& a, auto& b) { return a.key < b.key; });
  for (int64_t i = 0; i < l.n; i++) indices[i * l.inner] = items[static_cast<size_t>(i)].index;
}

template <class T> void finish_lane(const T* in, T* values, int64_t* indices, Lanes l, bool descending, bool stable) {
  if (!stable) reorder_ties(in, indices, l, descending);
  for (int64_t i = 0; i < l.n; i++) values[i * l.inner] = in[indices[i * l.inner] * l.inner];
}

template <class E, class F> void each_lane(const LibraryCall& c, Lanes l, F f) {
  parallel(c, l.count(), std::max<int64_t>(1, 4096 / std::max<int64_t>(1, l.n)), [&](int64_t begin, int64_t end) {
    std::vector<E> items(static_cast<size_t>(l.n)), spare(static_cast<size_t>(l.n));
    for (int64_t lane = begin; lane < end; lane++) f(l.start(lane), lane, items, spare);
  });
}

// A lane's keys with their positions, for selection.
template <class T> void fill_keys(std::vector<Keyed<KeyOf<T>>>& items, const T* in, Lanes l) {
  for (int64_t i = 0; i < l.n; i++) items[static_cast<size_t>(i)] = {order_key(in[i * l.inner]), i};
}

// Hoare's selection with a median-of-three pivot, the partition torch uses, so that ties give the same position. An unlucky lane
// is finished by the linear-time selection of the library.
template <class E> void select_kth(std::vector<E>& a, int64_t k) {
  auto size = static_cast<int64_t>(a.size());
  int64_t low = 0, high = size - 1;
  auto at = [&](int64_t i) -> E& { return a[static_cast<size_t>(i)]; };
  auto order = [&](int64_t i, int64_t j) {
    if (at(i).key > at(j).key) std::swap(at(i), at(j));
  };
  for (int budget = 4 * static_cast<int>(std::bit_width(a.size())); low < high; budget--) {
    if (high == low + 1) return order(low, high);
    if (budget == 0) return std::nth_element(a.begin() + low, a.begin() + k, a.begin() + high + 1, [](const E& x, const E& y) { return x.key < y.key; });
    std::swap(at(low + (high - low) / 2), at(low + 1));
    order(low + 1, high);
    order(low, high);
    order(low + 1, low);
    int64_t i = low + 1, j = high;
    auto pivot = at(low).key;
    while (true) {
      do i++;
      while (pivot > at(i).key);
      do j--;
      while (at(j).key > pivot);
      if (j < i) break;
      std::swap(at(i), at(j));
    }
    std::swap(at(low), at(j));
    if (j <= k) low = i;
    if (j >= k) high = j - 1;
  }
}

} // namespace

const char* sort(const LibraryCall& c) {
  const LibraryTensor& in = c.inputs[0];
  Lanes l(in.sizes, c.ints[0]);
  bool descending = c.ints[1] != 0, stable = c.ints[2] != 0;
  return for_real(in.dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    auto* values = c.outputs[0].as<T>();
    auto* indices = c.outputs[1].as<int64_t>();
    const auto* data = in.as<const T>();
    if (sizeof(T) < 8 && l.n < INT64_C(0xffffffff))
      each_lane<uint64_t>(c, l, [&](int64_t at, int64_t, auto& items, auto& spare) {
        if constexpr (sizeof(T) < 8) order_packed(data + at, indices + at, l, descending, items, spare);
        finish_lane(data + at, values + at, indices + at, l, descending, stable);
      });
    else
      each_lane<Keyed<uint64_t>>(c, l, [&](int64_t at, int64_t, auto& items, auto& spare) {
        order_wide(data + at, indices + at, l, descending, items, spare);
        finish_lane(data + at, values + at, indices + at, l, descending, stable);
      });
    return nullptr;
  });
}

const char* topk(const LibraryCall& c) {
  const LibraryTensor& in = c.inputs[0];
  Lanes l(in.sizes, c.ints[0]);
  int64_t k = c.ints[1];
  bool largest = c.ints[2] != 0, sorted = c.ints[3] != 0;
  if (k < 0 || k > l.n) return message("k = {} is out of range for size {}", k, l.n);
  if (k == 0) return nullptr;
  return for_real(in.dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    using E = Keyed<KeyOf<T>>;
    Lanes out = l;
    out.n = k;
    each_lane<E>(c, l, [&](int64_t at, int64_t lane, std::vector<E>& items, auto&) {
      const T* data = in.as<const T>() + at;
      fill_keys(items, data, l);
      if (largest)
        for (E& e : items) e.key = static_cast<KeyOf<T>>(~e.key);
      auto less = [](const E& a, const E& b) { return a.key < b.key; };
      // The switch between heap and selection is torch's, for the same order among equal values.
      if (k * 64 <= l.n) std::partial_sort(items.begin(), items.begin() + k, items.end(), less);
      else {
        std::nth_element(items.begin(), items.begin() + k - 1, items.end(), less);
        if (sorted) std::sort(items.begin(), items.begin() + k - 1, less);
      }
      int64_t to = out.start(lane);
      for (int64_t i = 0; i < k; i++) {
        int64_t from = items[static_cast<size_t>(i)].index;
        c.outputs[0].as<T>()[to + i * l.inner] = data[from * l.inner];
        c.outputs[1].as<int64_t>()[to + i * l.inner] = from;
      }
    });
    return nullptr;
  });
}

const char* kthvalue(const LibraryCall& c) {
  const LibraryTensor& in = c.inputs[0];
  Lanes l(in.sizes, c.ints[0]);
  int64_t k = c.ints[1];
  if (k < 1 || k > l.n) return message("k = {} is out of range for size {}", k, l.n);
  return for_real(in.dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    using E = Keyed<KeyOf<T>>;
    each_lane<E>(c, l, [&](int64_t at, int64_t lane, std::vector<E>& items, auto&) {
      const T* data = in.as<const T>() + at;
      fill_keys(items, data, l);
      select_kth(items, k - 1);
      int64_t found = items[static_cast<size_t>(k - 1)].index;
      c.outputs[0].as<T>()[lane] = data[found * l.inner];
      c.outputs[1].as<int64_t>()[lane] = found;
    });
    return nullptr;
  });
}

const char* median(const LibraryCall& c) {
  const LibraryTensor& in = c.inputs[0];
  Lanes l(in.sizes, c.ints[0]);
  bool ignore_nan = c.ints[1] != 0;
  return for_real(in.dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    if (l.n == 0) { // only the median of all elements comes here: NaN, or what x86 converts it to
      T none{};
      if constexpr (!std::is_integral_v<T>) none = narrow<T>(std::numeric_limits<float>::quiet_NaN());
      else if constexpr (sizeof(T) >= 4) none = std::numeric_limits<T>::min();
      std::fill_n(c.outputs[0].as<T>(), l.count(), none);
      std::fill_n(c.outputs[1].as<int64_t>(), l.count(), 0);
      return nullptr;
    }
    each_lane<int64_t>(c, l, [&](int64_t at, int64_t lane, std::vector<int64_t>& order, auto&) {
      const T* data = in.as<const T>() + at;
      auto value = [&](int64_t i) { return widen(data[i * l.inner]); };
      int64_t nans = 0, first_nan = -1, found;
      for (int64_t i = 0; i < l.n; i++)
        if (nan(value(i)) && nans++ == 0) first_nan = i;
      if (nans > 0 && !ignore_nan) found = first_nan;
      else {
        int64_t k = nans == l.n ? 0 : (l.n - nans - 1) / 2;
        std::iota(order.begin(), order.end(), int64_t{0});
        std::nth_element(order.begin(), order.begin() + k, order.end(), [&](int64_t a, int64_t b) { // of equals the one a stable sort has there
          auto x = order_key(data[a * l.inner]), y = order_key(data[b * l.inner]);
          return x != y ? x < y : a < b;
        });
        found = order[static_cast<size_t>(k)];
      }
      c.outputs[0].as<T>()[lane] = data[found * l.inner];
      c.outputs[1].as<int64_t>()[lane] = found;
    });
    return nullptr;
  });
}

const char* mode(const LibraryCall& c) {
  const LibraryTensor& in = c.inputs[0];
  Lanes l(in.sizes, c.ints[0]);
  return for_real(in.dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    using E = Keyed<KeyOf<T>>;
    each_lane<E>(c, l, [&](int64_t at, int64_t lane, std::vector<E>& items, auto&) {
      const T* data = in.as<const T>() + at;
      fill_keys(items, data, l);
      std::sort(items.begin(), items.end(), [](const E& a, const E& b) { return a.key < b.key; });
      int64_t found = 0, best = 0, run = 0;
      for (size_t i = 0; i < items.size(); i++) {
        run++;
        if (i + 1 < items.size() && items[i].key == items[i + 1].key) continue;
        if (run > best) best = run, found = items[i].index;
        run = 0;
      }
      c.outputs[0].as<T>()[lane] = data[found * l.inner];
      c.outputs[1].as<int64_t>()[lane] = found;
    });
    return nullptr;
  });
}

} // namespace tenon::library
