// A region of the Backend graph to a kernel of the loop IR.
#pragma once
#include "backend/region.h"
#include "loops/kernel.h"

namespace tenon {

/// A kernel, and what of the program it reads and writes.
struct RegionKernel {
  Kernel kernel;
  std::vector<ValueId> buffers; // per kernel buffer: a value of the graph; invalid for scratch
  Expr iterations;              // of the parallel loop
  Expr elements;                // of the whole domain
  int weight = 0;               // operations per element
  ValueId home = {};            // epilogues: the region's result in whose memory the contraction writes
};

/// Symbols that an epilogue kernel takes after its own scalars: the tile of the contraction's result that is ready.
inline constexpr const char* tile_symbols[] = {"tile_batch", "tile_m0", "tile_m1", "tile_n0", "tile_n1"};

/// `vector_bytes`: 32 or 64.
RegionKernel kernel_of_loops(const Graph& graph, NodeId region, int vector_bytes);
/// The epilogue of a tenon::matmul or tenon::conv region; empty where nothing follows the contraction.
std::optional<RegionKernel> kernel_of_epilogue(const Graph& graph, NodeId region, int vector_bytes);
/// The contraction node of a tenon::matmul or tenon::conv region; the last product of a tenon::attention region.
NodeId contraction_of(const Graph& graph, NodeId region);

} // namespace tenon
