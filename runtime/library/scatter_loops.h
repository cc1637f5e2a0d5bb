// The loops of scatter.cpp, for each update and each pair of element types. Elements that go to one place are taken in
// order, so that of several assigned the last one stays.
#pragma once
#include "runtime/library/counts.h"
#include "runtime/library/halves.h"

namespace tenon::library {

// What one loop goes through: out[index[j]] for j < n, and the columns beside each other. Indices are in [0, limit). Passed
// by value: what is written might be its parts otherwise, which would be read again each time.
struct Lane {
  void* out;
  int64_t out_step;
  const int64_t* index;
  int64_t index_step;
  const void* source;
  int64_t source_step, n, limit;
};

// `a` with `b` joined to it, in the type that A is computed in.
template <Update U, class A, class B> [[gnu::always_inline]] inline A joined(A a, B b) {
  if constexpr (U == Update::Assign) return b;
  else {
    Wide<A> x = widen(a), y = static_cast<Wide<A>>(widen(b));
    if constexpr (U == Update::Mul) return narrow<A>(x * y);
    else if constexpr (U == Update::Max) return narrow<A>(nan(x) || x > y ? x : y);
    else if constexpr (U == Update::Min) return narrow<A>(nan(x) || x < y ? x : y);
    else return narrow<A>(x + y);
  }
}

// Whether elements of B are joined with those of A as f32, a row at a time: one by one they take longer to convert than to join.
template <Update U, class A, class B> inline constexpr bool joins_halves = U != Update::Assign && (is_half_v<A> || is_half_v<B>);

template <class T> [[gnu::always_inline]] inline void read_row(const T* from, float* to, int64_t n) {
  if constexpr (is_half_v<T>) widen_row(from, to, n);
  else std::transform(from, from + n, to, [](T x) { return static_cast<float>(x); });
}
template <class T> [[gnu::always_inline]] inline void write_row(const float* from, T* to, int64_t n) {
  if constexpr (is_half_v<T>) narrow_row(from, to, n);
  else std::transform(from, from + n, to, [](float x) { return static_cast<T>(x); });
}

// Joins n elements that lie together with others that do.
template <Update U, class A, class B> [[gnu::always_inline]] inline void join_row(A* __restrict to, const B* __restrict from, int64_t n) {
  if constexpr (U == Update::Add && std::is_same_v<A, float> && is_half_v<B>) add_row(from, 1, to, n);
  else if constexpr (joins_halves<U, A, B>) {
    constexpr int64_t most = 256;
    float x[most], y[most];
    for (int64_t at = 0; at < n; at += most) {
      int64_t count = std::min(most, n - at);
      read_row(to + at, x, count);
      read_row(from + at, y, count);
      for (int64_t k = 0; k < count; k++) x[k] = joined<U>(x[k], y[k]);
      write_row(x, to + at, count);
    }
  } else
    for (int64_t k = 0; k < n; k++) to[k] = joined<U>(to[k], from[k]);
}

// Whether n indices are in [0, limit).
inline bool are_within(const int64_t* index, int64_t step, int64_t n, int64_t limit) {
  if (step == 1) return all_below(index, n, limit);
  int64_t outside = 0;
  for (int64_t j = 0; j < n; j++) outside |= index[j * step] | (limit - 1 - index[j * step]);
  return outside >= 0;
}

// These two check indices just before they use them, while they are in cache; false where one is outside. What they
// write depends on what they have written: wider vectors would not help.
template <Update U, class A, class B> bool scatter_elements(Lane l) {
  constexpr int64_t most = 512;
  A* out = static_cast<A*>(l.out);
  const B* source = static_cast<const B*>(l.source);
  const int64_t* index = l.index;
  for (int64_t left = l.n, count; left > 0; left -= count, index += count * l.index_step, source += count * l.source_step) {
    count = std::min(left, most);
    if (!are_within(index, l.index_step, count, l.limit)) return false;
    if constexpr (joins_halves<U, A, B> && is_half_v<B>)
      if (l.source_step == 1) {
        float row[most];
        widen_row(source, row, count);
        for (int64_t j = 0; j < count; j++) {
          A& to = out[index[j * l.index_step] * l.out_step];
          to = joined<U>(to, row[j]);
        }
        continue;
      }
    if (l.out_step == 1 && l.index_step == 1 && l.source_step == 1)
      for (int64_t j = 0; j < count; j++) out[index[j]] = joined<U>(out[index[j]], source[j]);
    else
      for (int64_t j = 0; j < count; j++) {
        A& to = out[index[j * l.index_step] * l.out_step];
        to = joined<U>(to, source[j * l.source_step]);
      }
  }
  return true;
}
template <class T> [[gnu::always_inline]] inline void fetch_elements(const T* from, int64_t n) {
  for (int64_t at = 0; at < n; at += 64 / static_cast<int64_t>(sizeof(T))) __builtin_prefetch(from + at);
}
// Each column has indices of its own.
template <Update U, class A, class B> bool scatter_columns(Lane l, int64_t columns) {
  constexpr int64_t ahead = 12; // rows, of which pieces are read
  A* out = static_cast<A*>(l.out);
  const B* source = static_cast<const B*>(l.source);
  const int64_t* index = l.index;
  bool pieces = columns < l.index_step;
  for (int64_t j = 0; j < l.n; j++, index += l.index_step, source += l.source_step) {
    if (pieces && j + ahead < l.n) {
      fetch_elements(index + ahead * l.index_step, columns);
      fetch_elements(source + ahead * l.source_step, columns);
    }
    if (!are_within(index, 1, columns, l.limit)) return false;
    auto join = [&](const auto* from, int64_t first, int64_t count) {
      for (int64_t k = first; k < first + count; k++) {
        A& to = out[index[k] * l.out_step + k];
        to = joined<U>(to, from[k - first]);
      }
    };
    if constexpr (joins_halves<U, A, B> && is_half_v<B>) {
      constexpr int64_t most = 256;
      float row[most];
      for (int64_t k = 0, count; k < columns; k += count) {
        count = std::min(most, columns - k);
        widen_row(source + k, row, count);
        join(row, k, count);
      }
    } else join(source, 0, columns);
  }
  return true;
}
// All columns have the same indices, which are known to be within. Of the n rows those `chosen`, `count` of them in order; null: all.
template <Update U, class A, class B> TENON_WIDE void scatter_rows(Lane l, int64_t columns, const int64_t* chosen, int64_t count) {
  constexpr int64_t ahead = 16; // rows of `out` lie far apart
  const size_t bytes = std::min<size_t>(static_cast<size_t>(columns) * sizeof(A), 512);
  auto row = [&](int64_t j) { return chosen ? chosen[j] : j; };
  for (int64_t j = 0; j < count; j++) {
    if (j + ahead < count) {
      const char* next = reinterpret_cast<const char*>(static_cast<A*>(l.out) + l.index[row(j + ahead)] * l.out_step);
      for (size_t byte = 0; byte < bytes; byte += 64) __builtin_prefetch(next + byte, 1);
    }
    join_row<U>(static_cast<A*>(l.out) + l.index[row(j)] * l.out_step, static_cast<const B*>(l.source) + row(j) * l.source_step, columns);
  }
}
// The elements of one column, without steps, that go to the places [first, last). Places lie far apart: those of a block
// are fetched ahead.
template <Update U, class A, class B> bool scatter_to_places(Lane l, int64_t first, int64_t last) {
  constexpr int64_t block = 256;
  A* out = static_cast<A*>(l.out);
  const B* source = static_cast<const B*>(l.source);
  int64_t chosen[block];
  for (int64_t at = 0; at < l.n; at += block) {
    int64_t count = std::min(block, l.n - at), found = 0;
    if (!are_within(l.index + at, 1, count, l.limit)) return false;
    for (int64_t j = at; j < at + count; j++) {
      chosen[found] = j;
      found += (l.index[j] >= first) & (l.index[j] < last);
    }
    for (int64_t j = 0; j < found; j++) __builtin_prefetch(out + l.index[chosen[j]], 1);
    for (int64_t j = 0; j < found; j++) {
      A& to = out[l.index[chosen[j]]];
      to = joined<U>(to, source[chosen[j] * l.source_step]);
    }
  }
  return true;
}

// The loops of one update, that join elements of some type with what is written to.
struct Loops {
  int64_t out_size, source_size; // bytes of an element
  bool (*elements)(Lane);
  bool (*columns)(Lane, int64_t columns);
  void (*rows)(Lane, int64_t columns, const int64_t* chosen, int64_t count);
  bool (*places)(Lane, int64_t first, int64_t last);
  void (*sums)(Lane, int64_t columns, const int64_t*, int64_t count); // rows of sums joined; null where parts cannot be summed up apart
};
template <Update U, class A, class B> Loops loops() {
  Loops l{sizeof(A), sizeof(B), scatter_elements<U, A, B>, scatter_columns<U, A, B>, scatter_rows<U, A, B>, scatter_to_places<U, A, B>,
          nullptr};
  if constexpr (U == Update::Add && std::is_arithmetic_v<A>) l.sums = scatter_rows<U, A, A>;
  return l;
}
template <class A, class B> Loops joining_loops(Update u) {
  switch (u) {
  case Update::Mul: return loops<Update::Mul, A, B>();
  case Update::Max: return loops<Update::Max, A, B>();
  case Update::Min: return loops<Update::Min, A, B>();
  default: return loops<Update::Add, A, B>();
  }
}

} // namespace tenon::library
