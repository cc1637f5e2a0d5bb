// `tenon show`: a program's signature, sizes, weights and graph, as text or JSON.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include "base/json_text.h"
#include "cli/commands.h"

namespace tenon::cli {

namespace {

std::string text_of(const ir::Arg& a) {
  struct Visit {
    std::string operator()(std::monostate) const { return "None"; }
    std::string operator()(bool v) const { return v ? "True" : "False"; }
    std::string operator()(int64_t v) const { return std::to_string(v); }
    std::string operator()(double v) const { return fmt::format("{}", v); }
    std::string operator()(std::complex<double> v) const { return fmt::format("complex({}, {})", v.real(), v.imag()); }
    std::string operator()(const std::string& v) const { return json_quote(v); }
    std::string operator()(DType v) const { return std::string(name_of(v)); }
    std::string operator()(const ir::Word& v) const { return v.text; }
    std::string operator()(const ir::Size& v) const { return v.text; }
    std::string operator()(ir::Value v) const { return "%" + v.name(); }
    std::string operator()(const std::shared_ptr<const ir::Graph>& v) const { return v->toString(); }
    std::string operator()(const Tensor& v) const { return fmt::format("{}{}", name_of(v.dtype()), v.sizes()); }
    std::string operator()(const ir::Arg::List& v) const {
      return json_array(v, [](auto& e) { return text_of(e); });
    }
  };
  return std::visit(Visit{}, a.v);
}

std::string bound(const std::optional<int64_t>& v, const char* none) { return v ? std::to_string(*v) : none; }
size_t bytes_of(const Tensor& t) { return static_cast<size_t>(t.numel()) * size_of(t.dtype()); }

void show_signature(const ir::GraphSignature& s) {
  fmt::print("inputs:\n");
  for (auto& in : s.input_specs)
    fmt::print("  {} {}{}{}{}\n", name_of(in.kind), in.name, in.target.empty() ? "" : " = " + in.target,
               in.kind == ir::InputKind::Buffer && !in.persistent ? " (not persistent)" : "",
               in.fixed ? " fixed " + text_of(*in.fixed) : "");
  fmt::print("outputs:\n");
  for (auto& out : s.output_specs) fmt::print("  {} {}{}\n", name_of(out.kind), out.name, out.target.empty() ? "" : " -> " + out.target);
}

void show_weights(const char* title, const std::vector<NamedTensor>& weights) {
  size_t bytes = 0;
  for (auto& w : weights) bytes += bytes_of(w.tensor);
  fmt::print("{}: {} tensors, {} bytes\n", title, weights.size(), bytes);
  for (auto& w : weights) fmt::print("  {} {}{} {} bytes\n", w.name, name_of(w.tensor.dtype()), w.tensor.sizes(), bytes_of(w.tensor));
}

void show_text(const Program& p, const ir::Graph& graph) {
  if (!p.torch_version().empty()) fmt::print("torch {}\n", p.torch_version());
  show_signature(p.signature());
  for (auto& r : p.range_constraints()) fmt::print("range: {} in [{}, {}]\n", r.symbol, bound(r.min_val, "-inf"), bound(r.max_val, "inf"));
  for (auto& [a, b] : p.equality_constraints()) fmt::print("equal: {}[{}] = {}[{}]\n", b.input_name, b.dim, a.input_name, a.dim);
  for (auto& m : p.module_call_graph())
    if (m.has_signature) fmt::print("module '{}': in {} out {}\n", m.fqn, m.in_spec, m.out_spec);
  show_weights("state dict", p.state_dict());
  show_weights("constants", p.constants());
  fmt::print("{}", graph.toString());
}

std::string json_of(const std::vector<NamedTensor>& weights) {
  return json_array(weights, [](const NamedTensor& w) {
    return fmt::format(R"({{"name": {}, "dtype": "{}", "sizes": {}, "bytes": {}}})", json_quote(w.name), name_of(w.tensor.dtype()),
                       w.tensor.sizes(), bytes_of(w.tensor));
  });
}

std::string json_of(const ir::GraphSignature& s) {
  auto in = [](const ir::InputSpec& i) {
    return fmt::format(R"({{"kind": "{}", "name": {}, "target": {}, "persistent": {}, "fixed": {}}})", name_of(i.kind), json_quote(i.name),
                       json_quote(i.target), i.persistent, i.fixed ? json_quote(text_of(*i.fixed)) : "null");
  };
  auto out = [](const ir::OutputSpec& o) {
    return fmt::format(R"({{"kind": "{}", "name": {}, "target": {}}})", name_of(o.kind), json_quote(o.name), json_quote(o.target));
  };
  return fmt::format(R"({{"inputs": {}, "outputs": {}}})", json_array(s.input_specs, in), json_array(s.output_specs, out));
}

std::string json_of(ir::Node n) {
  auto arg = [](const ir::Arg& a) { return json_quote(text_of(a)); };
  auto named = [](const ir::NamedArg& a) { return fmt::format("{}: {}", json_quote(a.name), json_quote(text_of(a.value))); };
  auto value = [](ir::Value v) { return fmt::format(R"({{"name": {}, "type": {}}})", json_quote(v.name()), json_quote(v.type().str())); };
  auto meta = [](auto& m) { return fmt::format("{}: {}", json_quote(m.first), json_quote(m.second)); };
  return fmt::format(R"({{"name": {}, "op": "{}", "target": {}, "args": {}, "kwargs": {{{}}}, "outputs": {}, "meta": {{{}}}}})",
                     json_quote(n.name()), n.op(), json_quote(n.target()), json_array(n.args(), arg), json_join(n.kwargs(), named),
                     json_array(n.outputs(), value), json_join(n.meta(), meta));
}

void show_json(const Program& p, const ir::Graph& graph) {
  auto range = [](auto& r) {
    return fmt::format(R"({{"symbol": {}, "min": {}, "max": {}}})", json_quote(r.symbol), bound(r.min_val, "null"),
                       bound(r.max_val, "null"));
  };
  auto dim = [](const ir::InputDim& d) { return fmt::format("[{}, {}]", json_quote(d.input_name), d.dim); };
  auto module = [](auto& m) {
    return fmt::format(R"({{"fqn": {}, "in_spec": {}, "out_spec": {}}})", json_quote(m.fqn), m.has_signature ? m.in_spec : "null",
                       m.has_signature ? m.out_spec : "null");
  };
  fmt::print(R"({{"torch_version": {}, "signature": {}, "range_constraints": {}, "equality_constraints": {}, "module_call_graph": {}, )"
             R"("state_dict": {}, "constants": {}, "nodes": {}}})"
             "\n",
             json_quote(p.torch_version()), json_of(p.signature()), json_array(p.range_constraints(), range),
             json_array(p.equality_constraints(), [&](auto& e) { return fmt::format("[{}, {}]", dim(e.first), dim(e.second)); }),
             json_array(p.module_call_graph(), module), json_of(p.state_dict()), json_of(p.constants()),
             json_array(graph.fxNodes(), [](ir::Node n) { return json_of(n); }));
}

} // namespace

int show(const ShowArgs& args) {
  if (is_script(args.model.file)) return show_script(args);
  if (args.python) return show_python(args);
  Program program = load(args.model);
  ir::Graph graph = program.graph(args.stage).value();
  args.json ? show_json(program, graph) : show_text(program, graph);
  return 0;
}

} // namespace tenon::cli
