// Convolution over channels-last activations, with results of either layout, and sizes given at run time: any kernel,
// stride, padding, dilation and groups, in one to three dimensions, transposed or not. Depthwise convolution of f32,
// bf16 and f16 has kernels of its own, all else runs on the matrix kernels.
#pragma once
#include <algorithm>
#include <cstdint>

#include "base/numeric.h"
#include "runtime/conv_lines.h"
#include "runtime/conv_parts.h"
#include "runtime/conv_strip.h"
#include "runtime/conv_window.h"
#include "runtime/matmul.h"
#include "runtime/micro_kernels.h"
#include "runtime/winograd.h"

namespace tenon {

/// output[b][m][o] = sum over positions q and the group's channels i of input[b][window(m, q)][i] *
/// weight[o][i][q]. m counts output pixels in (d, h, w) order. Strides are in elements. Transposed: the sum over all
/// input pixels p and taps q that meet in m, p * stride + q * dilation - pad = m. The output has the sum type: F64 for
/// F64, I32 for 8-bit integers, else F32. The epilogue sees output pixels as rows and output channels as columns, of
/// all groups.
/// Row-major: the output is [batch][channel][pixel], and what the epilogue sees is turned: channel n of its tile starts n * stride
/// elements after channel 0. For sums of 4 bytes, not transposed. By lines: the input is row-major as well, and the kernels of
/// conv_lines.h read it.
struct Conv {
  ConvWindow window;
  bool transposed = false;
  bool row_major = false, by_lines = false;
  int64_t batch = 1, groups = 1;
  int64_t in_channels = 0, out_channels = 0; // of all groups
  DType in_type = DType::F32, weight_type = DType::F32;
  int padding = 0;       // the value of elements outside an image of 8-bit integers
  int family = -1;       // of micro-kernels; -1: by the types
  bool winograd = false; // the weights are packed for it (pays_winograd), or are to be in the call, if all are small enough
  const void* input = nullptr;
  int64_t in_pixel = 0, in_batch = 0;
  /// What pack_conv made; or, if not `packed`, as PyTorch has them, with the given strides: [out][in / groups][d][h][w],
  /// of transposed ones [in][out / groups][d][h][w].
  const void* weights = nullptr;
  bool packed = true;
  /// Packed weights once more, for windows, where those for Winograd do not serve all sizes (suits_winograd).
  const void* window_weights = nullptr;
  int64_t weight_strides[5] = {};
  const float* scales = nullptr; // of output channels: weights that are not packed are multiplied by them; where packs_scaled says so
  void* output = nullptr;        // null: the sums go to the epilogue alone
  int64_t out_pixel = 0, out_batch = 0;
  Epilogue epilogue = {};

  bool operator==(const Conv&) const = default;
  int64_t group_inputs() const { return in_channels / groups; }
  int64_t group_outputs() const { return out_channels / groups; }
  int64_t in_bytes() const { return static_cast<int64_t>(size_of(in_type)); } // of an element
  int64_t weight_bytes() const { return static_cast<int64_t>(size_of(weight_type)); }
  bool has_groups_of_floats() const { return groups > 1 && !transposed && depthwise_reads(in_type) && depthwise_reads(weight_type); }
  bool depthwise() const { return has_groups_of_floats() && group_inputs() == 1 && group_outputs() == 1; }
};

/// A weight that is a float of at most 4 bytes, which are not packed yet.
inline float weight_at(const Conv& c, int64_t element) {
  if (c.weight_type == DType::F32) return static_cast<const float*>(c.weights)[element];
  if (c.weight_type == DType::BF16) return static_cast<float>(static_cast<const BF16*>(c.weights)[element]);
  return static_cast<float>(static_cast<const F16*>(c.weights)[element]);
}

/// What kernels compute of a convolution: where they read wider elements than images hold, and windows are of several positions, the images
/// are converted in the call (conv_image.cpp), into dense ones. Else the same convolution.
Conv as_read(const KernelTable& kernels, Conv conv);
/// Of the converted images; 0: they are read as they are.
int64_t image_bytes(const KernelTable& kernels, const Conv& conv);
void prepare_images(const KernelTable& kernels, const Conv& conv);
void convert_images(const KernelTable& kernels, const Workers& workers, const Conv& conv, char* to) noexcept;

/// The family whose kernels compute convolutions of such operands; -1: none does.
int conv_family(const KernelTable& kernels, const Conv& conv);

/// Packs `conv`'s weights, which are not packed yet. Its image sizes, strides and pointers to images are not read.
int64_t packed_conv_bytes(const KernelTable& kernels, const Conv& conv);
/// The same in parts: packing is cut into so many items, of which any threads pack any. Returns whether weights packed for Winograd are
/// small enough for it, and of others true.
int64_t conv_pack_items(const KernelTable& kernels, const Conv& conv);
/// Whether packing multiplies weights by scales.
bool packs_scaled(const KernelTable& kernels, const Conv& conv);
bool pack_conv_items(const KernelTable& kernels, const Conv& conv, int64_t begin, int64_t end, void* to) noexcept;
bool pack_conv(const KernelTable& kernels, const Workers& workers, const Conv& conv, void* to) noexcept;

/// Every decision for one combination of sizes.
struct ConvPlan {
  enum class Kind : uint8_t { Depthwise, Lines, Product, Winograd, Windows } kind = Kind::Windows;
  MatmulPlan product = {}; // 1x1 without stride or padding
  WinogradPlan winograd = {};
  // Windows, and Winograd where weights packed in the call may be too large for it:
  struct Part {
    PixelCut cut;
    Splits splits;
    int64_t block_positions; // positions of the window that are summed before the next pixels
    int64_t first_item;
  };
  ConvLayout layout = {};
  std::vector<Part> parts = {};
  TileKernels kernels = {};
  int tile_rows = 1;
  bool folded = false;      // rows of windows are read where they are: pixels have no gaps
  bool direct = true;       // the kernels write the output itself
  bool looks_ahead = false; // for what the epilogue or the stores touch: it is more than L2 holds
  bool reads_ahead = false; // asks for the next block's pixels: L2 does not hold the images
  int64_t items = 0;
  ConvStrip strip = {};                                                     // tile registers: how rows are copied, if so
  int64_t block_k = 0;                                                      // tile registers: of copied rows, what L1 holds
  int64_t group_panels = 0;                                                 // panels of a SumTile
  int64_t c_group = 0, c_stride = 0;                                        // elements of a group's sums in scratch, and of a row of them
  int64_t row_stride = 0;                                                   // bytes from one copied row to the next
  int64_t pointer_bytes = 0, edge_bytes = 0, copy_bytes = 0, sum_bytes = 0; // of one worker
  int64_t turned_bytes = 0;                                                 // of one worker: a part of a block of sums, row-major
  int64_t depthwise_bytes = 0;                                              // of one worker
  LinePlan lines = {};
  int64_t packed_bytes = 0; // of all: weights packed in the call
  int64_t image_bytes = 0;  // of all: images converted in the call

  int64_t worker_bytes() const {
    if (kind == Kind::Product) return product.worker_bytes();
    if (kind == Kind::Lines) return lines.worker_bytes();
    if (kind == Kind::Depthwise) return depthwise_bytes;
    int64_t windows = pointer_bytes + edge_bytes + copy_bytes + sum_bytes + turned_bytes;
    return kind == Kind::Winograd ? std::max(windows, winograd.worker_bytes()) : windows;
  }
  int64_t scratch_bytes(int threads) const { return packed_bytes + image_bytes + worker_bytes() * threads; }
};
/// A convolution whose plan is of Kind::Product.
Matmul as_matmul(const KernelTable& kernels, const Conv& conv);

/// Generates the micro-kernels that plans for such a convolution may need; sizes in and out that are not known are any_size.
void prepare_conv(const KernelTable& kernels, const Conv& conv);

/// Of `conv`, what pointers hold is not read, only which are given. Generates the micro-kernels that are missing.
ConvPlan plan_conv(const KernelTable& kernels, const Caches& caches, int threads, const Conv& conv);

/// Hands a tile of finished sums on: to the output, unless the kernels wrote it (`direct`), and to the epilogue. `room`: of turned_room
/// bytes, for row-major results.
inline constexpr int64_t turned_room = 16 << 10;
void finish_sums(const KernelTable& kernels, const Conv& conv, const SumTile& tile, bool direct, char* room);

/// For reports: the kernels, and how they read the images.
std::string describe_conv(const KernelTable& kernels, const ConvPlan& plan);

/// scratch: plan.scratch_bytes(), 64-byte aligned, private to this call.
void run_conv(const KernelTable& kernels, const Workers& workers, const ConvPlan& plan, const Conv& conv, void* scratch) noexcept;

} // namespace tenon
