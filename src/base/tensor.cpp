// Tensor: aligned owned memory with strides.
#include "tenon/tensor.h"

#include "base/check.h"
#include "base/large_memory.h"
#include "base/strided.h"

namespace tenon {

std::vector<int64_t> contiguous_strides(std::span<const int64_t> sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t s = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    strides[d] = s;
    s *= std::max<int64_t>(sizes[d], 1);
  }
  return strides;
}

Tensor::Tensor(DType dtype, std::vector<int64_t> sizes) : dtype_(dtype), sizes_(std::move(sizes)) {
  size_t bytes = size_of(dtype);
  bool is_empty = false; // even then the strides must not overflow
  for (int64_t s : sizes_) {
    require_input(s >= 0, "a tensor size is negative: {}", s);
    require_input(!__builtin_mul_overflow(bytes, static_cast<size_t>(std::max<int64_t>(s, 1)), &bytes), "a tensor's size overflows");
    is_empty |= s == 0;
  }
  require_input(bytes <= INT64_MAX, "a tensor's size overflows");
  if (is_empty) bytes = 0;
  strides_ = contiguous_strides(sizes_);
  require_input(bytes < (size_t{1} << 46), "a tensor of {} bytes is too large", bytes);
  storage_ = allocate_memory(bytes);
  require_input(storage_ != nullptr, "out of memory: a tensor of {} bytes", bytes);
  data_ = storage_.get();
}

int64_t Tensor::numel() const {
  int64_t n = 1;
  for (int64_t s : sizes_) n *= s;
  return n;
}

bool Tensor::is_contiguous() const { return is_contiguous_layout(sizes_, strides_); }

Tensor Tensor::contiguous() const {
  if (is_contiguous()) return *this;
  Tensor out(dtype_, sizes_);
  copy_strided(view(), out.data());
  return out;
}

} // namespace tenon
