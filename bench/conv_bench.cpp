// Convolutions of common networks: tenon beside oneDNN where it is installed.
#include <memory>
#include <string>

#include "bench/report.h"
#include "bench/rivals.h"
#include "codegen/x86/micro_kernels.h"
#include "runtime/conv.h"

namespace tenon::bench {
namespace {

struct Shape {
  int64_t size, in, out, kernel, stride, groups;
};
// ResNet-50: stem, 3x3 of each stage, 1x1 with and without stride; MobileNet and EfficientNet: depthwise; ConvNeXt:
// 7x7.
constexpr Shape shapes[] = {
    {224, 3, 64, 7, 2, 1},   {56, 64, 64, 3, 1, 1},     {28, 128, 128, 3, 1, 1},   {14, 256, 256, 3, 1, 1},  {7, 512, 512, 3, 1, 1},
    {56, 128, 128, 3, 2, 1}, {14, 512, 512, 3, 2, 1},   {56, 64, 256, 1, 1, 1},    {56, 256, 64, 1, 1, 1},   {14, 1024, 256, 1, 1, 1},
    {7, 2048, 512, 1, 1, 1}, {56, 256, 512, 1, 2, 1},   {224, 3, 32, 3, 2, 1},     {56, 128, 128, 3, 1, 32}, {112, 32, 32, 3, 1, 32},
    {112, 64, 64, 3, 2, 64}, {56, 128, 128, 3, 1, 128}, {14, 512, 512, 3, 1, 512}, {7, 960, 960, 5, 1, 960}, {14, 480, 480, 5, 1, 480},
    {56, 96, 96, 7, 1, 96},  {14, 384, 384, 7, 1, 384},
};

struct Operands {
  Buffer input, weights, bias, output;
  int64_t out_size;
  explicit Operands(const Shape& s)
      : input(s.size * s.size * s.in), weights(s.out * s.in / s.groups * s.kernel * s.kernel), bias(s.out), output(s.size * s.size * s.out),
        out_size((s.size + s.kernel / 2 * 2 - s.kernel) / s.stride + 1) {}
};

Work work_of(const Shape& s, int64_t out_size, Isa isa, int threads) {
  double weights = static_cast<double>(s.out * s.in / s.groups * s.kernel * s.kernel);
  double out = static_cast<double>(out_size * out_size), in = static_cast<double>(s.size * s.size * s.in);
  return {2 * out * weights, 4 * (in + weights + out * static_cast<double>(s.out)), threads, isa};
}

void tenon_conv(benchmark::State& state, Shape s, Isa isa, int threads) {
  MicroKernels mk(isa);
  Workers workers(threads);
  Operands o(s);
  int64_t pad = s.kernel / 2, area = s.kernel * s.kernel, n = o.out_size;
  Conv c{.window = {.in = {1, s.size, s.size},
                    .out = {1, n, n},
                    .kernel = {1, s.kernel, s.kernel},
                    .stride = {1, s.stride, s.stride},
                    .pad = {0, pad, pad}},
         .groups = s.groups,
         .in_channels = s.in,
         .out_channels = s.out,
         .input = o.input.data(),
         .in_pixel = s.in,
         .in_batch = s.size * s.size * s.in,
         .weights = o.weights.data(),
         .packed = false,
         .weight_strides = {s.in / s.groups * area, area, area, s.kernel, 1},
         .output = o.output.data(),
         .out_pixel = s.out,
         .out_batch = n * n * s.out};
  Buffer packed(packed_conv_bytes(mk.table(), c) / 4);
  pack_conv(mk.table(), workers, c, packed.data());
  c.weights = packed.data();
  c.packed = true;
  ConvPlan plan = plan_conv(mk.table(), {}, threads, c);
  Buffer scratch(plan.scratch_bytes(threads) / 4);
  run(state, work_of(s, n, isa, threads), [&] { run_conv(mk.table(), workers, plan, c, scratch.data()); });
}

void rival_conv(benchmark::State& state, Shape s, Isa isa, int threads, const Rival& rival) {
  Operands o(s);
  RivalConv c{1,        s.size,   s.size,       o.out_size,     o.out_size,       s.in,          s.out,           s.groups,
              s.kernel, s.stride, s.kernel / 2, o.input.data(), o.weights.data(), o.bias.data(), o.output.data(), threads};
  std::unique_ptr<RivalRun, void (*)(RivalRun*)> prepared(rival.prepare_conv(c), rival.release);
  run(state, work_of(s, o.out_size, isa, threads), [&] { rival.run(prepared.get()); });
}

} // namespace

void add_conv_benchmarks(Isa isa, int threads) {
  for (const Shape& s : shapes) {
    std::string name = "conv/" + std::to_string(s.size) + "x" + std::to_string(s.in) + "-" + std::to_string(s.out) + "k" +
                       std::to_string(s.kernel) + "s" + std::to_string(s.stride) + "g" + std::to_string(s.groups) +
                       "/threads:" + std::to_string(threads);
    auto add = [](const std::string& n, auto f) {
      benchmark::RegisterBenchmark(n.c_str(), f)->Unit(benchmark::kMicrosecond)->MinTime(0.2);
    };
    add(name + "/tenon", [=](benchmark::State& st) { tenon_conv(st, s, isa, threads); });
    for (const Rival& r : rivals())
      if (r.prepare_conv) add(name + "/" + r.name, [=](benchmark::State& st) { rival_conv(st, s, isa, threads, r); });
  }
}

} // namespace tenon::bench
