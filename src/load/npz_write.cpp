// Writing .npz: a zip of stored entries, each padded by an extra field so that its data begins at a multiple of 64,
// with zip64 records where 32 bits do not suffice.
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <functional>
#include <set>

#include "load/npy_types.h"
#include "load/npz.h"

namespace tenon {

namespace {

using Sink = std::function<void(Bytes)>;

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
  explicit ZipWriter(const Sink& sink) : sink_(sink) {}

  /// An entry made of two pieces.
  void add(const std::string& name, Bytes head, Bytes body) {
    require_input(name.size() <= 1000 && names_.insert(name).second, "the array name {} is too long, or used twice", quoted(name));
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

  void finish() {
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

private:
  struct Entry {
    std::string name;
    uint64_t offset, size;
    uint32_t crc;
  };
  /// What local and central headers have in common: version to the length of the name. The date is 1980-01-01.
  static Record& common(Record& r, const Entry& e, uint64_t size) {
    return r.u16(45).u16(0x800).u16(0).u16(0).u16(0x21).u32(e.crc).u32(size).u32(size).u16(e.name.size());
  }
  void put(Bytes b) {
    if (!b.empty()) sink_(b);
    at_ += b.size();
  }

  const Sink& sink_;
  uint64_t at_ = 0;
  std::vector<Entry> entries_;
  std::set<std::string> names_;
};

/// The .npy header (version 1), padded with spaces to a multiple of 64.
std::string npy_header(const Tensor& t) {
  std::string shape;
  for (int64_t s : t.sizes()) shape += fmt::format("{}, ", s);
  if (t.rank() > 1) shape.resize(shape.size() - 2);
  else if (t.rank() == 1) shape.resize(shape.size() - 1);
  auto row = std::find_if(std::begin(npy_types), std::end(npy_types), [&](auto& r) { return r.type == t.dtype(); });
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", row->descr, shape);
  text.resize((10 + text.size() + 1 + 63) / 64 * 64 - 11, ' ');
  return Record().text("\x93NUMPY").put<uint8_t>(1).put<uint8_t>(0).u16(text.size() + 1).text(text).text("\n").str();
}

void write(const Sink& sink, std::span<const std::pair<std::string, Tensor>> arrays) {
  ZipWriter zip(sink);
  for (auto& [name, tensor] : arrays) {
    require_input(tensor.defined(), "the array {} has no value", quoted(name));
    Tensor t = tensor.contiguous();
    auto size = static_cast<size_t>(t.numel()) * size_of(t.dtype());
    zip.add(name + ".npy", as_byte_span(npy_header(t)), {static_cast<const std::byte*>(t.data()), size});
  }
  zip.finish();
}

} // namespace

void write_npz(const std::string& path, std::span<const std::pair<std::string, Tensor>> arrays) {
  auto fail = [&] { bad_input("cannot write {}: {}", quoted(path, 400), std::strerror(errno)); };
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "wb"), &std::fclose);
  if (!file) fail();
  write(
      [&](Bytes b) {
        if (std::fwrite(b.data(), 1, b.size(), file.get()) != b.size()) fail();
      },
      arrays);
  if (std::fclose(file.release()) != 0) fail();
}

std::vector<std::byte> write_npz(std::span<const std::pair<std::string, Tensor>> arrays) {
  std::vector<std::byte> out;
  write([&](Bytes b) { out.insert(out.end(), b.begin(), b.end()); }, arrays);
  return out;
}

} // namespace tenon
