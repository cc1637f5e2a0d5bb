// ZipWriter: local headers, data, the directory.
#include "load/zip_write.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "base/check.h"

namespace tenon {

void ZipWriter::add(const std::string& name, Bytes head, Bytes body) {
  require_input(name.size() <= 1000 && names_.insert(name).second, "the name {} is too long, or used twice", quoted(name));
  Entry e{name, at_, head.size() + body.size(), 0};
  auto crc = crc32_z(0, reinterpret_cast<const Bytef*>(head.data()), head.size());
  // zlib takes a null pointer as a request for the initial value.
  if (!body.empty()) crc = crc32_z(crc, reinterpret_cast<const Bytef*>(body.data()), body.size());
  e.crc = static_cast<uint32_t>(crc);
  bool big = e.size >= UINT32_MAX;
  Record extra;
  if (big) extra.u16(1).u16(16).u64(e.size).u64(e.size);
  uint64_t pad = 64 - (at_ + 30 + name.size() + extra.str().size() + 4) % 64; // "FB" as torch calls its padding
  extra.text("FB").u16(pad).text(std::string(pad, '\0'));
  Record local;
  common(local.u32(0x04034b50), e, big ? UINT32_MAX : e.size).u16(extra.str().size()).text(name).text(extra.str());
  put(as_byte_span(local.str())), put(head), put(body);
  entries_.push_back(std::move(e));
}

void ZipWriter::finish() {
  uint64_t start = at_, n = entries_.size();
  for (const Entry& e : entries_) {
    Record extra, central;
    bool big = e.size >= UINT32_MAX, far = e.offset >= UINT32_MAX;
    if (big || far) extra.u16(1).u16((big ? 16 : 0) + (far ? 8 : 0));
    if (big) extra.u64(e.size).u64(e.size);
    if (far) extra.u64(e.offset);
    common(central.u32(0x02014b50).u16(45), e, big ? UINT32_MAX : e.size).u16(extra.str().size());
    central.u16(0).u16(0).u16(0).u32(0).u32(far ? UINT32_MAX : e.offset).text(e.name).text(extra.str());
    put(as_byte_span(central.str()));
  }
  uint64_t end = at_, size = end - start;
  Record last;
  if (n >= UINT16_MAX || size >= UINT32_MAX || start >= UINT32_MAX) {
    last.u32(0x06064b50).u64(44).u16(45).u16(45).u32(0).u32(0).u64(n).u64(n).u64(size).u64(start);
    last.u32(0x07064b50).u32(0).u64(end).u32(1);
  }
  auto n16 = std::min<uint64_t>(n, UINT16_MAX);
  last.u32(0x06054b50).u16(0).u16(0).u16(n16).u16(n16);
  last.u32(std::min<uint64_t>(size, UINT32_MAX)).u32(std::min<uint64_t>(start, UINT32_MAX)).u16(0);
  put(as_byte_span(last.str()));
}

// What local and central headers have in common: version to the length of the name. The date is 1980-01-01.
Record& ZipWriter::common(Record& r, const Entry& e, uint64_t size) {
  return r.u16(45).u16(0x800).u16(0).u16(0).u16(0x21).u32(e.crc).u32(size).u32(size).u16(e.name.size());
}

void ZipWriter::put(Bytes b) {
  if (!b.empty()) sink_(b);
  at_ += b.size();
}

void write_zip(const std::string& path, const std::function<void(ZipWriter&)>& fill) {
  auto fail = [&] { bad_input("cannot write {}: {}", quoted(path, 400), std::strerror(errno)); };
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "wb"), &std::fclose);
  if (!file) fail();
  ZipWriter zip([&](Bytes b) {
    if (std::fwrite(b.data(), 1, b.size(), file.get()) != b.size()) fail();
  });
  fill(zip);
  zip.finish();
  if (std::fclose(file.release()) != 0) fail();
}

} // namespace tenon
