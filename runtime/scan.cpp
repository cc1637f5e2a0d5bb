// The loop of a scan. Where its body is products, kernels and copies, all of it is one series of parallel phases: a phase
// is a step of the body, which the workers share in parts, and each finds the addresses of its time step by itself. A part
// holds the same columns of a product every time, and walks over them in turn from first to last and from last to first,
// so that what the core's cache can hold of the weights is found there again.
#include <cstring>
#include <utility>

#include "runtime/step_call.h"

namespace tenon {
namespace {

/// Where the carried value is that step i makes.
void* made_at(const ScanStep& s, const ScanStep::Carried& c, const Frame& f, int64_t i, int64_t steps) {
  auto pointer = [&](int b) { return f.pointers[static_cast<size_t>(b)]; };
  if (c.stacked < 0) return pointer((steps - 1 - i) % 2 ? c.spare : c.last);
  const ScanStep::Slice& slice = s.slices[static_cast<size_t>(c.stacked)];
  return static_cast<char*>(pointer(slice.whole)) + (s.reverse ? steps - 1 - i : i) * slot(f, slice.stride);
}

/// Points the slices and carried values of step i.
void enter_step(const ScanStep& s, const Frame& f, int64_t i, int64_t steps, void** pointers) {
  auto pointer = [&](int b) -> void*& { return pointers[static_cast<size_t>(b)]; };
  for (auto& slice : s.slices)
    pointer(slice.slice) =
        static_cast<char*>(f.pointers[static_cast<size_t>(slice.whole)]) + (s.reverse ? steps - 1 - i : i) * slot(f, slice.stride);
  for (auto& c : s.carried) {
    pointer(c.now) = i == 0 ? f.pointers[static_cast<size_t>(c.first)] : made_at(s, c, f, i - 1, steps);
    pointer(c.next) = made_at(s, c, f, i, steps);
  }
}

bool leave(const ScanStep& s, Frame& f, int64_t steps) {
  for (auto& c : s.carried) {
    void* to = f.pointers[static_cast<size_t>(c.last)];
    const void* from = steps == 0 ? f.pointers[static_cast<size_t>(c.first)] : made_at(s, c, f, steps - 1, steps);
    size_t bytes;
    if (from == to) continue;
    if (!bytes_of(f.plan->buffers[static_cast<size_t>(c.last)], f, bytes)) return f.message = "a size overflows", false;
    std::memcpy(to, from, bytes);
  }
  return true;
}

class Team {
public:
  Team(const ScanStep& s, Frame& f, int64_t steps) : scan_(s), frame_(f), steps_(steps) {}

  /// Whether every step of the body can be a phase.
  bool fits() const {
    return !frame_.profiled && std::all_of(scan_.body.begin(), scan_.body.end(), [&](const Step& s) {
      if (auto* m = std::get_if<MatmulStep>(&s.run)) return frame_.matmuls[static_cast<size_t>(m->number)]->splits_k == 1;
      if (auto* c = std::get_if<CopyStep>(&s.run)) return bytes(c->from) == bytes(c->to);
      return std::holds_alternative<KernelStep>(s.run);
    });
  }

  bool run() {
    parts_ = static_cast<int>(std::clamp(work_ns() / least_part_ns, 1.0, static_cast<double>(frame_.workers->threads())));
    size_t buffers = frame_.pointers.size();
    frame_.own_pointers.resize(std::max(frame_.own_pointers.size(), buffers * static_cast<size_t>(parts_)));
    for (int p = 0; p < parts_; p++) std::copy(frame_.pointers.begin(), frame_.pointers.end(), own(p));
    frame_.error[0] = 0;
    int64_t count = static_cast<int64_t>(scan_.body.size());
    frame_.workers->run_series(steps_ * count, parts_, [&](int64_t phase, int part, int worker) {
      int64_t i = phase / count;
      enter_step(scan_, frame_, i, steps_, own(worker));
      std::visit([&](auto& s) { run_part(s, own(worker), i, part, worker); }, scan_.body[static_cast<size_t>(phase % count)].run);
    });
    return frame_.error[0] == 0 || fail_index(frame_);
  }

private:
  static constexpr double least_part_ns = 1000; // of a time step: some times what waiting for each other takes

  size_t bytes(int buffer) const {
    size_t n;
    return bytes_of(frame_.plan->buffers[static_cast<size_t>(buffer)], frame_, n) ? n : 0;
  }
  void** own(int worker) const { return frame_.own_pointers.data() + static_cast<size_t>(worker) * frame_.pointers.size(); }

  /// Of a time step, as far as it can be shared out.
  double work_ns() const {
    constexpr double cycles_per_ns = 3, bytes_per_cycle = 24; // of weights from L2
    double ns = 0;
    for (const Step& step : scan_.body) {
      if (auto* k = std::get_if<KernelStep>(&step.run); k && slot(frame_, k->iterations) > 1)
        ns += static_cast<double>(slot(frame_, k->iterations)) * iteration_ns(*k, frame_);
      auto* s = std::get_if<MatmulStep>(&step.run);
      if (!s) continue;
      const MatmulPlan& plan = *frame_.matmuls[static_cast<size_t>(s->number)];
      auto number = [&](Slot n) { return static_cast<double>(slot(frame_, n)); };
      double products = number(s->batch[0]) * number(s->batch[1]) * number(s->m) * number(s->n) * number(s->k);
      double loads = number(s->n) * number(s->k) * static_cast<double>(plan.panels.element_bytes) / bytes_per_cycle;
      ns += std::max(products / frame_.linked->micro_kernels->family(plan.family).speed, loads) / cycles_per_ns;
    }
    return ns;
  }

  struct Range {
    int64_t begin, end;
  };
  Range range_of(int64_t n, int part) const { return {n * part / parts_, n * (part + 1) / parts_}; }

  void run_part(const MatmulStep& s, void* const* pointers, int64_t i, int part, int worker) const {
    MatmulCall call(s, frame_, pointers);
    Range r = range_of(items_of(call.plan, call.product), part);
    run_matmul_items(*frame_.linked->micro_kernels, call.plan, call.product, frame_.memory->scratch.data(), r.begin, r.end, worker,
                     i % 2 == 1);
  }
  void run_part(const KernelStep& s, void* const* pointers, int64_t, int part, int worker) const {
    KernelCall call(s, frame_, pointers);
    Range r = range_of(call.iterations, part);
    if (r.begin < r.end) call.run(r.begin, r.end, worker);
  }
  void run_part(const CopyStep& s, void* const* pointers, int64_t, int part, int) const {
    if (part == 0) std::memmove(pointers[static_cast<size_t>(s.to)], pointers[static_cast<size_t>(s.from)], bytes(s.from));
  }
  template <class T> void run_part(const T&, void* const*, int64_t, int, int) const {}

  const ScanStep& scan_;
  Frame& frame_;
  int64_t steps_;
  int parts_ = 1;
};

} // namespace

bool run_scan(const ScanStep& s, Frame& f) {
  int64_t steps = slot(f, s.steps);
  Team team(s, f, steps);
  if (team.fits()) return team.run() && leave(s, f, steps);
  for (int64_t i = 0; i < steps; i++) {
    enter_step(s, f, i, steps, f.pointers.data());
    if (!run_steps(s.body, f)) return false;
  }
  return leave(s, f, steps);
}

} // namespace tenon
