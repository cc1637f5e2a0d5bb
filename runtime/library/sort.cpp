// sort and topk along a dim. Where torch leaves the order of equal elements to std::sort, std::partial_sort or
// std::nth_element of libstdc++, equal elements come in the order these give; all else takes the quickest way.
#include "runtime/library/order.h"

namespace tenon::library {

namespace {

// The positions of a lane's elements in sorted order. `all`: the call's threads may help.
template <class Key> void order_lane(const LibraryCall* all, const Key* keys, int64_t n, bool stable, int64_t* position, uint64_t* words) {
  Key least, most;
  key_range(keys, n, least, most);
  Packing p(least, most, n);
  auto write = [&] {
    for (int64_t i = 0; i < n; i++) position[i] = p.position(words[i]);
  };
  if (stable || n - 1 <= static_cast<int64_t>(std::min<uint64_t>(most - least, INT64_MAX))) { // else some are equal for sure
    if (all) sort_keys(*all, keys, n, p, words);
    else sort_keys(keys, n, p, words);
    write();
    int64_t tie = 1;
    while (tie < n && keys[position[tie - 1]] != keys[position[tie]]) tie++;
    if (stable || tie >= n) return;
  }
  sort_keys_as_std(keys, n, p, words);
  write();
}

} // namespace

const char* sort(const LibraryCall& c) {
  const LibraryTensor& in = c.inputs[0];
  Lanes l(in.sizes, c.ints[0]);
  bool descending = c.ints[1] != 0, stable = c.ints[2] != 0;
  if (l.n == 0 || l.count() == 0) return nullptr;
  return for_real(in.dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    using Key = KeyOf<T>;
    const T* data = in.as<const T>();
    T* values = c.outputs[0].as<T>();
    auto* indices = c.outputs[1].as<int64_t>();
    auto write = [&](int64_t at, const int64_t* position, int64_t lanes, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++)
        for (int64_t k = 0; k < lanes; k++) {
          int64_t from = position[k * l.n + i], to = at + i * l.inner + k;
          values[to] = data[at + from * l.inner + k], indices[to] = from;
        }
    };
    if (l.n >= long_lane && l.count() < threads_of(c)) { // few long lanes: one after the other, on all threads
      auto keys = scratch<Key>(l.n);
      auto position = scratch<int64_t>(l.n);
      auto words = scratch<uint64_t>(2 * l.n);
      for (int64_t lane = 0; lane < l.count(); lane++) {
        int64_t at = l.start(lane);
        lane_keys(data + at, l.n, l.inner, 1, descending, keys.get());
        order_lane(&c, keys.get(), l.n, stable, position.get(), words.get());
        parallel(c, l.n, 8192, [&](int64_t begin, int64_t end) { write(at, position.get(), 1, begin, end); });
      }
      return nullptr;
    }
    each_tile(c, l, [&](int64_t width) {
      return [&, keys = scratch<Key>(width * l.n), position = scratch<int64_t>(width * l.n),
              words = scratch<uint64_t>(2 * l.n)](int64_t at, int64_t, int64_t lanes) {
        lane_keys(data + at, l.n, l.inner, lanes, descending, keys.get());
        for (int64_t k = 0; k < lanes; k++) order_lane(nullptr, keys.get() + k * l.n, l.n, stable, position.get() + k * l.n, words.get());
        write(at, position.get(), lanes, 0, l.n);
      };
    });
    return nullptr;
  });
}

namespace {

template <class Key> bool less_key(const Keyed<Key>& a, const Keyed<Key>& b) { return a.key < b.key; }

// The heap's greatest gives way to a lesser item: the hole sinks to a leaf along the greater children, then the item
// rises from there. That is what std::partial_sort does, so that equal keys come in its order.
template <class E> void replace_top(E* heap, int64_t n, E item) {
  int64_t hole = 0;
  for (int64_t child; (child = 2 * hole + 1) < n; hole = child) {
    if (child + 1 < n && !less_key(heap[child + 1], heap[child])) child++;
    heap[hole] = heap[child];
  }
  for (; hole > 0 && less_key(heap[(hole - 1) / 2], item); hole = (hole - 1) / 2) heap[hole] = heap[(hole - 1) / 2];
  heap[hole] = item;
}

// The k least keys as std::partial_sort gives them. A block of keys is looked at whole: most hold none below the heap's
// greatest.
template <class Key> TENON_WIDE void top_by_heap(const Key* keys, int64_t n, int64_t k, Keyed<Key>* heap) {
  constexpr int64_t block = 64;
  for (int64_t i = 0; i < k; i++) heap[i] = {keys[i], i};
  std::make_heap(heap, heap + k, less_key<Key>);
  Key limit = heap[0].key;
  for (int64_t i = k; i < n;) {
    if (i + block <= n) {
      int found = 0;
      for (int64_t j = 0; j < block; j++) found |= keys[i + j] < limit;
      if (!found) {
        i += block;
        continue;
      }
    }
    for (int64_t end = std::min(i + block, n); i < end; i++)
      if (keys[i] < limit) replace_top(heap, k, {keys[i], i}), limit = heap[0].key;
  }
  std::sort_heap(heap, heap + k, less_key<Key>);
}

constexpr int64_t few_keys = 128;

// The k least of a short lane by counting; false where equal keys leave the order open.
template <class Key> TENON_WIDE bool top_by_counting(const Key* keys, int64_t n, int64_t k, Keyed<Key>* out) {
  alignas(64) Key x[few_keys];
  int64_t padded = (n + 15) / 16 * 16; // vectors without a rest
  std::copy_n(keys, n, x);
  std::fill(x + n, x + padded, static_cast<Key>(~Key{0}));
  for (int64_t i = 0; i < n; i++) {
    Key key = x[i], less = 0, same = 0;
    for (int64_t j = 0; j < padded; j++) less = static_cast<Key>(less + (x[j] < key));
    if (static_cast<int64_t>(less) >= k) continue;
    for (int64_t j = 0; j < padded; j++) same = static_cast<Key>(same + (x[j] == key));
    if (same > 1) return false;
    out[less] = {key, i};
  }
  return true;
}

// The same for longer lanes: a first digit of the keys parts those that may be among the k least from the others.
template <class Key> bool top_by_digits(const Key* keys, int64_t n, int64_t k, uint64_t* words, Keyed<Key>* out) {
  Key least, most;
  key_range(keys, n, least, most);
  Packing p(least, most, n);
  if (n > UINT32_MAX) return false;
  int low = std::max(0, p.bits + p.dropped - 10);
  uint32_t counts[1024] = {}, taken = 0;
  for (int64_t i = 0; i < n; i++) counts[static_cast<Key>(keys[i] - least) >> low]++;
  size_t last = 0;
  while ((taken += counts[last]) < k) last++;
  int64_t found = 0;
  for (int64_t i = 0; i < n; i++) {
    words[found] = p.word(keys[i], i);
    found += static_cast<uint64_t>(static_cast<Key>(keys[i] - least)) >> low <= last;
  }
  sort_words(words, words + n, found, p.shift, p.shift + p.bits);
  settle(keys, found, p, words);
  for (int64_t i = 0; i < k; i++) {
    int64_t at = p.position(words[i]);
    if (i + 1 < found && keys[at] == keys[p.position(words[i + 1])]) return false;
    out[i] = {keys[at], at};
  }
  return true;
}

// The first k in order of `keys`, in the order torch gives them. It takes a heap where k is small, else a selection.
template <class Key> void top_of_lane(const Key* keys, int64_t n, int64_t k, bool sorted, uint64_t* words, Keyed<Key>* items) {
  bool by_heap = k * 64 <= n;
  constexpr int64_t long_for_digits = 8192, small_heap = 16; // of more elements, few find their way into the heap, or soon
  if ((sorted || by_heap) && (!by_heap || n <= few_keys || (n < long_for_digits && k > small_heap)) &&
      (n <= few_keys ? top_by_counting(keys, n, k, items) : top_by_digits(keys, n, k, words, items)))
    return;
  if (by_heap) return top_by_heap(keys, n, k, items);
  for (int64_t i = 0; i < n; i++) items[i] = {keys[i], i};
  std::nth_element(items, items + k - 1, items + n, less_key<Key>);
  if (sorted) std::sort(items, items + k - 1, less_key<Key>);
}

} // namespace

const char* topk(const LibraryCall& c) {
  const LibraryTensor& in = c.inputs[0];
  Lanes l(in.sizes, c.ints[0]);
  int64_t k = c.ints[1];
  bool largest = c.ints[2] != 0, sorted = c.ints[3] != 0;
  if (k < 0 || k > l.n) return "selected index k out of range";
  if (k == 0 || l.count() == 0) return nullptr;
  return for_real(in.dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    using Key = KeyOf<T>;
    const T* data = in.as<const T>();
    Lanes out = l;
    out.n = k;
    each_tile(c, l, [&](int64_t width) {
      return [&, keys = scratch<Key>(width * l.n), words = scratch<uint64_t>(2 * l.n),
              items = scratch<Keyed<Key>>(l.n)](int64_t at, int64_t lane, int64_t lanes) {
        lane_keys(data + at, l.n, l.inner, lanes, largest, keys.get());
        for (int64_t j = 0; j < lanes; j++) {
          top_of_lane(keys.get() + j * l.n, l.n, k, sorted, words.get(), items.get());
          int64_t to = out.start(lane + j);
          for (int64_t i = 0; i < k; i++) {
            int64_t from = items[static_cast<size_t>(i)].index;
            c.outputs[0].as<T>()[to + i * l.inner] = data[at + j + from * l.inner];
            c.outputs[1].as<int64_t>()[to + i * l.inner] = from;
          }
        }
      };
    });
    return nullptr;
  });
}

} // namespace tenon::library
