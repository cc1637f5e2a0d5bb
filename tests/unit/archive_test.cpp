// load/archive: real archives, archives that lie, and archives damaged at every place.
#include <doctest/doctest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "load/archive.h"
#include "tests/unit/load_samples.h"

namespace tenon::archive_test {

namespace {

std::string error_of_zip(const HandZip& zip) {
  auto bytes = zip.bytes();
  return error_thrown_by([&] { Archive::view(bytes, "x"); });
}
std::string error_of_text(std::string_view text) {
  auto bytes = to_bytes(text);
  return error_thrown_by([&] { Archive::view(bytes, "x"); });
}
/// Everything a reader does with an archive.
void read_all(Bytes bytes) {
  Archive a = Archive::view(bytes, "x");
  for (auto name : a.names()) {
    unsigned sum = 0;
    for (std::byte b : a.read(name).bytes) sum += static_cast<unsigned>(b);
    REQUIRE(sum < 1u << 31);
  }
}

} // namespace

TEST_CASE("an archive of torch.export is mapped, its top folder stripped, its data aligned") {
  Archive a = Archive::map(sample_path("tiny.pt2"));
  CHECK(a.top() == "tiny/");
  CHECK(as_text(a.get("archive_format")) == "pt2");
  CHECK(as_text(a.get("byteorder")) == "little");
  CHECK(a.contains("models/model.json"));
  CHECK(!a.contains("tiny/models/model.json"));
  CHECK(!a.contains(""));
  CHECK(!a.find("nothing").has_value());
  CHECK(has(error_thrown_by([&] { (void)a.get("nothing"); }), "'nothing'"));
  int weights = 0;
  for (auto name : a.names())
    if (name.starts_with("data/weights/weight_")) {
      weights++;
      CHECK(reinterpret_cast<uintptr_t>(a.get(name).data()) % 64 == 0);
    }
  CHECK(weights == 2);
  CHECK(a.get("data/weights/weight_0").size() == 24);
  for (auto name : a.names()) a.check_crc(name, a.get(name));
  CHECK(has(error_thrown_by([&] { a.check_crc("byteorder", a.get("archive_format")); }), "damaged"));
}

TEST_CASE("the mapping lives as long as the owner") {
  std::shared_ptr<void> owner;
  Bytes bytes;
  {
    Archive a = Archive::map(sample_path("tiny.pt2"));
    bytes = a.get("archive_format");
    owner = a.owner();
  }
  CHECK(as_text(bytes) == "pt2");
  const_cast<std::byte&>(bytes[0]) = std::byte{'q'}; // private: the file does not change
  CHECK(as_text(Archive::map(sample_path("tiny.pt2")).get("archive_format")) == "pt2");
}

TEST_CASE("compressed entries are inflated on request") {
  Archive a = Archive::map(sample_path("small_deflated.npz"));
  CHECK(has(error_thrown_by([&] { (void)a.find("x.npy"); }), "compressed"));
  SharedBytes x = a.read("x.npy");
  CHECK(x.bytes.size() == 2128);
  CHECK(as_text(x.bytes).substr(1, 5) == "NUMPY");
  CHECK(has(error_thrown_by([&] { a.read("x.npy", 100); }), "limit 100"));
  CHECK(has(error_thrown_by([&] { a.read("y.npy"); }), "no entry 'y.npy'"));
}

TEST_CASE("names") {
  auto names = [](std::vector<std::string> list) {
    HandZip zip;
    for (auto& n : list) zip.entries.push_back({n, n.ends_with('/') ? "" : fmt::format("data of {}", n)});
    auto bytes = zip.bytes();
    Archive a = Archive::view(bytes, "x");
    std::string out = fmt::format("{}:", a.top());
    for (auto n : a.names()) {
      out += fmt::format(" {}", n);
      CHECK(as_text(a.get(n)) == fmt::format("data of {}{}", a.top(), n));
    }
    return out;
  };
  CHECK(names({"m/a", "m/b/c"}) == "m/: a b/c");
  CHECK(names({"m/", "m/a", "m/b/", "m/b/c"}) == "m/: a b/c");
  CHECK(names({"m/a", "n/b"}) == ": m/a n/b");
  CHECK(names({"m/a", "b"}) == ": m/a b");
  CHECK(names({"m/a", "ma"}) == ": m/a ma");
  CHECK(names({"/a", "/b"}) == "/: a b");
  CHECK(names({}) == ":");
  CHECK(names({std::string(60000, 'n')}) == fmt::format(": {:n>60000}", ""));
}

TEST_CASE("zip64 records, comments and padding are understood") {
  std::string big = Blob().u16(1).u16(24).u64(3).u64(3).u64(0).text;
  HandZip zip{.entries = {{.name = "a",
                           .data = "abc",
                           .local_extra = std::string(37, '\0'),
                           .central_extra = big,
                           .size = UINT32_MAX,
                           .packed = UINT32_MAX,
                           .offset = UINT32_MAX},
                          {"b", ""}},
              .zip64 = true,
              .comment = "PK\5\6 not the end"};
  auto bytes = zip.bytes();
  Archive a = Archive::view(bytes, "x");
  CHECK(as_text(a.get("a")) == "abc");
  CHECK(a.get("b").empty());
  zip.entries[0].central_extra = Blob().u16(1).u16(16).u64(3).u64(3).text;
  CHECK(has(error_of_zip(zip), "8 bytes wanted"));
  zip.entries[0].central_extra = "";
  CHECK(has(error_of_zip(zip), "64-bit sizes are missing"));
  zip.entries[0].central_extra = Blob().u16(1).u16(24).u64(UINT64_MAX).u64(UINT64_MAX).u64(0).text;
  CHECK(has(error_of_zip(zip), "reach past the end"));
  zip.entries[0].central_extra = Blob().u16(1).u16(24).u64(3).u64(3).u64(UINT64_MAX).text;
  CHECK(has(error_of_zip(zip), "no local header"));
}

TEST_CASE("what is not a zip is told from what is a broken one") {
  CHECK(has(error_of_text(""), "empty"));
  CHECK(has(error_of_text("hello, world, this is a text"), "not a zip archive: it starts with 'hello, w'"));
  CHECK(has(error_of_text("x"), "not a zip"));
  auto tiny = sample("tiny.pt2");
  tiny.resize(tiny.size() - 1);
  CHECK(has(error_thrown_by([&] { Archive::view(tiny, "x"); }), "truncated"));
  CHECK(has(error_thrown_by([] { Archive::map("/nonexistent/file.pt2"); }), "No such file"));
  CHECK(has(error_thrown_by([] { Archive::map("/"); }), "not a regular file"));
  CHECK(has(error_thrown_by([] { Archive::map("/dev/zero"); }), "not a regular file"));
}

TEST_CASE("a pipe is refused, not waited for") {
  char folder[] = "/tmp/tenon-archive-XXXXXX";
  REQUIRE(mkdtemp(folder) != nullptr);
  std::string path = std::string(folder) + "/pipe";
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  CHECK(has(error_thrown_by([&] { Archive::map(path); }), "not a regular file"));
  std::remove(path.c_str());
  rmdir(folder);
}

TEST_CASE("directories that lie are refused") {
  HandZip good{.entries = {{"m/a", "first"}, {"m/b", "second"}}};
  CHECK(error_of_zip(good) == "");
  auto with = [&](auto change) {
    HandZip zip = good;
    change(zip);
    return error_of_zip(zip);
  };
  CHECK(has(with([](auto& z) { z.entries[1].name = "m/a"; }), "two entries are named 'a'"));
  CHECK(has(with([](auto& z) { z.entries[1].offset = 0, z.entries[1].local_name = "m/a", z.entries[1].name = "m/a"; }), "overlap"));
  CHECK(has(with([](auto& z) { z.entries[0].size = z.entries[0].packed = 6; }), "overlap at offset"));
  CHECK(has(with([](auto& z) { z.entries[1].size = z.entries[1].packed = 7; }), "past the end of the data"));
  CHECK(has(with([](auto& z) { z.entries[1].offset = 100000; }), "no local header at offset 100000"));
  CHECK(has(with([](auto& z) { z.entries[1].offset = 1; }), "no local header at offset 1"));
  CHECK(has(with([](auto& z) { z.entries[1].local_name = "m/c"; }), "another name"));
  CHECK(has(with([](auto& z) { z.entries[1].size = 5; }), "sizes 6 and 5 differ"));
  CHECK(has(with([](auto& z) { z.entries[1].method = 12; }), "method 12"));
  CHECK(has(with([](auto& z) { z.entries[1].flags = 1; }), "encrypted"));
  CHECK(has(with([](auto& z) { z.entries[1].name = ""; }), "empty name"));
  CHECK(has(with([](auto& z) { z.entries[1].name = std::string("m/\0b", 4); }), "zero byte"));
  CHECK(has(with([](auto& z) { z.count = 3; }), "do not fit"));
  CHECK(has(with([](auto& z) { z.count = 3, z.entries[1].name += std::string(46, 'n'); }), "4 bytes wanted"));
  CHECK(has(with([](auto& z) { z.count = 0xffff; }), "65535 entries"));
  CHECK(has(with([](auto& z) { z.zip64 = true, z.count = int64_t{1} << 32; }), "4294967296 entries"));
  CHECK(has(with([](auto& z) { z.zip64 = true, z.count = INT64_MAX; }), "entries do not fit"));
  CHECK(has(with([](auto& z) { z.directory_offset = 1 << 20; }), "does not fit before its end record"));
  CHECK(has(with([](auto& z) { z.directory_offset = 1; }), "no directory record at offset 1"));
  CHECK(has(with([](auto& z) { z.zip64 = true, z.directory_offset = INT64_MAX; }), "does not fit"));
  CHECK(has(with([](auto& z) { z.zip64 = true, z.directory_size = INT64_MAX; }), "does not fit"));
  CHECK(has(with([](auto& z) { z.entries[1].central_extra = "extra", z.directory_size = 100; }), "bytes wanted"));
}

TEST_CASE("a compressed entry that lies about its size costs no memory") {
  HandZip zip{.entries = {{.name = "a", .data = "xxxx", .method = 8, .size = 0xfffffffe}}};
  auto bytes = zip.bytes();
  Archive a = Archive::view(bytes, "x");
  CHECK(has(error_thrown_by([&] { a.read("a"); }), "claims to inflate from 4 to 4294967294"));
  zip.entries[0].size = 1000;
  bytes = zip.bytes();
  CHECK(has(error_thrown_by([&] { Archive::view(bytes, "x").read("a"); }), "does not inflate"));
  zip.entries[0] = {.name = "a", .data = std::string("\x03\x00", 2), .method = 8, .size = 0}; // nothing, deflated
  bytes = zip.bytes();
  CHECK(Archive::view(bytes, "x").read("a").bytes.empty());
}

TEST_CASE("archives cut and damaged anywhere give errors") {
  CHECK(damage_everywhere(sample("small.pt"), read_all) == 0);
  CHECK(damage_everywhere(sample("small_deflated.npz"), read_all) == 0);
  HandZip zip{.entries = {{"m/a", "first"}, {"m/b", ""}}, .zip64 = true, .comment = "text"};
  CHECK(damage_everywhere(zip.bytes(), read_all) == 0);
}

} // namespace tenon::archive_test
