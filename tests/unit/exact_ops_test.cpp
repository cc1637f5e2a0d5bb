// Operators whose results have no tolerance: bits, bytes, indices. The numbers are torch's.
#include "tests/unit/graph_harness.h"

namespace tenon::exact_ops_test {
using namespace tenon::test;

namespace {

Tensor run_one(const std::function<V(Builder&, V)>& build, const Tensor& x) {
  TestGraph g;
  std::vector<Expr> sizes;
  for (int64_t s : x.sizes()) sizes.push_back(g.b.integer(s));
  g.returns(build(g.b, g.input(sizes, x.dtype())));
  std::vector<Tensor> inputs{x}, out;
  g.program().compile().value().run(inputs, out).check();
  return out.at(0);
}

using Numbers = std::vector<double>;

} // namespace

TEST_CASE("hash_tensor is the exclusive or of bits") {
  Tensor x = filled(DType::F32, {2, 3}, [](int64_t i) { return Numbers{1.5, -2, 3.25, 0, 1, 2}[static_cast<size_t>(i)]; });
  Tensor rows = run_one([](Builder& b, V v) { return b.call1("aten::hash_tensor", {v, {1}}); }, x);
  CHECK(rows.dtype() == DType::U64);
  CHECK(rows.sizes() == std::vector<int64_t>{2});
  CHECK(rows.data_as<uint64_t>()[0] == 13831117405608214528u);
  CHECK(rows.data_as<uint64_t>()[1] == (0x3ff0000000000000u ^ 0x4000000000000000u));
  Tensor kept = run_one([](Builder& b, V v) { return b.call1("aten::hash_tensor", {v, {0}}, {{"keepdim", true}}); }, x);
  CHECK(kept.sizes() == std::vector<int64_t>{1, 3});
  Tensor whole = run_one([](Builder& b, V v) { return b.call1("aten::hash_tensor", {v}); },
                         filled(DType::I64, {2}, [](int64_t i) { return i ? 6 : -8; }));
  CHECK(whole.data_as<uint64_t>()[0] == 18446744073709551614u);
}

TEST_CASE("bytes are resampled in integers") {
  Tensor x = filled(DType::U8, {1, 1, 3, 4}, [](int64_t i) { return static_cast<double>(i * 83 % 256); });
  auto resized = [&](const char* op, std::vector<int64_t> size) {
    return numbers(run_one([&](Builder& b, V v) { return b.call1(op, {v, size, false}); }, x));
  };
  CHECK(resized("aten::upsample_bilinear2d", {4, 5}) ==
        Numbers{0, 58, 125, 191, 249, 48, 106, 173, 190, 137, 105, 163, 182, 151, 98, 152, 210, 149, 87, 145});
  CHECK(resized("aten::upsample_bicubic2d", {4, 5}) ==
        Numbers{0, 46, 118, 198, 255, 37, 88, 197, 216, 119, 106, 173, 209, 154, 70, 152, 238, 144, 56, 157});
  CHECK(resized("aten::_upsample_bilinear2d_aa", {2, 3}) == Numbers{54, 154, 185, 149, 169, 120});
}

TEST_CASE("views as another dtype: smaller, larger and boolean elements") {
  auto view = [](const Tensor& x, DType t) {
    return numbers(run_one([&](Builder& b, V v) { return b.call1("aten::view.dtype", {v, t}); }, x));
  };
  Tensor floats = filled(DType::F32, {2, 1}, [](int64_t i) { return i ? -2.5 : 1.; });
  CHECK(view(floats, DType::U8) == Numbers{0, 0, 128, 63, 0, 0, 32, 192});
  CHECK(view(floats, DType::I16) == Numbers{0, 16256, 0, -16352});
  CHECK(view(filled(DType::I8, {8}, [](int64_t i) { return Numbers{0, 0, -128, 63, 0, 0, 32, -64}[static_cast<size_t>(i)]; }),
             DType::F32) == Numbers{1, -2.5});
  CHECK(view(filled(DType::U8, {4}, [](int64_t i) { return i - 1; }), DType::Bool) == Numbers{1, 0, 1, 1});
  CHECK(view(filled(DType::Bool, {3}, [](int64_t i) { return i == 1; }), DType::I8) == Numbers{0, 1, 0});
  TestGraph g;
  CHECK_THROWS_AS(g.b.call("aten::view.dtype", {g.input({3}), DType::F64}), Error);
  CHECK_THROWS_AS(g.b.call("aten::view.dtype", {g.input({}), DType::U8}), Error);
}

TEST_CASE("negative indices of take_along_dim count from the end") {
  Tensor x = counting(DType::F32, {2, 3});
  auto taken = [&](const ArgList& dim) {
    return numbers(run_one(
        [&](Builder& b, V v) {
          return b.call1("aten::take_along_dim",
                         {v, b.constant(filled(DType::I64, {2, 2}, [](int64_t i) { return i % 2 ? -3 : -1; })), dim.at(0)});
        },
        x));
  };
  CHECK(taken({1}) == Numbers{2, 0, 5, 3});
  CHECK(taken({Arg()}) == Numbers{5, 3, 5, 3});
}

TEST_CASE("bounds keep NaN, and of zeros the sign that torch keeps") {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  const Numbers values{0.0, -0.0, nan, -nan, inf, -inf, 1, -1, 6, 7, 5.5, -6, 1e-42, -1e-42, 0.5, -0.5, 3, -0.0, 0.0};
  struct Bounds {
    const char* op;
    ArgList args;
  };
  const Bounds all[] = {{"aten::relu", {}},
                        {"aten::relu6", {}},
                        {"aten::hardtanh", {-1.0, 1.0}},
                        {"aten::hardtanh", {0.0, 6.0}},
                        {"aten::hardtanh", {-6.0, -0.0}},
                        {"aten::clamp", {-0.5, 0.0}},
                        {"aten::clamp", {nan, 1.0}},
                        {"aten::clamp_min", {0.0}},
                        {"aten::clamp_min", {-0.0}},
                        {"aten::clamp_max", {0.0}},
                        {"aten::clamp_max", {nan}},
                        {"aten::clamp_max", {-inf}}};
  for (const Bounds& o : all)
    for (DType t : {DType::F32, DType::F64, DType::BF16, DType::F16})
      for (Isa isa : {Isa::Auto, Isa::Avx2}) {
        CAPTURE(o.op);
        CAPTURE(name_of(t));
        Tensor x = filled(t, {71}, [&](int64_t i) { return values[static_cast<size_t>(i) % values.size()]; });
        TestGraph g;
        ArgList args{g.input({71}, t)};
        args.insert(args.end(), o.args.begin(), o.args.end());
        g.returns(g.b.call1(o.op, args));
        Numbers got = numbers(run(g.program().compile({.isa = isa}).value(), {x})[0]),
                want = numbers(run(g.program().compile({.interpret = true}).value(), {x})[0]);
        for (size_t i = 0; i < got.size(); i++)
          CHECK_MESSAGE((std::isnan(want[i]) ? std::isnan(got[i]) : got[i] == want[i] && std::signbit(got[i]) == std::signbit(want[i])),
                        "element ", i, ": ", got[i], " instead of ", want[i]);
      }
  Tensor zeros = filled(DType::F32, {40}, [](int64_t i) { return i % 2 ? 0.0 : -0.0; });
  for (const char* op : {"aten::relu", "aten::relu6"}) {
    Numbers kept = numbers(run_one([&](Builder& b, V v) { return b.call1(op, {v}); }, zeros));
    for (size_t i = 0; i < kept.size(); i++) CHECK(std::signbit(kept[i]) == (i % 2 == 0));
  }
}

} // namespace tenon::exact_ops_test
