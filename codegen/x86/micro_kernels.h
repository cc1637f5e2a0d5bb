// Owns the micro-kernels of one instruction set: generates on first request, thread-safe, and keeps them for its
// lifetime.
#pragma once
#include <memory>

#include "runtime/micro_kernels.h"
#include "tenon/options.h"

namespace tenon {

/// Avx512 or Avx2, whichever the CPU has (Auto), or the one asked for; throws Error when the CPU lacks it.
Isa resolve_isa(Isa isa);

class MicroKernels {
public:
  explicit MicroKernels(Isa isa = Isa::Auto);
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

/// A row of kernels.inc.
struct RegisterTile {
  const char* name;
  Isa isa;
  int rows, vectors;
};
const RegisterTile* gemm_tiles(int& count);
const RegisterTile* depthwise_tiles(int& count);

} // namespace tenon
