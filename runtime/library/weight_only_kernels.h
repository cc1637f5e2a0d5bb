// Products with weights of 4 and 8 bits that share a scale by group: dequantized in registers, compiled for each instruction set.
#pragma once
#include <cstdint>

namespace tenon::library {

/// How a packed matrix lies: panels of 16 columns; of each, group by group, 16 scales, 16 shifts where there are any (f32), and the
/// codes: of 4 bits, eight of a column in a dword, from the lowest bits on; of 8 bits, signed, for each k the 16 columns' bytes.
struct WeightOnlyLayout {
  static constexpr int64_t columns = 16;
  int64_t groups, group, bits; // a group has so many k, a multiple of 8
  bool shifted;
  int64_t header() const { return columns * 4 * (shifted ? 2 : 1); }
  int64_t group_bytes() const { return header() + group * columns * bits / 8; }
  int64_t panel_bytes() const { return groups * group_bytes(); }
};

struct WeightOnlyKernels {
  int64_t most_rows; ///< of a call
  int64_t panels;    ///< that a call takes at best
  /// y[row][column] of `rows` rows of x and `panels` neighbouring panels, of which `width` columns exist. `low` is what a code of 0
  /// stands for; sums[row * layout.groups + g]: of x over the k of a group, read where `low` is not 0 or there are shifts.
  void (*product)(const WeightOnlyLayout& layout, float low, const float* x, int64_t x_row, const float* sums, int64_t rows, const uint8_t* packed,
                  int64_t panels, float* y, int64_t y_row, int64_t width);
};

namespace avx2 {
extern const WeightOnlyKernels weight_only_kernels;
}
namespace avx512 {
extern const WeightOnlyKernels weight_only_kernels;
}

} // namespace tenon::library
