// Sample files of the loader tests (tests/fixtures/load/make.py), and inputs damaged in every way.
#pragma once
#include <doctest/doctest.h>

#include <cstddef>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "load/bytes.h"

namespace tenon {

inline std::string sample_path(const std::string& name) { return std::string(TENON_FIXTURES) + "/load/" + name; }

inline std::vector<std::byte> sample(const std::string& name) {
  std::ifstream in(sample_path(name), std::ios::binary);
  REQUIRE_MESSAGE(in.good(), "missing sample file ", name);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  auto bytes = as_byte_span(text);
  return {bytes.begin(), bytes.end()};
}

inline std::vector<std::byte> to_bytes(std::string_view text) {
  auto b = as_byte_span(text);
  return {b.begin(), b.end()};
}

/// The message of the Error that `f` throws; "" where it throws none.
template <class F> std::string error_thrown_by(const F& f, ErrorKind kind = ErrorKind::BadInput) {
  try {
    f();
  } catch (const Error& e) {
    CHECK(e.kind == kind);
    return e.what();
  }
  return "";
}
inline bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

/// "2,3"
inline std::string show_sizes(const std::vector<int64_t>& list) {
  std::string out;
  for (int64_t v : list) out.append(out.empty() ? "" : ",").append(std::to_string(v));
  return out;
}

/// Feeds `read` the bytes cut at every length, and with every single bit flipped. It may throw Error (but an Internal
/// one is a defect); anything else fails the test. The copies have their exact size, so that a checker of memory sees
/// every read past the end. Returns how many of the truncated inputs were accepted.
template <class F> int damage_everywhere(const std::vector<std::byte>& bytes, const F& read) {
  auto accepts = [&](const std::vector<std::byte>& b) {
    try {
      read(Bytes(b));
    } catch (const Error& e) {
      REQUIRE(e.kind != ErrorKind::Internal);
      REQUIRE(std::string_view(e.what()).size() > 10);
      return false;
    }
    return true;
  };
  int accepted = 0;
  for (size_t n = 0; n < bytes.size(); n++) accepted += accepts({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n)});
  std::vector<std::byte> copy = bytes;
  for (size_t bit = 0; bit < bytes.size() * 8; bit++) {
    copy[bit / 8] ^= std::byte{1} << (bit % 8);
    accepts(copy);
    copy[bit / 8] = bytes[bit / 8];
  }
  return accepted;
}

/// Little-endian bytes by hand.
struct Blob {
  std::string text;
  template <class T> Blob& put(T v) {
    text.append(reinterpret_cast<const char*>(&v), sizeof v);
    return *this;
  }
  Blob& u16(uint64_t v) { return put(static_cast<uint16_t>(v)); }
  Blob& u32(uint64_t v) { return put(static_cast<uint32_t>(v)); }
  Blob& u64(uint64_t v) { return put(v); }
  Blob& add(std::string_view s) {
    text += s;
    return *this;
  }
};

/// A zip made by hand, whose every field can be made to lie.
struct HandEntry {
  std::string name, data;
  uint16_t method = 0, flags = 0;
  std::string local_extra = {}, central_extra = {};
  std::string local_name = "="; // "=": the same
  int64_t size = -1, packed = -1, offset = -1;
};
struct HandZip {
  std::vector<HandEntry> entries;
  int64_t count = -1, directory_offset = -1, directory_size = -1;
  bool zip64 = false;
  std::string comment = {};

  std::vector<std::byte> bytes() const {
    Blob out, dir;
    for (auto& e : entries) {
      uint64_t at = e.offset < 0 ? out.text.size() : static_cast<uint64_t>(e.offset);
      uint64_t size = e.size < 0 ? e.data.size() : static_cast<uint64_t>(e.size),
               packed = e.packed < 0 ? e.data.size() : static_cast<uint64_t>(e.packed);
      std::string local = e.local_name == "=" ? e.name : e.local_name;
      // Sizes and checksum zero, as with a data descriptor.
      out.u32(0x04034b50).u16(20).u16(e.flags).u16(e.method).u32(0).u32(0).u32(0).u32(0).u16(local.size()).u16(e.local_extra.size());
      out.add(local).add(e.local_extra).add(e.data);
      dir.u32(0x02014b50).u16(20).u16(20).u16(e.flags).u16(e.method).u32(0).u32(0).u32(packed).u32(size).u16(e.name.size());
      dir.u16(e.central_extra.size()).u16(0).u16(0).u16(0).u32(0).u32(at).add(e.name).add(e.central_extra);
    }
    uint64_t start = directory_offset < 0 ? out.text.size() : static_cast<uint64_t>(directory_offset);
    uint64_t length = directory_size < 0 ? dir.text.size() : static_cast<uint64_t>(directory_size);
    uint64_t n = count < 0 ? entries.size() : static_cast<uint64_t>(count);
    out.add(dir.text);
    if (zip64) {
      uint64_t end = out.text.size();
      out.u32(0x06064b50).u64(44).u16(45).u16(45).u32(0).u32(0).u64(n).u64(n).u64(length).u64(start);
      out.u32(0x07064b50).u32(0).u64(end).u32(1);
      out.u32(0x06054b50).u32(0).u16(0xffff).u16(0xffff).u32(0xffffffff).u32(0xffffffff);
    } else {
      out.u32(0x06054b50).u32(0).u16(n).u16(n).u32(length).u32(start);
    }
    out.u16(comment.size()).add(comment);
    return to_bytes(out.text);
  }
};

} // namespace tenon
