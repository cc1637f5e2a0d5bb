// Steps as calls: pointers and sizes looked up, ready to run any range of their iterations or items in any worker. The
// pointers are the frame's, or a worker's own inside of a scan.
#pragma once
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "runtime/frame.h"

namespace tenon {

inline int64_t slot(const Frame& f, Slot s) { return f.slots[static_cast<size_t>(s)]; }

/// Buffers and scalars of a kernel call: on the stack, but for the rare kernel of very many.
struct Arguments {
  static constexpr size_t most = 96;
  void* few_buffers[most];
  int64_t few_scalars[most];
  void** buffers = few_buffers;
  int64_t* scalars = few_scalars;
  std::vector<void*> many_buffers;
  std::vector<int64_t> many_scalars;
  KernelArgs args;

  Arguments(const Arguments&) = delete;
  Arguments(Frame& f, void* const* pointers, const std::vector<int>& b, const std::vector<Slot>& s) {
    if (b.size() > most) many_buffers.resize(b.size()), buffers = many_buffers.data();
    if (s.size() > most) many_scalars.resize(s.size()), scalars = many_scalars.data();
    for (size_t i = 0; i < b.size(); i++) buffers[i] = b[i] < 0 ? nullptr : pointers[static_cast<size_t>(b[i])];
    for (size_t i = 0; i < s.size(); i++) scalars[i] = slot(f, s[i]);
    args = {buffers, scalars, nullptr, f.error};
  }
};

/// After a kernel has met an index out of range: says so, and gives false.
inline bool fail_index(Frame& f) {
  f.message = "index " + std::to_string(f.error[1]) + " is out of range for size " + std::to_string(f.error[2]);
  return false;
}

inline double iteration_ns(const KernelStep& s, const Frame& f) {
  return std::max(1.0, static_cast<double>(slot(f, s.iteration_elements)) * s.element_ns);
}

struct KernelCall {
  const KernelStep& step;
  Frame& frame;
  Arguments arguments;
  int64_t iterations;

  KernelCall(const KernelStep& s, Frame& f, void* const* pointers)
      : step(s), frame(f), arguments(f, pointers, s.buffers, s.scalars), iterations(slot(f, s.iterations)) {}
  void run(int64_t begin, int64_t end, int worker) const {
    KernelArgs args = arguments.args;
    args.scratch = frame.memory->scratch.data() + static_cast<size_t>(worker) * frame.scratch_per_worker;
    frame.linked->kernels[static_cast<size_t>(step.kernel)](&args, begin, end);
  }
};

inline KernelFn function_of(const TileKernel& k, const Frame& f) {
  return k.kernel < 0 ? nullptr : f.linked->kernels[static_cast<size_t>(k.kernel)];
}

inline constexpr size_t of_tile = 7; // scalars that say which tile

/// Calls a kernel for a tile: its first buffers are the tile's `own`, its last scalars say which tile.
inline void call_tile(KernelFn function, const TileKernel& kernel, const Arguments& arguments, std::initializer_list<const void*> own,
                      const std::array<int64_t, of_tile>& tile) {
  void* few_buffers[Arguments::most];
  int64_t few_scalars[Arguments::most + of_tile];
  std::vector<void*> many_buffers;
  std::vector<int64_t> many_scalars;
  void** buffers = few_buffers;
  int64_t* scalars = few_scalars;
  size_t count = kernel.scalars.size();
  if (kernel.buffers.size() > Arguments::most) many_buffers.resize(kernel.buffers.size()), buffers = many_buffers.data();
  if (count > Arguments::most) many_scalars.resize(count + of_tile), scalars = many_scalars.data();
  std::transform(own.begin(), own.end(), buffers, [](const void* p) { return const_cast<void*>(p); });
  std::copy(arguments.buffers + own.size(), arguments.buffers + kernel.buffers.size(), buffers + own.size());
  std::copy(arguments.scalars, arguments.scalars + count, scalars);
  std::copy(tile.begin(), tile.end(), scalars + count);
  KernelArgs args{buffers, scalars, nullptr, arguments.args.error};
  function(&args, 0, 1);
}

/// Calls an epilogue kernel for a tile: its first buffer is the tile's sums, its last scalars say which tile.
struct TileCall {
  const TileKernel& kernel;
  KernelFn function; // null: there is none
  Arguments arguments;

  TileCall(const TileKernel& k, Frame& f, void* const* pointers)
      : kernel(k), function(function_of(k, f)), arguments(f, pointers, k.buffers, k.scalars) {}
  Epilogue epilogue(const Frame& f, void* const* pointers) {
    if (!function) return {};
    Epilogue e{.fn = call, .ctx = this};
    for (size_t i = 0; i < std::min(kernel.beside.size(), std::size(e.beside)); i++) {
      auto b = static_cast<size_t>(kernel.beside[i]);
      e.beside[i] = {static_cast<const char*>(pointers[b]), static_cast<int64_t>(size_of(f.plan->buffers[b].dtype))};
    }
    return e;
  }
  static void call(void* ctx, const SumTile& tile) {
    auto& t = *static_cast<TileCall*>(ctx);
    int64_t rows = (tile.m1 - tile.m0 + tile.m_step - 1) / tile.m_step;
    call_tile(t.function, t.kernel, t.arguments, {tile.sums},
              {tile.batch, tile.m0, tile.m0 + rows, tile.n0, tile.n1, tile.stride, tile.m_step});
  }
};

struct MatmulCall {
  const void* packed_later;
  const MatmulPlan& plan;
  TileCall tile;
  Matmul product;

  MatmulCall(const MatmulStep& s, Frame& f, void* const* pointers)
      : packed_later(tenon::packed_later(s, f)), plan(plan_of(s, f, packed_later)), tile(s.epilogue, f, pointers),
        product(matmul_of(s, f, pointers, packed_later)) {
    product.epilogue = tile.epilogue(f, pointers);
  }
};

} // namespace tenon
