// load/npz: files of numpy, our own files, headers that lie, and damage at every place.
#include <doctest/doctest.h>

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <numeric>

#include "base/numeric.h"
#include "load/npz.h"
#include "tests/unit/load_samples.h"

namespace tenon::npz_test {

namespace {

std::vector<std::byte> npy(const std::string& header, const std::string& data, int major = 1) {
  Blob b;
  b.add("\x93NUMPY").put(static_cast<uint8_t>(major)).put<uint8_t>(0);
  if (major == 1) b.u16(header.size());
  else b.u32(header.size());
  return to_bytes(b.add(header).add(data).text);
}
std::string error_of_npy(const std::string& header, const std::string& data, ErrorKind kind = ErrorKind::BadInput) {
  auto bytes = npy(header, data);
  return error_thrown_by([&] { read_npy(bytes, nullptr, "x"); }, kind);
}
std::string describe(const Tensor& t) {
  return fmt::format("{}[{}]/[{}]", name_of(t.dtype()), show_sizes(t.sizes()), show_sizes(t.strides()));
}
void check_numpy_arrays(const std::string& file) {
  auto arrays = read_npz(sample_path(file), NpyU2::AsBF16);
  std::string all;
  for (auto& a : arrays) {
    all += fmt::format("{} {} {}\n", a.name, a.dtype, describe(a.tensor));
    CHECK(is_aligned(a.tensor.data(), a.tensor.dtype()));
  }
  CHECK(all == "b |b1 bool[2]/[1]\nu1 |u1 u8[3]/[1]\ni1 |i1 i8[3]/[1]\ni2 <i2 i16[3]/[1]\ni4 <i4 i32[3]/[1]\n"
               "i8 <i8 i64[2,3]/[3,1]\nf2 <f2 f16[3]/[1]\nu2 <u2 bf16[3]/[1]\nf4 <f4 f32[]/[]\nf8 <f8 f64[0,3]/[3,1]\n"
               "c8 <c8 c64[1]/[1]\nfortran <f4 f32[2,3]/[1,2]\ndeep/name <f4 f32[1,1,1]/[1,1,1]\n");
  REQUIRE(arrays.size() == 13);
  CHECK(arrays[2].tensor.data_as<int8_t>()[2] == -2);
  CHECK(arrays[5].tensor.data_as<int64_t>()[5] == 5);
  CHECK(arrays[7].tensor.data_as<uint16_t>()[2] == 2);
  CHECK(arrays[8].tensor.data_as<float>()[0] == 2.5f);
  CHECK(arrays[10].tensor.data_as<float>()[1] == 2.0f);
  Tensor rows = arrays[11].tensor.contiguous();
  for (int i = 0; i < 6; i++) CHECK(rows.data_as<float>()[i] == static_cast<float>(i));
}

} // namespace

TEST_CASE("files of numpy, stored and compressed") {
  check_numpy_arrays("stored.npz");
  check_numpy_arrays("deflated.npz");
}

TEST_CASE("all header versions") {
  for (const char* file : {"version2.npy", "version3.npy"}) {
    auto bytes = sample(file);
    Tensor t = read_npy(bytes, nullptr, file).tensor;
    CHECK(describe(t) == "i64[2,3]/[3,1]");
    CHECK(t.data_as<int64_t>()[4] == 4);
  }
  auto future = npy("{}", "", 4);
  CHECK(has(error_thrown_by([&] { read_npy(future, nullptr, "x"); }), "version 4"));
}

TEST_CASE("u64 and c128 arrays") {
  auto arrays = read_npz(sample_path("uint64.npz"));
  REQUIRE(arrays.size() == 1);
  CHECK(describe(arrays[0].tensor) == "u64[2]/[1]");
  CHECK(arrays[0].tensor.data_as<uint64_t>()[1] == 1);
}

TEST_CASE("dtypes that tenon does not have are named") {
  CHECK(has(error_thrown_by([] { read_npz(sample_path("stored.npz")); }, ErrorKind::Unsupported), "entry 'u2.npy': arrays of dtype '<u2'"));
  for (const char* descr : {">f4", "|O", "<U5", "<u4", "<f16", "", "f4", "="}) {
    CAPTURE(descr);
    CHECK(has(error_of_npy(fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ()}}", descr), "abcd", ErrorKind::Unsupported),
              "not supported"));
  }
  CHECK(has(error_of_npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}", "abcd", ErrorKind::Unsupported), "records"));
}

TEST_CASE("headers that lie are refused") {
  auto error = [](const std::string& shape, const std::string& data = "abcd") {
    return error_of_npy("{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + "}", data);
  };
  CHECK(error("()") == "");
  CHECK(error("(1,)") == "");
  CHECK(error("( 1L , 1 , )") == "");
  CHECK(error("(0,1099511627776)", "") == "");
  CHECK(has(error("(0,9223372036854775807)", ""), "overflows")); // its strides would
  CHECK(has(error("(2,)"), "8 bytes of data, but 4 follow"));
  CHECK(has(error("(0,)"), "0 bytes of data, but 4 follow"));
  CHECK(has(error("(9223372036854775807,4)"), "overflows"));
  CHECK(has(error("(4294967296,4294967296)"), "overflows"));
  CHECK(has(error("(18446744073709551617,)"), "a size expected"));
  CHECK(has(error("(-1,)"), "a size expected"));
  CHECK(has(error("(1"), "expected"));
  CHECK(has(error("1"), "'(' expected"));
  CHECK(has(error("(1,)} x"), "text after"));
  CHECK(has(error("(1,), 'shape': (1,)"), "repeated key 'shape'"));
  CHECK(has(error("(1,), 'other': 1"), "'other'"));
  std::string many = "(";
  for (int i = 0; i < 65; i++) many += "1,";
  CHECK(has(error(many + ")"), "64 dimensions"));
  CHECK(has(error_of_npy("{'descr': '<f4', 'fortran_order': 0, 'shape': ()}", "abcd"), "True or False"));
  CHECK(has(error_of_npy("{'descr': '<f4'}", ""), "is missing"));
  CHECK(has(error_of_npy("{'descr': '<f4", ""), "without end"));
  CHECK(has(error_of_npy("{'descr': '|b1', 'fortran_order': False, 'shape': (2,)}", "\x01\x02"), "bool is stored as 2"));
  auto text = to_bytes("a text of ten letters or more");
  CHECK(has(error_thrown_by([&] { read_npy(text, nullptr, "the file"); }), "the file is not an .npy file"));
}

TEST_CASE("misaligned data are copied, aligned data shared") {
  std::string header = "{'descr': '<i4', 'fortran_order': False, 'shape': (3,)}";
  for (size_t pad = 0; pad < 4; pad++) {
    auto bytes = npy(header + std::string(pad, ' '), std::string("\1\0\0\0\2\0\0\0\3\0\0\0", 12));
    Tensor t = read_npy(bytes, nullptr, "x").tensor;
    auto* p = static_cast<std::byte*>(t.data());
    bool shared = p >= bytes.data() && p < bytes.data() + bytes.size();
    CHECK(shared == ((10 + header.size() + pad) % 4 == 0));
    CHECK(t.defined());
    CHECK(t.data_as<int32_t>()[2] == 3);
  }
}

TEST_CASE("what is written is read back, aligned and shared") {
  std::vector<std::pair<std::string, Tensor>> arrays;
  int count = 0;
  for (int d = 0; d < num_dtypes; d++)
    for (std::vector<int64_t> sizes : {std::vector<int64_t>{}, {0}, {1}, {7, 3}, {2, 0, 5}, {65}, {1, 1, 1, 1, 1, 1, 1, 1, 1}}) {
      Tensor t(static_cast<DType>(d), sizes);
      for (int64_t i = 0; i < t.numel() * static_cast<int64_t>(size_of(t.dtype())); i++)
        t.data_as<uint8_t>()[i] = static_cast<uint8_t>(t.dtype() == DType::Bool ? i % 2 : i * 37 + d);
      arrays.emplace_back("array" + std::to_string(count++), t);
    }
  auto bytes = write_npz(arrays);
  Archive archive = Archive::view(bytes, "x");
  auto back = read_npz(archive, NpyU2::AsBF16);
  REQUIRE(back.size() == arrays.size());
  for (size_t i = 0; i < back.size(); i++) {
    const Tensor &a = arrays[i].second, &b = back[i].tensor;
    CHECK(back[i].name == arrays[i].first);
    CHECK(b.dtype() == (is_float8(a.dtype()) ? DType::U8 : a.dtype()));
    CHECK(b.sizes() == a.sizes());
    auto size = static_cast<size_t>(a.numel()) * size_of(a.dtype());
    CHECK(std::equal(a.data_as<uint8_t>(), a.data_as<uint8_t>() + size, b.data_as<uint8_t>()));
    CHECK((static_cast<std::byte*>(b.data()) - bytes.data()) % 64 == 0);
  }
}

TEST_CASE("strided tensors are written row-major; names must differ; files are written") {
  Tensor t(DType::I32, {2, 3});
  std::iota(t.data_as<int32_t>(), t.data_as<int32_t>() + 6, 0);
  Tensor turned(DType::I32, {3, 2}, {1, 3}, t.storage(), t.data());
  std::pair<std::string, Tensor> arrays[] = {{"folder/t", turned}, {"u", t}};
  char path[] = "/tmp/tenon-npz-XXXXXX";
  int fd = mkstemp(path);
  REQUIRE(fd >= 0);
  close(fd);
  write_npz(path, arrays);
  auto read = read_npz(std::string(path));
  std::remove(path);
  REQUIRE(read.size() == 2);
  CHECK(read[0].name == "folder/t");
  CHECK(describe(read[0].tensor) == "i32[3,2]/[2,1]");
  CHECK(read[0].tensor.data_as<int32_t>()[1] == 3);
  arrays[1].first = "folder/t";
  CHECK(has(error_thrown_by([&] { write_npz(arrays); }), "used twice"));
  CHECK(has(error_thrown_by([&] { write_npz("/nonexistent/x.npz", arrays); }), "cannot write"));
  CHECK(write_npz({}).size() == 22);
}

TEST_CASE(".npy and .npz files cut and damaged anywhere give errors") {
  auto npz = [](Bytes b) { read_npz(Archive::view(b, "x"), NpyU2::AsBF16); };
  CHECK(damage_everywhere(sample("small.npz"), npz) == 0);
  CHECK(damage_everywhere(sample("small_deflated.npz"), npz) == 0);
  CHECK(damage_everywhere(sample("version2.npy"), [](Bytes b) { read_npy(b, nullptr, "x"); }) == 0);
  CHECK(damage_everywhere(sample("version3.npy"), [](Bytes b) { read_npy(b, nullptr, "x"); }) == 0);
}

} // namespace tenon::npz_test
