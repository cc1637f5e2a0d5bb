// select_kernels: the distinct kernels of all regions, the micro-kernels that multiply, and the form in which they read constants.
#pragma once
#include "compile/lower_regions.h"
#include "compile/pack_weights.h"

namespace tenon {

struct KernelUse {
  int kernel = -1;           // number
  std::vector<Expr> scalars; // those that the driver of a tile gives are not among them
  std::vector<Expr> in_code; // the sizes among them that are more than a count of iterations
};

struct SelectedRegion {
  std::vector<KernelUse> kernels; // of the region's loops; of a contraction the epilogue, if any; of attention those of scores and result
  struct Product {
    int family = -1;       // of micro-kernels; -1: chosen when sizes are bound
    int panel_vectors = 0; // of packed B; 0: as the sizes say
    int packed = -1;       // number of B's packed form; -1: B is read where it lies
    int later = -1;        // number of the form that it is packed into while calls go on; -1: it is not
    int later_family = -1;
    int64_t columns = -1;                        // of packed B, where they are more than the product's
    int64_t matrix_stride = 1, matrix_bytes = 0; // of a packed stack: elements from matrix to matrix as stored, bytes as packed
  };
  struct Convolution {
    Conv shape; // without pointers
    int packed = -1;
    int packed_windows = -1; // for sizes that do not suit Winograd
  };
  std::optional<Product> product;
  std::optional<Convolution> conv;
};

struct SelectedKernels {
  std::unique_ptr<ExprPool> pool; // of the kernels
  std::vector<Kernel> kernels;
  std::vector<std::shared_ptr<const CodeObject>> prebuilt; // for each kernel: its code, where the library brings it; else null
  std::vector<SelectedRegion> regions;                     // one for each lowered one
  PackRequests weights, later;                             // packed ahead of time, and while calls go on
};

/// Kernels with equal text are one, or have prebuilt code in common; those that differ in constants only become one, where that costs
/// little when they run.
SelectedKernels select_kernels(const Graph& graph, const std::vector<LoweredRegion>& regions, const KernelTable& micro_kernels,
                               const PlanTarget& target);
/// A kernel in the form in which select_kernels looks for it among prebuilt ones.
struct GeneralKernel {
  std::string shape;
  Kernel kernel;
};
/// Of all kernels of the regions, in each form they may be looked for in; built in `pool`.
std::vector<GeneralKernel> general_kernels(const std::vector<LoweredRegion>& regions, ExprPool& pool);
std::string to_string(const Graph& graph, const std::vector<LoweredRegion>& regions, const SelectedKernels& selected,
                      const KernelTable& micro_kernels);

/// Of one contraction, its packed constant put among `weights` or `later`.
SelectedRegion::Product select_product(const Graph& graph, const LoweredRegion& region, const KernelTable& micro_kernels,
                                       const PlanTarget& target, PackRequests& weights, PackRequests& later);
SelectedRegion::Convolution select_convolution(const Graph& graph, const LoweredRegion& region, const KernelTable& micro_kernels,
                                               const PlanTarget& target, PackRequests& weights);

} // namespace tenon
