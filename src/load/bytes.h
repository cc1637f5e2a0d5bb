// Byte-level helpers of the loaders: shared memory, a bounds-checked little-endian cursor, text safe to print.
#pragma once
#include <bit>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/check.h"
#include "tenon/tensor.h"

namespace tenon {

static_assert(std::endian::native == std::endian::little, "archives are read in place, as little-endian data");

using Bytes = std::span<const std::byte>;

/// Bytes, and what keeps them alive.
struct SharedBytes {
  Bytes bytes;
  std::shared_ptr<void> owner;
};

/// `size` uninitialised bytes at a multiple of 64; BadInput (naming `what`) where the memory is refused.
SharedBytes allocate_bytes(size_t size, std::string_view what);
/// A copy of `bytes` at a multiple of 64.
SharedBytes copy_bytes(Bytes bytes, std::string_view what);

/// The alignment at which elements of `t` may be used in place.
constexpr size_t alignment_of(DType t) { return t == DType::C64 ? 4 : t == DType::C128 ? 8 : size_of(t); }
inline bool is_aligned(const void* p, DType t) { return reinterpret_cast<uintptr_t>(p) % alignment_of(t) == 0; }

/// `text` in single quotes for a message: control and non-ASCII bytes as \xNN, cut after `max` characters.
std::string quoted(std::string_view text, size_t max = 80);

/// The memory of a const span as text, for comparing and searching.
inline std::string_view as_text(Bytes b) { return {reinterpret_cast<const char*>(b.data()), b.size()}; }
inline Bytes as_byte_span(std::string_view s) { return std::as_bytes(std::span(s.data(), s.size())); }

/// Bytes of a tensor; false where a size is negative, or the product of those not zero reaches 2^46 bytes, so that
/// row-major strides can always be computed.
bool count_bytes(std::span<const int64_t> sizes, size_t element, size_t& bytes);

/// Reads forward through `bytes`; every read past the end is a BadInput naming `what` and the offset.
class ByteReader {
public:
  ByteReader(Bytes bytes, std::string_view what, size_t at = 0) : bytes_(bytes), what_(what), at_(at) {}
  size_t at() const { return at_; }
  size_t left() const { return bytes_.size() - at_; }

  Bytes take(uint64_t n) {
    if (n > left()) [[unlikely]]
      fail(n);
    at_ += static_cast<size_t>(n);
    return bytes_.subspan(at_ - static_cast<size_t>(n), static_cast<size_t>(n));
  }
  std::string_view text(uint64_t n) { return as_text(take(n)); }
  template <class T> T read() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  /// The text up to the next newline, which is passed over.
  std::string_view line();

private:
  [[noreturn]] void fail(uint64_t n) const;
  Bytes bytes_;
  std::string_view what_;
  size_t at_;
};

} // namespace tenon
