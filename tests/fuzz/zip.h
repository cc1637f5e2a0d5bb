// A plain zip of stored entries, and archives with one entry changed: what tests and fuzzers feed the loaders.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <zlib.h>

#include "load/archive.h"

namespace tenon::fuzz {

using Entry = std::pair<std::string, std::string>; // name, bytes

inline std::string zip_of(const std::vector<Entry>& entries) {
  auto put = [](std::string& to, auto v) { to.append(reinterpret_cast<const char*>(&v), sizeof v); };
  std::string out, directory;
  auto end = [&](auto size) { return static_cast<uint32_t>(size); };
  for (auto& [name, bytes] : entries) {
    auto offset = end(out.size()), size = end(bytes.size());
    auto crc = static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), size));
    auto length = static_cast<uint16_t>(name.size());
    put(out, 0x04034b50u), out.append(10, '\0'), put(out, crc), put(out, size), put(out, size), put(out, length), put(out, uint16_t{0}), out += name, out += bytes;
    put(directory, 0x02014b50u), directory.append(12, '\0'), put(directory, crc), put(directory, size), put(directory, size), put(directory, length);
    directory.append(12, '\0'), put(directory, offset), directory += name;
  }
  auto offset = end(out.size()), size = end(directory.size());
  auto count = static_cast<uint16_t>(entries.size());
  out += directory;
  put(out, 0x06054b50u), put(out, 0u), put(out, count), put(out, count), put(out, size), put(out, offset), put(out, uint16_t{0});
  return out;
}

/// The archive with one file's bytes replaced, all entries stored.
inline std::string rebuild(const Archive& a, std::string_view changed, std::string_view data) {
  std::vector<Entry> entries;
  for (auto name : a.names()) {
    SharedBytes held = a.read(name);
    entries.emplace_back(std::string(a.top()) + std::string(name), name == changed ? data : as_text(held.bytes));
  }
  return zip_of(entries);
}

} // namespace tenon::fuzz
