// Archive: a zip file read in place. Entries that are stored, as in every .pt2, are handed out as views of the mapped
// file, so weights are never copied. The file is not trusted: all records are checked once, on opening.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "load/bytes.h"

namespace tenon {

/// An open archive; copies share the mapping. Names have their common top folder, if any, stripped.
class Archive {
public:
  /// One file of the archive, as its central directory has it; `data` is still compressed where `deflated`.
  struct Entry {
    std::string_view name;
    Bytes data;
    uint64_t size = 0; ///< uncompressed
    uint32_t crc = 0;
    bool deflated = false;
  };
  /// Inflating more than this at once is refused.
  static constexpr uint64_t max_inflated = uint64_t{4} << 30;

  /// Maps a file privately and writable, so that tensors over it may be `void*`; it must not shrink while in use.
  static Archive map(const std::string& path);
  /// The same over the caller's memory, which `owner` (or the caller, where null) keeps alive and which is never
  /// written. `name` is what messages call it.
  static Archive view(Bytes bytes, std::string name, std::shared_ptr<void> owner = {});

  const std::string& name() const;
  /// The stripped top folder with its slash, or "".
  std::string_view top() const;
  /// The names of all files, in the order of the central directory.
  const std::vector<std::string_view>& names() const;
  const Entry* entry(std::string_view name) const;
  bool contains(std::string_view name) const { return entry(name) != nullptr; }
  /// The bytes of a stored file, in place; BadInput where it is compressed.
  std::optional<Bytes> find(std::string_view name) const;
  /// As find, but a file that must be there.
  Bytes get(std::string_view name) const;
  /// The bytes of any file: in place where stored, else inflated and checked, at most `limit` bytes.
  SharedBytes read(std::string_view name, uint64_t limit = max_inflated) const;
  /// BadInput where the checksum of the file's bytes is not the one recorded.
  void check_crc(std::string_view name, Bytes bytes) const;
  /// The archive's bytes where they are a mapped file, of which pages can be dropped; else empty.
  Bytes file() const;
  /// Keeps the archive's memory alive; never null.
  const std::shared_ptr<void>& owner() const;

private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

} // namespace tenon
