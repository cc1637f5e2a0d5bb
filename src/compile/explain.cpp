// The steps of a plan for people: what each computes, with which code, at what cost.
#include "compile/explain.h"

#include <algorithm>
#include <set>

#include <fmt/core.h>

#include "base/cpu_name.h"
#include "compile/memory_formula.h"
#include "compile/parse_sources.h"
#include "runtime/executable.h"

namespace tenon {

namespace {

using StepKind = ExplainedStep::Kind;

// Buffers that a step reads and writes.
struct Uses {
  std::set<int> reads, writes;

  void read(std::initializer_list<int> list) { reads.insert(list); }
  void read(const std::vector<int>& list) { reads.insert(list.begin(), list.end()); }
  void write(const std::vector<int>& list) { writes.insert(list.begin(), list.end()); }
  // What a kernel writes stands among its buffers, a second time where it is read as well.
  void kernel(const std::vector<int>& buffers, const std::vector<int>& written) {
    for (int b : buffers)
      if (std::ranges::count(buffers, b) > std::ranges::count(written, b)) reads.insert(b);
    write(written);
  }
  void tile(const TileKernel& t) { kernel(t.buffers, t.written); }

  void of(const KernelStep& s) { kernel(s.buffers, s.written); }
  void of(const MatmulStep& s) { read({s.a, s.b}), write({s.c}), tile(s.epilogue); }
  void of(const ConvStep& s) { read({s.input, s.weight}), write({s.output}), tile(s.epilogue); }
  void of(const AttentionStep& s) { read({s.q.buffer, s.k.buffer, s.v.buffer}), tile(s.score), tile(s.finish); }
  void of(const LibraryStepCall& s) { read(s.inputs), write(s.outputs); }
  void of(const DelegateStep& s) { read(s.inputs), write(s.outputs); }
  void of(const CollectiveStep& s) { read({s.input}), write({s.output}); }
  void of(const WaitStep& s) { read({s.output}), write({s.output}); }
  void of(const FallbackStep& s) { kernel(s.buffers, s.written); }
  void of(const CopyStep& s) { read({s.from}), write({s.to}); }
  void of(const ItemStep& s) { read({s.buffer}); }
  void of(const ScalarStep& s) { write({s.buffer}); }
  void of(const AssertStep&) {}
  void of(const PrintStep&) {}
  void of(const IfStep& s) { read({s.condition}), all(s.branches[0]), all(s.branches[1]); }
  void of(const WhileStep& s) { all(s.condition), all(s.body); }
  void of(const ScanStep& s) {
    for (auto& x : s.slices) read({x.whole});
    for (auto& c : s.carried) read({c.first}), write({c.last});
    all(s.body);
  }
  void all(const std::vector<Step>& steps) {
    for (const Step& s : steps) std::visit([&](auto& x) { of(x); }, s.run);
  }
};

class Explainer {
public:
  Explainer(const Plan& plan, const Profile& profile, const std::vector<int64_t>& slots, const Limits& limits, const KernelTable& kernels)
      : plan_(plan), profile_(profile), slots_(slots), limits_(limits), families_(kernels) {}

  Explanation run() {
    for (const Step& s : plan_.steps)
      if (const StepProfile* p = of(s)) ns_ += p->ns, out_.runs = std::max(out_.runs, p->calls);
    if (out_.runs > 0) out_.us = 1e-3 * static_cast<double>(ns_) / static_cast<double>(out_.runs);
    buffers();
    steps(plan_.steps, -1);
    out_.machine.gbytes_per_s = limits_.bytes_per_ns;
    for (size_t f = 0; f < limits_.flops_per_ns.size(); f++)
      if (limits_.flops_per_ns[f] > 0) out_.machine.peaks.push_back({families_.families()[f].name, limits_.flops_per_ns[f]});
    out_.memory = memory_formula(plan_);
    out_.notes = plan_.notes;
    return std::move(out_);
  }

private:
  const StepProfile* of(const Step& s) const {
    size_t i = static_cast<size_t>(s.number);
    return i < profile_.size() && profile_[i].calls > 0 ? &profile_[i] : nullptr;
  }

  // ---- code
  std::string name(int kernel) const { return fmt::format("kernel {} {}", kernel, plan_.kernels.at(static_cast<size_t>(kernel))); }
  std::string then(const TileKernel& t) const { return t.kernel < 0 ? "" : ", epilogue " + name(t.kernel); }
  std::string code(const KernelStep& s) const { return name(s.kernel); }
  std::string code(const MatmulStep& s) const { return "matrix micro-kernels" + then(s.epilogue); }
  std::string code(const ConvStep& s) const { return "micro-kernels" + then(s.epilogue); }
  std::string code(const AttentionStep& s) const {
    return "matrix micro-kernels by blocks of keys, softmax " + name(s.score.kernel) + ", result " + name(s.finish.kernel);
  }
  std::string code(const LibraryStepCall&) const { return "library step"; }
  std::string code(const CollectiveStep& s) const { return s.waits ? "communication" : "communication begins"; }
  std::string code(const WaitStep&) const { return "communication ends"; }
  std::string code(const DelegateStep& s) const { return "backend " + s.backend; }
  std::string code(const FallbackStep&) const { return "INTERPRETER"; }
  template <class T> std::string code(const T&) const { return "plan"; }

  static StepKind kind(const KernelStep&) { return StepKind::Loops; }
  static StepKind kind(const MatmulStep&) { return StepKind::Matmul; }
  static StepKind kind(const ConvStep&) { return StepKind::Conv; }
  static StepKind kind(const AttentionStep&) { return StepKind::Attention; }
  static StepKind kind(const LibraryStepCall&) { return StepKind::Library; }
  static StepKind kind(const CollectiveStep&) { return StepKind::Library; }
  static StepKind kind(const WaitStep&) { return StepKind::Library; }
  static StepKind kind(const DelegateStep&) { return StepKind::Backend; }
  static StepKind kind(const FallbackStep&) { return StepKind::Interpreter; }
  static StepKind kind(const IfStep&) { return StepKind::Control; }
  static StepKind kind(const WhileStep&) { return StepKind::Control; }
  static StepKind kind(const ScanStep&) { return StepKind::Control; }
  template <class T> static StepKind kind(const T&) { return StepKind::Plan; }

  // ---- buffers
  void buffers() {
    using Place = ExplainedBuffer::Place;
    std::vector<std::string> texts = slot_texts(plan_);
    for (const PlanBuffer& b : plan_.buffers) {
      ExplainedBuffer e{.name = b.name, .dtype = b.dtype, .sizes = {}};
      for (Slot s : b.sizes) e.sizes.push_back(texts[static_cast<size_t>(s)]);
      if (!slots_.empty()) {
        e.bytes = static_cast<int64_t>(size_of(b.dtype));
        for (Slot s : b.sizes) e.bytes *= std::max<int64_t>(slots_[static_cast<size_t>(s)], 0);
      }
      switch (b.place) {
      case BufferPlace::Input: e.place = Place::Input; break;
      case BufferPlace::Output: e.place = Place::Output; break;
      case BufferPlace::Constant: e.place = Place::Constant; break;
      case BufferPlace::State: e.place = Place::State; break;
      default: break;
      }
      out_.buffers.push_back(std::move(e));
    }
  }
  // A part stands for what it lies in; -1: no buffer.
  int whole(int buffer) const {
    while (buffer >= 0 && plan_.buffers[static_cast<size_t>(buffer)].place == BufferPlace::Part)
      buffer = plan_.buffers[static_cast<size_t>(buffer)].index;
    return buffer;
  }
  std::vector<int> wholes(const std::set<int>& buffers) const {
    std::set<int> out;
    for (int b : buffers)
      if (whole(b) >= 0) out.insert(whole(b));
    return {out.begin(), out.end()};
  }

  // ---- steps
  void steps(const std::vector<Step>& list, int owner) {
    for (const Step& s : list) {
      int index = static_cast<int>(out_.steps.size());
      step(s, owner);
      if (auto* i = std::get_if<IfStep>(&s.run)) steps(i->branches[0], index), steps(i->branches[1], index);
      if (auto* w = std::get_if<WhileStep>(&s.run)) steps(w->condition, index), steps(w->body, index);
      if (auto* c = std::get_if<ScanStep>(&s.run)) steps(c->body, index);
    }
  }
  void step(const Step& s, int owner) {
    ExplainedStep e{.number = s.number, .owner = owner, .operators = s.what, .refused = s.refused};
    std::visit([&](auto& x) { e.kind = kind(x), e.code = code(x); }, s.run);
    Uses uses;
    std::visit([&](auto& x) { uses.of(x); }, s.run);
    e.reads = wholes(uses.reads), e.writes = wholes(uses.writes);
    Sources sources = parse_sources(s.source);
    e.source = std::move(sources.lines), e.more_sources = sources.more;
    if (const StepProfile* p = of(s)) measure(e, *p);
    out_.steps.push_back(std::move(e));
  }
  void measure(ExplainedStep& e, const StepProfile& p) {
    double calls = static_cast<double>(p.calls);
    e.calls = p.calls, e.us = static_cast<double>(p.ns) / calls / 1e3;
    e.detail = p.detail;
    e.share = static_cast<double>(p.ns) / static_cast<double>(std::max<int64_t>(ns_, 1));
    e.bytes = p.bytes / calls, e.flops = p.flops / calls;
    if (limits_.bytes_per_ns > 0) e.memory_us = e.bytes / limits_.bytes_per_ns / 1e3;
    if (p.family >= 0 && limits_.flops_per_ns.at(static_cast<size_t>(p.family)) > 0)
      e.arithmetic_us = e.flops / limits_.flops_per_ns[static_cast<size_t>(p.family)] / 1e3;
  }

  const Plan& plan_;
  const Profile& profile_;
  const std::vector<int64_t>& slots_;
  const Limits& limits_;
  const KernelTable& families_;
  int64_t ns_ = 0; // of all steps
  Explanation out_;
};

std::vector<int> families_of(const Profile& profile) {
  std::vector<int> all;
  for (const StepProfile& p : profile)
    if (p.family >= 0 && std::find(all.begin(), all.end(), p.family) == all.end()) all.push_back(p.family);
  return all;
}

} // namespace

Explanation explain(const Plan& plan, const Profile& profile, const std::vector<int64_t>& slots, const Limits& limits,
                    const KernelTable& kernels) {
  return Explainer(plan, profile, slots, limits, kernels).run();
}

Explanation explain(PlanRunner& runner) {
  Profile profile = runner.profile();
  const KernelTable& kernels = *runner.linked().micro_kernels;
  Limits limits;
  if (!profile.empty()) limits = measure_limits(kernels, runner.workers(), families_of(profile));
  Explanation e = explain(runner.plan(), profile, runner.profiled_slots(), limits, kernels);
  e.machine.cpu = cpu_name();
  e.machine.threads = runner.workers().threads();
  return e;
}

} // namespace tenon
