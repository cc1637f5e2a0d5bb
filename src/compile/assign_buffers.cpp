// Lifetimes: one walk over the steps in their order.
#include "compile/assign_buffers.h"

#include <algorithm>
#include <climits>

namespace tenon {

namespace {

class Lifetimes {
public:
  explicit Lifetimes(Plan& plan) : buffers_(plan.buffers), is_named_(plan.buffers.size()) {}

  void steps(const std::vector<Step>& list) {
    for (const Step& s : list) {
      at_ = s.number;
      std::visit([&](auto& run) { walk(run); }, s.run);
    }
  }
  void name(int buffer, int step) {
    if (buffer < 0) return;
    size_t i = static_cast<size_t>(buffer);
    PlanBuffer& b = buffers_[i];
    if (!is_named_[i]) is_named_[i] = true, b.first = b.last = step;
    b.first = std::min(b.first, step), b.last = std::max(b.last, step);
    if (b.place == BufferPlace::Part) name(b.index, step);
  }

private:
  void names(const std::vector<int>& list) {
    for (int b : list) name(b, at_);
  }
  void walk(const KernelStep& s) { names(s.buffers); }
  void walk(const TileKernel& s) { names(s.buffers), names(s.beside); }
  void walk(const MatmulStep& s) { names({s.a, s.b, s.c}), walk(s.epilogue); }
  void walk(const ConvStep& s) { names({s.input, s.output, s.weight}), walk(s.epilogue); }
  void walk(const AttentionStep& s) { names({s.q.buffer, s.k.buffer, s.v.buffer}), walk(s.score), walk(s.finish); }
  void walk(const LibraryStepCall& s) { names(s.inputs), names(s.outputs); }
  void walk(const FallbackStep& s) { names(s.buffers); }
  void walk(const DelegateStep& s) { names(s.inputs), names(s.outputs); }
  void walk(const CollectiveStep& s) { names({s.input, s.output}); }
  void walk(const WaitStep& s) { names({s.input, s.output}); }
  void walk(const CopyStep& s) { names({s.from, s.to}); }
  void walk(const ItemStep& s) { name(s.buffer, at_); }
  void walk(const ScalarStep& s) { name(s.buffer, at_); }
  void walk(const AssertStep&) {}
  void walk(const PrintStep&) {}

  // A step that owns others has the last number of them all.
  static int first_of(const std::vector<Step>& list, int otherwise) {
    if (list.empty()) return otherwise;
    const Step& s = list.front();
    if (auto* i = std::get_if<IfStep>(&s.run)) return first_of(i->branches[0], first_of(i->branches[1], s.number));
    if (auto* w = std::get_if<WhileStep>(&s.run)) return first_of(w->condition, first_of(w->body, s.number));
    if (auto* c = std::get_if<ScanStep>(&s.run)) return first_of(c->body, s.number);
    return s.number;
  }
  void walk(const IfStep& s) {
    name(s.condition, first_of(s.branches[0], first_of(s.branches[1], at_)));
    steps(s.branches[0]), steps(s.branches[1]);
  }
  void walk(const WhileStep& s) {
    int end = at_, begin = first_of(s.condition, first_of(s.body, end));
    steps(s.condition), steps(s.body);
    name(s.flag, end);
    keep_through(begin, end);
  }
  void walk(const ScanStep& s) {
    int end = at_, begin = first_of(s.body, end);
    steps(s.body);
    for (int step : {begin, end}) { // a slice, and what is carried, is an alias of these
      for (const ScanStep::Slice& slice : s.slices) name(slice.whole, step);
      for (const ScanStep::Carried& c : s.carried) name(c.first, step), name(c.last, step), name(c.spare, step);
    }
    keep_through(begin, end);
  }
  void keep_through(int begin, int end) {
    for (PlanBuffer& b : buffers_)
      if (b.first < begin && b.last >= begin) b.last = std::max(b.last, end);
  }

  std::vector<PlanBuffer>& buffers_;
  std::vector<bool> is_named_;
  int at_ = 0;
};

} // namespace

void assign_buffers(Plan& plan) {
  Lifetimes lifetimes(plan);
  lifetimes.steps(plan.steps);
  for (const OutputSpec& o : plan.outputs) lifetimes.name(o.buffer, INT_MAX); // read when all steps are done
}

} // namespace tenon
