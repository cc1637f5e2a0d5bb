// Steps that pick elements by value: nonzero, masked_select, repeat_interleave. Output sizes depend on values.
#include <functional>
#include <numeric>

#include "runtime/library/common.h"

namespace tenon::library {

namespace {

template <class T> bool is_set(T x) { return widen(x) != Wide<T>(0); }

template <class T> int64_t count_set(const LibraryTensor& t) {
  int64_t n = t.numel(), count = 0;
  for (int64_t i = 0; i < n; i++) count += is_set(t.as<const T>()[i]);
  return count;
}

// Writes the indices of the first `limit` set elements, one row each.
template <class T> void write_indices(const LibraryTensor& t, int64_t* out, int64_t limit) {
  size_t rank = t.sizes.size();
  int64_t n = t.numel(), inner = rank ? t.sizes[rank - 1] : 1;
  std::vector<int64_t> at(rank, 0);
  for (int64_t e = 0; e < n && limit > 0; e += inner) {
    for (int64_t k = 0; k < inner && limit > 0; k++) {
      if (!is_set(t.as<const T>()[e + k])) continue;
      if (rank) {
        std::copy(at.begin(), at.end() - 1, out);
        out[rank - 1] = k;
      }
      out += rank;
      limit--;
    }
    for (size_t d = rank; d-- > 0;) {
      if (d == rank - 1) continue;
      if (++at[d] < t.sizes[d]) break;
      at[d] = 0;
    }
  }
}

} // namespace

const char* nonzero(const LibraryCall& c) {
  const LibraryTensor& in = c.inputs[0];
  return for_real(in.dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    int64_t count = count_set<T>(in);
    auto* out = allocate<int64_t>(c, 0, {count, in.rank()});
    if (!out) return no_memory;
    write_indices<T>(in, out, count);
    return nullptr;
  });
}

const char* nonzero_static(const LibraryCall& c) {
  const LibraryTensor &in = c.inputs[0], &out = c.outputs[0];
  return for_real(in.dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    int64_t rows = out.size(0), count = std::min(rows, count_set<T>(in));
    write_indices<T>(in, out.as<int64_t>(), count);
    std::fill(out.as<int64_t>() + count * in.rank(), out.as<int64_t>() + rows * in.rank(), c.ints[0]);
    return nullptr;
  });
}

const char* masked_select(const LibraryCall& c) {
  const LibraryTensor &in = c.inputs[0], &mask = c.inputs[1];
  return for_size(in.dtype, [&](auto zero) -> const char* {
    using U = decltype(zero);
    std::vector<int64_t> sizes(in.sizes.begin(), in.sizes.end());
    if (!broadcast_into(sizes, mask.sizes)) return "self and mask do not broadcast together";
    size_t rank = sizes.size();
    std::vector<int64_t> from = broadcast_strides(in.sizes, rank), bits = broadcast_strides(mask.sizes, rank), at(rank, 0);
    int64_t total = product(sizes), inner = rank ? sizes[rank - 1] : 1, a = 0, b = 0, count = 0;
    int64_t in_step = rank ? from[rank - 1] : 0, mask_step = rank ? bits[rank - 1] : 0;
    int64_t set = 0;
    for (int64_t i = 0; i < mask.numel(); i++) set += mask.as<const uint8_t>()[i] != 0;
    if (mask.numel() > 0) set *= total / mask.numel(); // each mask element stands for as many
    auto* out = allocate<U>(c, 0, {set});
    if (!out) return no_memory;
    for (int64_t e = 0; e < total; e += inner) {
      for (int64_t k = 0; k < inner; k++)
        if (mask.as<const uint8_t>()[b + k * mask_step]) out[count++] = in.as<const U>()[a + k * in_step];
      for (size_t d = rank; d-- > 0;) {
        if (d == rank - 1) continue;
        a += from[d], b += bits[d];
        if (++at[d] < sizes[d]) break;
        a -= at[d] * from[d], b -= at[d] * bits[d];
        at[d] = 0;
      }
    }
    return nullptr;
  });
}

const char* repeat_interleave(const LibraryCall& c) {
  const LibraryTensor& repeats = c.inputs[0];
  return guarded([&]() -> const char* {
    int64_t n = repeats.numel(), total = 0;
    for (int64_t i = 0; i < n; i++) {
      int64_t r = integer_at(repeats, i);
      if (r < 0) return message("repeats holds {}, but repeats cannot be negative", r);
      total += r;
    }
    if (c.ints[0] >= 0 && c.ints[0] != total) return message("output_size is {}, but the repeats give {}", c.ints[0], total);
    auto fill = [&](auto* out) -> const char* {
      if (!out) return no_memory;
      for (int64_t i = 0; i < n; i++)
        for (int64_t r = integer_at(repeats, i); r > 0; r--) *out++ = static_cast<std::remove_reference_t<decltype(*out)>>(i);
      return nullptr;
    };
    return repeats.dtype == DType::I32 ? fill(allocate<int32_t>(c, 0, {total})) : fill(allocate<int64_t>(c, 0, {total}));
  });
}

} // namespace tenon::library
