// The contract between the generated micro-kernels and the drivers that call them: argument structs, and the table a
// driver finds its kernels in. `codegen/x86/micro_kernels.h` owns the table and generates what is missing; this side
// only calls.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>

namespace tenon {

/// What a matrix micro-kernel adds to its sum before it stores: nothing, what C holds, or one row of `init` for all
/// rows.
enum class GemmInit : int64_t { Zero, C, Row };

/// One register tile: c[m][n] = init + sum over p < positions, k < depth of rows[p * tile rows + m][first + k] *
/// b[p][k][n]. Packed B has the tile's full width in every row, zero-padded; in place, row k of B starts `b_stride`
/// bytes after row k-1.
struct GemmArgs {
  const float* const* rows;
  int64_t first;      // elements; tiles of the same shape share their pointers
  const float* zeros; // the row of padding, window kernels alone
  const float* b;
  float* c;
  const float* init;
  int64_t c_stride; // bytes
  int64_t b_stride; // bytes, in-place B alone
  int64_t depth;
  int64_t positions;
  int64_t columns; // valid columns, read by masked kernels alone
  GemmInit mode;
};
using GemmFn = void (*)(const GemmArgs*);

/// How a matrix kernel reads: B packed; B in place (positions must be 1); B packed and A the windows of a convolution,
/// whose padding it skips where it can: a position whose first pointer is null adds nothing, and one whose first or
/// last row is `zeros` goes without that row.
enum class GemmKind : uint8_t { Packed, InPlace, Windows };

/// A register tile of `rows` x `vectors` vectors. Masked: the last vector may be partial.
struct GemmShape {
  int rows, vectors;
  bool masked = false;
  GemmKind kind = GemmKind::Packed;
};

/// Depthwise convolution of a tile of output pixels over `blocks` blocks of channels: c[m][n] = init + sum over the
/// window of pixel[n] * weight[n]. Weights lie as [channels / lanes][positions][lanes]. Masked kernels take one block,
/// whose last vector holds the channels that are left of `columns`. A row kernel's block is as many vectors as its
/// shape says; it takes any window: pixel (m, position p) is at pixels[p * tile rows + m], and positions whose first
/// pointer is null are left out. A plane kernel's block is one vector; its tile is a rectangle of output pixels under a
/// square window with stride 1 or 2 and no dilation: pixels[i][j] are the input pixels under the tile, null in the
/// padding. It loads each of them once.
struct DepthwiseArgs {
  const float* const* pixels;
  int64_t first; // bytes from the pointers to the first channel
  const float* weights;
  float* c;
  int64_t c_pixel, c_row; // bytes from one output pixel, and from one output row, to the next
  const float* init;
  int64_t positions; // row kernels alone
  int64_t blocks;
  int64_t columns;
  GemmInit mode;
};
using DepthwiseFn = void (*)(const DepthwiseArgs*);

/// A tile of `rows` x `pixels` outputs; kernel is 3, 5 or 7.
struct PlaneShape {
  int kernel, stride, rows, pixels;
  bool masked = false;

  static constexpr int max_pixels = 7;
  int in_rows() const { return (rows - 1) * stride + kernel; }
  int in_pixels() const { return (pixels - 1) * stride + kernel; }
};

/// Moves a block of f32: `rows` rows of `columns` elements, strides in bytes. Copy keeps rows, transpose turns row r
/// into column r. A copy writes full rows of its vector count, zeros behind `columns`.
struct MoveArgs {
  const float* from;
  float* to;
  int64_t from_stride, to_stride;
  int64_t rows, columns;
};
using MoveFn = void (*)(const MoveArgs*);

/// The micro-kernels of one instruction set. Looking one up is wait-free once it exists; the first request generates
/// it.
class KernelTable {
public:
  static constexpr int max_rows = 16, max_vectors = 16;
  using Generate = void* (*)(void* owner, int index) noexcept;

  KernelTable(int lanes, Generate generate, void* owner) : lanes_(lanes), generate_(generate), owner_(owner) {}
  /// f32 elements of a vector: 16 or 8.
  int lanes() const { return lanes_; }
  /// The most rows a tile of so many vectors may have (kernels.inc); 0: that width does not exist.
  int gemm_rows(int vectors) const { return gemm_rows_[static_cast<size_t>(vectors)]; }
  void set_gemm_rows(int vectors, int rows) { gemm_rows_[static_cast<size_t>(vectors)] = rows; }
  GemmFn gemm(GemmShape s) const noexcept { return reinterpret_cast<GemmFn>(find(gemm_index(s))); }
  DepthwiseFn depthwise(GemmShape s) const noexcept {
    return reinterpret_cast<DepthwiseFn>(find(depthwise_base + gemm_index(s) / 4));
  }
  DepthwiseFn plane(PlaneShape s) const noexcept {
    return reinterpret_cast<DepthwiseFn>(find(plane_base + plane_index(s)));
  }
  int depthwise_rows(int vectors) const { return depthwise_rows_[static_cast<size_t>(vectors)]; }
  void set_depthwise_rows(int vectors, int rows) { depthwise_rows_[static_cast<size_t>(vectors)] = rows; }
  /// Copies rows of up to `vectors` vectors.
  MoveFn copy(int vectors) const noexcept { return reinterpret_cast<MoveFn>(find(copy_base + vectors - 1)); }
  MoveFn transpose() const noexcept { return reinterpret_cast<MoveFn>(find(transpose_index)); }

  static constexpr int gemm_index(GemmShape s) {
    return (((s.rows - 1) * max_vectors + s.vectors - 1) * 2 + s.masked) * 4 + static_cast<int>(s.kind);
  }
  static constexpr GemmShape gemm_shape(int index) {
    return {index / 8 / max_vectors + 1, index / 8 % max_vectors + 1, (index & 4) != 0,
            static_cast<GemmKind>(index & 3)};
  }
  static constexpr int copy_base = max_rows * max_vectors * 8;
  static constexpr int transpose_index = copy_base + max_vectors;
  static constexpr int depthwise_base = transpose_index + 1; // of one kind only
  static constexpr int plane_base = depthwise_base + copy_base / 4;
  static constexpr int plane_index(PlaneShape s) {
    return ((((s.kernel / 2 - 1) * 2 + s.stride - 1) * 4 + s.rows - 1) * 8 + s.pixels - 1) * 2 + s.masked;
  }
  static constexpr PlaneShape plane_shape(int index) {
    return {index / 128 * 2 + 3, index / 64 % 2 + 1, index / 16 % 4 + 1, index / 2 % 8 + 1, index % 2 != 0};
  }
  static constexpr int size = plane_base + 3 * 128;

private:
  void* find(int index) const noexcept {
    void* f = kernels_[static_cast<size_t>(index)].load(std::memory_order_acquire);
    if (!f) [[unlikely]] {
      f = generate_(owner_, index);
      kernels_[static_cast<size_t>(index)].store(f, std::memory_order_release);
    }
    return f;
  }

  int lanes_;
  Generate generate_;
  void* owner_;
  std::array<int, max_vectors + 1> gemm_rows_{}, depthwise_rows_{};
  mutable std::array<std::atomic<void*>, size> kernels_{};
};

} // namespace tenon
