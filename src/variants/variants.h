// The plans of one executable: the one for all sizes, which serves from the start, and guarded ones for sizes that come often. A guard
// fixes all sizes, or those alone without which kernels would be other code (InputDim::in_code), so that one plan serves short rows
// whatever their number. Guarded plans are made in the background, or where they are asked for, and found by the sizes of a call's inputs;
// calls take no lock for it.
#pragma once
#include <array>
#include <atomic>
#include <functional>

#include "base/background.h"
#include "runtime/executable.h"
#include "tenon/options.h"
#include "variants/size_histogram.h"

namespace tenon {

/// Which sizes a plan is for: any, those that code depends on fixed, or all of them.
enum class Guard : uint8_t { None, Code, All };

struct Variant {
  Guard kind;
  std::vector<int64_t> sizes; // of all tensor inputs in a row; -1: any
  std::string guard;          // "s0 = 8, s1 = 128"
  std::unique_ptr<PlanRunner> runner;
  size_t bytes = 0; // of code and weights of its own
  double compile_ms = 0;
  bool was_asked_for = false; // by the user
};

class Variants {
public:
  struct Made {
    std::shared_ptr<const LinkedPlan> plan;
    size_t bytes = 0;
    std::string guard;
  };
  using Make = std::function<Made(std::span<const int64_t> sizes)>;

  /// `generic` must outlive the variants. `compile_ms`: what making it took.
  Variants(PlanRunner& generic, const Specialization& options, Make make, double compile_ms);
  ~Variants();

  Status run(std::span<const TensorView> inputs, std::vector<Tensor>& outputs) noexcept;
  Status run_into(std::span<const TensorView> inputs, std::span<const TensorView> outputs) noexcept;

  /// Makes a plan for the inputs' sizes, in the calling thread. Throws where it is refused.
  void specialize(std::span<const TensorView> inputs);
  /// Until nothing is made in the background.
  void wait() { background_.wait(); }
  /// The guarded plan that serves these inputs, or null.
  std::shared_ptr<const Variant> find(std::span<const TensorView> inputs);
  /// Calls whose plan was chosen when they were bound; null: that for all sizes. `ns` < 0: not timed.
  void note(std::span<const TensorView> inputs, const Variant* served, uint64_t calls, double ns);

  struct Info {
    std::string guard;        // empty: for all sizes
    CallTimes times, generic; // generic: of sizes that it is for, by plans for more
    size_t bytes = 0;
    double compile_ms = 0;
  };
  /// The generic plan, then the others.
  std::vector<Info> infos();

private:
  struct Table {
    std::vector<std::shared_ptr<const Variant>> variants; // those that fix all sizes first
  };
  /// Calls of one choice of sizes that the histogram does not have yet.
  struct Tally {
    std::vector<int64_t> sizes;
    Guard served = Guard::None;
    CallTimes times;
  };
  /// One of them belongs to a call while it runs. What `held` points to lives.
  struct alignas(64) Reader {
    std::atomic<const Table*> held{nullptr};
    Tally tally;
  };

  template <class Run> Status dispatch(std::span<const TensorView> inputs, const Run& run) noexcept;
  Reader* claim() noexcept;
  bool is(const std::vector<int64_t>& sizes, std::span<const TensorView> inputs) const noexcept;
  std::vector<int64_t> sizes_of(std::span<const TensorView> inputs) const;
  bool open(Tally& tally, std::span<const TensorView> inputs, Guard served) noexcept;
  void count(Tally& tally, double ns, double work) noexcept;
  void flush(Tally& tally);

  // With the mutex held.
  SizeHistogram& histogram(Guard kind) { return histograms_[kind == Guard::All]; }
  std::vector<int64_t> fixed_in(std::span<const int64_t> sizes, Guard kind) const;
  void publish(std::vector<std::shared_ptr<const Variant>> variants);
  void sweep();
  void add(std::shared_ptr<const Variant> variant);
  void drop(const Variant& variant);
  double heat_of(const Variant& variant);
  void drop_useless();
  void see_less(const Variant& variant);
  struct Candidate {
    Guard kind = Guard::None;
    SizeUse* use = nullptr;
  };
  Candidate hottest();
  SizeUse* hottest(Guard kind);

  bool make_next();
  std::shared_ptr<const Variant> make(Guard kind, std::span<const int64_t> sizes);

  PlanRunner& generic_;
  const Specialization options_;
  const Make make_;
  std::vector<bool> in_code_;   // by dimension
  bool has_code_guards_;        // they fix some of the sizes, not all
  std::atomic<bool> is_active_; // there are exact plans, or may be
  std::array<Reader, 64> readers_;
  std::atomic<const Table*> table_;
  std::mutex mutex_;                                 // of all below
  std::vector<std::unique_ptr<const Table>> tables_; // the last is published; the others may still be held
  SizeHistogram histograms_[2];                      // of guards that fix some sizes, that fix all
  CallTimes generic_times_;                          // of the plan for all sizes
  double spent_ms_ = 0, expected_ms_;
  Background background_{Background::Priority::Low}; // ends before the rest does
};

} // namespace tenon
