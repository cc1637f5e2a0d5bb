// Steps that pick elements by value: nonzero, masked_select and its inverse, repeat_interleave. Output sizes depend on
// values.
#include "runtime/library/bits.h"

namespace tenon::library {

namespace {

template <class T> Found find_set(const LibraryCall& c, const LibraryTensor& t) {
  const T* x = t.as<const T>();
  return find_where(c, t.numel(), [x](int64_t i) { return widen(x[i]) != Wide<T>(0); });
}

// The coordinates of element `at`, the last dim apart; returns the first element of its row.
int64_t locate(int64_t at, std::span<const int64_t> sizes, int64_t* out) {
  int64_t row = at / sizes.back();
  int64_t first = row * sizes.back();
  for (size_t d = sizes.size() - 1; d-- > 0; row /= sizes[d]) out[d] = row % sizes[d];
  return first;
}

// The coordinates of what is found in [begin, end), `limit` rows at most. Rank is the compiler's where it is small.
template <int Rank>
TENON_WIDE void write_indices(const Found& found, int64_t begin, int64_t end, std::span<const int64_t> sizes, int64_t* out, int64_t limit) {
  constexpr int most = Rank > 0 ? Rank : 64;
  size_t rank = Rank > 0 ? static_cast<size_t>(Rank) : sizes.size();
  int64_t inner = sizes.back(), first = begin, next = begin, at[most] = {};
  found.each(begin, end, [&](int64_t i) {
    if (limit-- <= 0) return;
    if constexpr (Rank == 1) *out++ = i;
    else {
      if (i >= next) first = locate(i, sizes, at), next = first + inner;
      for (size_t d = 0; d + 1 < rank; d++) out[d] = at[d];
      out[rank - 1] = i - first;
      out += rank;
    }
  });
}

// The indices of the first `limit` found, one row each.
const char* write_all_indices(const LibraryCall& c, const Found& found, const LibraryTensor& t, int64_t* out, int64_t limit) {
  size_t rank = t.sizes.size();
  if (rank == 0) return nullptr;
  if (rank > 64) return "more than 64 dims";
  each_chunk(c, found, [&](int64_t begin, int64_t end, int64_t before) {
    auto write = rank == 1   ? write_indices<1>
                 : rank == 2 ? write_indices<2>
                 : rank == 3 ? write_indices<3>
                 : rank == 4 ? write_indices<4>
                             : write_indices<0>;
    if (before < limit) write(found, begin, end, t.sizes, out + before * static_cast<int64_t>(rank), limit - before);
  });
  return nullptr;
}

// The elements of t broadcast to `sizes`: t's own memory where it has them already.
template <class U> const U* broadcast_elements(const LibraryTensor& t, std::span<const int64_t> sizes, std::unique_ptr<U[]>& memory) {
  const U* from = t.as<const U>();
  int64_t total = product(sizes);
  if (t.numel() == total) return from;
  memory = std::make_unique_for_overwrite<U[]>(static_cast<size_t>(total));
  size_t rank = sizes.size();
  std::vector<int64_t> strides = broadcast_strides(t.sizes, rank), at(rank, 0);
  int64_t inner = sizes[rank - 1], step = strides[rank - 1];
  for (int64_t e = 0; e < total; e += inner) {
    if (step) std::copy_n(from, inner, memory.get() + e);
    else std::fill_n(memory.get() + e, inner, *from);
    for (size_t d = rank - 1; d-- > 0;) {
      from += strides[d];
      if (++at[d] < sizes[d]) break;
      from -= at[d] * strides[d];
      at[d] = 0;
    }
  }
  return memory.get();
}

template <class U> TENON_WIDE void pick_found(const Found& found, int64_t begin, int64_t end, const U* from, U* out) {
  for (int64_t i = begin; i < end; i += 64) {
    uint64_t word = found.words[static_cast<size_t>(i / 64)];
    if (word == ~uint64_t{0}) out = std::copy_n(from + i, 64, out);
    else
      for (; word; word &= word - 1) *out++ = from[i + std::countr_zero(word)];
  }
}
template <class U> TENON_WIDE void put_found(const Found& found, int64_t begin, int64_t end, const U* from, U* out) {
  for (int64_t i = begin; i < end; i += 64) {
    uint64_t word = found.words[static_cast<size_t>(i / 64)];
    if (word == ~uint64_t{0}) std::copy_n(from, 64, out + i), from += 64;
    else
      for (; word; word &= word - 1) out[i + std::countr_zero(word)] = *from++;
  }
}

} // namespace

const char* nonzero(const LibraryCall& c) {
  const LibraryTensor& in = c.inputs[0];
  return for_real(in.dtype, [&](auto zero) -> const char* {
    Found found = find_set<decltype(zero)>(c, in);
    auto* out = allocate<int64_t>(c, 0, {found.count(), in.rank()});
    return out ? write_all_indices(c, found, in, out, found.count()) : no_memory;
  });
}

const char* nonzero_static(const LibraryCall& c) {
  const LibraryTensor &in = c.inputs[0], &out = c.outputs[0];
  return for_real(in.dtype, [&](auto zero) -> const char* {
    Found found = find_set<decltype(zero)>(c, in);
    int64_t rows = out.size(0), count = std::min(rows, found.count());
    std::fill(out.as<int64_t>() + count * in.rank(), out.as<int64_t>() + rows * in.rank(), c.ints[0]);
    return write_all_indices(c, found, in, out.as<int64_t>(), count);
  });
}

const char* masked_select(const LibraryCall& c) {
  const LibraryTensor &in = c.inputs[0], &mask = c.inputs[1];
  return for_size(in.dtype, [&](auto zero) -> const char* {
    using U = decltype(zero);
    std::vector<int64_t> sizes(in.sizes.begin(), in.sizes.end());
    if (!broadcast_into(sizes, mask.sizes)) return "self and mask do not broadcast together";
    std::unique_ptr<U[]> wide_in;
    std::unique_ptr<uint8_t[]> wide_mask;
    const U* from = broadcast_elements<U>(in, sizes, wide_in);
    const uint8_t* bits = broadcast_elements<uint8_t>(mask, sizes, wide_mask);
    Found found = find_where(c, product(sizes), [bits](int64_t i) { return bits[i] != 0; });
    auto* out = allocate<U>(c, 0, {found.count()});
    if (!out) return no_memory;
    each_chunk(c, found, [&](int64_t begin, int64_t end, int64_t before) { pick_found(found, begin, end, from, out + before); });
    return nullptr;
  });
}

const char* masked_scatter(const LibraryCall& c) {
  const LibraryTensor &self = c.inputs[0], &mask = c.inputs[1], &source = c.inputs[2];
  int64_t n = c.outputs[0].numel(), have = source.numel();
  return for_size(c.outputs[0].dtype, [&](auto zero) -> const char* {
    using U = decltype(zero);
    const auto* bits = mask.as<const uint8_t>();
    Found found = find_where(c, n, [bits](int64_t i) { return bits[i] != 0; });
    if (found.count() > have) return message("the source has {} elements, fewer than the mask selects", have);
    const U *before_it = self.as<const U>(), *from = source.as<const U>();
    U* out = c.outputs[0].as<U>();
    each_chunk(c, found, [&](int64_t begin, int64_t end, int64_t before) {
      if (before_it != out) std::copy(before_it + begin, before_it + end, out + begin);
      put_found(found, begin, end, from + before, out);
    });
    return nullptr;
  });
}

namespace {

// Each i of [begin, end) as often as repeats[i] says. A few are written at once, and those too many overwritten by the
// next.
template <class R, class O> TENON_WIDE void write_repeated(const R* repeats, int64_t begin, int64_t end, O* out, O* limit) {
  constexpr int64_t at_once = 8;
  for (int64_t i = begin; i < end; i++) {
    auto r = static_cast<int64_t>(repeats[i]);
    auto value = static_cast<O>(i);
    if (limit - out >= at_once && r <= at_once)
      for (int64_t k = 0; k < at_once; k++) out[k] = value;
    else std::fill_n(out, r, value);
    out += r;
  }
}

template <class R, class O> const char* repeat_as(const LibraryCall& c, const R* repeats, int64_t n) {
  constexpr int64_t chunk = 2048;
  int64_t chunks = (n + chunk - 1) / chunk;
  std::vector<int64_t> before(static_cast<size_t>(chunks + 1), 0), least(static_cast<size_t>(chunks), 0);
  auto each = [&](auto f) {
    parallel(c, chunks, 4, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; k++) f(static_cast<size_t>(k), k * chunk, std::min(n, (k + 1) * chunk));
    });
  };
  each([&](size_t k, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) before[k + 1] += repeats[i], least[k] = std::min<int64_t>(least[k], repeats[i]);
  });
  for (int64_t l : least)
    if (l < 0) return message("repeats holds {}, but repeats cannot be negative", l);
  for (size_t k = 1; k < before.size(); k++) before[k] += before[k - 1];
  int64_t total = before.back();
  if (c.ints[0] >= 0 && c.ints[0] != total) return message("output_size is {}, but the repeats give {}", c.ints[0], total);
  O* out = allocate<O>(c, 0, {total});
  if (!out) return no_memory;
  each([&](size_t k, int64_t begin, int64_t end) { write_repeated(repeats, begin, end, out + before[k], out + before[k + 1]); });
  return nullptr;
}

} // namespace

const char* repeat_interleave(const LibraryCall& c) {
  const LibraryTensor& repeats = c.inputs[0];
  int64_t n = repeats.numel();
  return guarded([&]() -> const char* {
    switch (repeats.dtype) {
    case DType::I32: return repeat_as<int32_t, int32_t>(c, repeats.as<const int32_t>(), n);
    case DType::I64: return repeat_as<int64_t, int64_t>(c, repeats.as<const int64_t>(), n);
    default: break;
    }
    std::vector<int64_t> wide(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; i++) wide[static_cast<size_t>(i)] = integer_at(repeats, i);
    return repeat_as<int64_t, int64_t>(c, wide.data(), n);
  });
}

} // namespace tenon::library
