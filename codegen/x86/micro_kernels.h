// Owns the micro-kernels of one machine: generates on first request, thread-safe, and keeps them for its lifetime.
#pragma once
#include <memory>

#include "codegen/target.h"
#include "runtime/micro_kernels.h"

namespace tenon {

/// Avx512 or Avx2, whichever the CPU has (Auto), or the one asked for; throws Error when the CPU lacks it.
Isa resolve_isa(Isa isa);

class MicroKernels {
public:
  /// Of the families those that `target` has the features for; tile registers only where the system lets this process use
  /// them (codegen/x86/tiles.h).
  explicit MicroKernels(const Target& target);
  explicit MicroKernels(Isa isa = Isa::Auto) : MicroKernels(host_target(resolve_isa(isa))) {}
  ~MicroKernels();
  MicroKernels(const MicroKernels&) = delete;
  MicroKernels& operator=(const MicroKernels&) = delete;

  Isa isa() const;
  /// What the drivers of the runtime take; valid as long as this object.
  const KernelTable& table() const;

private:
  struct State;
  std::unique_ptr<State> state_;
};

/// How a family multiplies, in kernels.inc's words.
enum class Arithmetic : uint8_t {
  F32Fma,
  F64Fma,
  BF16Fma,
  F16Fma,
  I8Fma,
  BF16Dot,
  U8I8Dot,
  I8I8Dot,
  I16Dot,
  I16I8Dot,
  BF16Tile,
  U8I8Tile,
  I8Tile
};

/// A row of kernels.inc: a family of matrix kernels. `rows` are filled in.
struct GemmFamilyRow {
  GemmFamily family;
  Isa isa; // of its vectors
  bool (*available)(const Target&);
  Arithmetic arithmetic;
};
std::span<const GemmFamilyRow> gemm_families();

struct DepthwiseTile {
  const char* name;
  Isa isa;
  int rows, vectors, group;
};
std::span<const DepthwiseTile> depthwise_tiles();

} // namespace tenon
