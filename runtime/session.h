// What the plans of one executable share: workers, the memory of calls, the state that lives between them.
#pragma once
#include <mutex>
#include <vector>

#include "base/pooled.h"
#include "runtime/collectives.h"
#include "runtime/memory.h"
#include "runtime/parallel.h"
#include "tenon/tensor.h"

namespace tenon {

/// What a call needs while it runs; calls one after the other use the same, whatever their plans.
struct CallMemory {
  GrowingBlock arena, scratch;
};

struct Session {
  /// The state starts as copies of `initial`. `collectives`: null where there is no communicator.
  Session(const Workers& workers, const std::vector<Tensor>& initial, std::shared_ptr<const Collectives> collectives = {});

  const Workers workers;
  const std::shared_ptr<const Collectives> collectives;
  BlockPool blocks;
  Pooled<CallMemory> memory;
  std::mutex state_mutex; // held while a plan with state runs
  const std::vector<Tensor> state;
};

} // namespace tenon
