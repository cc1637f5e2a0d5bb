// Kernels with the same text where they are the same, and as one where they differ in constants only.
#include "kernel_harness.h"
#include "loops/canonical.h"
#include "loops/share.h"
#include "tests/unit/graph_harness.h"

namespace tenon::share_test {
using namespace harness;

namespace {

// Rows of softmax over a symbol `name` that is at least `lo`; `first` is the first number of axes and registers.
Kernel softmax(ExprPool& pool, const std::string& name, int64_t lo, int first) {
  Kernel k{.name = "softmax", .buffers = {input(DType::F32), output(DType::F32)}, .scalars = {}, .parallel = {}, .body = {}};
  Expr size = pool.symbol(name, DType::I64, lo, INT64_MAX), p = pool.axis(first, pool.integer(3)), i = pool.axis(first + 1, size);
  Expr x = pool.load(0, DType::F32, {p * size + i}), e = unary(Op::Exp, x - pool.reg(first, DType::F32));
  k.scalars = {size};
  k.parallel = p;
  k.body = {reduce({{first, Reduction::Max, DType::F32}}, {loop(i, 16, {add(first, x)})}),
            reduce({{first + 1, Reduction::Sum, DType::F32}}, {loop(i, 16, {add(first + 1, e)})}),
            loop(i, 16, {store(1, p * size + i, e / pool.reg(first + 1, DType::F32))})};
  return k;
}

// out[p*n + i] = in[p*stride + i + offset] + (i // divisor) for p < 3, i < n
Kernel window(ExprPool& pool, int64_t n, int64_t stride, int64_t offset, int64_t divisor) {
  Kernel k{.name = "window", .buffers = {input(DType::F32), output(DType::F32)}, .scalars = {}, .parallel = {}, .body = {}};
  Expr p = pool.axis(0, pool.integer(3)), i = pool.axis(1, pool.integer(n));
  Expr value = pool.load(0, DType::F32, {p * static_cast<double>(stride) + i + static_cast<double>(offset)});
  k.parallel = p;
  k.body = {loop(i, 32, {store(1, p * static_cast<double>(n) + i, value + cast(floor_div(i, pool.integer(divisor)), DType::F32))})};
  return k;
}

std::vector<Tensor> waves(const test::TestGraph& g) {
  std::vector<Tensor> inputs;
  for (const ProgramInput& in : g.p.inputs) {
    std::vector<int64_t> sizes;
    for (Expr e : g.p.graph.type(in.value).sizes) sizes.push_back(*const_int(e));
    inputs.push_back(test::filled(DType::F32, sizes, [](int64_t i) { return std::sin(static_cast<double>(i)); }));
  }
  return inputs;
}

} // namespace

TEST_CASE("canonical kernels: names of symbols, axes and registers do not count, bounds do") {
  ExprPool mine, shared;
  auto text = [&](const std::string& name, int64_t lo, int first) {
    CanonicalKernel k = canonical(softmax(mine, name, lo, first), shared);
    verify(k.kernel);
    REQUIRE(k.scalars.size() == 1);
    CHECK(k.scalars[0] == mine.find_symbol(name));
    return to_string(k.kernel);
  };
  std::string first = text("s0", 0, 0);
  CHECK(text("u17", 0, 40) == first);
  CHECK(text("s1", 1, 0) != first);
  CHECK(text("s2", 2, 7) == text("s3", 1, 0)); // a loop that runs at all
  for (int64_t n : {0, 1, 17, 33}) {
    Case c{.kernel = canonical(softmax(mine, "u17", 0, 40), shared).kernel};
    c.data = {{.count = static_cast<size_t>(3 * n)}, {.count = static_cast<size_t>(3 * n)}};
    c.scalars = {n};
    c.end = 3;
    c.tolerance = 1e-6;
    check(c);
  }
}

TEST_CASE("shared kernels compute what each of them did") {
  ExprPool pool;
  struct Shape {
    int64_t n, stride, offset;
  };
  const Shape shapes[] = {{6, 40, 1}, {7, 40, 2}, {31, 40, 5}, {33, 40, 6}, {16, 40, 33}};
  std::vector<Kernel> kernels;
  for (const Shape& s : shapes) kernels.push_back(window(pool, s.n, s.stride, s.offset, 5));
  std::vector<const Kernel*> pointers;
  std::vector<KernelShape> found;
  for (const Kernel& k : kernels) pointers.push_back(&k), found.push_back(shape_of(k, pool, {}, 0));
  for (const KernelShape& s : found) CHECK(s.text == found[0].text);
  SharedKernel shared = share(pointers, found, pool, {}, 0);
  REQUIRE(shared.scalars.size() == kernels.size());
  for (size_t k = 0; k < kernels.size(); k++) {
    CHECK(shared.scalars[k] == std::vector{shapes[k].n, shapes[k].offset}); // the stride and the divisor are the same in all
    size_t out = static_cast<size_t>(3 * shapes[k].n), in = static_cast<size_t>(2 * shapes[k].stride + shapes[k].offset + shapes[k].n);
    Case one{.kernel = kernels[k]}, all{.kernel = shared.kernel, .data = {}, .scalars = shared.scalars[k]};
    for (Case* c : {&one, &all}) {
      c->data = {Data::random(DType::F32, in, 1), {.count = out}};
      c->end = 3;
      check(*c);
    }
    compare(one, run(all, nullptr, false), run(one, nullptr, false), "shared");
  }
}

TEST_CASE("general kernels: every constant of their shape is a scalar, divisors of the outermost number too") {
  ExprPool pool;
  // out[p*n + i] = in[(p // d % e)*s + (p % d)*t + i + 3] for p < count, i < n
  struct Sizes {
    int64_t count, n, d, e, s, t;
  };
  auto kernel = [&](const Sizes& z) {
    Kernel k{.name = "general", .buffers = {input(DType::F32), output(DType::F32)}, .scalars = {}, .parallel = {}, .body = {}};
    Expr p = pool.axis(0, pool.integer(z.count)), i = pool.axis(1, pool.integer(z.n));
    auto by = [&](int64_t v) { return pool.integer(v); };
    Expr from = mod(floor_div(p, by(z.d)), by(z.e)) * by(z.s) + mod(p, by(z.d)) * by(z.t) + i + by(3);
    k.parallel = p;
    k.body = {loop(i, 32, {store(1, p * by(z.n) + i, pool.load(0, DType::F32, {from}))})};
    return k;
  };
  const Varying varying{.least = 8, .general = true};
  std::string text;
  for (Sizes z : {Sizes{12, 17, 2, 3, 100, 40}, {30, 64, 5, 2, 99, 64}, {70, 33, 6, 7, 34, 35}, {64, 31, 3, 9, 33, 8}}) {
    Kernel own = kernel(z), general = general_kernel(own, pool, varying, 0);
    verify(general);
    KernelShape shape = shape_of(own, pool, varying, 0);
    CHECK(shape.constants.size() == general.scalars.size());
    CHECK((text.empty() || shape.text == text));
    text = shape.text;
    CHECK(shape_of(own, pool, {.least = 8}, 0).text != text);
    Case one{.kernel = own}, all{.kernel = general, .data = {}, .scalars = shape.constants};
    for (Case* c : {&one, &all}) {
      c->data = {Data::random(DType::F32, static_cast<size_t>(z.e * z.s + z.d * z.t + z.n + 3), 1),
                 {.count = static_cast<size_t>(z.count * z.n)}};
      c->end = z.count;
      check(*c);
    }
    compare(one, run(all, nullptr, false), run(one, nullptr, false), "general");
  }
}

TEST_CASE("kernels that differ in where their operands begin") {
  ExprPool pool;
  const Varying varying{.only_beginnings = true};
  const int64_t offsets[] = {0, 17, 1 << 20, 3};
  std::vector<Kernel> kernels;
  for (int64_t offset : offsets) kernels.push_back(window(pool, 33, 40, offset, 5));
  std::vector<const Kernel*> pointers;
  std::vector<KernelShape> found;
  for (const Kernel& k : kernels) pointers.push_back(&k), found.push_back(shape_of(k, pool, varying, 0));
  for (const KernelShape& s : found) CHECK(s.text == found[0].text);
  for (Kernel other : {window(pool, 34, 40, 17, 5), window(pool, 33, 41, 17, 5), window(pool, 33, 40, 17, 6)})
    CHECK(shape_of(other, pool, varying, 0).text != found[0].text);
  SharedKernel shared = share(pointers, found, pool, varying, 0);
  verify(shared.kernel);
  for (size_t k = 0; k < kernels.size(); k++) {
    CHECK(shared.scalars[k] == std::vector{offsets[k]});
    Case one{.kernel = kernels[k]}, all{.kernel = shared.kernel, .data = {}, .scalars = shared.scalars[k]};
    for (Case* c : {&one, &all}) {
      c->data = {Data::random(DType::F32, static_cast<size_t>(offsets[k] + 3 * 40), 1), {.count = 3 * 33}};
      c->end = 3;
      check(*c);
    }
    compare(one, run(all, nullptr, false), run(one, nullptr, false), "shared");
  }
}

TEST_CASE("where a streamed result begins is part of the shape") {
  ExprPool pool;
  auto text = [&](int64_t begin, bool streamed) {
    Kernel k = window(pool, 64, 64, 0, 5);
    k.buffers[1].streamed = streamed;
    auto& stored = std::get<Store>(std::get<Loop>(k.body[0].v).body[0].v);
    stored.offset = stored.offset + static_cast<double>(begin);
    return shape_of(k, pool, {.only_beginnings = true}, 0).text;
  };
  CHECK(text(16, false) == text(17, false));
  CHECK(text(16, true) != text(17, true));
}

TEST_CASE("shapes of kernels: divisors, small constants of tiles, and structure are part of them") {
  ExprPool pool;
  auto text = [&](const Kernel& k, int64_t least) { return shape_of(k, pool, {.least = least}, 0).text; };
  Kernel k = window(pool, 33, 40, 17, 5);
  CHECK(text(k, INT64_MIN) == text(window(pool, 34, 41, 1, 5), INT64_MIN));
  CHECK(text(k, INT64_MIN) != text(window(pool, 33, 40, 17, 6), INT64_MIN));
  CHECK(text(k, INT64_MIN) == text(window(pool, 33, 40, 0, 5), INT64_MIN));
  CHECK(text(k, INT64_MIN) != text(window(pool, 1, 40, 17, 5), INT64_MIN));
  CHECK(text(k, 16) == text(window(pool, 35, 48, 99, 5), 16));
  CHECK(text(k, 16) != text(window(pool, 33, 15, 17, 5), 16));
}

TEST_CASE("numbers of shared kernels may be any") {
  const std::vector<int64_t> added{17, 2147483629, 2147483647, 4294967296, -2147483648, 0, 1};
  for (int64_t n : {5, 400000}) { // short and long
    test::TestGraph g;
    std::vector<Tensor> inputs;
    for (int64_t v : added) {
      inputs.push_back(test::counting(DType::I64, {n + static_cast<int64_t>(inputs.size())})); // not fused: of another size each
      g.returns(g.b.call1("aten::add.Scalar", {g.input({inputs.back().numel()}, DType::I64), v}));
    }
    Executable e = g.program().compile().value();
    CHECK(e.stats().kernels_compiled < added.size());
    std::vector<Tensor> got = test::run(e, inputs);
    for (size_t k = 0; k < added.size(); k++)
      for (int64_t i : {int64_t{0}, inputs[k].numel() - 1}) CHECK(got.at(k).data_as<int64_t>()[i] == added[k] + i);
  }
}

TEST_CASE("a program of many alike parts compiles few kernels") {
  test::TestGraph g;
  V x = g.input({64, 3});
  for (int64_t n : {2, 3, 5, 8, 13, 21})
    g.returns(g.b.call1("aten::exp.default", {g.b.call1("aten::slice.Tensor", {x, int64_t{0}, n, 2 * n})}));
  test::compare(g, {{test::counting(DType::F32, {64, 3})}});
  Executable e = g.program().compile().value();
  CHECK(e.stats().kernels_compiled < 3);
}

TEST_CASE("norms of several widths, and means over several counts, are one kernel each") {
  for (int64_t rows : {4, 3000}) { // short and long
    test::TestGraph g;
    for (int64_t n : {96, 160, 200}) {
      V x = g.input({rows, n}), weight = g.input({n}), bias = g.input({n});
      g.returns(g.b.call1("aten::layer_norm", {x, ArgList{n}, weight, bias, 1e-5, false}));
    }
    for (int64_t n : {17, 31, 49}) g.returns(g.b.call1("aten::mean.dim", {g.input({rows / 4 + n, n}), ArgList{1}}));
    test::compare(g, {waves(g)});
    CHECK(g.program().compile().value().stats().kernels_compiled == 2);
  }
}

TEST_CASE("what follows products of one row and of many is one kernel") {
  test::TestGraph g;
  V weight = g.input({48, 33}), bias = g.input({48}), image = g.input({1, 33, 5, 7}), window = g.input({48, 33, 1, 1});
  for (int64_t rows : {1, 2, 70}) g.returns(g.b.call1("aten::relu", {g.b.call1("aten::linear", {g.input({rows, 33}), weight, bias})}));
  g.returns(g.b.call1("aten::relu", {g.b.call1("aten::convolution", {image, window, bias, {1, 1}, {0, 0}, {1, 1}, false, {0, 0}, 1})}));
  test::compare(g, {waves(g)});
  CHECK(g.program().compile().value().stats().kernels_compiled == 3); // two turn the image and the result
}

TEST_CASE("long loops over parts of one tensor are one kernel") {
  test::TestGraph g;
  V x = g.input({4, 300, 1000});
  for (int64_t n : {0, 1, 2, 3}) g.returns(g.b.call1("aten::exp.default", {g.b.call1("aten::select.int", {x, int64_t{0}, n})}));
  test::compare(g, {{test::counting(DType::F32, {4, 300, 1000})}});
  CHECK(g.program().compile().value().stats().kernels_compiled == 1);
}

} // namespace tenon::share_test
