// Byte-level helpers of the loaders.
#include "load/bytes.h"

#include "base/large_memory.h"

namespace tenon {

SharedBytes allocate_bytes(size_t size, std::string_view what) {
  std::shared_ptr<void> p = allocate_memory(size);
  require_input(p != nullptr, "{}: out of memory for {} bytes", what, size);
  return {Bytes(static_cast<const std::byte*>(p.get()), size), p};
}

SharedBytes copy_bytes(Bytes bytes, std::string_view what) {
  SharedBytes copy = allocate_bytes(bytes.size(), what);
  if (!bytes.empty()) std::memcpy(copy.owner.get(), bytes.data(), bytes.size());
  return copy;
}

std::string quoted(std::string_view text, size_t max) {
  std::string out = "'";
  for (char c : text.substr(0, max)) {
    if (c >= ' ' && c <= '~') out += c;
    else out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return out + (text.size() > max ? "...'" : "'");
}

bool count_bytes(std::span<const int64_t> sizes, size_t element, size_t& bytes) {
  bytes = element;
  bool empty = false;
  for (int64_t s : sizes) {
    if (s < 0) return false;
    empty |= s == 0;
    if (s > 0 && (__builtin_mul_overflow(bytes, static_cast<size_t>(s), &bytes) || bytes >= size_t{1} << 46)) return false;
  }
  if (empty) bytes = 0;
  return true;
}

std::string_view ByteReader::line() {
  auto rest = as_text(bytes_.subspan(at_));
  size_t end = rest.find('\n');
  require_input(end != std::string_view::npos, "{}: a line at offset {} has no end", what_, at_);
  at_ += end + 1;
  return rest.substr(0, end);
}

void ByteReader::fail(uint64_t n) const { bad_input("{}: {} bytes wanted at offset {}, but only {} are left", what_, n, at_, left()); }

} // namespace tenon
