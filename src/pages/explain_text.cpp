// An explanation as text, a few lines for each step.
#include <iterator>

#include <fmt/core.h>

#include "pages/words.h"

namespace tenon {

namespace {

class Writer {
public:
  explicit Writer(const Explanation& e) : e_(e) {}

  std::string run() {
    for (const ExplainedStep& s : e_.steps) step(s);
    if (e_.runs > 0) add("all steps: {:.3f} ms a run, over {} runs\n", 1e-3 * e_.us, e_.runs);
    for (const std::string& note : e_.notes) add("{}\n", note);
    if (!e_.memory.temporaries.empty()) memory();
    for (const VariantInfo& v : e_.variants) variant(v);
    return std::move(text_);
  }

private:
  template <class... T> void add(fmt::format_string<T...> format, T&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<T>(args)...);
  }

  void step(const ExplainedStep& s) {
    std::string indent(static_cast<size_t>(depth_of(e_, s)) * 2, ' ');
    add("{}{}: {}\n", indent, s.number, s.operators);
    indent += "     ";
    add("{}{}{}{}\n", indent, s.code, s.detail.empty() ? "" : ": ", s.detail);
    if (s.calls > 0) measured(s, indent);
    if (!s.refused.empty()) add("{}refused: {}\n", indent, s.refused);
    if (!s.source.empty()) add("{}{}\n", indent, sources(s));
  }

  void measured(const ExplainedStep& s, const std::string& indent) {
    double ns = std::max(s.us * 1e3, 1e-3);
    add("{}{:.2f} us", indent, s.us);
    if (s.bytes > 0) add(", {:.0f} bytes ({:.1f} GB/s)", s.bytes, s.bytes / ns);
    if (s.flops > 0) add(", {:.0f} flops ({:.1f} GFLOP/s)", s.flops, s.flops / ns);
    text_ += '\n';
    if (is_far(s))
      add("{}FAR FROM ITS BOUND: {:.2f} us by {}, {:.0f}% of it reached\n", indent, s.bound_us(), bound_name(s), 100 / s.times_bound());
  }

  void memory() {
    add("temporaries alive at once: {} bytes\nresults: {} bytes\n", e_.memory.temporaries, e_.memory.results);
    if (e_.memory.uncounted > 0) add("not counted: {} buffers whose sizes depend on data\n", e_.memory.uncounted);
    text_ += "scratch memory of workers: as the sizes and the number of threads decide\n";
  }

  void variant(const VariantInfo& v) {
    add("plan for {}: {} calls", v.guard, v.calls);
    if (v.mean_us > 0) add(", {:.1f} us each", v.mean_us);
    if (v.generic_us > 0) add("; without it they took {:.1f}", v.generic_us);
    add("; {} bytes of its own, made in {:.1f} ms\n", v.bytes, v.compile_ms);
  }

  const Explanation& e_;
  std::string text_;
};

} // namespace

std::string to_text(const Explanation& explanation) { return Writer(explanation).run(); }

} // namespace tenon
