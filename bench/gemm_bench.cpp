// Matrix products: tenon beside OpenBLAS and oneDNN where those are installed.
#include <cstring>
#include <memory>

#include "bench/report.h"
#include "bench/rivals.h"
#include "codegen/x86/micro_kernels.h"
#include "runtime/matmul.h"

namespace tenon::bench {
namespace {

struct Shape {
  int64_t batch, m, n, k;
  bool transposed; // B given as n x k
};
// Square ones, a BERT layer, attention, few rows, a ResNet's last 1x1 convolutions.
constexpr Shape shapes[] = {
    {1, 256, 256, 256, false}, {1, 512, 512, 512, false},  {1, 1024, 1024, 1024, false}, {1, 2048, 2048, 2048, false},
    {1, 128, 768, 768, false}, {1, 128, 3072, 768, false}, {1, 128, 768, 3072, false},   {12, 128, 128, 64, true},
    {12, 128, 64, 128, false}, {12, 512, 512, 64, true},   {12, 512, 64, 512, false},    {1, 1, 4096, 4096, false},
    {1, 4, 4096, 4096, false}, {1, 8, 4096, 4096, false},  {1, 1, 1000, 2048, false},    {1, 16, 1024, 1024, false},
    {1, 49, 512, 2048, false}, {1, 3136, 64, 64, false},   {1, 1000, 7, 1000, false},    {1, 4096, 1, 4096, false},
    {1, 1, 4096, 4096, true},  {1, 4, 1024, 1024, true},   {1, 33, 31, 1000, false},
};

struct Operands {
  Buffer a, b, c;
  explicit Operands(const Shape& s) : a(s.batch * s.m * s.k), b(s.batch * s.k * s.n), c(s.batch * s.m * s.n) {}
};

Work work_of(const Shape& s, Isa isa, int threads) {
  double mn = double(s.m) * double(s.n), mk = double(s.m) * double(s.k), kn = double(s.k) * double(s.n),
         batch = double(s.batch);
  return {2 * batch * mn * double(s.k), 4 * batch * (mn + mk + kn), threads, isa};
}

void tenon_matmul(benchmark::State& state, Shape s, Isa isa, int threads, bool packed) {
  MicroKernels mk(isa);
  Workers workers(threads);
  Operands o(s);
  Matmul m{.batch = {1, s.batch},
           .m = s.m,
           .n = s.n,
           .k = s.k,
           .a = o.a.data(),
           .a_row = s.k,
           .a_batch = {0, s.m * s.k},
           .b = o.b.data(),
           .b_k = s.transposed ? 1 : s.n,
           .b_n = s.transposed ? s.k : 1,
           .b_batch = {0, s.k * s.n},
           .c = o.c.data(),
           .c_row = s.n,
           .c_batch = {0, s.m * s.n}};
  m.family = choose_family(mk.table(), DType::F32, DType::F32, s.m, s.n, s.k);
  int64_t packed_size = packed_b_bytes(mk.table(), m.family, s.k, s.n) / 4;
  Buffer panels(packed ? packed_size * s.batch : 0);
  if (packed) {
    for (int64_t i = 0; i < s.batch; i++)
      pack_b(mk.table(), m.family, s.k, s.n, o.b.data() + i * m.b_batch[1], DType::F32, m.b_k, m.b_n, panels.data() + i * packed_size);
    m.b = panels.data();
    m.packed = true;
    m.b_batch[1] = packed_size * 4;
  }
  MatmulPlan plan = plan_matmul(mk.table(), {}, threads, m);
  Buffer scratch(plan.worker_bytes() * threads / 4);
  run(state, work_of(s, isa, threads), [&] { run_matmul(mk.table(), workers, plan, m, scratch.data()); });
}

void rival_matmul(benchmark::State& state, Shape s, Isa isa, int threads, const Rival& rival) {
  Operands o(s);
  RivalMatmul m{s.batch, s.m, s.n, s.k, s.transposed, o.a.data(), o.b.data(), o.c.data(), threads};
  std::unique_ptr<RivalRun, void (*)(RivalRun*)> prepared(rival.prepare_matmul(m), rival.release);
  run(state, work_of(s, isa, threads), [&] { rival.run(prepared.get()); });
}

} // namespace

void add_gemm_benchmarks(Isa isa, int threads) {
  for (const Shape& s : shapes) {
    std::string name = "matmul/" + std::to_string(s.batch) + "x" + std::to_string(s.m) + "x" + std::to_string(s.n) +
                       "x" + std::to_string(s.k) + (s.transposed ? "t" : "") + "/threads:" + std::to_string(threads);
    const char* mine = isa == Isa::Avx512 ? "tenon" : "tenon-avx2";
    auto add = [](const std::string& n, auto f) {
      benchmark::RegisterBenchmark(n.c_str(), f)->Unit(benchmark::kMicrosecond)->MinTime(0.2);
    };
    add(name + "/" + mine, [=](benchmark::State& st) { tenon_matmul(st, s, isa, threads, false); });
    add(name + "/" + mine + "-packed", [=](benchmark::State& st) { tenon_matmul(st, s, isa, threads, true); });
    if (isa != resolve_isa(Isa::Auto)) continue;
    for (const Rival& r : rivals())
      if (r.prepare_matmul)
        add(name + "/" + r.name, [=](benchmark::State& st) { rival_matmul(st, s, isa, threads, r); });
  }
}

} // namespace tenon::bench
