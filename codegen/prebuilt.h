// Kernels that were compiled when the library was built: those of common layers (src/prebuilt), for each level of instructions. A kernel is
// found by its shape, and takes the constants of it as scalars (general_kernel of loops/share.h).
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "codegen/code_object.h"
#include "tenon/options.h"

namespace tenon {

/// The kernels of one level. No pointers, so that nothing is relocated when the library is loaded.
class PrebuiltTable {
public:
  /// Deflated: the shape (KernelShape::text), the function's name and the object file, ended by a zero each but the last.
  struct Place {
    uint64_t hash; // of the shape
    uint32_t at, size, inflated;
  };
  PrebuiltTable() = default;
  /// `places` are sorted by hash.
  PrebuiltTable(std::span<const Place> places, const unsigned char* bytes) : places_(places), bytes_(bytes) {}

  bool empty() const { return places_.empty(); }
  /// Null: there is none.
  std::shared_ptr<const CodeObject> find(std::string_view shape) const;

private:
  std::span<const Place> places_;
  const unsigned char* bytes_ = nullptr;
};

/// What the build has made (src/prebuilt/make.cpp); nothing in the program that makes it.
PrebuiltTable prebuilt_kernels(Isa level);

/// Kernels to be put into a table, in any order.
struct PrebuiltKernel {
  std::string shape;
  CodeObject code;
};
/// Adds to `bytes` what the places say of it.
std::vector<PrebuiltTable::Place> deflate(std::span<const PrebuiltKernel> kernels, std::string& bytes);

} // namespace tenon
