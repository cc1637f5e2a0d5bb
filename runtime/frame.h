// A frame: all that one call of an executable needs. Frames are pooled, so that calls allocate nothing once they are warm.
#pragma once
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/timeline.h"
#include "runtime/bind_table.h"
#include "runtime/bound_plan.h"
#include "runtime/collectives.h"
#include "runtime/linked_plan.h"
#include "runtime/profile.h"
#include "runtime/session.h"
#include "tenon/custom_op.h"

namespace tenon {

struct Frame {
  const LinkedPlan* linked = nullptr;
  const Plan* plan = nullptr; // the linked one
  const Workers* workers = nullptr;
  BlockPool* pool = nullptr;
  const BindTable* table = nullptr;
  std::shared_ptr<const BoundPlan> bound;
  std::vector<int64_t> slots;
  std::vector<void*> pointers;            // per buffer
  std::vector<void*> own_pointers;        // of the workers of a scan, those of one after those of another
  std::vector<const MatmulPlan*> matmuls; // by the steps' numbers: the bound plan's, or, where sizes depend on data, the frame's own
  std::vector<const ConvPlan*> convs;
  std::unordered_map<int, MatmulPlan> own_matmuls;
  std::unordered_map<int, ConvPlan> own_convs;
  CallMemory* memory = nullptr;    // of this call
  const char* placed_at = nullptr; // where the arena was when pointers were set
  size_t scratch_per_worker = 0;
  std::vector<std::shared_ptr<void>> held; // of this call: dynamic buffers, staged inputs, fresh results
  uint64_t random_steps = 0;               // of this call, so far
  int64_t error[3] = {0, 0, 0};
  std::string message;
  std::vector<int64_t> library_sizes, library_ints; // of the library step that runs
  std::vector<struct LibraryTensor> library_tensors;
  std::vector<tenon_tensor> delegate_tensors; // of the delegate that runs
  std::vector<int64_t> delegate_strides;
  const Collectives* collectives = nullptr; // null: the executable has no communicator
  std::vector<void*> requests;              // of collectives that are under way, by the steps' numbers
  int in_flight = 0;
  bool profiled = false; // steps are timed, to `profile`
  Profile profile;
  std::shared_ptr<Recording> recording; // of this call; null: nobody records
  uint64_t recorded_for = 0;            // the recording that the following were made for
  std::vector<Recording::Name> step_names;
  std::vector<int64_t> alive; // bytes of temporaries, by step
  bool observed = false;      // profiled or recorded

  bool reserve_scratch(const ScratchNeed& need) {
    scratch_per_worker = std::max(scratch_per_worker, need.per_worker);
    return memory->scratch.reserve(ScratchNeed{scratch_per_worker, need.shared}.bytes(workers->threads()));
  }
};

/// Runs the steps of a plan over a frame whose pointers are set. False: see frame.message.
/// Throws only std::bad_alloc.
bool run_steps(const std::vector<Step>& steps, Frame& frame);
/// The time of a call: its steps are recorded where somebody records.
class RecordedCall {
public:
  explicit RecordedCall(Frame& f) : f_(f) {
    if (Recording::is_on()) [[unlikely]]
      begin();
  }
  ~RecordedCall() {
    if (f_.recording) [[unlikely]]
      end();
  }
  RecordedCall(const RecordedCall&) = delete;
  RecordedCall& operator=(const RecordedCall&) = delete;

private:
  void begin();
  void end();

  Frame& f_;
  Recording::Name name_ = 0;
  int64_t begin_ns_ = 0;
};
/// Bytes of a buffer under the frame's slots; false where a size is negative or the product overflows.
bool bytes_of(const PlanBuffer& buffer, const Frame& frame, size_t& bytes);
bool bytes_of(std::span<const Slot> sizes, size_t element_bytes, const Frame& frame, size_t& bytes);
/// Runs a scan's body for each of its steps.
bool run_scan(const ScanStep& step, Frame& frame);
/// The packed form that a step's weights have by now, which were not packed ahead of time; null: none.
inline const void* packed_later(const MatmulStep& step, const Frame& frame) {
  bool has = step.later >= 0 && frame.bound->later_matmuls[static_cast<size_t>(step.number)];
  return has ? frame.linked->later->find(step.later) : nullptr;
}
/// The step's call with the frame's sizes and pointers, or a worker's own pointers; `packed_later` as above.
Matmul matmul_of(const MatmulStep& step, const Frame& frame, void* const* pointers, const void* packed_later);
/// How it runs.
inline const MatmulPlan& plan_of(const MatmulStep& step, const Frame& frame, const void* packed_later) {
  return *(packed_later ? frame.bound->later_matmuls : frame.matmuls)[static_cast<size_t>(step.number)];
}
Conv conv_of(const ConvStep& step, const Frame& frame);
/// The chain that the step is part of; null: none.
const ConvChain* chain_of(const ConvStep& step, const Frame& frame);
/// Without its kernels; offsets where the frame has no pointers yet.
AttentionCall attention_of(const AttentionStep& step, const Frame& frame);
/// Sizes, and those of a buffer, under the frame's slots.
std::vector<int64_t> sizes_of(std::span<const Slot> sizes, const Frame& frame);
std::vector<int64_t> sizes_of(const PlanBuffer& buffer, const Frame& frame);

} // namespace tenon
