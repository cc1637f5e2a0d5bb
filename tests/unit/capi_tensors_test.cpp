// DLPack at the C API's border: every dtype both ways, strides, ranks, sizes, devices, and what is refused.
#include <cstdio>
#include <cstring>

#include <unistd.h>

#include "api/impl.h"
#include "tests/unit/capi_harness.h"
#include "tests/unit/graph_harness.h"

namespace tenon::capi_tensors_test {
using namespace tenon::test;

namespace {

// A handle for a program that has no file.
CExecutable executable_of(const TestGraph& g) {
  std::string path = "/tmp/tenon_capi_" + std::to_string(getpid()) + ".tenon";
  Program(describe(g.p)).save_compiled(path).check();
  CExecutable e = made<CExecutable>([&](auto out, auto err) { return tenon_executable_load(path.c_str(), nullptr, out, err); });
  std::remove(path.c_str());
  return e;
}

// y = 2x for f32[s0, 3].
struct Doubler {
  CExecutable exe;
  Doubler() {
    TestGraph g;
    Expr s = g.symbol("s0");
    g.returns(g.input({s, g.b.integer(3)}) * Arg(2));
    exe = executable_of(g);
  }
  std::vector<float> operator()(const DLTensor& x) {
    const DLTensor* in[] = {&x};
    CTensor y = made<CTensor>([&](auto out, auto e) { return tenon_executable_run(exe.get(), in, 1, out, 1, e); });
    const DLTensor& t = y->dl_tensor;
    CHECK(t.ndim == 2);
    CHECK(t.strides[0] == 3);
    CHECK(y->version.major == 1);
    auto* data = static_cast<float*>(t.data);
    return {data, data + t.shape[0] * t.shape[1]};
  }
  std::string refuses(int32_t status, const DLTensor& x) {
    const DLTensor* in[] = {&x};
    return refusal(status, [&](auto e) {
      DLManagedTensorVersioned* out = nullptr;
      int32_t got = tenon_executable_run(exe.get(), in, 1, &out, 1, e);
      CHECK(out == nullptr);
      return got;
    });
  }
};

bool says(const std::string& text, const char* part) { return text.find(part) != text.npos; }

} // namespace

TEST_CASE("C API: dtypes are DLPack's both ways") {
  for (int32_t t = 0; t < num_dtypes; t++) {
    DLDataType d{};
    int32_t back = -1;
    succeeds([&](auto e) { return tenon_dtype_to_dlpack(t, &d, e); });
    succeeds([&](auto e) { return tenon_dtype_from_dlpack(&d, &back, e); });
    CHECK(back == t);
    CHECK(d.bits == 8 * size_of(static_cast<DType>(t)));
    CHECK(d.lanes == 1);
    CHECK(tenon_dtype_name(t) == std::string(name_of(static_cast<DType>(t))));
  }
  DLDataType d{}, odd{kDLFloat, 24, 1}, wide{kDLFloat, 32, 4}, opaque{kDLOpaqueHandle, 64, 1};
  int32_t t = 0;
  CHECK(says(refusal(TENON_BAD_INPUT, [&](auto e) { return tenon_dtype_to_dlpack(num_dtypes, &d, e); }), "no dtype 17"));
  CHECK(says(refusal(TENON_BAD_INPUT, [&](auto e) { return tenon_dtype_from_dlpack(&odd, &t, e); }), "code 2 with 24 bits"));
  CHECK(says(refusal(TENON_BAD_INPUT, [&](auto e) { return tenon_dtype_from_dlpack(&wide, &t, e); }), "4 lanes"));
  CHECK(says(refusal(TENON_BAD_INPUT, [&](auto e) { return tenon_dtype_from_dlpack(&opaque, &t, e); }), "code 3"));
  CHECK(tenon_dtype_name(-1) == nullptr);
}

TEST_CASE("C API: memory with strides, offsets, and without elements") {
  Doubler twice;
  using Floats = std::vector<float>;
  F32 plain({1, 2, 3, 4, 5, 6}, {2, 3}), turned({1, 4, 2, 5, 3, 6}, {2, 3}, {1, 2}), repeated({1, 2, 3}, {2, 3}, {0, 1});
  F32 back({1, 2, 3, 4, 5, 6}, {2, 3}, {-3, -1}), empty({}, {0, 3});
  CHECK(twice(plain.shown()) == Floats{2, 4, 6, 8, 10, 12});
  CHECK(twice(turned.shown()) == Floats{2, 4, 6, 8, 10, 12});
  CHECK(twice(repeated.shown()) == Floats{2, 4, 6, 2, 4, 6});
  DLTensor x = back.shown();
  x.byte_offset = 5 * sizeof(float); // the last element comes first
  CHECK(twice(x) == Floats{12, 10, 8, 6, 4, 2});
  x = empty.shown();
  x.data = nullptr;
  CHECK(twice(x).empty());
  x = plain.shown();
  x.device = {kDLCUDAHost, 1}; // pinned, but the CPU's
  CHECK(twice(x) == Floats{2, 4, 6, 8, 10, 12});
}

TEST_CASE("C API: tensors that are refused") {
  Doubler twice;
  F32 plain({1, 2, 3, 4, 5, 6}, {2, 3});
  DLTensor good = plain.shown(), x = good;
  x.device = {kDLCUDA, 1};
  CHECK(says(twice.refuses(TENON_UNSUPPORTED, x), "input 0 lies on CUDA (device 1)"));
  x.device.device_type = static_cast<DLDeviceType>(99);
  CHECK(says(twice.refuses(TENON_UNSUPPORTED, x), "unknown type 99"));
  x = good, x.dtype.lanes = 2;
  CHECK(says(twice.refuses(TENON_BAD_INPUT, x), "input 0: elements have 2 lanes"));
  x = good, x.dtype = {kDLFloat, 64, 1};
  CHECK(says(twice.refuses(TENON_BAD_INPUT, x), "f64"));
  x = good, x.dtype = {kDLFloat4_e2m1fn, 4, 1};
  CHECK(says(twice.refuses(TENON_BAD_INPUT, x), "no dtype"));
  x = good, x.data = nullptr;
  CHECK(says(twice.refuses(TENON_BAD_INPUT, x), "input 0 has no memory"));
  x = good, x.shape = nullptr;
  CHECK(says(twice.refuses(TENON_BAD_INPUT, x), "shape is NULL"));
  x = good, x.ndim = -2;
  CHECK(says(twice.refuses(TENON_BAD_INPUT, x), "-2 dims"));
  x = good, x.ndim = 1;
  twice.refuses(TENON_BAD_INPUT, x);
  int64_t negative[] = {-2, 3};
  x = good, x.shape = negative;
  CHECK(says(twice.refuses(TENON_BAD_INPUT, x), "negative size"));
  x = good, x.ndim = 0; // rank 0, where two dims are wanted
  twice.refuses(TENON_BAD_INPUT, x);
}

TEST_CASE("C API: numbers without dims, and results of other dtypes") {
  TestGraph g;
  V n = g.input(std::vector<Expr>{}, DType::I64), c = g.input({2}, DType::BF16);
  g.returns(n + Arg(1));
  g.returns(c);
  CExecutable e = executable_of(g);
  int64_t number = 41, sizes[] = {2};
  uint16_t bits[] = {0x3f80, 0x4000};
  DLTensor a{&number, {kDLCPU, 0}, 0, {kDLInt, 64, 1}, nullptr, nullptr, 0};
  DLTensor b{bits, {kDLCPU, 0}, 1, {kDLBfloat, 16, 1}, sizes, nullptr, 0};
  const DLTensor* in[] = {&a, &b};
  DLManagedTensorVersioned* out[2] = {};
  succeeds([&](auto err) { return tenon_executable_run(e.get(), in, 2, out, 2, err); });
  CHECK(out[0]->dl_tensor.ndim == 0);
  CHECK(*static_cast<int64_t*>(out[0]->dl_tensor.data) == 42);
  CHECK(out[1]->dl_tensor.dtype.code == kDLBfloat);
  CHECK(std::memcmp(out[1]->dl_tensor.data, bits, sizeof bits) == 0);
  for (auto* t : out) t->deleter(t);
}

} // namespace tenon::capi_tensors_test
