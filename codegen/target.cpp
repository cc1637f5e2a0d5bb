#include "codegen/target.h"

#include <cpuid.h>
#include <unistd.h>

#include <vector>

#include <fmt/ranges.h>

#include "base/check.h"

namespace tenon {
namespace {

bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c") &&
         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("lzcnt");
}

bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

// Bits of CPUID leaf 7 that compilers spell differently or not at all.
struct Leaf7 {
  unsigned ecx0 = 0, edx0 = 0, eax1 = 0;
  Leaf7() {
    unsigned a = 0, b, c, d;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) ecx0 = c, edx0 = d;
    if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) eax1 = a;
  }
  static bool bit(unsigned word, int i) { return word >> i & 1; }
};

// The operating system saves AMX tile registers (XCR0 bits 17 and 18).
bool os_saves_tiles() {
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c >> 27 & 1)) return false;
  unsigned lo, hi;
  asm("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
  return (lo & 0x60000) == 0x60000;
}

/// Of a data cache as one core sees it: the C library gives the sum of all last caches of a processor on some.
size_t cache_bytes(unsigned level, size_t otherwise) {
  unsigned leaf = __builtin_cpu_is("amd") ? 0x8000001d : 4, a, b, c, d;
  for (unsigned i = 0; i < 16 && __get_cpuid_count(leaf, i, &a, &b, &c, &d) && (a & 31) != 0; i++) {
    bool holds_data = (a & 31) != 2;
    if (holds_data && (a >> 5 & 7) == level)
      return (size_t{b >> 22} + 1) * ((b >> 12 & 1023) + 1) * ((b & 4095) + 1) * (size_t{c} + 1); // ways, partitions, line, sets
  }
  long n = sysconf(level == 1 ? _SC_LEVEL1_DCACHE_SIZE : level == 2 ? _SC_LEVEL2_CACHE_SIZE : _SC_LEVEL3_CACHE_SIZE);
  return n > 0 ? static_cast<size_t>(n) : otherwise;
}

// AVX-512 in halves; compilers that are older than it have no name for it.
bool is_zen4() {
  unsigned a = 0, b, c, d;
  __get_cpuid(1, &a, &b, &c, &d);
  return __builtin_cpu_is("amd") && (a >> 8 & 15) + (a >> 20 & 255) == 0x19;
}

Extensions extensions_of_host(bool avx512) {
  Leaf7 leaf;
  Extensions e;
  e.amd = __builtin_cpu_is("amd");
  e.avx_vnni = Leaf7::bit(leaf.eax1, 4);
  if (!avx512) return e;
  e.avx512_vnni = Leaf7::bit(leaf.ecx0, 11);
  e.avx512_bf16 = Leaf7::bit(leaf.eax1, 5);
  e.avx512_fp16 = Leaf7::bit(leaf.edx0, 23);
  e.avx512_vbmi = Leaf7::bit(leaf.ecx0, 1);
  e.zen4 = is_zen4();
  if (os_saves_tiles()) {
    e.amx_bf16 = Leaf7::bit(leaf.edx0, 22);
    e.amx_int8 = Leaf7::bit(leaf.edx0, 25);
  }
  return e;
}

} // namespace

Target target_of(Isa level, const Extensions& has) {
  Target t;
  std::vector<std::string_view> features;
  auto add = [&](bool is, std::string_view feature) {
    if (is) features.push_back(feature);
  };
  t.isa = level;
  t.cpu = "x86-64-v3";
  if (t.avx512()) {
    t.vector_bits = 512;
    t.cpu = "x86-64-v4";
    t.avx512_vnni = has.avx512_vnni, t.avx512_bf16 = has.avx512_bf16, t.avx512_fp16 = has.avx512_fp16;
    t.amx_bf16 = has.amx_bf16, t.amx_int8 = has.amx_int8;
    t.fast_bf16 = has.avx512_bf16 && has.amd;
    t.halves_loads = has.zen4;
    add(has.avx512_vnni, "+avx512vnni"), add(has.avx512_bf16, "+avx512bf16"), add(has.avx512_vbmi, "+avx512vbmi");
    add(true, "-prefer-256-bit");
  }
  t.avx_vnni = has.avx_vnni;
  t.slow_gather = has.amd;
  add(has.avx_vnni, "+avxvnni"), add(has.amd, "+prefer-no-gather");
  t.features = fmt::format("{}", fmt::join(features, ","));
  return t;
}

Target host_target(Isa requested) {
  if (!has_avx2()) unsupported("this CPU lacks AVX2, FMA or F16C, which tenon needs");
  if (requested == Isa::Avx512 && !has_avx512()) unsupported("this CPU lacks AVX-512 (F, CD, BW, DQ, VL)");
  bool avx512 = requested != Isa::Avx2 && has_avx512();
  Target t = target_of(avx512 ? Isa::Avx512 : Isa::Avx2, extensions_of_host(avx512));
  t.l1_bytes = cache_bytes(1, 32 << 10);
  t.l2_bytes = cache_bytes(2, 512 << 10);
  t.l3_bytes = cache_bytes(3, 8 << 20);
  return t;
}

std::string describe(const Target& t) {
  return fmt::format("{} {}, {} bits{}{}{}{}{}{}{}{}", t.cpu, t.features, t.vector_bits, t.avx512_bf16 ? ", bf16" : "",
                     t.avx512_vnni ? ", vnni" : "", t.avx512_fp16 ? ", fp16" : "", t.avx_vnni ? ", avx_vnni" : "",
                     t.slow_gather ? ", slow gather" : "", t.halves_loads ? ", loads by halves" : "", t.amx_bf16 ? ", amx bf16" : "",
                     t.amx_int8 ? ", amx int8" : "");
}

} // namespace tenon
