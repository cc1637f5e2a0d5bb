// Strided copies: an odometer over the outer dims, a tight loop over the innermost one.
#include "base/strided.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace tenon {

bool is_contiguous_layout(std::span<const int64_t> sizes, std::span<const int64_t> strides) {
  int64_t expect = 1;
  for (int64_t s : sizes)
    if (s == 0) return true;
  for (size_t d = sizes.size(); d-- > 0;) {
    if (sizes[d] != 1 && strides[d] != expect) return false;
    expect *= sizes[d];
  }
  return true;
}

bool is_layout(std::span<const int64_t> sizes, std::span<const int64_t> strides, std::span<const int64_t> want) {
  for (int64_t s : sizes)
    if (s == 0) return true;
  for (size_t d = 0; d < sizes.size(); d++)
    if (sizes[d] != 1 && strides[d] != want[d]) return false;
  return true;
}

std::vector<int64_t> dense_strides(std::span<const int64_t> sizes, std::span<const int> order) {
  if (order.empty()) return contiguous_strides(sizes);
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    auto d = static_cast<size_t>(order[i]);
    strides[d] = stride, stride *= std::max<int64_t>(sizes[d], 1);
  }
  return strides;
}

Tensor out_of_order(const Tensor& t, std::span<const int> order) {
  if (order.empty()) return t;
  std::vector<int64_t> sizes(t.rank());
  for (size_t i = 0; i < order.size(); i++) sizes[static_cast<size_t>(order[i])] = t.sizes()[i];
  std::vector<int64_t> strides = dense_strides(sizes, order);
  return Tensor(t.dtype(), std::move(sizes), std::move(strides), t.storage(), t.data());
}

namespace {

template <size_t N> void copy_row(char* to, int64_t to_step, const char* from, int64_t from_step, int64_t n) {
  for (int64_t i = 0; i < n; i++) std::memcpy(to + i * to_step, from + i * from_step, N);
}

void copy_row(char* to, int64_t to_step, const char* from, int64_t from_step, int64_t n, size_t size) {
  if (to_step == static_cast<int64_t>(size) && from_step == to_step) {
    std::memcpy(to, from, static_cast<size_t>(n) * size);
    return;
  }
  switch (size) {
  case 1: return copy_row<1>(to, to_step, from, from_step, n);
  case 2: return copy_row<2>(to, to_step, from, from_step, n);
  case 4: return copy_row<4>(to, to_step, from, from_step, n);
  case 8: return copy_row<8>(to, to_step, from, from_step, n);
  case 16: return copy_row<16>(to, to_step, from, from_step, n);
  default: internal_error("copy of elements of {} bytes", size);
  }
}

void copy(std::span<const int64_t> sizes, std::span<const int64_t> from_strides, std::span<const int64_t> to_strides, const char* from,
          char* to, size_t size) {
  for (int64_t s : sizes)
    if (s == 0) return;
  size_t rank = sizes.size();
  auto step = [&](std::span<const int64_t> strides, size_t d) { return strides[d] * static_cast<int64_t>(size); };
  if (rank == 0) {
    std::memcpy(to, from, size);
    return;
  }
  std::vector<int64_t> index(rank, 0);
  while (true) {
    copy_row(to, step(to_strides, rank - 1), from, step(from_strides, rank - 1), sizes[rank - 1], size);
    size_t d = rank - 1;
    while (d-- > 0) {
      from += step(from_strides, d), to += step(to_strides, d);
      if (++index[d] < sizes[d]) break;
      from -= step(from_strides, d) * sizes[d], to -= step(to_strides, d) * sizes[d];
      index[d] = 0;
    }
    if (d == SIZE_MAX) return;
  }
}

} // namespace

void copy_strided(const TensorView& from, void* to) {
  auto dense = contiguous_strides(from.sizes);
  auto strides = from.strides.empty() ? std::span<const int64_t>(dense) : from.strides;
  copy(from.sizes, strides, dense, static_cast<const char*>(from.data), static_cast<char*>(to), size_of(from.dtype));
}

void copy_to_strided(const void* from, const TensorView& to, std::span<const int> order) {
  auto dense = contiguous_strides(to.sizes), made = dense_strides(to.sizes, order);
  auto strides = to.strides.empty() ? std::span<const int64_t>(dense) : to.strides;
  copy(to.sizes, made, strides, static_cast<const char*>(from), static_cast<char*>(to.data), size_of(to.dtype));
}

} // namespace tenon
