// The zip reader: end record, zip64 records, central directory, local headers (APPNOTE.TXT 6.3.10). The central
// directory is the truth; local headers only say where the data begins.
#include "load/archive.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>

namespace tenon {

struct Archive::Impl {
  std::string name;
  std::shared_ptr<void> owner;
  Bytes bytes;
  bool is_file = false;
  std::string_view top;
  std::vector<Entry> entries;          // in directory order
  std::vector<std::string_view> names; // of `entries`
  std::vector<uint32_t> by_name;       // indices of `entries`, sorted: no hash to be flooded
};

namespace {

constexpr uint32_t local_magic = 0x04034b50, central_magic = 0x02014b50, end_magic = 0x06054b50;
constexpr uint32_t end64_magic = 0x06064b50, locator64_magic = 0x07064b50;
constexpr size_t local_size = 30, central_size = 46, end_size = 22, end64_size = 56, locator64_size = 20;

template <class T> T read_at(Bytes bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

struct Directory {
  uint64_t offset, size, entries;
};

/// The place of the end record, whose comment reaches exactly to the end of the file.
size_t find_end(Bytes file, const std::string& name) {
  require_input(!file.empty(), "{} is empty; a zip archive was expected", quoted(name));
  bool starts_as_zip = file.size() >= 4 && read_at<uint32_t>(file, 0) == local_magic;
  if (file.size() >= end_size) {
    size_t last = file.size() - end_size, lowest = last > 0xffff ? last - 0xffff : 0;
    for (size_t at = last + 1; at-- > lowest;)
      if (read_at<uint32_t>(file, at) == end_magic && read_at<uint16_t>(file, at + 20) == last - at) return at;
  }
  if (starts_as_zip) bad_input("{} is truncated: a zip of {} bytes without its end record", quoted(name), file.size());
  bad_input("{} is not a zip archive: it starts with {}", quoted(name), quoted(as_text(file).substr(0, 8)));
}

Directory find_directory(Bytes file, const std::string& name) {
  size_t end = find_end(file, name), limit = end;
  auto disk = [&](uint64_t d) { require_input(d == 0, "{}: archives of several disks are not zip files of tenon", quoted(name)); };
  Directory dir{read_at<uint32_t>(file, end + 16), read_at<uint32_t>(file, end + 12), read_at<uint16_t>(file, end + 10)};
  if (end >= locator64_size && read_at<uint32_t>(file, end - locator64_size) == locator64_magic) {
    size_t locator = end - locator64_size;
    auto at = read_at<uint64_t>(file, locator + 8);
    require_input(locator >= end64_size && at <= locator - end64_size && read_at<uint32_t>(file, at) == end64_magic,
                  "{}: there is no zip64 end record at offset {}", quoted(name), at);
    disk(read_at<uint32_t>(file, at + 16)), disk(read_at<uint32_t>(file, at + 20));
    dir = {read_at<uint64_t>(file, at + 48), read_at<uint64_t>(file, at + 40), read_at<uint64_t>(file, at + 32)};
    limit = at;
  } else {
    disk(read_at<uint16_t>(file, end + 4)), disk(read_at<uint16_t>(file, end + 6));
  }
  require_input(dir.offset <= limit && dir.size <= limit - dir.offset,
                "{}: the central directory ({} bytes at offset {}) does not fit before its end record at offset {}", quoted(name), dir.size,
                dir.offset, limit);
  require_input(dir.entries <= dir.size / central_size, "{}: {} entries do not fit in a central directory of {} bytes", quoted(name),
                dir.entries, dir.size);
  return dir;
}

/// Numbers that are all ones in the header stand in the zip64 extra field (id 1), in this order.
void read_zip64(Bytes extra, std::string_view what, uint64_t& size, uint64_t& packed, uint64_t& offset) {
  if (size != UINT32_MAX && packed != UINT32_MAX && offset != UINT32_MAX) return;
  ByteReader fields(extra, what);
  while (fields.left() >= 4) {
    auto id = fields.read<uint16_t>();
    Bytes body = fields.take(fields.read<uint16_t>());
    if (id != 1) continue;
    ByteReader values(body, what);
    for (uint64_t* v : {&size, &packed, &offset})
      if (*v == UINT32_MAX) *v = values.read<uint64_t>();
    return;
  }
  bad_input("{}: 64-bit sizes are missing from its zip64 field", what);
}

struct Range {
  uint64_t begin, end;
  uint32_t entry;
};

/// Reads the record at the cursor; `range` is what the entry occupies in the file, local header included.
Archive::Entry read_entry(Bytes file, ByteReader& in, const Directory& dir, const std::string& archive, Range& range) {
  size_t at = in.at();
  require_input(in.read<uint32_t>() == central_magic, "{}: there is no directory record at offset {}", quoted(archive), at);
  in.take(4); // versions
  auto flags = in.read<uint16_t>(), method = in.read<uint16_t>();
  in.take(4); // time, often invalid
  Archive::Entry e;
  e.crc = in.read<uint32_t>();
  uint64_t packed = in.read<uint32_t>();
  e.size = in.read<uint32_t>();
  auto name_size = in.read<uint16_t>(), extra_size = in.read<uint16_t>(), comment_size = in.read<uint16_t>();
  in.take(8); // disk, attributes
  uint64_t local = in.read<uint32_t>();
  e.name = in.text(name_size);
  std::string what = fmt::format("{}: entry {}", quoted(archive), quoted(e.name));
  read_zip64(in.take(extra_size), what, e.size, packed, local);
  in.take(comment_size);

  require_input(!e.name.empty() && e.name.find('\0') == std::string_view::npos,
                "{}: the directory record at offset {} has an empty name, or one with a zero byte", quoted(archive), at);
  require_input((flags & 0x2041) == 0, "{} is encrypted", what);
  require_input(method == 0 || method == 8, "{} is compressed by method {}; known are 0 (stored) and 8 (deflate)", what, method);
  e.deflated = method == 8;
  require_input(e.deflated || e.size == packed, "{} is stored, but its sizes {} and {} differ", what, packed, e.size);

  require_input(local <= dir.offset && dir.offset - local >= local_size && read_at<uint32_t>(file, local) == local_magic,
                "{} has no local header at offset {}", what, local);
  uint64_t local_name = read_at<uint16_t>(file, local + 26), local_extra = read_at<uint16_t>(file, local + 28);
  uint64_t data = local + local_size + local_name + local_extra;
  require_input(data <= dir.offset && packed <= dir.offset - data,
                "{}: its {} bytes at offset {} reach past the end of the data at offset {}", what, packed, data, dir.offset);
  require_input(as_text(file.subspan(local + local_size, local_name)) == e.name, "{}: its local header at offset {} has another name", what,
                local);
  e.data = file.subspan(data, packed);
  range.begin = local, range.end = data + packed;
  return e;
}

/// A file is listed once and owns its bytes: names that differ in content, or share it, are made to deceive or to
/// bloat.
void check_ranges(std::vector<Range>& ranges, const std::vector<Archive::Entry>& entries, const std::string& archive) {
  std::sort(ranges.begin(), ranges.end(), [](auto& a, auto& b) { return a.begin < b.begin; });
  for (size_t i = 1; i < ranges.size(); i++)
    require_input(ranges[i - 1].end <= ranges[i].begin, "{}: entries {} and {} overlap at offset {}", quoted(archive),
                  quoted(entries[ranges[i - 1].entry].name), quoted(entries[ranges[i].entry].name), ranges[i].begin);
}

/// The first path component with its slash, if all names have it.
std::string_view common_top(const std::vector<Archive::Entry>& entries) {
  if (entries.empty()) return {};
  auto top = entries[0].name.substr(0, entries[0].name.find('/') + 1);
  for (auto& e : entries)
    if (top.empty() || e.name.size() == top.size() || !e.name.starts_with(top)) return {};
  return top;
}

std::shared_ptr<void> map_file(const std::string& path, size_t& size) {
  // Non-blocking, so that a pipe without a writer is refused below instead of waited for.
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  require_input(fd >= 0, "cannot open {}: {}", quoted(path, 400), std::strerror(errno));
  std::shared_ptr<void> closer(nullptr, [fd](void*) { ::close(fd); });
  struct stat info{};
  require_input(::fstat(fd, &info) == 0 && S_ISREG(info.st_mode), "{} is not a regular file", quoted(path, 400));
  require_input(info.st_size > 0, "{} is empty; a zip archive was expected", quoted(path, 400));
  size = static_cast<size_t>(info.st_size);
  void* p = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  require_input(p != MAP_FAILED, "cannot map {}: {}", quoted(path, 400), std::strerror(errno));
  return {p, [n = size](void* q) { ::munmap(q, n); }};
}

} // namespace

Archive Archive::map(const std::string& path) {
  size_t size = 0;
  auto owner = map_file(path, size);
  Archive archive = view({static_cast<const std::byte*>(owner.get()), size}, path, owner);
  archive.impl_->is_file = true;
  return archive;
}

Archive Archive::view(Bytes bytes, std::string name, std::shared_ptr<void> owner) {
  auto impl = std::make_shared<Impl>();
  Directory dir = find_directory(bytes, name);
  ByteReader in(bytes.first(dir.offset + dir.size), name, dir.offset);
  std::vector<Range> ranges;
  for (uint64_t i = 0; i < dir.entries; i++) {
    Range range{0, 0, static_cast<uint32_t>(impl->entries.size())};
    Entry e = read_entry(bytes, in, dir, name, range);
    if (e.name.ends_with('/') && e.size == 0) continue; // a folder
    require_input(impl->entries.size() < UINT32_MAX, "{} has more than 2^32 entries", quoted(name));
    impl->entries.push_back(e);
    ranges.push_back(range);
  }
  check_ranges(ranges, impl->entries, name);
  impl->top = common_top(impl->entries);
  for (Entry& e : impl->entries) {
    e.name.remove_prefix(impl->top.size());
    impl->names.push_back(e.name);
    impl->by_name.push_back(static_cast<uint32_t>(impl->by_name.size()));
  }
  auto& order = impl->by_name;
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return impl->names[a] < impl->names[b]; });
  for (size_t i = 1; i < order.size(); i++)
    require_input(impl->names[order[i - 1]] != impl->names[order[i]], "{}: two entries are named {}", quoted(name),
                  quoted(impl->names[order[i]]));
  impl->name = std::move(name);
  impl->bytes = bytes;
  // A borrowed archive has an owner that owns nothing, but is not null: a Tensor with null storage is undefined.
  void* base = const_cast<std::byte*>(bytes.data());
  impl->owner = owner ? std::move(owner) : std::shared_ptr<void>(std::shared_ptr<void>(), base);
  Archive archive;
  archive.impl_ = std::move(impl);
  return archive;
}

const std::string& Archive::name() const { return impl_->name; }
std::string_view Archive::top() const { return impl_->top; }
const std::vector<std::string_view>& Archive::names() const { return impl_->names; }
Bytes Archive::file() const { return impl_->is_file ? impl_->bytes : Bytes(); }
const std::shared_ptr<void>& Archive::owner() const { return impl_->owner; }

const Archive::Entry* Archive::entry(std::string_view name) const {
  auto& order = impl_->by_name;
  auto at = std::lower_bound(order.begin(), order.end(), name, [&](uint32_t i, std::string_view n) { return impl_->names[i] < n; });
  return at != order.end() && impl_->names[*at] == name ? &impl_->entries[*at] : nullptr;
}

std::optional<Bytes> Archive::find(std::string_view name) const {
  const Entry* e = entry(name);
  if (!e) return std::nullopt;
  require_input(!e->deflated, "{}: entry {} is compressed, so it cannot be used in place", quoted(impl_->name), quoted(name));
  return e->data;
}

Bytes Archive::get(std::string_view name) const {
  auto bytes = find(name);
  require_input(bytes.has_value(), "{} has no entry {}", quoted(impl_->name), quoted(name));
  return *bytes;
}

SharedBytes Archive::read(std::string_view name, uint64_t limit) const {
  const Entry* e = entry(name);
  require_input(e != nullptr, "{} has no entry {}", quoted(impl_->name), quoted(name));
  if (!e->deflated) return {e->data, impl_->owner};
  std::string what = fmt::format("{}: entry {}", quoted(impl_->name), quoted(name));
  // Deflate cannot shrink by more than about 1032 to 1: a larger claim is a lie told before memory is spent on it.
  require_input(e->size <= limit && e->size / 1032 <= e->data.size(), "{} claims to inflate from {} to {} bytes (limit {})", what,
                e->data.size(), e->size, limit);
  SharedBytes out = allocate_bytes(e->size, what);
  z_stream z{};
  require_input(inflateInit2(&z, -MAX_WBITS) == Z_OK, "{}: zlib has no memory", what);
  auto* from = reinterpret_cast<Bytef*>(const_cast<std::byte*>(e->data.data()));
  auto* to = static_cast<Bytef*>(out.owner.get());
  size_t in_left = e->data.size(), out_left = e->size;
  Bytef spare; // zlib wants a place even when nothing more may come
  int status = Z_OK;
  while (status == Z_OK) {
    z.next_in = from + (e->data.size() - in_left), z.next_out = out_left ? to + (e->size - out_left) : &spare;
    z.avail_in = static_cast<uInt>(std::min<size_t>(in_left, 1u << 30));
    z.avail_out = static_cast<uInt>(std::min<size_t>(out_left, 1u << 30));
    uInt in_given = z.avail_in, out_given = z.avail_out;
    status = inflate(&z, Z_NO_FLUSH);
    in_left -= in_given - z.avail_in, out_left -= out_given - z.avail_out;
    if (status == Z_OK && in_given == z.avail_in && out_given == z.avail_out) status = Z_BUF_ERROR;
  }
  inflateEnd(&z);
  require_input(status == Z_STREAM_END && out_left == 0, "{} does not inflate to its {} bytes", what, e->size);
  check_crc(name, out.bytes);
  return out;
}

void Archive::check_crc(std::string_view name, Bytes bytes) const {
  const Entry* e = entry(name);
  require_input(e != nullptr, "{} has no entry {}", quoted(impl_->name), quoted(name));
  auto crc = crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  require_input(crc == e->crc, "{}: entry {} is damaged: its checksum is {:08x}, not {:08x}", quoted(impl_->name), quoted(name), crc,
                e->crc);
}

} // namespace tenon
