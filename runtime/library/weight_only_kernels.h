// Products with weights of 4 and 8 bits that share a scale by group, compiled for each instruction set. Activations are
// taken apart into digits, small integers, so that the sums of a block are sums of products of integers: these are
// exact, and weights stay integers.
#pragma once
#include <cstdint>

namespace tenon::library {

/// How a packed matrix lies, in the order it is read: panels of 32 columns, the last one of as many sixteens as there
/// are; of each, group by group, the scales, the shifts where there are any (f32), and the codes: of 4 bits, eight of a
/// column in a dword, from the lowest bits on; of 8 bits, four.
struct WeightOnlyLayout {
  static constexpr int64_t columns = 16, most_sixteens = 2, block = 128;
  int64_t groups, group, bits; // a group has so many k, a multiple of 8
  bool shifted;
  /// Bytes of sixteen columns.
  int64_t group_bytes() const { return columns * 4 * (shifted ? 2 : 1) + group * columns * bits / 8; }
  int64_t bytes() const { return groups * group_bytes(); }
  int64_t group_blocks() const { return (group + block - 1) / block; }
  int64_t row_blocks() const { return groups * group_blocks(); }
};

/// Up to `WeightOnlyLayout::block` neighbours of a group in a row of x: integers, times `unit`.
struct WeightOnlyBlock {
  float unit, sum;  // both of x / WeightOnlyRows::back
  int32_t start[4]; // for each digit, the sum of them times what a code of 0 stands for
  int32_t wide;     // whether the digits of highest value are not all 0
};

/// Rows of x as integers: for each 8 k, the digits that one instruction multiplies (8 dwords).
struct WeightOnlyRows {
  int32_t* digits;
  WeightOnlyBlock* blocks;
  float* back; // a power of two by row
  WeightOnlyRows from(int64_t row, const WeightOnlyLayout& l) const {
    return {digits + row * l.groups * l.group, blocks + row * l.row_blocks(), back + row};
  }
};

struct WeightOnlyKernels {
  int64_t most_rows; ///< of a call
  /// Fills row 0 of `to`; false where x has no integers: it is not finite. `low` is what a code of 0 stands for.
  bool (*split)(const WeightOnlyLayout& layout, int32_t low, const float* x, const WeightOnlyRows& to);
  /// y[row][column] of `rows` rows of x and a panel of `sixteens`, of which `width` columns exist.
  void (*product)(const WeightOnlyLayout& layout, const WeightOnlyRows& x, int64_t rows, const uint8_t* panel, int64_t sixteens, float* y,
                  int64_t y_row, int64_t width);
};

namespace avx2 {
extern const WeightOnlyKernels weight_only_kernels;
}
namespace avx2_vnni {
extern const WeightOnlyKernels weight_only_kernels;
}
namespace avx512 {
extern const WeightOnlyKernels weight_only_kernels;
}
namespace avx512_vnni {
extern const WeightOnlyKernels weight_only_kernels;
}

} // namespace tenon::library
