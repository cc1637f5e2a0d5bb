// An explanation as JSON; of the page also where the graph's nodes lie.
#include <cmath>

#include "base/json_text.h"
#include "pages/layout.h"
#include "pages/pages.h"
#include "pages/words.h"

namespace tenon {

namespace {

// Members of an object, in order.
class Object {
public:
  Object& text(const char* key, std::string_view value) { return raw(key, json_quote(value)); }
  Object& number(const char* key, double value) { return raw(key, std::isfinite(value) ? fmt::format("{:.6g}", value) : "null"); }
  template <class T> Object& integer(const char* key, T value) { return raw(key, fmt::format("{}", value)); }
  Object& raw(const char* key, std::string_view value) {
    text_ += fmt::format("{}\"{}\": {}", text_.empty() ? "" : ", ", key, value);
    return *this;
  }
  operator std::string() const { return "{" + text_ + "}"; }

private:
  std::string text_;
};

std::string integers(const std::vector<int>& list) {
  return json_array(list, [](int i) { return std::to_string(i); });
}

std::string json(const SourceLine& l) {
  return Object().text("module", l.module).text("file", l.file).text("function", l.function).integer("line", l.line);
}

std::string json(const Explanation& e, const ExplainedStep& s) {
  Object o;
  o.integer("number", s.number).integer("owner", s.owner).integer("depth", depth_of(e, s)).text("kind", name_of(s.kind));
  o.text("operators", s.operators).text("code", s.code).text("detail", s.detail).text("refused", s.refused);
  o.raw("source", json_array(s.source, [](auto& l) { return json(l); })).integer("more_sources", s.more_sources);
  o.raw("reads", integers(s.reads)).raw("writes", integers(s.writes)).integer("calls", s.calls);
  if (s.calls > 0) {
    o.number("us", s.us).number("share", s.share).number("bytes", s.bytes).number("flops", s.flops);
    o.number("memory_us", s.memory_us).number("arithmetic_us", s.arithmetic_us).number("times_bound", s.times_bound());
    o.raw("is_far", is_far(s) ? "true" : "false");
  }
  return o;
}

std::string json(const ExplainedBuffer& b) {
  return Object()
      .text("name", b.name)
      .text("dtype", name_of(b.dtype))
      .raw("sizes", json_array(b.sizes, [](auto& s) { return json_quote(s); }))
      .integer("bytes", b.bytes)
      .text("place", name_of(b.place));
}

std::string json(const MachineLimits& m) {
  return Object()
      .text("cpu", m.cpu)
      .integer("threads", m.threads)
      .number("gbytes_per_s", m.gbytes_per_s)
      .raw("peaks",
           json_array(m.peaks, [](auto& p) -> std::string { return Object().text("kernels", p.kernels).number("gflops", p.gflops); }));
}

std::string json(const VariantInfo& v) {
  return Object()
      .text("guard", v.guard)
      .integer("calls", v.calls)
      .number("mean_us", v.mean_us)
      .number("generic_us", v.generic_us)
      .integer("bytes", v.bytes)
      .number("compile_ms", v.compile_ms);
}

std::string json(const ExecutableStats& s) {
  return Object()
      .number("compile_ms", s.compile_ms)
      .integer("kernels_compiled", s.kernels_compiled)
      .integer("steps", s.steps)
      .integer("fallback_steps", s.fallback_steps)
      .integer("delegate_steps", s.delegate_steps)
      .integer("state_bytes", s.state_bytes)
      .integer("arena_bytes", s.arena_bytes);
}

Object members(const Explanation& e) {
  Object o;
  o.text("program", e.program).integer("runs", e.runs).number("us", e.us).raw("machine", json(e.machine)).raw("stats", json(e.stats));
  o.raw("memory", Object()
                      .text("temporaries", e.memory.temporaries)
                      .text("results", e.memory.results)
                      .integer("uncounted", e.memory.uncounted)
                      .operator std::string());
  o.raw("steps", json_array(e.steps, [&](auto& s) { return json(e, s); }));
  o.raw("buffers", json_array(e.buffers, [](auto& b) { return json(b); }));
  o.raw("variants", json_array(e.variants, [](auto& v) { return json(v); }));
  o.raw("notes", json_array(e.notes, [](auto& n) { return json_quote(n); }));
  return o;
}

std::string json(const Layout& l) {
  auto node = [](const Layout::Node& n) { return fmt::format("[{}, {:.0f}, {:.0f}]", n.id, n.x, n.y); };
  auto edge = [&](const Layout::Edge& e) {
    return fmt::format("[{}, {}, {}, {}]", e.from, e.to, e.value,
                       json_array(e.points, [](auto& p) { return fmt::format("[{:.0f}, {:.0f}]", p.x, p.y); }));
  };
  return Object()
      .number("width", l.width)
      .number("height", l.height)
      .number("node_width", Layout::node_width)
      .number("node_height", Layout::node_height)
      .raw("nodes", json_array(l.nodes, node))
      .raw("edges", json_array(l.edges, edge));
}

} // namespace

std::string to_json(const Explanation& e) { return members(e); }

std::string to_html(const Explanation& e) {
  std::string json_text = members(e).raw("graph", json(layout_of(e)));
  return pages::page("explain", e.program.empty() ? "tenon explain" : e.program + " – tenon explain", json_text);
}

} // namespace tenon
