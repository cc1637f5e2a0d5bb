// A plan ready to run: frames, state, workers. run() is re-entrant from many threads.
#pragma once
#include <atomic>
#include <mutex>

#include "runtime/frame.h"
#include "tenon/error.h"

namespace tenon {

class PlanRunner {
public:
  /// `profile`: every step is timed.
  PlanRunner(Plan plan, int threads, bool profile = false);
  ~PlanRunner();

  Status run(std::span<const TensorView> inputs, std::vector<Tensor>& outputs) noexcept;
  /// Copies of the buffers that live between calls, in the plan's order.
  std::vector<Tensor> state();
  /// Gives one of them a new value, of the same dtype and sizes.
  void set_state(size_t i, const TensorView& value);
  /// Another runner of the same plan, with a state of its own that starts as this one's is now.
  std::unique_ptr<PlanRunner> copy();
  const Plan& plan() const { return plan_; }
  size_t arena_bytes() const { return arena_bytes_.load(std::memory_order_relaxed); }
  /// What the runs so far cost, by step number; empty where not asked for.
  Profile profile();
  const Workers& workers() const { return workers_; }

private:
  std::unique_ptr<Frame> take_frame();
  void give_back(std::unique_ptr<Frame> frame);
  bool bind(Frame& f, std::span<const TensorView> inputs);
  bool bind_input(Frame& f, const InputSpec& spec, const TensorView& view, bool check_equal);
  bool prepare_memory(Frame& f);
  bool prepare_outputs(Frame& f);

  Plan plan_;
  Workers workers_;
  BlockPool pool_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Frame>> frames_;
  std::mutex state_mutex_; // held while a plan with state runs
  std::vector<Tensor> state_;
  std::atomic<size_t> arena_bytes_ = 0; // of the last frame that was planned
  int threads_;
  bool is_profiled_;
  Profile profile_;
};

} // namespace tenon
