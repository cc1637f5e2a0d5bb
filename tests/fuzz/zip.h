// A plain zip of stored or deflated entries, and archives with one entry changed: what tests and fuzzers feed the loaders.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <zlib.h>

#include "load/archive.h"

namespace tenon::fuzz {

using Entry = std::pair<std::string, std::string>; // name, bytes

inline std::string deflated(std::string_view bytes) {
  z_stream z{};
  deflateInit2(&z, Z_BEST_SPEED, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&z, bytes.size()), '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data())), z.avail_in = static_cast<uInt>(bytes.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data()), z.avail_out = static_cast<uInt>(out.size());
  deflate(&z, Z_FINISH);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

inline std::string zip_of(const std::vector<Entry>& entries, bool deflate = false) {
  auto put = [](std::string& to, auto v) { to.append(reinterpret_cast<const char*>(&v), sizeof v); };
  std::string out, directory;
  auto end = [&](auto size) { return static_cast<uint32_t>(size); };
  for (auto& [name, bytes] : entries) {
    std::string data = deflate ? deflated(bytes) : bytes;
    auto offset = end(out.size()), size = end(bytes.size()), packed = end(data.size());
    auto method = static_cast<uint16_t>(deflate ? 8 : 0);
    auto crc = static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), size));
    auto length = static_cast<uint16_t>(name.size());
    put(out, 0x04034b50u), out.append(4, '\0'), put(out, method), out.append(4, '\0'), put(out, crc), put(out, packed), put(out, size),
        put(out, length), put(out, uint16_t{0});
    out += name, out += data;
    put(directory, 0x02014b50u), directory.append(6, '\0'), put(directory, method), directory.append(4, '\0'), put(directory, crc),
        put(directory, packed), put(directory, size);
    put(directory, length);
    directory.append(12, '\0'), put(directory, offset), directory += name;
  }
  auto offset = end(out.size()), size = end(directory.size());
  auto count = static_cast<uint16_t>(entries.size());
  out += directory;
  put(out, 0x06054b50u), put(out, 0u), put(out, count), put(out, count), put(out, size), put(out, offset), put(out, uint16_t{0});
  return out;
}

/// The file of a .pt2 that holds the program, of old and new archives.
inline std::string_view program_file(const Archive& a) {
  std::string_view old = "serialized_exported_program.json";
  return a.contains(old) ? old : "models/model.json";
}

/// The archive with one file's bytes replaced.
inline std::string rebuild(const Archive& a, std::string_view changed, std::string_view data, bool deflate = false) {
  std::vector<Entry> entries;
  for (auto name : a.names()) {
    SharedBytes held = a.read(name);
    entries.emplace_back(std::string(a.top()) + std::string(name), name == changed ? data : as_text(held.bytes));
  }
  return zip_of(entries, deflate);
}

} // namespace tenon::fuzz
