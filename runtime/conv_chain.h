// Convolutions in a chain: a depthwise one with the 1x1 convolution before it, the one behind it, or both, run by rows.
// What one writes, the next reads from the worker's scratch while it is in L2; tensors between them get no memory. A
// schedule of steps as they are: the same kernels and epilogues run, on fewer rows at a time.
#pragma once
#include <vector>

#include "runtime/plan.h"

namespace tenon {

struct Frame;

struct ConvChain {
  const ConvStep *before = nullptr, *depthwise = nullptr, *after = nullptr; // null: not part of it
  int first_step = 0, last_step = 0;                                        // by their numbers
  int between[2] = {-1, -1};                                                // buffers before and behind the depthwise one
  MatmulPlan before_plan = {}, after_plan = {};                             // for some rows of an image
  int64_t made_rows = 0, done_rows = 0;                                     // rows before and behind the depthwise one at a time
  int64_t strips = 1;                                                       // items of an image
  int64_t ring_bytes = 0, done_bytes = 0, product_bytes = 0, sum_bytes = 0; // of one worker

  const ConvStep* head() const { return before ? before : depthwise; }
  int64_t worker_bytes() const { return ring_bytes + done_bytes + product_bytes + sum_bytes; }
};

/// Steps that a chain may start with, by their place in the plan's list: known without sizes. None where sizes are found while it runs.
std::vector<size_t> possible_chains(const Plan& plan);
/// Chains among these that pay for the frame's sizes.
std::vector<ConvChain> find_chains(const Frame& frame);
void run_chain(const ConvChain& chain, Frame& frame);

} // namespace tenon
