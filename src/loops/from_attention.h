// The kernels of a tenon::attention region, over a tile of scores and over finished rows.
#pragma once
#include "backend/attention.h"
#include "loops/from_region.h"

namespace tenon {

/// The first buffers of the kernels are the driver's (invalid among RegionKernel::buffers): rows of f32, of the tile
/// alone. score:  the tile of Q K^T, `score_stride` elements a row, which becomes the weights; then for each row the
/// maximum so far,
///         the sum of weights so far, and the factor by which the new maximum corrects what was summed before
/// finish: rows of the sums of weighted values, `padded_columns` elements a row; then for each row the sum of weights
/// Elements of a row of sums, for so many columns.
inline Expr padded_columns(Expr columns) { return floor_div(columns + 15.0, columns->pool->integer(16)) * 16.0; }

struct AttentionKernels {
  RegionKernel score, finish;
};
AttentionKernels kernels_of_attention(const Graph& graph, NodeId region, const Attention& attention, int vector_bytes,
                                      int64_t score_stride);

} // namespace tenon
