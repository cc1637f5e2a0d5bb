// One compile serves all sizes: a call makes no code, whatever sizes it brings, and its results are the interpreter's.
#include <doctest/doctest.h>

#include <random>

#include "codegen/x86/micro_kernels.h"
#include "runtime/conv.h"
#include "tests/unit/graph_harness.h"

namespace tenon::sizes_test {
using namespace tenon::test;

namespace {

std::string fixture(const std::string& name) { return std::string(TENON_FIXTURES) + "/programs/" + name + ".pt2"; }

/// Inputs of a program for values of its symbols: small numbers, and true for a mask.
std::vector<Tensor> inputs_for(const Program& program, const std::map<std::string, int64_t>& values) {
  std::vector<Tensor> out;
  for (const ArgInfo& in : program.inputs()) {
    std::vector<int64_t> sizes;
    for (const std::string& s : in.sizes) sizes.push_back(values.count(s) ? values.at(s) : std::stoll(s));
    out.push_back(filled(in.dtype, sizes, [&](int64_t i) {
      return is_float(in.dtype) ? std::sin(0.7 * static_cast<double>(i)) : static_cast<double>(i * 7 % 13 != 5);
    }));
  }
  return out;
}

void compare_unseen(const std::string& name, const std::vector<std::vector<int64_t>>& sizes) {
  CAPTURE(name);
  Program program = Program::load(fixture(name)).value();
  Executable oracle = program.compile({.interpret = true}).value(), native = program.compile().value();
  CHECK(native.stats().fallback_steps == 0);
  std::vector<std::string> symbols;
  for (const ArgInfo& in : program.inputs())
    for (const std::string& s : in.sizes)
      if (s[0] == 's' && std::find(symbols.begin(), symbols.end(), s) == symbols.end()) symbols.push_back(s);
  uint64_t code = Executable::pieces_of_code();
  for (auto& size : sizes) {
    REQUIRE(size.size() == symbols.size());
    std::map<std::string, int64_t> values;
    for (size_t i = 0; i < size.size(); i++) values[symbols[i]] = size[i];
    std::vector<Tensor> inputs = inputs_for(program, values);
    auto got = run(native, inputs), want = run(oracle, inputs);
    REQUIRE(got.size() == want.size());
    for (size_t i = 0; i < got.size(); i++)
      CHECK_MESSAGE(difference(got[i], want[i]) == "", "sizes ", size[0], ", output ", i, ": ", difference(got[i], want[i]));
    CHECK_MESSAGE(Executable::pieces_of_code() == code, "code was made for sizes ", size[0]);
  }
}

int64_t some_size(std::mt19937& random, int64_t most) { return static_cast<int64_t>(random() % static_cast<uint32_t>(most)); }

} // namespace

TEST_CASE("sizes never seen: one compile, no code made in calls") {
  uint64_t before = Executable::pieces_of_code();
  compare_unseen("encoder_block", {{1, 1}, {5, 31}, {2, 64}, {3, 65}, {1, 127}, {7, 2}, {13, 16}, {4, 0}, {0, 9}, {16, 3}, {1, 40}});
  CHECK(Executable::pieces_of_code() > before); // compiling counts
  compare_unseen("llama_block", {{1}, {2}, {17}, {31}, {33}, {64}, {100}, {15}});
  compare_unseen("gpt_block", {{1, 1}, {3, 2}, {1, 64}, {2, 33}, {5, 17}});
}

TEST_CASE("matrix products: the kernels of a family of sizes are made ahead") {
  std::mt19937 random(7);
  for (int family = 0; family < 150; family++) {
    MicroKernels kernels;
    Caches caches;
    Workers workers(2);
    int64_t m = random() % 2 ? any_size : 1 + some_size(random, 60), n = random() % 2 ? any_size : 1 + some_size(random, 300);
    bool packed = n != any_size && random() % 2, direct = random() % 2, b_dense = random() % 2, a_dense = random() % 2,
         strides_known = random() % 2;
    int number = packed ? choose_family(kernels.table(), DType::F32, DType::F32, m, n, any_size) : -1;
    float given;
    prepare_matmul(kernels.table(), {.m = m,
                                     .n = n,
                                     .k = any_size,
                                     .a_k = strides_known && a_dense ? 1 : 0,
                                     .packed = packed,
                                     .family = number,
                                     .b_n = strides_known ? (b_dense ? 1 : 5) : 0,
                                     .c = direct ? &given : nullptr});
    uint64_t code = Executable::pieces_of_code();
    int64_t sizes[] = {1, 2, 9, 13, 14, 16, 17, 26, 37, 48, 100, 129, 257};
    for (int call = 0; call < 25; call++) {
      Matmul x{
          .m = m != any_size ? m : sizes[random() % 13], .n = n != any_size ? n : 1 + some_size(random, 300), .k = sizes[random() % 11]};
      x.a_row = a_dense ? x.k : 1, x.a_k = a_dense ? 1 : x.m;
      x.b_n = b_dense ? 1 : 5, x.b_k = b_dense ? x.n : 5 * x.n, x.c_row = x.n, x.packed = packed, x.family = number;
      std::vector<float> a(static_cast<size_t>(x.m * x.k)),
          b(static_cast<size_t>(std::max(x.k * x.n * 5, packed ? packed_b_bytes(kernels.table(), number, x.k, x.n) / 4 : 0))),
          c(static_cast<size_t>(x.m * x.n));
      x.a = a.data(), x.b = b.data(), x.c = direct ? c.data() : nullptr;
      MatmulPlan plan = plan_matmul(kernels.table(), caches, workers.threads(), x);
      std::vector<float> scratch(static_cast<size_t>(plan.worker_bytes() * workers.threads() / 4 + 32));
      void* at = scratch.data();
      size_t space = scratch.size() * 4;
      run_matmul(kernels.table(), workers, plan, x, std::align(64, space - 64, at, space));
      CHECK_MESSAGE(Executable::pieces_of_code() == code, "m ", x.m, " n ", x.n, " k ", x.k, " packed ", packed);
    }
  }
}

static void set_dense_weights(Conv& c) {
  int64_t stride = 1;
  for (int d : {4, 3, 2}) c.weight_strides[d] = stride, stride *= c.window.kernel[d - 2];
  c.weight_strides[1] = stride;
  c.weight_strides[0] = stride * (c.transposed ? c.group_outputs() : c.group_inputs());
}

TEST_CASE("convolutions: the kernels of a family of sizes are made ahead") {
  std::mt19937 random(11);
  for (int family = 0; family < 400; family++) {
    MicroKernels kernels;
    Caches caches;
    Workers workers(2);
    bool depthwise = random() % 2, known = random() % 2;
    Conv c;
    c.in_channels = 1 + some_size(random, 70), c.out_channels = 1 + some_size(random, 70);
    if (depthwise) c.groups = c.in_channels, c.out_channels = c.in_channels * (1 + some_size(random, 2));
    if (depthwise && random() % 4 == 0) c.in_channels *= int64_t{2} << random() % 3, c.out_channels = c.in_channels;
    int64_t kernel = 1 + some_size(random, 7), stride = 1 + some_size(random, 3), pad = kernel / 2;
    for (int d : {1, 2}) c.window.kernel[d] = kernel, c.window.stride[d] = stride, c.window.pad[d] = pad;
    c.transposed = !depthwise && random() % 4 == 0;
    if (random() % 4 == 0) c.in_type = c.weight_type = DType::BF16;
    auto set = [&](int64_t h, int64_t w) {
      c.window.in[1] = h, c.window.in[2] = w;
      for (int d : {1, 2})
        c.window.out[d] =
            c.transposed ? (c.window.in[d] - 1) * stride - 2 * pad + kernel : (c.window.in[d] + 2 * pad - kernel) / stride + 1;
    };
    set(1 + some_size(random, 40), 1 + some_size(random, 150));
    bool direct = random() % 2;
    float given;
    if (direct) c.output = &given;
    if (random() % 4 == 0) c.packed = false, set_dense_weights(c);
    bool three = kernel == 3 && stride == 1 && c.groups == 1 && !c.transposed && c.in_type == DType::F32 && c.packed;
    if (three && random() % 2) c.winograd = true, c.window_weights = &given;
    Conv family_of = c;
    if (!known)
      for (int d : {1, 2}) family_of.window.in[d] = family_of.window.out[d] = any_size;
    prepare_conv(kernels.table(), family_of);
    uint64_t code = Executable::pieces_of_code();
    int64_t given_bytes = c.in_channels * c.out_channels * c.window.positions() * 4;
    std::vector<float> weights(static_cast<size_t>(std::max(packed_conv_bytes(kernels.table(), c), 4 * given_bytes)) / 4 + 4096);
    for (int call = 0; call < (known ? 1 : 8); call++) {
      if (!known) set(1 + some_size(random, 20), 1 + some_size(random, 150));
      c.batch = 1 + some_size(random, 3);
      c.in_pixel = c.in_channels, c.out_pixel = c.out_channels;
      c.in_batch = c.window.in_pixels() * c.in_pixel, c.out_batch = c.window.out_pixels() * c.out_pixel;
      std::vector<float> in(static_cast<size_t>(c.batch * c.in_batch)), out(static_cast<size_t>(c.batch * c.out_batch));
      void* at = weights.data();
      size_t space = weights.size() * 4;
      c.weights = static_cast<float*>(std::align(64, space - 64, at, space));
      if (c.winograd) c.window_weights = c.weights;
      c.input = in.data(), c.output = direct ? out.data() : nullptr;
      ConvPlan plan = plan_conv(kernels.table(), caches, workers.threads(), c);
      std::vector<float> scratch(static_cast<size_t>(plan.scratch_bytes(workers.threads()) / 4 + 32));
      at = scratch.data(), space = scratch.size() * 4;
      run_conv(kernels.table(), workers, plan, c, std::align(64, space - 64, at, space));
      CHECK_MESSAGE(Executable::pieces_of_code() == code, "kernel ", kernel, " stride ", stride, " channels ", c.in_channels, " to ",
                    c.out_channels, ", ", c.window.out[1], "x", c.window.out[2]);
    }
  }
}

TEST_CASE("heights of tiles: those of all blocks that may be left") {
  for (int most = 1; most <= 32; most++)
    for (int64_t rows = 1; rows <= 40 * most; rows += 1 + rows / 50) {
      uint64_t heights = rows > most ? uint64_t{1} << most : 0;
      for (int64_t left = rows; left > 0; left -= rows <= most ? rows : most) {
        Tiles tiles(left, most);
        for (int64_t t = 0; t < tiles.count; t++) heights |= uint64_t{1} << tiles.rows(t);
      }
      CHECK_MESSAGE(tile_heights(rows, most) == heights, rows, " rows, at most ", most);
    }
}

} // namespace tenon::sizes_test
