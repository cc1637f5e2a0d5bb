// A plan ready to run: frames, state, workers. Its functions may be called by many threads at once.
#pragma once
#include <atomic>
#include <deque>
#include <mutex>

#include "runtime/frame.h"
#include "runtime/session.h"
#include "tenon/error.h"

namespace tenon {

/// Why memory that a caller gives does not fit a result; empty where it does.
std::string output_refusal(int number, const TensorView& given, DType dtype, std::span<const int64_t> sizes);

class PlanRunner {
public:
  /// `profile`: every step is timed.
  PlanRunner(std::shared_ptr<const LinkedPlan> plan, const Workers& workers, bool profile = false,
             std::shared_ptr<const Collectives> collectives = {});
  /// In the session of another plan of the same program: calls of both work on one state.
  PlanRunner(std::shared_ptr<const LinkedPlan> plan, std::shared_ptr<Session> session, bool profile = false);
  ~PlanRunner();

  /// Results take the memory of those of an earlier call, where `outputs` alone holds it and the sizes are the same.
  Status run(std::span<const TensorView> inputs, std::vector<Tensor>& outputs) noexcept;
  /// The same into memory of the caller, of the results' dtypes and sizes.
  Status run_into(std::span<const TensorView> inputs, std::span<const TensorView> outputs) noexcept;
  /// Inputs and outputs that a frame of its own is pointed at, for repeated runs; not for several threads at once.
  class Call;
  /// What the inputs' sizes decide, without a run: only the data of numbers is read. Throws where they do not fit.
  std::shared_ptr<const BoundPlan> plan_for(std::span<const TensorView> inputs);
  /// Copies of the buffers that live between calls, in the plan's order.
  std::vector<Tensor> state();
  /// Gives one of them a new value, of the same dtype and sizes.
  void set_state(size_t i, const TensorView& value);
  /// Another runner of the same plan, with a state of its own that starts as this one's is now.
  std::unique_ptr<PlanRunner> copy();
  const Plan& plan() const { return *plan_; }
  const LinkedPlan& linked() const { return *linked_; }
  size_t arena_bytes() const { return arena_bytes_.load(std::memory_order_relaxed); }
  /// What the runs so far cost, by step number; empty where not asked for.
  Profile profile();
  /// The slots of the last of them; empty where there is none.
  std::vector<int64_t> profiled_slots();
  const Workers& workers() const { return session_->workers; }
  const std::shared_ptr<Session>& session() const { return session_; }

private:
  /// Where a call's results go: tensors, made anew where those of an earlier call do not do; or memory of the caller.
  struct Results {
    std::vector<Tensor>* tensors = nullptr;
    std::span<const TensorView> views;
  };

  std::unique_ptr<Frame> make_frame();
  Frame* take_frame();
  void give_back(Frame* frame);
  Status run(std::span<const TensorView> inputs, Results& results) noexcept;
  Status failed(Frame& f, Error error) noexcept;
  Status run_bound(Frame& f, std::span<const TensorView> inputs, Results& results) noexcept;
  bool matches(const Frame& f, std::span<const TensorView> inputs) const;
  bool bind(Frame& f, std::span<const TensorView> inputs);
  bool bind_free_numbers(Frame& f, std::span<const TensorView> inputs);
  int64_t key_of(size_t input, const TensorView& number) const;
  std::shared_ptr<const BoundPlan> bound_for(Frame& f, std::span<const TensorView> inputs);
  bool bind_input(Frame& f, const InputSpec& spec, const TensorView& view, bool check_equal);
  bool check_inputs(Frame& f, std::span<const TensorView> inputs);
  void enter(Frame& f, std::shared_ptr<const BoundPlan> bound);
  bool point_at_inputs(Frame& f, std::span<const TensorView> inputs);
  void point_at_arena(Frame& f);
  bool place_results(Frame& f, std::span<const TensorView> inputs, Results& results);
  bool place_tensor(Frame& f, std::span<const TensorView> inputs, DType dtype, const BoundPlan::Result& result, Tensor& tensor);
  bool place_view(Frame& f, std::span<const TensorView> inputs, Results& results, size_t output);
  bool hand_over(Frame& f, std::span<const TensorView> inputs, Results& results);
  bool hand_over_result(Frame& f, size_t output, Results& results);

  std::shared_ptr<const LinkedPlan> linked_;
  const Plan* plan_; // the linked one
  std::shared_ptr<Session> session_;
  BoundPlans bound_;
  BindTable table_;
  std::vector<size_t> arena_buffers_, parts_; // by place
  std::vector<size_t> free_numbers_;          // among the inputs, where something reads them
  size_t num_results_ = 0;
  Pooled<Frame> frames_;
  std::atomic<size_t> arena_bytes_ = 0; // of the last sizes that were bound
  bool is_profiled_;
  std::mutex profile_mutex_;
  Profile profile_;
  std::vector<int64_t> profiled_slots_;
};

class PlanRunner::Call {
public:
  /// Checks and binds; the memory must stay where it is. The runner must outlive the call. See `status` for what does not fit.
  Call(PlanRunner& runner, std::span<const TensorView> inputs, std::span<const TensorView> outputs);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  const Status& status() const { return status_; }
  std::span<const TensorView> inputs() const { return inputs_; }
  std::span<const TensorView> outputs() const { return outputs_; }
  Status run() noexcept;

private:
  std::vector<TensorView> keep(std::span<const TensorView> views);

  PlanRunner& runner_;
  std::deque<std::vector<int64_t>> numbers_; // sizes and strides of the views
  std::vector<TensorView> inputs_, outputs_;
  Frame* frame_ = nullptr; // null: every run is a call like any other, because something is copied on the way
  Status status_;
};

} // namespace tenon
