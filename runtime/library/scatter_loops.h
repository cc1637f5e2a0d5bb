// The loops of scatter.cpp. Elements that go to one place are taken in order, so that of several assigned the last one
// stays: threads share the planes, the columns beside each other, or the places of one column, which never meet.
#pragma once
#include "runtime/library/counts.h"

namespace tenon::library {

// Where elements go: a plane is out[index[j]][k] for j < n, k < columns. The index is the same for all columns, or has
// as many. The planes are numbered by the dims `sizes`, with their strides in out, index and source.
struct Planes {
  int64_t n = 1, columns = 1, out_step = 1, index_step = 1, source_step = 1, limit = 1;
  bool index_by_column = false;
  std::vector<int64_t> sizes, to, at, from;

  int64_t count() const { return product(sizes); }
  void add_dim(int64_t size, int64_t out, int64_t index, int64_t source) {
    sizes.push_back(size), to.push_back(out), at.push_back(index), from.push_back(source);
  }
  void find(int64_t plane, int64_t& out, int64_t& index, int64_t& source) const {
    out = index = source = 0;
    for (size_t d = sizes.size(); d-- > 0; plane /= sizes[d]) {
      int64_t i = plane % sizes[d];
      out += i * to[d], index += i * at[d], source += i * from[d];
    }
  }
  /// One row of elements takes the place of the source.
  void repeat_source() { source_step = 0, std::fill(from.begin(), from.end(), int64_t{0}); }
};

// `a` with `b` joined to it, in the type that A is computed in.
template <Update U, class A, class B> [[gnu::always_inline]] inline A joined(A a, B b) {
  if constexpr (U == Update::Assign && std::is_same_v<A, B>) return b;
  else {
    Wide<A> x = widen(a), y = static_cast<Wide<A>>(widen(b));
    if constexpr (U == Update::Assign) return narrow<A>(y);
    else if constexpr (U == Update::Mul) return narrow<A>(x * y);
    else if constexpr (U == Update::Max) return narrow<A>(nan(x) || x > y ? x : y);
    else if constexpr (U == Update::Min) return narrow<A>(nan(x) || x < y ? x : y);
    else return narrow<A>(x + y);
  }
}

// Whether n indices are in [0, limit).
[[gnu::always_inline]] inline bool are_within(const int64_t* index, int64_t step, int64_t n, int64_t limit) {
  int64_t outside = 0;
  for (int64_t j = 0; j < n; j++) {
    int64_t i = index[j * step];
    outside |= i | (limit - 1 - i);
  }
  return outside >= 0;
}

// These two check indices just before they use them, while they are in cache; false where one is outside.
template <Update U, class A, class B>
TENON_WIDE bool scatter_elements(A* out, int64_t out_step, const int64_t* index, int64_t index_step, const B* source, int64_t source_step,
                                 int64_t n, int64_t limit) {
  constexpr int64_t most = 512;
  for (int64_t count; n > 0; n -= count, index += count * index_step, source += count * source_step) {
    count = std::min(n, most);
    if (!(index_step == 1 ? are_within(index, 1, count, limit) : are_within(index, index_step, count, limit))) return false;
    if (out_step == 1 && index_step == 1 && source_step == 1)
      for (int64_t j = 0; j < count; j++) out[index[j]] = joined<U>(out[index[j]], source[j]);
    else
      for (int64_t j = 0; j < count; j++) {
        A& to = out[index[j * index_step] * out_step];
        to = joined<U>(to, source[j * source_step]);
      }
  }
  return true;
}
template <class T> [[gnu::always_inline]] inline void fetch_elements(const T* from, int64_t n) {
  for (int64_t at = 0; at < n; at += 64 / static_cast<int64_t>(sizeof(T))) __builtin_prefetch(from + at);
}
template <Update U, class A, class B>
TENON_WIDE bool scatter_columns(A* out, int64_t out_step, const int64_t* index, int64_t index_step, const B* source, int64_t source_step,
                                int64_t n, int64_t columns, int64_t limit) {
  constexpr int64_t ahead = 12; // rows, of which pieces are read
  bool pieces = columns < index_step;
  for (int64_t j = 0; j < n; j++, index += index_step, source += source_step) {
    if (pieces && j + ahead < n) {
      fetch_elements(index + ahead * index_step, columns);
      fetch_elements(source + ahead * source_step, columns);
    }
    if (!are_within(index, 1, columns, limit)) return false;
    for (int64_t k = 0; k < columns; k++) {
      A& to = out[index[k] * out_step + k];
      to = joined<U>(to, source[k]);
    }
  }
  return true;
}
template <Update U, class A, class B>
TENON_WIDE void scatter_rows(A* out, int64_t out_step, const int64_t* index, const B* source, int64_t source_step, int64_t n,
                             int64_t columns) {
  constexpr int64_t ahead = 16; // rows of `out` lie far apart
  for (int64_t j = 0; j < n; j++) {
    if (j + ahead < n) {
      const char* next = reinterpret_cast<const char*>(out + index[j + ahead] * out_step);
      for (size_t byte = 0; byte < std::min<size_t>(static_cast<size_t>(columns) * sizeof(A), 512); byte += 64)
        __builtin_prefetch(next + byte, 1);
    }
    A* __restrict to = out + index[j] * out_step;
    const B* __restrict from = source + j * source_step;
    for (int64_t k = 0; k < columns; k++) to[k] = joined<U>(to[k], from[k]);
  }
}
// Columns that a thread takes at once: enough pieces for all threads, and where columns have indices of their own, few
// enough that what they are scattered to stays in the cache, but some lines of indices.
template <class A> int64_t column_block(const LibraryCall& c, const Planes& p) {
  constexpr int64_t line = 64 / sizeof(A), cache = 2 << 20, few = 32;
  int64_t block = p.columns, planes = p.count();
  auto halve = [&] { block = (block / 2 + line - 1) / line * line; };
  while (block > line && planes * ((p.columns + block - 1) / block) < threads_of(c)) halve();
  while (p.index_by_column && block > few && p.limit * block * static_cast<int64_t>(sizeof(A)) > cache) halve();
  return std::max<int64_t>(1, block);
}

template <Update U, class A, class B>
bool scatter_pieces(const LibraryCall& c, const Planes& p, A* out, const int64_t* index, const B* source) {
  std::atomic<bool> within = true;
  int64_t block = column_block<A>(c, p), blocks = (p.columns + block - 1) / block;
  parallel(c, p.count() * blocks, std::max<int64_t>(1, 8192 / std::max<int64_t>(1, p.n * block)), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; t++) {
      int64_t to, at, from, k = t % blocks * block, width = std::min(block, p.columns - k);
      p.find(t / blocks, to, at, from);
      bool good = true;
      if (p.columns == 1)
        good = scatter_elements<U>(out + to, p.out_step, index + at, p.index_step, source + from, p.source_step, p.n, p.limit);
      else if (p.index_by_column)
        good = scatter_columns<U>(out + to + k, p.out_step, index + at + k, p.index_step, source + from + k, p.source_step, p.n, width,
                                  p.limit);
      else scatter_rows<U>(out + to + k, p.out_step, index + at, source + from + k, p.source_step, p.n, width);
      if (!good) within = false;
    }
  });
  return within;
}

// One long column to few places: each thread has places of its own, which are joined in the end, always in the same
// order.
template <Update U, class A, class B>
bool scatter_parts(const LibraryCall& c, const Planes& p, A* out, const int64_t* index, const B* source, A nothing) {
  int64_t parts = threads_of(c);
  std::atomic<bool> within = true;
  std::vector<std::unique_ptr<A[]>> own(static_cast<size_t>(parts));
  parallel(c, parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; t++) {
      int64_t first = p.n * t / parts, last = p.n * (t + 1) / parts;
      A* to = out;
      if (t > 0) {
        own[static_cast<size_t>(t)] = scratch<A>(p.limit);
        to = own[static_cast<size_t>(t)].get();
        std::fill_n(to, p.limit, nothing);
      }
      if (!scatter_elements<U>(to, 1, index + first, 1, source + first * p.source_step, p.source_step, last - first, p.limit))
        within = false;
    }
  });
  for (size_t t = 1; t < own.size(); t++)
    for (int64_t i = 0; i < p.limit; i++) out[i] = joined<U>(out[i], own[t][static_cast<size_t>(i)]);
  return within;
}

// The elements of one column that go to the places [first, last). Places lie far apart: those of a block are fetched ahead.
template <Update U, class A, class B>
TENON_WIDE bool scatter_to_places(A* out, const int64_t* index, const B* source, int64_t source_step, int64_t n, int64_t limit,
                                  int64_t first, int64_t last) {
  constexpr int64_t block = 256;
  int64_t chosen[block];
  for (int64_t at = 0; at < n; at += block) {
    int64_t count = std::min(block, n - at), found = 0;
    if (!are_within(index + at, 1, count, limit)) return false;
    for (int64_t j = at; j < at + count; j++) {
      chosen[found] = j;
      found += (index[j] >= first) & (index[j] < last);
    }
    for (int64_t j = 0; j < found; j++) __builtin_prefetch(out + index[chosen[j]], 1);
    for (int64_t j = 0; j < found; j++) {
      A& to = out[index[chosen[j]]];
      to = joined<U>(to, source[chosen[j] * source_step]);
    }
  }
  return true;
}

// One long column to many places: each thread has a share of the places.
template <Update U, class A, class B>
bool scatter_shares(const LibraryCall& c, const Planes& p, A* out, const int64_t* index, const B* source) {
  int64_t parts = threads_of(c);
  std::atomic<bool> within = true;
  parallel(c, parts, 1, [&](int64_t begin, int64_t end) {
    int64_t first = p.limit * begin / parts, last = p.limit * end / parts;
    if (!scatter_to_places<U>(out, index, source, p.source_step, p.n, p.limit, first, last)) within = false;
  });
  return within;
}

template <Update U, class A, class B>
bool scatter_by(const LibraryCall& c, const Planes& p, A* out, const int64_t* index, const B* source) {
  bool one_column = p.columns == 1 && p.count() == 1 && p.out_step == 1 && p.index_step == 1;
  if (!one_column || p.n < 65536) return scatter_pieces<U>(c, p, out, index, source);
  if constexpr (U == Update::Add && std::is_arithmetic_v<A>) {
    if (threads_of(c) > 1 && p.limit * threads_of(c) <= p.n / 4) return scatter_parts<U>(c, p, out, index, source, A(0));
  }
  return p.limit * static_cast<int64_t>(sizeof(A)) < 65536 && threads_of(c) == 1 ? scatter_pieces<U>(c, p, out, index, source)
                                                                                 : scatter_shares<U>(c, p, out, index, source);
}
/// False where an index is outside: then some elements are not written.
template <class A, class B>
bool scatter_all(const LibraryCall& c, Update u, const Planes& p, A* out, const int64_t* index, const B* source) {
  switch (u) {
  case Update::Assign: return scatter_by<Update::Assign>(c, p, out, index, source);
  case Update::Mul: return scatter_by<Update::Mul>(c, p, out, index, source);
  case Update::Max: return scatter_by<Update::Max>(c, p, out, index, source);
  case Update::Min: return scatter_by<Update::Min>(c, p, out, index, source);
  default: return scatter_by<Update::Add>(c, p, out, index, source);
  }
}

} // namespace tenon::library
