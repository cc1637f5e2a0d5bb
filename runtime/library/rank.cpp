// Elements by their rank along a dim: kthvalue, median; and mode, the most frequent one.
#include "runtime/library/order.h"

namespace tenon::library {

namespace {

// The k-th of the keys in order, from 0. A digit of the keys parts them into buckets, and only the one that holds the
// k-th is looked at further. `work` has room for all keys.
template <class Key> Key kth_key(const Key* keys, int64_t n, int64_t k, Key* work) {
  constexpr int64_t few = 32;
  const Key* from = keys;
  while (n > few) {
    Key least, most;
    key_range(from, n, least, most);
    int bits = std::bit_width(static_cast<uint64_t>(static_cast<Key>(most - least))), low = std::max(0, bits - (n < 2048 ? 8 : 11));
    int64_t counts[2048];
    std::fill_n(counts, int64_t{1} << (bits - low), int64_t{0});
    auto digit = [=](Key key) { return static_cast<uint64_t>(static_cast<Key>(key - least)) >> low; };
    for (int64_t i = 0; i < n; i++) counts[digit(from[i])]++;
    uint64_t bucket = 0;
    while (k >= counts[bucket]) k -= counts[bucket++];
    if (low == 0) return static_cast<Key>(least + bucket);
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++) { // in place from the second time on: what is written has been read
      Key key = from[i];
      work[kept] = key;
      kept += digit(key) == bucket;
    }
    from = work, n = kept;
  }
  if (from == keys) std::copy_n(keys, n, work);
  std::nth_element(work, work + k, work + n);
  return work[k];
}

template <class Key> TENON_WIDE void count_around(const Key* keys, int64_t n, Key key, int64_t& less, int64_t& same) {
  int64_t below = 0, equal = 0;
  for (int64_t i = 0; i < n; i++) below += keys[i] < key, equal += keys[i] == key;
  less = below, same = equal;
}

// Where the key stands for the (r + 1)-th time.
template <class Key> int64_t find_occurrence(const Key* keys, Key key, int64_t r) {
  int64_t i = 0;
  while (keys[i] != key || r-- > 0) i++;
  return i;
}

// Hoare's selection with a median-of-three pivot, the partition torch uses, so that ties give the same position. An
// unlucky lane is finished by the linear-time selection of the library.
template <class E> void select_kth(std::vector<E>& a, int64_t k) {
  auto size = static_cast<int64_t>(a.size());
  int64_t low = 0, high = size - 1;
  auto at = [&](int64_t i) -> E& { return a[static_cast<size_t>(i)]; };
  auto order = [&](int64_t i, int64_t j) {
    if (at(i).key > at(j).key) std::swap(at(i), at(j));
  };
  for (int budget = 4 * static_cast<int>(std::bit_width(a.size())); low < high; budget--) {
    if (high == low + 1) return order(low, high);
    if (budget == 0)
      return std::nth_element(a.begin() + low, a.begin() + k, a.begin() + high + 1, [](const E& x, const E& y) { return x.key < y.key; });
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

template <class Key> int64_t find_kth(const Key* keys, int64_t n, int64_t k, Key* work) {
  Key key = kth_key(keys, n, k, work);
  int64_t less, same;
  count_around(keys, n, key, less, same);
  if (same == 1) return find_occurrence(keys, key, 0);
  std::vector<Keyed<Key>> items(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; i++) items[static_cast<size_t>(i)] = {keys[i], i};
  select_kth(items, k);
  return items[static_cast<size_t>(k)].index;
}

// The lower median; of equals the one a stable sort has there. A NaN is the median, unless NaNs are ignored.
template <class T> int64_t find_median(const KeyOf<T>* keys, int64_t n, bool ignore_nan, KeyOf<T>* work) {
  using Key = KeyOf<T>;
  int64_t less, nans = 0, same;
  if constexpr (!std::is_integral_v<T>) count_around(keys, n, static_cast<Key>(~Key{0}), less, nans);
  if (nans > 0 && (!ignore_nan || nans == n)) return find_occurrence(keys, static_cast<Key>(~Key{0}), 0);
  int64_t k = (n - nans - 1) / 2;
  Key key = kth_key(keys, n, k, work);
  count_around(keys, n, key, less, same);
  return find_occurrence(keys, key, k - less);
}

// The most frequent element, the least of several; the last of them as std::sort leaves them, as torch.
template <class Key> int64_t find_mode(const Key* keys, int64_t n, uint64_t* words) {
  Key least, most;
  key_range(keys, n, least, most);
  Packing p(least, most, n);
  int64_t best = 0, last = 0;
  auto find = [&] {
    best = 0;
    for (int64_t i = 0, run = 1; i < n; i++, run++) {
      if (i + 1 < n && keys[p.position(words[i])] == keys[p.position(words[i + 1])]) continue;
      if (run > best) best = run, last = i;
      run = 0;
    }
  };
  if (n - 1 <= static_cast<int64_t>(std::min<uint64_t>(most - least, INT64_MAX)))
    sort_keys(keys, n, p, words), find(); // else some are equal for sure
  if (best != 1) sort_keys_as_std(keys, n, p, words), find();
  return p.position(words[last]);
}

// find(keys of a lane, room for as many, room for twice as many words) gives the position of the element wanted, for
// each lane.
template <class T, class Find> void find_each(const LibraryCall& c, Lanes l, bool words, Find find) {
  const T* data = c.inputs[0].as<const T>();
  each_tile(c, l, [&](int64_t width) {
    return [&, keys = scratch<KeyOf<T>>(width * l.n), work = scratch<KeyOf<T>>(l.n),
            more = scratch<uint64_t>(words ? 2 * l.n : 0)](int64_t at, int64_t lane, int64_t lanes) {
      lane_keys(data + at, l.n, l.inner, lanes, false, keys.get());
      for (int64_t k = 0; k < lanes; k++) {
        int64_t found = find(keys.get() + k * l.n, work.get(), more.get());
        c.outputs[0].as<T>()[lane + k] = data[at + k + found * l.inner];
        c.outputs[1].as<int64_t>()[lane + k] = found;
      }
    };
  });
}

} // namespace

const char* kthvalue(const LibraryCall& c) {
  Lanes l(c.inputs[0].sizes, c.ints[0]);
  int64_t k = c.ints[1];
  if (k < 1 || k > l.n) return message("kthvalue(): selected number k out of range for dimension {}", c.ints[0]);
  return for_real(c.inputs[0].dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    find_each<T>(c, l, false, [&](const KeyOf<T>* keys, KeyOf<T>* work, uint64_t*) { return find_kth(keys, l.n, k - 1, work); });
    return nullptr;
  });
}

const char* median(const LibraryCall& c) {
  Lanes l(c.inputs[0].sizes, c.ints[0]);
  bool ignore_nan = c.ints[1] != 0;
  return for_real(c.inputs[0].dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    if (l.n == 0) { // only the median of all elements comes here: NaN, or what x86 converts it to
      T none{};
      if constexpr (!std::is_integral_v<T>) none = narrow<T>(std::numeric_limits<float>::quiet_NaN());
      else if constexpr (sizeof(T) >= 4) none = std::numeric_limits<T>::min();
      std::fill_n(c.outputs[0].as<T>(), l.count(), none);
      std::fill_n(c.outputs[1].as<int64_t>(), l.count(), 0);
      return nullptr;
    }
    find_each<T>(c, l, false, [&](const KeyOf<T>* keys, KeyOf<T>* work, uint64_t*) { return find_median<T>(keys, l.n, ignore_nan, work); });
    return nullptr;
  });
}

const char* mode(const LibraryCall& c) {
  Lanes l(c.inputs[0].sizes, c.ints[0]);
  if (l.n == 0 && l.count() > 0) return "no element to choose from";
  return for_real(c.inputs[0].dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    find_each<T>(c, l, true, [&](const KeyOf<T>* keys, KeyOf<T>*, uint64_t* words) { return find_mode(keys, l.n, words); });
    return nullptr;
  });
}

} // namespace tenon::library
