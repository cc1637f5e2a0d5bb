// Resized images: native code beside the interpreter, at scales where what a vector reads lies near, far, and in
// descending order.
#include "tests/unit/graph_harness.h"

using namespace tenon;
using namespace tenon::test;

namespace {

Tensor image(DType t, std::vector<int64_t> sizes) {
  return filled(t, std::move(sizes), [](int64_t i) { return static_cast<double>(i * 31 % 127) / 4; });
}

} // namespace

TEST_CASE("resized images in every float format, enlarged, reduced and turned") {
  for (Isa isa : {Isa::Auto, Isa::Avx2})
    for (DType t : {DType::F32, DType::F64, DType::BF16, DType::F16})
      for (int64_t width : {1, 33, 400})
        for (int64_t out : {16, 99}) {
          CAPTURE(name_of(t));
          CAPTURE(width);
          CAPTURE(out);
          TestGraph g;
          V x = g.input({2, 3, 4, width}, t);
          for (bool align : {false, true})
            for (auto op : {"aten::upsample_bilinear2d.default", "aten::upsample_bicubic2d.default"})
              g.returns(g.b.call1(op, {x, ArgList{7, out}, align}));
          V near = g.b.call1("aten::upsample_nearest2d.default", {x, ArgList{7, out}});
          g.returns(near);
          g.returns(g.b.call1("aten::flip.default", {near, ArgList{3}}));
          compare(g, {{image(t, {2, 3, 4, width})}}, {.isa = isa});
        }
}

TEST_CASE("resized images of any size, and of three dimensions") {
  for (Isa isa : {Isa::Auto, Isa::Avx2}) {
    TestGraph g;
    Expr h = g.symbol("s0", 1), w = g.symbol("s1", 1);
    V x = g.input({g.b.integer(2), g.b.integer(3), h, w});
    g.returns(g.b.call1("aten::upsample_bilinear2d.default", {x, ArgList{h * 2.0, w * 2.0}, false}));
    g.returns(g.b.call1("aten::upsample_nearest2d.default", {x, ArgList{h * 3.0, w * 3.0}}));
    compare(g, {{image(DType::F32, {2, 3, 5, 40})}, {image(DType::F32, {2, 3, 1, 1})}, {image(DType::F32, {2, 3, 17, 9})}}, {.isa = isa});
    TestGraph solid;
    solid.returns(solid.b.call1("aten::upsample_trilinear3d.default", {solid.input({1, 2, 3, 5, 20}), ArgList{6, 7, 64}, true}));
    compare(solid, {{image(DType::F32, {1, 2, 3, 5, 20})}}, {.isa = isa});
  }
}
