// lower_regions: what each region of the Backend graph computes, as loops, and the operands of those that micro-kernels compute.
#pragma once
#include "backend/attention.h"
#include "backend/contract.h"
#include "codegen/prebuilt.h"
#include "codegen/target.h"
#include "loops/from_attention.h"
#include "loops/from_region.h"
#include "runtime/gemm_block.h"

namespace tenon {

struct LoweredRegion {
  NodeId node;
  RegionKernels loops = {};                  // tenon::loops
  std::optional<RegionKernel> epilogue = {}; // of a contraction, where something follows it
  struct Product {
    MatmulOperand a, b;
  };
  struct Softmax {
    Attention attention;
    int64_t block_keys = 0;
    AttentionKernels kernels;
  };
  std::optional<Product> product = {};   // tenon::matmul
  std::optional<Softmax> attention = {}; // tenon::attention
  std::string refused = {};              // tenon::loops without kernels, which the interpreter computes: why
  int same_as = -1;                      // an earlier region that has these kernels too, over other values
};

/// What of the machine decides the form of kernels.
/// Which weights that could be packed may be read where they are stored: none, or until they are packed while calls go on, or for good.
enum class Leaves : uint8_t { None, AtFirst, ForGood };

struct PlanTarget {
  explicit PlanTarget(const Target& target);
  int vector_bytes;
  int64_t streamed_bytes; // results that would push all else out of the caches
  Caches caches;
  Leaves leaves = Leaves::ForGood;
  PrebuiltTable prebuilt; // empty with TENON_PREBUILT=0
};

/// A value that lies in the memory of one it is joined to, or that a complex tensor is made of.
struct JoinedPart {
  ValueId whole;
  Expr offset; // elements
};
using JoinedParts = std::unordered_map<ValueId, JoinedPart>;
JoinedParts joined_parts(const Graph& graph);

/// The regions in the order of their steps, those of branches and loop bodies among them. A region that no loops compute is refused, or
/// where `forbid_fallback` is set its error thrown.
std::vector<LoweredRegion> lower_regions(const Graph& graph, const PlanTarget& target, bool forbid_fallback);
/// One of them by itself.
LoweredRegion lower_region(const Graph& graph, NodeId region, const PlanTarget& target, bool forbid_fallback);
std::string to_string(const Graph& graph, const std::vector<LoweredRegion>& regions);

/// Values that are computed inside of regions, written into what reads them.
Inliner region_inliner(const Graph& graph);

} // namespace tenon
