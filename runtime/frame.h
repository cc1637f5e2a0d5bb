// A frame: all that one call of an executable needs. Frames are pooled, so that calls allocate nothing once they are warm.
#pragma once
#include <memory>
#include <vector>

#include "runtime/conv_chain.h"
#include "runtime/plan.h"
#include "runtime/profile.h"

namespace tenon {

/// Blocks of memory that are given back and used again, for outputs and data-dependent buffers. Thread-safe.
class BlockPool {
public:
  BlockPool();
  /// 64-byte aligned; returns to the pool when the last reference goes. Null where memory is refused.
  std::shared_ptr<void> take(size_t bytes);

private:
  struct State;
  std::shared_ptr<State> state_;
};

struct Frame {
  const Plan* plan = nullptr;
  const Workers* workers = nullptr;
  std::vector<int64_t> slots;
  std::vector<void*> pointers;     // per buffer
  std::vector<void*> own_pointers; // of the workers of a scan, those of one after those of another
  std::vector<int64_t> bound;      // slots of the inputs when memory was planned
  bool planned = false;
  std::vector<size_t> offsets; // of arena buffers
  size_t arena_bytes = 0, scratch_bytes = 0, scratch_per_worker = 0;
  std::vector<MatmulPlan> matmuls; // by the steps' numbers, for the sizes bound
  std::vector<ConvPlan> convs;
  std::vector<ConvChain> chains; // found when memory is planned
  std::shared_ptr<void> arena, scratch;
  size_t arena_capacity = 0, scratch_capacity = 0;
  std::vector<std::shared_ptr<void>> held;         // of this call: dynamic buffers, staged inputs
  std::vector<std::vector<int64_t>> dynamic_sizes; // per buffer, of data-dependent outputs
  std::vector<Tensor> outputs;                     // per Output buffer
  BlockPool* pool = nullptr;
  uint64_t random_steps = 0; // of this call, so far
  int64_t error[3] = {0, 0, 0};
  std::string message;
  bool profiled = false; // steps are timed, to `profile`
  Profile profile;
};

/// Runs the steps of a plan over a frame whose pointers are set. False: see frame.message.
/// Throws only std::bad_alloc.
bool run_steps(const std::vector<Step>& steps, Frame& frame);
/// Plans products and convolutions for the frame's slots, and makes the scratch as large as the steps need. False: out of
/// memory.
bool reserve_scratch(Frame& frame);
/// Bytes of a buffer under the frame's slots; false where a size is negative or the product overflows.
bool bytes_of(const PlanBuffer& buffer, const Frame& frame, size_t& bytes);
/// Runs a scan's body for each of its steps.
bool run_scan(const ScanStep& step, Frame& frame);
/// The step's call with the frame's sizes and pointers, or a worker's own pointers.
Matmul matmul_of(const MatmulStep& step, const Frame& frame, void* const* pointers);
inline Matmul matmul_of(const MatmulStep& step, const Frame& frame) { return matmul_of(step, frame, frame.pointers.data()); }
Conv conv_of(const ConvStep& step, const Frame& frame);
/// The chain that the step is part of; null: none.
const ConvChain* chain_of(const ConvStep& step, const Frame& frame);
/// Without its kernels; offsets where the frame has no pointers yet.
AttentionCall attention_of(const AttentionStep& step, const Frame& frame);
/// Sizes of a buffer under the frame's slots.
std::vector<int64_t> sizes_of(const PlanBuffer& buffer, const Frame& frame);
/// Lays out arena buffers for the frame's sizes: largest first, each at the lowest place free for its lifetime.
/// False: frame.message says which size is impossible.
bool plan_memory(Frame& frame);

} // namespace tenon
