// What the decompositions of products, convolutions and recurrent layers look like: how many of the costly operators they
// leave, which no comparison of results shows.
#include <doctest/doctest.h>

#include <map>

#include "ir/builder.h"

namespace tenon::nn_ops_test {

namespace {

struct Fixture {
  Graph g;
  Builder b{g, g.top(), true};

  V input(std::vector<Expr> sizes, DType t = DType::F32) { return b.wrap(g.add_param(g.top(), Type::tensor(t, std::move(sizes)))); }
  V input(std::initializer_list<int64_t> sizes, DType t = DType::F32) {
    std::vector<Expr> e;
    for (int64_t s : sizes) e.push_back(b.integer(s));
    return input(e, t);
  }
  std::map<std::string, int> counts() {
    std::map<std::string, int> out;
    for (uint32_t i = 0; i < g.num_nodes(); i++) out[g.node(NodeId{i}).op.name()]++;
    return out;
  }
};

} // namespace

TEST_CASE("matmul of many rows with one matrix is one mm") {
  Fixture f;
  Expr s = f.b.pool().symbol("s0", DType::I64, 0, 4096);
  V y = f.b.matmul(f.input({s, f.b.integer(5), f.b.integer(3)}), f.input({3, 7}));
  CHECK(y.sizes() == std::vector<Expr>{s, f.b.integer(5), f.b.integer(7)});
  CHECK(f.counts()["edge::mm.default"] == 1);
  CHECK(f.counts()["edge::expand.default"] == 0);
}

TEST_CASE("a bias after a product of reduced floats is added to the wide accumulator") {
  Fixture f;
  V x = f.input({4, 3}, DType::BF16), w = f.input({5, 3}, DType::BF16), bias = f.input({5}, DType::BF16);
  V y = f.b.call1("aten::linear.default", {x, w, bias});
  CHECK(y.dtype() == DType::BF16);
  CHECK(f.counts()["edge::mm.dtype"] == 1);
  V c = f.b.call1("aten::conv1d.default", {f.input({2, 3, 9}, DType::BF16), f.input({5, 3, 2}, DType::BF16), bias});
  CHECK(c.size(2) == f.b.integer(8));
  CHECK(f.counts()["edge::convolution.dtype"] == 1);
}

TEST_CASE("einsum contracts each pair by one product") {
  Fixture f;
  V a = f.input({2, 3, 4, 5}), c = f.input({2, 6, 4, 5});
  V y = f.b.call1("aten::einsum.default", {"bshd,bthd->bhst", ArgList{a, c}});
  CHECK(y.sizes() == std::vector<Expr>{f.b.integer(2), f.b.integer(4), f.b.integer(3), f.b.integer(6)});
  CHECK(f.counts()["edge::bmm.default"] == 1);
  CHECK(f.counts()["edge::sum.dim_IntList"] == 0);
  V d = f.b.call1("aten::einsum.default", {"ii->i", ArgList{f.input({3, 3})}});
  CHECK(d.rank() == 1);
  CHECK_THROWS_AS(f.b.call1("aten::einsum.default", {"ij->ijk", ArgList{f.input({3, 3})}}), Error);
  CHECK_THROWS_AS(f.b.call1("aten::einsum.default", {"ij,jk", ArgList{f.input({3, 3})}}), Error);
}

TEST_CASE("a recurrent layer projects its inputs once and scans over time") {
  Fixture f;
  ArgList params;
  for (int direction = 0; direction < 2; direction++)
    for (V w : {f.input({16, 5}), f.input({16, 4}), f.input({16}), f.input({16})}) params.push_back(w);
  Expr steps = f.b.pool().symbol("t", DType::I64, 1, 512);
  V x = f.input({steps, f.b.integer(3), f.b.integer(5)}), h = f.input({2, 3, 4}), c = f.input({2, 3, 4});
  Values y = f.b.call("aten::lstm.input", {x, ArgList{h, c}, params, true, 1, 0.0, false, true, false});
  REQUIRE(y.size() == 3);
  CHECK(y[0].sizes() == std::vector<Expr>{steps, f.b.integer(3), f.b.integer(8)});
  CHECK(y[2].sizes() == h.sizes());
  CHECK(f.counts()["prim::Scan"] == 2);
  CHECK(f.counts()["edge::mm.default"] == 4); // for each direction one of all steps, and one in the scan
}

TEST_CASE("sizes and dtypes that do not fit are refused") {
  Fixture f;
  CHECK_THROWS_AS(f.b.matmul(f.input({2, 3}), f.input({4, 5})), Error);
  CHECK_THROWS_AS(f.b.call("aten::mm.default", {f.input({2, 3}), f.input({3, 5}, DType::F64)}), Error);
  CHECK_THROWS_AS(f.b.call("aten::max_pool2d.default", {f.input({3, 3}), {2, 2}}), Error);
  CHECK_THROWS_AS(f.b.call("aten::amax.default", {f.input({0, 3}), {0}}), Error);
  CHECK_THROWS_AS(f.b.call("aten::searchsorted.Tensor", {f.input({1, 3}), f.input({1, 7, 3})}), Error);
  CHECK_THROWS_AS(f.b.call("aten::masked_scatter.default", {f.input({3}), f.input({3}), f.input({3})}), Error);
  CHECK_THROWS_AS(f.b.call("aten::masked_scatter.default", {f.input({3}), f.input({3}, DType::Bool), f.input({3}, DType::U8)}), Error);
  CHECK_THROWS_AS(f.b.call("aten::upsample_bicubic2d.default", {f.input({1, 2, 3, 3}, DType::I64), {6, 6}, false}), Error);
}

} // namespace tenon::nn_ops_test
