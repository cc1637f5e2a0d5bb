// A region of the Backend graph to a kernel of the loop IR.
#pragma once
#include "backend/region.h"
#include "loops/kernel.h"

namespace tenon {

/// A kernel, and what of the program it reads and writes.
struct RegionKernel {
  Kernel kernel;
  std::vector<ValueId> buffers;                 // per kernel buffer: a value of the graph; invalid for scratch and temporaries
  std::vector<std::pair<int, int>> temporaries; // kernel buffers that are temporaries of the region, and which
  Expr iterations;                              // of the parallel loop
  Expr elements;                                // of the whole domain
  int weight = 0;                               // operations per element
};

/// Symbols that an epilogue kernel takes after its own scalars: which tile of the contraction's sums is ready (its rows are m0 +
/// i * m_step for i < m1 - m0), and elements from row to row of it. Its first buffer is the tile.
inline constexpr const char* tile_symbols[] = {"tile_batch", "tile_m0", "tile_m1", "tile_n0", "tile_n1", "tile_stride", "tile_m_step"};

/// The kernels of a region, to be run one after the other, and memory that they hand on to each other.
struct RegionKernels {
  struct Temporary {
    DType dtype;
    Expr elements;
  };
  std::vector<RegionKernel> kernels;
  std::vector<Temporary> temporaries;
};

/// `vector_bytes`: 32 or 64. Results of kernels that move `streamed_bytes` and more do not go through the caches.
RegionKernels kernels_of_loops(const Graph& graph, NodeId region, int vector_bytes, int64_t streamed_bytes = INT64_MAX);
/// Columns of a product of whose result slices are read side by side come in blocks: of so many columns of each slice.
inline int64_t slice_lanes(int vector_bytes, DType sum) { return vector_bytes / static_cast<int64_t>(size_of(sum)); }
/// The epilogue of a tenon::matmul or tenon::conv region; empty where nothing follows the contraction and its sums are what it
/// gives.
std::optional<RegionKernel> kernel_of_epilogue(const Graph& graph, NodeId region, int vector_bytes);
/// Numbers of the inputs of which each iteration reads just the element that it then stores of the kernel's only result: the result may be
/// written over one of its dtype.
std::vector<int> inputs_beside_result(const Kernel& kernel);
/// Symbols that the kernel would be other code without: in the extents of its inner loops, or divided by.
std::vector<Expr> sizes_in_code(const Kernel& kernel);
/// The contraction node of a tenon::matmul or tenon::conv region; the last product of a tenon::attention region.
NodeId contraction_of(const Graph& graph, NodeId region);

} // namespace tenon
