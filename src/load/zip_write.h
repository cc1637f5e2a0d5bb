// Writing zip files of stored entries, each padded by an extra field so that its data begins at a multiple of 64, with zip64 records where
// 32 bits do not suffice.
#pragma once
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "load/bytes.h"

namespace tenon {

/// Little-endian numbers one after the other.
class Record {
public:
  template <class T> Record& put(T v) {
    text_.append(reinterpret_cast<const char*>(&v), sizeof v);
    return *this;
  }
  Record& u16(uint64_t v) { return put(static_cast<uint16_t>(v)); }
  Record& u32(uint64_t v) { return put(static_cast<uint32_t>(v)); }
  Record& u64(uint64_t v) { return put(v); }
  Record& text(std::string_view s) {
    text_ += s;
    return *this;
  }
  const std::string& str() const { return text_; }

private:
  std::string text_;
};

class ZipWriter {
public:
  using Sink = std::function<void(Bytes)>;
  explicit ZipWriter(Sink sink) : sink_(std::move(sink)) {}

  /// An entry made of two pieces. BadInput for a name that is too long or used twice.
  void add(const std::string& name, Bytes head, Bytes body = {});
  /// The directory, after the last entry.
  void finish();

private:
  struct Entry {
    std::string name;
    uint64_t offset, size;
    uint32_t crc;
  };
  static Record& common(Record& r, const Entry& e, uint64_t size);
  void put(Bytes b);

  Sink sink_;
  uint64_t at_ = 0;
  std::vector<Entry> entries_;
  std::set<std::string> names_;
};

/// A file of what `fill` adds. BadInput with the system's reason where it cannot be written.
void write_zip(const std::string& path, const std::function<void(ZipWriter&)>& fill);

} // namespace tenon
