// Executable memory of this process: every page of generated code lies in CodePages, whoever fills it. A page is writable while it is
// filled and executable afterwards, never both, and no second mapping shows it. The pages are private, so that the two sides of a fork
// do not meet in them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>

namespace tenon {

/// Pages that code is written to and then run from; given back to the system with this object.
class CodePages {
public:
  CodePages() = default;
  /// At least `bytes` of writable memory, zero; empty where the system refuses it.
  explicit CodePages(size_t bytes);
  ~CodePages();
  CodePages(CodePages&& o) noexcept { *this = std::move(o); }
  CodePages& operator=(CodePages&& o) noexcept {
    std::swap(data_, o.data_), std::swap(size_, o.size_), std::swap(sealed_, o.sealed_);
    return *this;
  }

  uint8_t* data() const { return data_; }
  /// Whole pages.
  size_t size() const { return size_; }
  /// Makes the pages of the first `bytes` bytes executable and ends writing there. False where the system refuses.
  bool seal(size_t bytes);
  /// Gives back the pages that are not sealed.
  void trim();

  /// Bytes of all that live in this process.
  static size_t held();

private:
  uint8_t* data_ = nullptr;
  size_t size_ = 0, sealed_ = 0;
};

} // namespace tenon
