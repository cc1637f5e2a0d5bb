// Matrix kernels on tile registers, emulated: what drivers do for them is tested on machines without. The movers are the host's.
#pragma once
#include <bit>
#include <cstring>

#include "base/numeric.h"
#include "codegen/x86/micro_kernels.h"

namespace tenon::test {

class EmulatedTiles {
public:
  EmulatedTiles() : table_(host_.table().lanes(), families(), {this, gemm, lines, other, [] {}, [] {}}) {}
  EmulatedTiles(const EmulatedTiles&) = delete;
  const KernelTable& table() const { return table_; }

private:
  static constexpr int tile = 16;

  static std::vector<GemmFamily> families() {
    auto family = [](const char* name, DType a, DType b, DType sum, int group, int k_step, double speed) {
      GemmFamily f{
          .name = name, .a = a, .b = b, .sum = sum, .lanes = tile, .group = group, .k_step = k_step, .row_step = tile, .speed = speed};
      f.rows[1] = f.rows[2] = 32, f.rows[3] = f.rows[4] = 16;
      return f;
    };
    return {family("bf16 tiles", DType::BF16, DType::BF16, DType::F32, 2, 32, 512),
            family("u8i8 tiles", DType::U8, DType::I8, DType::I32, 4, 64, 1024),
            family("i8 tiles", DType::I8, DType::I8, DType::I32, 4, 64, 1024)};
  }

  /// The sum of a group of k: A's row, B's column.
  template <class A, class B, class Sum> static Sum dot(const char* a, const char* b) {
    constexpr int group = 4 / static_cast<int>(sizeof(A));
    Sum sum = 0;
    for (int k = 0; k < group; k++) {
      A x;
      B y;
      std::memcpy(&x, a + k * static_cast<int>(sizeof(A)), sizeof x);
      std::memcpy(&y, b + k * static_cast<int>(sizeof(B)), sizeof y);
      sum += convert<Sum>(x) * convert<Sum>(y);
    }
    return sum;
  }

  template <class A, class B, class Sum, int Groups, int Vectors> static void kernel(GemmArgs* g) {
    while (true) {
      one_tile<A, B, Sum, Groups, Vectors>(*g);
      if (--g->tiles <= 0) return;
      g->first += g->next_a;
      g->b = static_cast<const char*>(g->b) + g->next_b, g->c = static_cast<char*>(g->c) + g->next_c;
    }
  }
  template <class A, class B, class Sum, int Groups, int Vectors> static void one_tile(const GemmArgs& g) {
    Sum sums[Groups * tile][Vectors * tile] = {};
    for (int i = 0; i < Groups * tile; i++)
      if (g.mode == GemmInit::C) std::memcpy(sums[i], static_cast<char*>(g.c) + i * g.c_stride, sizeof sums[i]);
    const char* b = static_cast<const char*>(g.b);
    for (int64_t p = 0; p < g.positions; p++, b += g.depth * Vectors * tile * 4) {
      const void* const* rows = g.rows + p * Groups;
      for (int i = 0; i < Groups * tile && rows[0]; i++) {
        const char* a = static_cast<const char*>(rows[i / tile]) + g.first + i % tile * g.a_stride;
        for (int64_t k = 0; k < g.depth / tile * tile; k++)
          for (int j = 0; j < Vectors * tile; j++) sums[i][j] += dot<A, B, Sum>(a + k * 4, b + (k * Vectors * tile + j) * 4);
      }
    }
    for (int i = 0; i < Groups * tile; i++) std::memcpy(static_cast<char*>(g.c) + i * g.c_stride, sums[i], sizeof sums[i]);
  }

  template <class A, class B, class Sum> static GemmFn of(const GemmKey& key) {
    static constexpr GemmFn kernels[2][4] = {
        {kernel<A, B, Sum, 1, 1>, kernel<A, B, Sum, 1, 2>, kernel<A, B, Sum, 1, 3>, kernel<A, B, Sum, 1, 4>},
        {kernel<A, B, Sum, 2, 1>, kernel<A, B, Sum, 2, 2>, nullptr, nullptr}};
    return kernels[key.rows / tile - 1][key.vectors - 1];
  }
  static GemmFn kernel_of(const GemmKey& key) noexcept {
    if (key.family == 0) return of<BF16, BF16, float>(key);
    return key.family == 1 ? of<uint8_t, int8_t, int32_t>(key) : of<int8_t, int8_t, int32_t>(key);
  }
  static void gemm(void*, GemmKey key, uint64_t heights, GemmFn* to) noexcept {
    for (; heights; heights &= heights - 1) {
      key.rows = std::countr_zero(heights);
      to[key.rows] = kernel_of(key);
    }
  }
  static LineFn lines(void* self, const LineKey& key) noexcept { return static_cast<EmulatedTiles*>(self)->host_.table().lines(key); }
  static void* other(void* self, int index) noexcept {
    const KernelTable& host = static_cast<EmulatedTiles*>(self)->host_.table();
    if (index >= KernelTable::convert_base)
      return reinterpret_cast<void*>(host.convert(static_cast<Conversion>(index - KernelTable::convert_base)));
    if (index == KernelTable::transpose_index) return reinterpret_cast<void*>(host.transpose());
    return reinterpret_cast<void*>(host.copy(index - KernelTable::copy_base + 1));
  }

  MicroKernels host_;
  KernelTable table_;
};

} // namespace tenon::test
