// A plan with the addresses of what it names by numbers: ready to be run.
#pragma once
#include <functional>

#include "runtime/kernel_abi.h"
#include "runtime/later_weights.h"
#include "runtime/library.h"
#include "runtime/page_joiner.h"
#include "runtime/plan.h"

namespace tenon {

class Delegate;

/// Runs the node of a fallback step: an error message, or empty.
using FallbackFn = std::function<std::string(struct Frame&)>;

/// What was packed, and how: known again while the weights lie where they lay.
struct PackedFrom {
  const void* weights = nullptr; // null: in memory that is gone by now
  std::vector<int64_t> form;
};

struct LinkedPlan {
  Plan plan;
  std::vector<KernelFn> kernels;
  std::vector<LibraryFn> library;
  std::vector<FallbackFn> fallbacks;
  std::vector<std::span<const std::byte>> packed; // weights
  std::vector<PackedFrom> packed_from;            // of the packed ones; empty where they come from a file
  std::unique_ptr<LaterWeights> later;            // null: none are packed while calls go on
  std::unique_ptr<PageJoiner> page_joiner;        // null: the pages of packed weights stay as they are
  std::vector<std::shared_ptr<const Delegate>> delegates;
  const KernelTable* micro_kernels = nullptr;
  std::vector<std::shared_ptr<const void>> owned; // what the addresses point into
};

/// Gives the plan's delegates their handles. Throws Error: Unsupported where a backend is not registered, BadInput for what it says.
void open_delegates(LinkedPlan& linked);
/// Generates the micro-kernels that the plan's steps may need, so that no run has to.
void prepare_micro_kernels(const Plan& plan, const KernelTable& kernels);

} // namespace tenon
