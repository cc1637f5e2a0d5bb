// The contract between the other generated micro-kernels (depthwise convolution, movers) and the drivers that call them,
// and the table a driver finds all its kernels in. `codegen/x86/micro_kernels.h` owns the table and generates what is
// missing; this side only calls.
#pragma once
#include <atomic>
#include <bit>
#include <vector>

#include "runtime/gemm_kernels.h"

namespace tenon {

/// What depthwise kernels read; they widen it to f32 in registers.
inline constexpr DType depthwise_inputs[] = {DType::F32, DType::BF16, DType::F16};
constexpr bool depthwise_reads(DType t) { return t == DType::F32 || t == DType::BF16 || t == DType::F16; }
/// The number of a type among these.
constexpr int depthwise_input(DType t) { return t == DType::F32 ? 0 : t == DType::BF16 ? 1 : 2; }

/// A register tile of `rows` x `vectors` vectors of a depthwise kernel. Masked: the last vector may be partial. Group:
/// each channel is the sum over that many channels, a power of two, of the input, which lie together.
struct DepthwiseShape {
  int rows, vectors;
  bool masked = false;
  int group = 1;
  DType in = DType::F32;
};

/// Depthwise convolution of a tile of output pixels over `blocks` blocks of channels: c[m][n] = sum over the
/// window of pixel[n] * weight[n]. Weights lie as [channels / lanes][positions][group][lanes]. Masked kernels take one
/// block, whose last vector holds the channels that are left of `columns`. A row kernel's block is as many vectors as
/// its shape says; it takes any window: pixel (m, position p) is at pixels[p * tile rows + m], and positions whose
/// first pointer is null are left out. A plane kernel's block is one vector; its tile is a rectangle of output pixels
/// under a square window with stride 1 or 2 and no dilation: pixels[i][j] are the input pixels under the tile, null in
/// the padding. It loads each of them once.
struct DepthwiseArgs {
  const void* const* pixels;
  int64_t first; // bytes from the pointers to the first channel
  const float* weights;
  float* c;
  int64_t c_pixel, c_row; // bytes from one output pixel, and from one output row, to the next
  int64_t positions;      // row kernels alone
  int64_t blocks;
  int64_t columns;
};
using DepthwiseFn = void (*)(const DepthwiseArgs*);

/// A tile of `rows` x `pixels` outputs; kernel is 3, 5 or 7.
struct PlaneShape {
  int kernel, stride, rows, pixels;
  bool masked = false;
  DType in = DType::F32;

  static constexpr int max_pixels = 7;
  int in_rows() const { return (rows - 1) * stride + kernel; }
  int in_pixels() const { return (pixels - 1) * stride + kernel; }
};

/// Convolution of row-major planes, of few channels in a group: a tile of `rows` lines by `vectors` vectors of a line, of `outputs`
/// channels. A step is `kernel` lines of the window, `line_dilation` apart, those of the tile's rows `line_step`; or a single line, of
/// which the tile's only row is made. A window has `taps` columns; `step` and `dilation` are those along a line. The columns of parted
/// lines lie apart by their remainder modulo the step, with padding; of others the step is 1 or 2.
struct LineKey {
  int rows, vectors, outputs = 1;
  int kernel = 1, line_step = 1, line_dilation = 1;
  int taps = 1, step = 1, dilation = 1;
  int part = 0;        // of parted lines: elements from the columns of a remainder to the next one's
  bool masked = false; // of parted lines: what is stored alone
  bool dot = false;    // of parted lines of bf16: an element is that of two channels, whose products are added (KernelTable::dots_lines)
  auto operator<=>(const LineKey&) const = default;

  static constexpr int max_taps = 64, max_step = 8, max_outputs = 8;
  int in_lines() const { return (rows - 1) * line_step + (kernel - 1) * line_dilation + 1; }
  /// Two taps that are the even and the odd columns of the same loads.
  bool pairs() const { return loads() == 2 && dilation == 1; }
  /// Vectors that are loaded for a vector of columns.
  int loads() const { return part ? 1 : step; }
  /// Taps that are loaded together.
  int groups() const { return pairs() ? (taps + 1) / 2 : taps; }
  /// Masks are [group][vector][step], then [vector] of the store; of an opmask's 2 bytes, or of a vector.
  int load_masks() const { return part ? 0 : groups() * vectors * step; }

  int sums() const { return outputs * rows * vectors; }
  /// A single line of a single output loads its vectors one by one, and keeps the weights of a group.
  bool is_single() const { return outputs == 1 && rows == 1; }
  int values() const { return (is_single() ? 1 : vectors) * (pairs() ? 2 : 1); }
  /// Vector registers of either instruction set, but for weights that are kept.
  int registers(bool wide) const {
    int choices = wide && loads() == 2 ? (pairs() ? 2 : 1) : 0;
    return sums() + values() + (is_single() && pairs() ? 2 : 1) + (loads() == 2) + (masked && !part && !wide) + choices;
  }
};

/// Of more outputs than one there is one block.
struct LineArgs {
  const char* const* lines; // [steps][in_lines]: column 0 of the image's first channel, null in the padding
  int64_t first;            // bytes from there to the tile's first column in the first channel it reads
  const float* weights;     // [blocks][inputs][steps][kernel][taps][outputs]
  float* c;
  int64_t c_row, c_channel, in_channel; // bytes
  int64_t inputs, steps, blocks;
  const void* masks; // masked kernels alone
};
using LineFn = void (*)(const LineArgs*);

/// Moves a block: `rows` rows of `columns` elements, strides in bytes. Copy and convert keep rows, transpose turns row
/// r into column r. A copy writes full rows of its vector count, zeros behind `columns`.
struct MoveArgs {
  const void* from;
  void* to;
  int64_t from_stride, to_stride;
  int64_t rows, columns;
  int64_t streamed =
      0; // a transpose whose result is not read soon, `to` and `to_stride` multiples of 64: past the caches, if there is a way
};
using MoveFn = void (*)(const MoveArgs*);

/// Conversions that operands of products need.
enum class Conversion : uint8_t { F16ToF32, BF16ToF32, I8ToI16, U8ToI16, I8ToU8 /* plus 128 */, I8ToF32 };
inline constexpr int num_conversions = 6;

/// The micro-kernels of one machine, generated when first asked for. Depthwise kernels and movers are looked up
/// wait-free once they exist; those with a key under a lock: their drivers ask when sizes are bound and keep the
/// pointers.
class KernelTable {
public:
  static constexpr int max_rows = 16, max_depthwise_vectors = 4, num_groups = 4; // of depthwise tiles; groups of 1, 2, 4, 8
  static constexpr int max_vectors = 16;                                         // of a copy

  /// Who generates; none of these returns without a kernel.
  struct Source {
    void* owner;
    void (*gemm)(void* owner, GemmKey key, uint64_t heights, GemmFn* to) noexcept;
    LineFn (*lines)(void* owner, const LineKey& key) noexcept;
    void* (*other)(void* owner, int index) noexcept;
    void (*begin_tiles)(), (*end_tiles)(); // null where no family has tile registers
  };

  KernelTable(int lanes, std::vector<GemmFamily> families, Source source)
      : lanes_(lanes), families_(std::move(families)), source_(source) {}

  /// f32 elements of a vector: 16 or 8.
  int lanes() const { return lanes_; }
  /// The matrix families this machine runs, best first.
  const std::vector<GemmFamily>& families() const { return families_; }
  const GemmFamily& family(int number) const { return families_[static_cast<size_t>(number)]; }
  GemmFn gemm(const GemmKey& key) const noexcept {
    GemmFn all[GemmFamily::max_rows + 1];
    gemm(key, uint64_t{1} << key.rows, all);
    return all[key.rows];
  }
  /// Those of all rows whose bits are set, into to[rows]; key.rows is not looked at.
  void gemm(const GemmKey& key, uint64_t heights, GemmFn* to) const noexcept { source_.gemm(source_.owner, key, heights, to); }
  /// Whether lines of bf16 are read as they are, two channels at a time.
  bool dots_lines() const { return dots_lines_; }
  void set_dots_lines(bool dots) { dots_lines_ = dots; }
  LineFn lines(const LineKey& key) const noexcept { return source_.lines(source_.owner, key); }
  /// Around the tiles of families with tile registers, in each thread that computes them.
  void begin_tiles() const noexcept { source_.begin_tiles(); }
  void end_tiles() const noexcept { source_.end_tiles(); }

  DepthwiseFn depthwise(DepthwiseShape s) const noexcept { return reinterpret_cast<DepthwiseFn>(find(depthwise_index(s))); }
  DepthwiseFn plane(PlaneShape s) const noexcept { return reinterpret_cast<DepthwiseFn>(find(plane_base + plane_index(s))); }
  /// The most rows a depthwise tile of so many vectors may have (kernels.inc); 0: there is none.
  int depthwise_rows(int vectors, int64_t group) const {
    if (group < 1 || group >= 1 << num_groups || !std::has_single_bit(static_cast<uint64_t>(group))) return 0;
    return depthwise_rows_[group_index(static_cast<int>(group))][static_cast<size_t>(vectors)];
  }
  void set_depthwise_rows(int vectors, int group, int rows) { depthwise_rows_[group_index(group)][static_cast<size_t>(vectors)] = rows; }
  /// Moves 4-byte elements of any kind. Copy: rows of up to `vectors` vectors.
  MoveFn copy(int vectors) const noexcept { return reinterpret_cast<MoveFn>(find(copy_base + vectors - 1)); }
  MoveFn transpose() const noexcept { return reinterpret_cast<MoveFn>(find(transpose_index)); }
  /// Element by element, in value.
  MoveFn convert(Conversion c) const noexcept { return reinterpret_cast<MoveFn>(find(convert_base + static_cast<int>(c))); }

  static constexpr int depthwise_index(DepthwiseShape s) {
    int group = static_cast<int>(group_index(s.group)) + num_groups * depthwise_input(s.in);
    return ((group * max_rows + s.rows - 1) * max_depthwise_vectors + s.vectors - 1) * 2 + s.masked;
  }
  static constexpr DepthwiseShape depthwise_shape(int index) {
    int rows = index / 2 / max_depthwise_vectors, group = rows / max_rows;
    return {rows % max_rows + 1, index / 2 % max_depthwise_vectors + 1, index % 2 != 0, 1 << group % num_groups,
            depthwise_inputs[group / num_groups]};
  }
  static constexpr int plane_base = 3 * num_groups * max_rows * max_depthwise_vectors * 2;
  static constexpr int plane_index(PlaneShape s) {
    return ((((depthwise_input(s.in) * 3 + s.kernel / 2 - 1) * 2 + s.stride - 1) * 4 + s.rows - 1) * 8 + s.pixels - 1) * 2 + s.masked;
  }
  static constexpr PlaneShape plane_shape(int index) {
    return {index / 128 % 3 * 2 + 3, index / 64 % 2 + 1, index / 16 % 4 + 1,
            index / 2 % 8 + 1,       index % 2 != 0,     depthwise_inputs[index / 384]};
  }
  static constexpr int copy_base = plane_base + 3 * 3 * 128;
  static constexpr int transpose_index = copy_base + max_vectors;
  static constexpr int convert_base = transpose_index + 1;
  static constexpr int size = convert_base + num_conversions;

private:
  static constexpr size_t group_index(int group) { return static_cast<size_t>(std::countr_zero(static_cast<unsigned>(group))); }
  void* find(int index) const noexcept {
    void* f = kernels_[static_cast<size_t>(index)].load(std::memory_order_acquire);
    if (!f) [[unlikely]] {
      f = source_.other(source_.owner, index);
      kernels_[static_cast<size_t>(index)].store(f, std::memory_order_release);
    }
    return f;
  }

  int lanes_;
  bool dots_lines_ = false;
  std::vector<GemmFamily> families_;
  Source source_;
  std::array<std::array<int, max_depthwise_vectors + 1>, num_groups> depthwise_rows_{};
  mutable std::array<std::atomic<void*>, size> kernels_{};
};

} // namespace tenon
