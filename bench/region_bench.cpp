// Fused regions: small graphs through the whole line, from the operators torch.export writes to the plan. Each moves its
// inputs and outputs once at best, so the copy bandwidth for the same footprint is the yardstick.
#include "api/impl.h"
#include "bench/report.h"
#include "bench/rivals.h"
#include "compile/compile.h"
#include "ir/builder.h"

namespace tenon::bench {
namespace {

struct Region {
  const char* name;
  std::vector<int64_t> sizes; // of the input
  V (*build)(Builder& b, V x);
};

V gelu(Builder& b, V x) { return b.call1("aten::gelu.default", {x}); }
V gelu_chain(Builder& b, V x) {
  return b.call1("aten::mul.Tensor", {b.call1("aten::gelu.default", {b.call1("aten::add.Scalar", {x, 0.5})}), x});
}
V softmax(Builder& b, V x) { return b.call1("aten::softmax.int", {x, -1}); }
V layer_norm(Builder& b, V x) { return b.call1("aten::layer_norm.default", {x, Arg(ArgList{x.size(-1)})}); }
V sum0(Builder& b, V x) { return b.sum(x, {0}, false); }
V sum1(Builder& b, V x) { return b.sum(x, {1}, false); }
V max1(Builder& b, V x) { return b.call1("aten::amax.default", {x, Arg{1}}); }
V transpose(Builder& b, V x) { return b.call1("aten::clone.default", {b.transpose(x, 0, 1)}); }
V copy(Builder& b, V x) { return b.call1("aten::mul.Scalar", {x, 2.0}); }

// Once within L2 of one core, once beyond the caches.
const Region regions[] = {
    {"scale", {128, 768}, copy},
    {"scale", {8192, 4096}, copy},
    {"gelu", {128, 3072}, gelu},
    {"gelu", {4096, 4096}, gelu},
    {"add_gelu_mul", {128, 3072}, gelu_chain},
    {"add_gelu_mul", {4096, 4096}, gelu_chain},
    {"softmax", {1536, 128}, softmax},
    {"softmax", {8192, 1024}, softmax},
    {"softmax", {1024, 1001}, softmax},
    {"layer_norm", {128, 768}, layer_norm},
    {"layer_norm", {8192, 1024}, layer_norm},
    {"sum_dim0", {768, 128}, sum0},
    {"sum_dim0", {4096, 4096}, sum0},
    {"sum_dim1", {128, 768}, sum1},
    {"sum_dim1", {4096, 4096}, sum1},
    {"amax_dim1", {4096, 4096}, max1},
    {"transpose", {256, 384}, transpose},
    {"transpose", {4096, 4096}, transpose},
    {"transpose", {4097, 1023}, transpose},
};

LoadedProgram program_of(const Region& r) {
  LoadedProgram p;
  p.name = r.name;
  Graph& g = p.graph;
  std::vector<Expr> sizes;
  for (int64_t s : r.sizes) sizes.push_back(g.pool().integer(s));
  ValueId x = g.add_param(g.top(), Type::tensor(DType::F32, sizes), "x");
  p.inputs.push_back({.kind = InputKind::User, .name = "x", .target = {}, .value = x});
  Builder b(g, g.top(), false);
  g.block(g.top()).returns.push_back(Arg(r.build(b, b.wrap(x)).id));
  p.outputs.push_back({.kind = OutputKind::User});
  lower(p, "backend");
  return p;
}

void run_region(benchmark::State& state, const Region& r, Isa isa, int threads) {
  LoadedProgram program = program_of(r);
  Options options{.threads = threads, .isa = isa};
  Compiled compiled = build_plan(std::move(program), options);
  PlanRunner runner(compiled.plan, Workers(threads));
  int64_t n = r.sizes[0] * r.sizes[1];
  Buffer x(n);
  TensorView view{DType::F32, x.data(), r.sizes, {}};
  std::vector<Tensor> outputs;
  runner.run({&view, 1}, outputs).check();
  Work work{0, 4.0 * static_cast<double>(n + outputs[0].numel()), threads, isa};
  run(state, work, [&] { runner.run({&view, 1}, outputs).check(); });
}

} // namespace

void add_region_benchmarks(Isa isa, int threads) {
  for (const Region& r : regions) {
    std::string name = std::string("region/") + r.name + "/" + std::to_string(r.sizes[0]) + "x" + std::to_string(r.sizes[1]) +
                       "/threads:" + std::to_string(threads);
    benchmark::RegisterBenchmark(name.c_str(), [=, &r](benchmark::State& st) { run_region(st, r, isa, threads); })
        ->Unit(benchmark::kMicrosecond)
        ->MinTime(0.2);
  }
}

} // namespace tenon::bench
