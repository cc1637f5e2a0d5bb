// The cache of generated micro-kernels and the table of their rows.
#include "codegen/x86/micro_kernels.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <mutex>

#include "base/check.h"
#include "codegen/x86/code_memory.h"
#include "codegen/x86/depthwise.h"
#include "codegen/x86/gemm.h"
#include "codegen/x86/gemm_dot.h"
#include "codegen/x86/gemm_held.h"
#include "codegen/x86/gemm_tiles.h"
#include "codegen/x86/gemm_woven.h"
#include "codegen/x86/pack.h"

namespace tenon {

struct MicroKernels::State {
  explicit State(const Target& target) : isa(target.isa), table(make_table(target)) {
    for (const DepthwiseTile& t : depthwise_tiles())
      if (t.isa == isa) table.set_depthwise_rows(t.vectors, t.group, t.rows);
    table.set_dots_lines(std::any_of(rows.begin(), rows.end(), [](auto* row) { return row->arithmetic == Arithmetic::BF16Dot; }));
  }

  KernelTable make_table(const Target& target) {
    for (const GemmFamilyRow& r : gemm_families())
      if (r.available(target)) rows.push_back(&r);
    std::vector<GemmFamily> families;
    for (const GemmFamilyRow* r : rows) families.push_back(r->family);
    bool tiles = std::any_of(families.begin(), families.end(), [](auto& f) { return f.is_tiled(); });
    KernelTable::Source source{this, generate_gemm, generate_lines, generate, nullptr, nullptr};
    if (tiles) {
      source.begin_tiles = reinterpret_cast<void (*)()>(emit_begin_tiles(memory));
      source.end_tiles = reinterpret_cast<void (*)()>(emit_end_tiles(memory));
    }
    return {isa == Isa::Avx512 ? 16 : 8, std::move(families), source};
  }

  /// These run once per kernel. Running out of executable memory ends the process: nothing could go on without the
  /// kernel.
  static void generate_gemm(void* self, GemmKey key, uint64_t heights, GemmFn* to) noexcept {
    State& s = *static_cast<State*>(self);
    const GemmFamilyRow& row = *s.rows.at(static_cast<size_t>(key.family));
    std::lock_guard lock(s.mutex);
    key.rows = 0;
    TilesByRows& kernels = s.gemm[key];
    for (; heights; heights &= heights - 1) {
      key.rows = std::countr_zero(heights);
      void*& kernel = kernels[static_cast<size_t>(key.rows)];
      if (!kernel) {
        kernel = emit_gemm(s.memory, row, key);
        s.name([&] { return fmt::format("gemm.{}.{}x{}", row.family.name, key.rows, key.vectors); });
      }
      to[key.rows] = reinterpret_cast<GemmFn>(kernel);
    }
  }
  static LineFn generate_lines(void* self, const LineKey& key) noexcept {
    State& s = *static_cast<State*>(self);
    std::lock_guard lock(s.mutex);
    void*& kernel = s.lines[key];
    if (!kernel) {
      kernel = emit_lines(s.memory, s.isa, key);
      s.name([&] { return fmt::format("lines.{}x{}", key.rows, key.vectors); });
    }
    return reinterpret_cast<LineFn>(kernel);
  }
  static void* generate(void* self, int index) noexcept {
    State& s = *static_cast<State*>(self);
    std::lock_guard lock(s.mutex);
    void*& kernel = s.others[static_cast<size_t>(index)];
    if (!kernel) {
      kernel = s.emit(index);
      s.name([&] { return fmt::format("micro_kernel.{}", index); });
    }
    return kernel;
  }
  template <class F> void name(const F& text) {
    if (CodeNames::wanted()) memory.name_last(text());
  }
  void* emit(int index) {
    using T = KernelTable;
    if (index < T::plane_base) return emit_depthwise(memory, isa, T::depthwise_shape(index));
    if (index < T::copy_base) return emit_plane(memory, isa, T::plane_shape(index - T::plane_base));
    if (index < T::transpose_index) return emit_copy(memory, isa, index - T::copy_base + 1);
    if (index == T::transpose_index) return emit_transpose(memory, isa);
    return emit_convert(memory, isa, static_cast<Conversion>(index - T::convert_base));
  }

  Isa isa;
  CodeMemory memory;
  std::mutex mutex;
  std::vector<const GemmFamilyRow*> rows; // as the table's families
  using TilesByRows = std::array<void*, GemmFamily::max_rows + 1>;
  std::map<GemmKey, TilesByRows> gemm; // by keys without rows
  std::map<LineKey, void*> lines;
  std::array<void*, KernelTable::size> others{};
  KernelTable table;
};

MicroKernels::MicroKernels(const Target& target) : state_(std::make_unique<State>(target)) {}
MicroKernels::~MicroKernels() = default;
Isa MicroKernels::isa() const { return state_->isa; }
const KernelTable& MicroKernels::table() const { return state_->table; }

Isa resolve_isa(Isa isa) {
  bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
                __builtin_cpu_supports("avx512vl");
  require_input(isa == Isa::Avx512 ? avx512 : avx2, "this CPU lacks {}", isa == Isa::Avx512 ? "AVX-512" : "AVX2 with FMA");
  if (isa == Isa::Auto) return avx512 ? Isa::Avx512 : Isa::Avx2;
  return isa;
}

namespace {

// Features in kernels.inc. Those of one instruction set's vectors ask for exactly that set: the other has rows of its own.
struct AmxBf16 {
  static constexpr Isa isa = Isa::Avx512;
  static bool in(const Target& t) { return t.avx512() && t.amx_bf16 && tiles_permitted(); }
};
struct AmxInt8 {
  static constexpr Isa isa = Isa::Avx512;
  static bool in(const Target& t) { return t.avx512() && t.amx_int8 && tiles_permitted(); }
};
struct FastBf16 { // where vdpbf16ps is as fast as a multiply-add
  static constexpr Isa isa = Isa::Avx512;
  static bool in(const Target& t) { return t.avx512() && t.avx512_bf16 && t.fast_bf16; }
};
struct Avx512Vnni {
  static constexpr Isa isa = Isa::Avx512;
  static bool in(const Target& t) { return t.avx512() && t.avx512_vnni; }
};
struct Avx512 {
  static constexpr Isa isa = Isa::Avx512;
  static bool in(const Target& t) { return t.avx512(); }
};
struct HalfAvx512 { // beside the wide vectors, for convolutions of few channels
  static constexpr Isa isa = Isa::Avx2;
  static bool in(const Target& t) { return t.avx512(); }
};
struct AvxVnni {
  static constexpr Isa isa = Isa::Avx2;
  static bool in(const Target& t) { return !t.avx512() && t.avx_vnni; }
};
struct Avx2 {
  static constexpr Isa isa = Isa::Avx2;
  static bool in(const Target& t) { return !t.avx512(); }
};

struct Tile {
  bool tiled, wide;
  int rows, vectors;
};

/// Elements narrower than sums are read in place through masks of AVX-512.
uint8_t rows_in_place(const GemmFamilyRow& r, int vectors) {
  const GemmFamily& f = r.family;
  if (f.is_tiled() || (r.isa != Isa::Avx512 && f.b != f.sum)) return 0;
  int rows = f.group == 1 ? f.rows[static_cast<size_t>(vectors)] : 0;
  if (f.group == 1 && vectors == 1)
    while (gemm_fits(r, rows + 1, 1, GemmKind::InPlace)) rows++;
  while (f.group > 1 && woven_gemm_fits(r, rows + 1, vectors)) rows++;
  return static_cast<uint8_t>(rows);
}
uint8_t packing_rows(const GemmFamilyRow& r, int vectors) {
  const GemmFamily& f = r.family;
  if (f.group == 1) return static_cast<uint8_t>(f.b == f.sum && f.reads_in_place() ? most_packing_rows : 0);
  int rows = 0;
  while (woven_gemm_fits(r, rows + 1, vectors, GemmKind::Packing)) rows++;
  return static_cast<uint8_t>(rows);
}

std::vector<GemmFamilyRow> make_families() {
  constexpr Tile tiles[] = {
#define Wide false, true
#define Narrow false, false
#define Tile true, true
#define GEMM_FAMILY(...)
#define GEMM(kind, rows, vectors) {kind, rows, vectors},
#define DEPTHWISE_F32(...)
#include "codegen/x86/kernels.inc"
#undef Wide
#undef Narrow
#undef Tile
#undef GEMM
#undef GEMM_FAMILY
  };
#define GEMM(...)
#define GEMM_FAMILY(name, feature, a, b, sum, group, k_step, row_step, speed, arithmetic)                                                  \
  {{#name, DType::a, DType::b, DType::sum, 0, group, k_step, row_step, speed}, feature::isa, feature::in, Arithmetic::arithmetic},
  std::vector<GemmFamilyRow> families{
#include "codegen/x86/kernels.inc"
  };
#undef GEMM
#undef GEMM_FAMILY
#undef DEPTHWISE_F32
  for (GemmFamilyRow& r : families) {
    GemmFamily& f = r.family;
    bool wide = r.isa == Isa::Avx512;
    f.compensated = r.arithmetic == Arithmetic::I8I8Dot;
    f.lanes = (wide ? 64 : 32) / static_cast<int>(size_of(f.sum));
    for (const auto& t : tiles) {
      if (t.tiled != f.is_tiled() || t.wide != wide) continue;
      int rows = t.rows;
      while (rows > 0 && !gemm_fits(r, rows, t.vectors)) rows--;
      f.rows[static_cast<size_t>(t.vectors)] = static_cast<uint8_t>(rows);
    }
    f.ahead_k = f.is_tiled() ? 0 : least_unroll * f.group;
    f.embeds = (wide || r.available == HalfAvx512::in) && !f.is_tiled() && (f.group == 1 || r.arithmetic == Arithmetic::BF16Dot);
    f.held = held_vectors(r);
    f.reads_rest = wide && !f.is_tiled() && f.group > 1;
    for (int vectors = 1; vectors <= GemmFamily::max_vectors; vectors++)
      f.in_place_rows[static_cast<size_t>(vectors)] = rows_in_place(r, vectors);
    for (int vectors = 1; vectors <= GemmFamily::max_vectors; vectors++)
      f.packing_rows[static_cast<size_t>(vectors)] = packing_rows(r, vectors);
    for (int columns = 1; columns <= GemmFamily::row_dot_columns; columns++)
      while (dot_gemm_fits(r, f.dot_rows[static_cast<size_t>(columns)] + 1, columns)) f.dot_rows[static_cast<size_t>(columns)]++;
  }
  return families;
}

} // namespace

std::span<const GemmFamilyRow> gemm_families() {
  static const std::vector<GemmFamilyRow> families = make_families();
  return families;
}

std::span<const DepthwiseTile> depthwise_tiles() {
  static constexpr DepthwiseTile tiles[] = {
#define GEMM(...)
#define GEMM_FAMILY(...)
#define DEPTHWISE_F32(name, isa, rows, vectors, group) {#name, Isa::isa, rows, vectors, group},
#include "codegen/x86/kernels.inc"
#undef DEPTHWISE_F32
#undef GEMM_FAMILY
#undef GEMM
  };
  return tiles;
}

} // namespace tenon
