// pack_weights: constant operands of products and convolutions, in the form that their kernels read. The plan builder says what is to be
// packed and is told where it will lie; one call packs all of it, by all workers, straight from where the weights are stored. What was
// packed is let go of at once: a tensor's memory, and the pages of the archive that it was mapped from.
#pragma once
#include <map>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "base/cores.h"
#include "base/large_memory.h"
#include "base/scaled_tensor.h"
#include "ir/program.h"
#include "runtime/conv.h"
#include "runtime/linked_plan.h"

namespace tenon {

/// A product's operand in panels. Element (k, n) is at offset + k * k_stride + n * n_stride, in elements. Of several `slices`, each of
/// `width` columns, panels hold blocks of a vector of each, with zeros behind the last columns. Of a stack of matrices, `matrix_stride`
/// apart, the panels of one follow those of the one before.
struct ProductWeights {
  int family = 0;
  Panels panels = {};
  int64_t offset = 0, k_stride = 0, n_stride = 0;
  int64_t slices = 1, width = 0;
  int64_t matrices = 1, matrix_stride = 0;
};

struct PackRequest {
  Tensor weights;
  std::variant<ProductWeights, Conv> form; // a convolution's `weights` point into the tensor
  void* to = nullptr;
  int64_t bytes = 0; // packed
};

/// Memory for what will probably be packed, by the program as loaded: matrices that only products read. Its pages are fetched while the
/// program is lowered, by one of the workers, if there are others.
LargeMemory expect_packed_weights(const LoadedProgram& program, const Workers& workers);

class PackRequests {
public:
  /// The number of the packed form; equal requests are one.
  int add(const KernelTable& kernels, const Tensor& weights, const ProductWeights& form);
  int add(const KernelTable& kernels, const Tensor& weights, const Conv& form);
  /// Packs what was asked for into `plan`, by number, in memory of `place`. To be called once. Pages of `file`, a mapped file that is not
  /// written to, are dropped when they were read. What `shared` has in the same form is not packed, or not kept. Gives the bytes kept.
  size_t pack(LinkedPlan& plan, LargeMemory& place, const Together& together, std::span<const std::byte> file,
              const LinkedPlan* shared = nullptr);

  /// What was asked for, of products, as weights that `plan`'s calls pack.
  void pack_later(LinkedPlan& plan, std::span<const std::byte> file) const;

private:
  using Key = std::pair<const void*, std::vector<int64_t>>;
  int add(Key key, PackRequest request, int64_t bytes);
  void allocate(LargeMemory& place);
  void note_sources(LinkedPlan& plan, std::span<const std::byte> file) const;
  void pack_some(const KernelTable& kernels, const LargeMemory& place, const Together& together, std::span<const std::byte> file,
                 std::span<const size_t> numbers);
  void pack_unshared(LinkedPlan& plan, const LargeMemory& place, const Together& together, std::span<const std::byte> file,
                     const LinkedPlan& shared);

  std::vector<PackRequest> requests_;
  std::map<Key, int> known_;                  // by where the weights are stored, and how they are packed
  std::vector<std::shared_ptr<void>> memory_; // of the requests, once they are packed
};

} // namespace tenon
