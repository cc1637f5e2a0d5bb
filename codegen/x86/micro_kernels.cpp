// The cache of generated micro-kernels and the table of their names.
#include "codegen/x86/micro_kernels.h"

#include <iterator>
#include <mutex>

#include "base/check.h"
#include "codegen/x86/code_memory.h"
#include "codegen/x86/depthwise.h"
#include "codegen/x86/gemm.h"
#include "codegen/x86/pack.h"

namespace tenon {

/// Address space for all kernels of one instruction set: about 1500 can exist, of 4 to 16 KB, and few do.
static constexpr size_t code_bytes = size_t{16} << 20;

struct MicroKernels::State {
  explicit State(Isa i) : isa(i), memory(code_bytes), table(isa == Isa::Avx512 ? 16 : 8, generate, this) {
    int count;
    const RegisterTile* tiles = gemm_tiles(count);
    for (int t = 0; t < count; t++)
      if (tiles[t].isa == isa) table.set_gemm_rows(tiles[t].vectors, tiles[t].rows);
    tiles = depthwise_tiles(count);
    for (int t = 0; t < count; t++)
      if (tiles[t].isa == isa) table.set_depthwise_rows(tiles[t].vectors, tiles[t].rows);
  }

  /// Runs once per kernel. Running out of executable memory ends the process: nothing could go on without the kernel.
  static void* generate(void* self, int index) noexcept {
    State& s = *static_cast<State*>(self);
    std::lock_guard lock(s.mutex);
    void*& kernel = s.made[static_cast<size_t>(index)];
    if (!kernel) kernel = s.emit(index);
    return kernel;
  }
  void* emit(int index) {
    if (index < KernelTable::copy_base) return emit_gemm(memory, isa, KernelTable::gemm_shape(index));
    if (index < KernelTable::transpose_index) return emit_copy(memory, isa, index - KernelTable::copy_base + 1);
    if (index == KernelTable::transpose_index) return emit_transpose(memory, isa);
    if (index < KernelTable::plane_base)
      return emit_depthwise(memory, isa, KernelTable::gemm_shape((index - KernelTable::depthwise_base) * 4));
    return emit_plane(memory, isa, KernelTable::plane_shape(index - KernelTable::plane_base));
  }

  Isa isa;
  CodeMemory memory;
  std::mutex mutex;
  std::array<void*, KernelTable::size> made{};
  KernelTable table;
};

MicroKernels::MicroKernels(Isa isa) : state_(std::make_unique<State>(resolve_isa(isa))) {}
MicroKernels::~MicroKernels() = default;
Isa MicroKernels::isa() const { return state_->isa; }
const KernelTable& MicroKernels::table() const { return state_->table; }

Isa resolve_isa(Isa isa) {
  bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  require_input(isa == Isa::Avx512 ? avx512 : avx2, "this CPU lacks {}",
                isa == Isa::Avx512 ? "AVX-512" : "AVX2 with FMA");
  if (isa == Isa::Auto) return avx512 ? Isa::Avx512 : Isa::Avx2;
  return isa;
}

#define KERNEL_TILE(name, isa, rows, vectors) {#name, Isa::isa, rows, vectors},
const RegisterTile* gemm_tiles(int& count) {
  static constexpr RegisterTile tiles[] = {
#define GEMM_F32 KERNEL_TILE
#define DEPTHWISE_F32(...)
#include "codegen/x86/kernels.inc"
#undef DEPTHWISE_F32
#undef GEMM_F32
  };
  count = static_cast<int>(std::size(tiles));
  return tiles;
}

const RegisterTile* depthwise_tiles(int& count) {
  static constexpr RegisterTile tiles[] = {
#define GEMM_F32(...)
#define DEPTHWISE_F32 KERNEL_TILE
#include "codegen/x86/kernels.inc"
#undef DEPTHWISE_F32
#undef GEMM_F32
  };
  count = static_cast<int>(std::size(tiles));
  return tiles;
}

} // namespace tenon
