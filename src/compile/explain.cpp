// The steps of a plan for people: what each computes, with which code, at what cost.
#include "compile/explain.h"

#include "compile/memory_formula.h"

#include <algorithm>

#include <fmt/core.h>

namespace tenon {

namespace {

class Explainer {
public:
  Explainer(const std::vector<std::string>& kernels, const Profile& profile, const Limits& limits)
      : kernels_(kernels), profile_(profile), limits_(limits) {}
  std::string text;

  void steps(const std::vector<Step>& list, int depth) {
    for (const Step& s : list) {
      step(s, depth);
      if (auto* i = std::get_if<IfStep>(&s.run)) steps(i->branches[0], depth + 1), steps(i->branches[1], depth + 1);
      if (auto* w = std::get_if<WhileStep>(&s.run)) steps(w->condition, depth + 1), steps(w->body, depth + 1);
      if (auto* c = std::get_if<ScanStep>(&s.run)) steps(c->body, depth + 1);
    }
  }
  void measure(const std::vector<Step>& top) {
    for (const Step& s : top)
      if (const StepProfile* p = of(s)) ns_ += p->ns;
  }
  void total(const std::vector<Step>& top) {
    int64_t ns = ns_, calls = 1;
    for (const Step& s : top)
      if (const StepProfile* p = of(s)) calls = std::max(calls, p->calls);
    if (!profile_.empty())
      add("all steps: {:.3f} ms a run, over {} runs\n", 1e-6 * static_cast<double>(ns) / static_cast<double>(calls), calls);
  }

private:
  template <class... T> void add(fmt::format_string<T...> format, T&&... args) {
    fmt::format_to(std::back_inserter(text), format, std::forward<T>(args)...);
  }
  const StepProfile* of(const Step& s) const {
    size_t i = static_cast<size_t>(s.number);
    return i < profile_.size() && profile_[i].calls > 0 ? &profile_[i] : nullptr;
  }
  std::string name(int kernel) const { return fmt::format("kernel {} {}", kernel, kernels_.at(static_cast<size_t>(kernel))); }
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

  void step(const Step& s, int depth) {
    std::string indent(static_cast<size_t>(depth) * 2, ' ');
    add("{}{}: {}\n", indent, s.number, s.what);
    indent += "     ";
    const StepProfile* p = of(s);
    add("{}{}{}{}\n", indent, std::visit([&](auto& x) { return code(x); }, s.run), p && !p->detail.empty() ? ": " : "", p ? p->detail : "");
    if (p) {
      double calls = static_cast<double>(p->calls), us = static_cast<double>(p->ns) / calls / 1e3,
             ns = static_cast<double>(std::max<int64_t>(p->ns, 1));
      add("{}{:.2f} us", indent, us);
      if (p->bytes > 0) add(", {:.0f} bytes ({:.1f} GB/s)", p->bytes / calls, p->bytes / ns);
      if (p->flops > 0) add(", {:.0f} flops ({:.1f} GFLOP/s)", p->flops / calls, p->flops / ns);
      text += '\n';
      mark(*p, indent);
    }
    if (!s.refused.empty()) add("{}refused: {}\n", indent, s.refused);
    if (!s.source.empty()) add("{}{}\n", indent, s.source);
  }

  // A step that matters and could be twice as fast.
  void mark(const StepProfile& p, const std::string& indent) {
    double memory = limits_.bytes_per_ns > 0 ? p.bytes / limits_.bytes_per_ns : 0, arithmetic = 0, ns = static_cast<double>(p.ns);
    if (p.family >= 0 && limits_.flops_per_ns.at(static_cast<size_t>(p.family)) > 0)
      arithmetic = p.flops / limits_.flops_per_ns[static_cast<size_t>(p.family)];
    double bound = std::max(memory, arithmetic);
    if (bound <= 0 || ns < 2 * bound || ns < 0.02 * static_cast<double>(ns_)) return;
    add("{}FAR FROM ITS BOUND: {:.2f} us by {}, {:.0f}% of it reached\n", indent, bound / static_cast<double>(p.calls) / 1e3,
        arithmetic > memory ? "arithmetic" : "memory", 100 * bound / ns);
  }

  const std::vector<std::string>& kernels_;
  const Profile& profile_;
  const Limits& limits_;
  int64_t ns_ = 0; // of all steps
};

} // namespace

std::vector<int> families_of(const Profile& profile) {
  std::vector<int> all;
  for (const StepProfile& p : profile)
    if (p.family >= 0 && std::find(all.begin(), all.end(), p.family) == all.end()) all.push_back(p.family);
  return all;
}

std::string explain(const Plan& plan, const Profile& profile, const Limits& limits) {
  Explainer e(plan.kernels, profile, limits);
  e.measure(plan.steps);
  e.steps(plan.steps, 0);
  e.total(plan.steps);
  for (const std::string& note : plan.notes) e.text += note + "\n";
  return e.text + to_string(memory_formula(plan));
}

} // namespace tenon
