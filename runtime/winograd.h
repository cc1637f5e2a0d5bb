// Convolution with 3x3 kernels by Winograd's minimal filtering F(2x2, 3x3): 16 products of transformed patches with
// transformed weights give 2x2 pixels, for which direct summation takes 36 (Lavin and Gray, arXiv 1509.09308). Of
// floats that are multiplied as f32; tiles whose results are not finite are summed directly, so that infinities and NaN stay where they
// belong.
#pragma once
#include <cstdint>

#include "runtime/gemm_block.h"

namespace tenon {

struct Conv;
class Workers;

struct WinogradPlan {
  Panels panels = {}; // of the weights of one element of the 16
  TileKernels kernels = {};
  int family = -1, tile_rows = 1;
  int64_t tiles_y = 0, tiles_x = 0;       // of an image, 2x2 pixels each
  int64_t blocks = 0;                     // ranges of tiles of an image
  int64_t piece_tiles = 0;                // of one row of tiles, most whose sums are handed on at a time
  int64_t patch_row = 0, patch_plane = 0; // bytes from a tile to the next, from an element to the next
  int64_t sum_row = 0, sum_plane = 0;
  int64_t patch_bytes = 0, sum_bytes = 0, out_bytes = 0, turned_bytes = 0; // of one worker

  int64_t tiles() const { return tiles_y * tiles_x; }
  int64_t worker_bytes() const { return patch_bytes + sum_bytes + out_bytes + turned_bytes; }
};

/// Whether images of such sizes are best computed so; sizes that are not known are any_size. Without weights: those of the call, which are
/// packed each time.
bool suits_winograd(const KernelTable& kernels, const Caches& caches, const Conv& conv);
/// The same, of weights as PyTorch has them: they must be small enough, too.
bool pays_winograd(const KernelTable& kernels, const Caches& caches, const Conv& conv);
int64_t winograd_weight_bytes(const KernelTable& kernels, const Conv& conv);
/// Packing is cut into so many items.
int64_t winograd_items(const KernelTable& kernels, const Conv& conv);
/// Packs items [begin, end); returns whether their weights are small enough for their transforms to stay far from overflow.
bool pack_winograd(const KernelTable& kernels, const Conv& conv, int64_t begin, int64_t end, void* to) noexcept;
void prepare_winograd(const KernelTable& kernels, const Conv& conv);
WinogradPlan plan_winograd(const KernelTable& kernels, const Caches& caches, int threads, const Conv& conv);
void run_winograd(const KernelTable& kernels, const Workers& workers, const WinogradPlan& plan, const Conv& conv, char* scratch) noexcept;

} // namespace tenon
