// Asks the target and the micro-kernels, and times them as reports do (runtime/limits.h).
#include "compile/host.h"

#include <tuple>

#include "codegen/llvm/version.h"
#include "codegen/x86/micro_kernels.h"
#include "runtime/limits.h"

namespace tenon {

namespace {

std::vector<std::string> extensions_of(const Target& t) {
  std::vector<std::string> out;
  auto add = [&](bool has, const char* name) {
    if (has) out.push_back(name);
  };
  add(t.avx512_vnni, "avx512-vnni"), add(t.avx512_bf16, "avx512-bf16"), add(t.avx512_fp16, "avx512-fp16"), add(t.avx_vnni, "avx-vnni");
  add(t.amx_bf16, "amx-bf16"), add(t.amx_int8, "amx-int8");
  return out;
}

/// The first family, which is the best, of products of these types; -1: there is none.
int family_of(const KernelTable& kernels, DType a, DType b) {
  for (size_t i = 0; i < kernels.families().size(); i++)
    if (kernels.families()[i].a == a && kernels.families()[i].b == b) return static_cast<int>(i);
  return -1;
}

} // namespace

Host describe_host() {
  Host host;
  try {
    Target target = host_target(Isa::Auto);
    host.isa = target.avx512() ? "avx512" : "avx2";
    host.extensions = extensions_of(target);
    host.l1_bytes = target.l1_bytes, host.l2_bytes = target.l2_bytes, host.l3_bytes = target.l3_bytes;
    MicroKernels micro(target);
    const KernelTable& kernels = micro.table();
    for (const GemmFamily& f : kernels.families()) host.families.push_back(f.name);
  } catch (const Error& e) {
    host.refused = e.what();
  }
  return host;
}

HostSpeed measure_host(int threads) {
  MicroKernels micro(host_target(Isa::Auto));
  const KernelTable& kernels = micro.table();
  Workers workers(threads);
  HostSpeed speed{.threads = workers.threads(), .peaks = {}};
  std::vector<int> families;
  for (auto& [type, a, b] : {std::tuple{"f32", DType::F32, DType::F32}, {"bf16", DType::BF16, DType::BF16}, {"int8", DType::U8, DType::I8}})
    if (int f = family_of(kernels, a, b); f >= 0) families.push_back(f), speed.peaks.push_back({type, kernels.family(f).name, 0});
  Limits limits = measure_limits(kernels, workers, families);
  for (size_t i = 0; i < families.size(); i++) speed.peaks[i].flops_per_ns = limits.flops_per_ns[static_cast<size_t>(families[i])];
  speed.bytes_per_ns = limits.bytes_per_ns, speed.handover_ns = handover_ns(workers);
  return speed;
}

std::string llvm_version() { return llvm_version_text(); }

} // namespace tenon
