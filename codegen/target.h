// The machine that code is generated for, as a value: instruction level, optional extensions, caches. Found once per
// executable; everything behind it (LLVM, the assembler kernels, the schedule) asks this struct, never the CPU.
#pragma once
#include <cstddef>
#include <string>

#include "tenon/options.h"

namespace tenon {

struct Target {
  Isa isa = Isa::Avx2;   // Avx2 (with FMA, F16C, BMI2) or Avx512 (F, CD, BW, DQ, VL); never Auto
  int vector_bits = 256; // of one full register
  bool avx512_bf16 = false, avx512_vnni = false, avx512_fp16 = false;
  bool avx_vnni = false;
  bool fast_bf16 = false;    // vdpbf16ps issues at the rate of a multiply-add: on AMD; Intel's takes two cycles and two ports
  bool halves_loads = false; // a core reads memory faster by half registers: AMD Zen 4, which computes by halves too
  bool slow_gather = false;  // loads lane by lane take less time than a gather instruction
  bool amx_bf16 = false, amx_int8 = false;
  std::string cpu;                                 // LLVM's name of the level
  std::string features;                            // LLVM's feature string: what is known beyond `cpu`
  size_t l1_bytes = 0, l2_bytes = 0, l3_bytes = 0; // data caches; L1 and L2 of one core, L3 as the core sees it

  bool avx512() const { return isa == Isa::Avx512; }
  /// Elements of `bytes` bytes in one register.
  int lanes(int bytes) const { return vector_bits / 8 / bytes; }
};

/// What machines of a level may have besides.
struct Extensions {
  bool avx512_bf16 = false, avx512_vnni = false, avx512_fp16 = false, avx512_vbmi = false, avx_vnni = false;
  bool amx_bf16 = false, amx_int8 = false;
  bool amd = false, zen4 = false;
};
/// Of any machine, this one or not; caches of unknown size.
Target target_of(Isa level, const Extensions& has);

/// The machine this process runs on, restricted to `requested`: Isa::Avx2 hides everything of AVX-512 and AMX. Throws
/// Error(Unsupported) where the CPU lacks the requested level, or AVX2 and FMA at all.
Target host_target(Isa requested);

/// All of a target that generated code depends on.
std::string describe(const Target& target);

} // namespace tenon
