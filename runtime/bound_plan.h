// What the sizes of its inputs decide of a plan: made once for a combination of sizes, and shared by all calls that bring it.
#pragma once
#include <deque>
#include <mutex>

#include "runtime/conv_chain.h"
#include "runtime/plan.h"

namespace tenon {

struct Frame;

/// Scratch memory that steps need: each worker's own, and that of convolutions and attention in all.
struct ScratchNeed {
  size_t per_worker = 0, shared = 0;
  void add(const ScratchNeed& other);
  size_t bytes(int threads) const;
};

struct BoundPlan {
  std::vector<int64_t> key;    // sizes and numbers of all inputs, one after the other
  std::vector<int64_t> slots;  // those that depend on data have no value yet
  std::vector<size_t> offsets; // of arena buffers
  size_t arena_bytes = 0;
  ScratchNeed scratch;
  std::deque<MatmulPlan> matmul_plans; // of steps alike there is one
  std::deque<ConvPlan> conv_plans;
  std::vector<const MatmulPlan*> matmuls; // by the steps' numbers; null where sizes depend on data: those are planned in the call
  std::vector<const ConvPlan*> convs;
  std::vector<const MatmulPlan*> later_matmuls; // by the steps' numbers, where weights are packed by then; empty where no step has such
  std::vector<ConvChain> chains;
  struct Result { // memory of an Output buffer
    std::vector<int64_t> sizes, strides;
    size_t bytes = 0;
  };
  std::vector<Result> results; // by the plan's outputs; empty for those in other memory
};

/// Plans memory and launches for the frame's slots. Null: frame.message says why the sizes do not fit.
std::shared_ptr<const BoundPlan> bind_plan(Frame& frame, std::vector<int64_t> key);

/// Plans the frame's contractions again whose sizes wait for `stage`, and makes the scratch large enough. False: out of memory.
bool bind_stage(Frame& frame, int stage);

/// The bound plans made last, found by their keys. Thread-safe.
class BoundPlans {
public:
  std::shared_ptr<const BoundPlan> find(const std::vector<int64_t>& key);
  void add(std::shared_ptr<const BoundPlan> plan);

private:
  static constexpr size_t most = 64;
  struct Entry {
    std::shared_ptr<const BoundPlan> plan;
    uint64_t used;
  };
  std::mutex mutex_;
  std::vector<Entry> entries_;
  uint64_t uses_ = 0;
};

} // namespace tenon
