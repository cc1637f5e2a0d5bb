// Tensors at the API's border: TensorView (borrowed memory, any strides) and Tensor (owned, reference-counted).
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "tenon/error.h"

namespace tenon {

/// Element types. Bool is one byte, 0 or 1; BF16 and F16 are two bytes; C64 and C128 are two interleaved F32 or F64. The floats of
/// 8 bits are named by their bits of exponent and mantissa, as in torch (fn: no infinity, uz: one zero).
enum class DType : uint8_t { Bool, U8, I8, I16, I32, I64, F16, BF16, F32, F64, C64, C128, U64, F8E4M3FN, F8E5M2, F8E4M3FNUZ, F8E5M2FNUZ };
inline constexpr int num_dtypes = 17;

/// Bytes of one element.
constexpr size_t size_of(DType t) {
  constexpr size_t sizes[num_dtypes] = {1, 1, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16, 8, 1, 1, 1, 1};
  return sizes[static_cast<int>(t)];
}
/// "f32", "i64", "bool" ...
constexpr std::string_view name_of(DType t) {
  constexpr std::string_view names[num_dtypes] = {"bool", "u8",  "i8",   "i16", "i32",      "i64",    "f16",        "bf16",      "f32",
                                                  "f64",  "c64", "c128", "u64", "f8e4m3fn", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz"};
  return names[static_cast<int>(t)];
}

/// Memory of the caller, borrowed for the length of a call. `strides` are in elements and may be zero or negative; an
/// empty `strides` with non-empty `sizes` means contiguous. Any alignment is accepted.
struct TensorView {
  DType dtype = DType::F32;
  void* data = nullptr;
  std::span<const int64_t> sizes;
  std::span<const int64_t> strides;
};

/// A tensor that owns, or shares, its memory. Copying a Tensor shares the elements. Distinct Tensor objects may be used
/// from distinct threads; one object is not for concurrent modification.
class TENON_API Tensor {
public:
  Tensor() = default;
  /// Uninitialised, contiguous, 64-byte aligned. Throws Error(BadInput) where the size overflows or memory is refused.
  Tensor(DType dtype, std::vector<int64_t> sizes);
  /// Shares `storage`, starting at `data` with strides in elements.
  Tensor(DType dtype, std::vector<int64_t> sizes, std::vector<int64_t> strides, std::shared_ptr<void> storage, void* data)
      : dtype_(dtype), sizes_(std::move(sizes)), strides_(std::move(strides)), storage_(std::move(storage)), data_(data) {}

  DType dtype() const { return dtype_; }
  size_t rank() const { return sizes_.size(); }
  const std::vector<int64_t>& sizes() const { return sizes_; }
  const std::vector<int64_t>& strides() const { return strides_; }
  int64_t numel() const;
  bool is_contiguous() const;
  void* data() const { return data_; }
  template <class T> T* data_as() const { return static_cast<T*>(data_); }
  const std::shared_ptr<void>& storage() const { return storage_; }
  bool defined() const { return storage_ != nullptr; }
  /// This tensor, or a contiguous copy where the strides are others.
  Tensor contiguous() const;
  TensorView view() const { return {dtype_, data_, sizes_, strides_}; }

private:
  DType dtype_ = DType::F32;
  std::vector<int64_t> sizes_, strides_;
  std::shared_ptr<void> storage_;
  void* data_ = nullptr;
};

/// Row-major strides for `sizes`, in elements.
TENON_API std::vector<int64_t> contiguous_strides(std::span<const int64_t> sizes);

} // namespace tenon
