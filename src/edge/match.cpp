// Shared by the Edge passes.
#include "edge/match.h"

#include "ops/names.h"

namespace tenon {

std::optional<double> round_to(double v, DType t) {
  switch (t) {
  case DType::Bool: return v != 0 ? 1 : 0;
  case DType::F16: return static_cast<float>(F16(static_cast<float>(v)));
  case DType::BF16: return static_cast<float>(BF16(static_cast<float>(v)));
  case DType::F32: return static_cast<float>(v);
  case DType::F64: return v;
  case DType::C64:
  case DType::C128: return std::nullopt;
  case DType::F8E4M3FN:
  case DType::F8E5M2:
  case DType::F8E4M3FNUZ:
  case DType::F8E5M2FNUZ: return from_float8(to_float8(static_cast<float>(v), t), t);
  default: break;
  }
  constexpr double limit = 9007199254740992.0; // 2^53: beyond, a double does not tell the integers apart
  double whole = std::trunc(v);
  if (!(std::abs(whole) <= limit)) return std::nullopt;
  return dispatch(t, [&]<class T>(T) -> std::optional<double> {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      auto i = static_cast<int64_t>(whole);
      return static_cast<int64_t>(static_cast<T>(i)) == i ? std::optional<double>(whole) : std::nullopt;
    } else return std::nullopt;
  });
}

Arg fill_value(double v, DType t) {
  if (is_float(t) || is_float8(t)) return v;
  if (t == DType::Bool) return v != 0;
  return static_cast<int64_t>(v);
}

std::optional<double> filled_with(const Graph& g, ValueId v) {
  const Node* n = made_by(g, v, edge::full);
  if (!n) return std::nullopt;
  const Arg& a = n->args[1];
  double number;
  if (a.is<double>()) number = a.get<double>();
  else if (a.is<bool>()) number = a.get<bool>();
  else if (a.is<int64_t>() && std::abs(static_cast<double>(a.get<int64_t>())) <= 0x1p53) number = static_cast<double>(a.get<int64_t>());
  else return std::nullopt;
  return round_to(number, g.type(v).dtype);
}

static void count_uses(const Graph& g, BlockId block, std::unordered_map<ValueId, int>& uses) {
  auto count = [&](const Arg& a) { for_each_value(a, [&](ValueId v) { uses[v]++; }); };
  for (NodeId id : g.block(block).nodes) {
    for (const Arg& a : g.node(id).args) count(a);
    for (const Attribute& a : g.node(id).attributes) count(a.value);
    for (BlockId inner : g.node(id).blocks) count_uses(g, inner, uses);
  }
  for (const Arg& a : g.block(block).returns) count(a);
}

std::unordered_map<ValueId, int> count_uses(const Graph& g) {
  std::unordered_map<ValueId, int> uses;
  count_uses(g, g.top(), uses);
  return uses;
}

static bool any_node(const Graph& g, const std::function<bool(const Node&)>& test) {
  for (uint32_t i = 0; i < g.num_nodes(); i++)
    if (test(g.node(NodeId{i}))) return true;
  return false;
}

bool has_call(const Graph& g, OpId op) {
  return any_node(g, [&](const Node& n) { return n.op == op; });
}

bool rewrite_nodes(LoadedProgram& program, const Concerns& concerns, const Replace& replace) {
  const Graph& from = program.graph;
  if (!any_node(from, [&](const Node& n) { return concerns(from, n); })) return false;
  Rewriter r(from, true);
  bool changed = false;
  r.node = [&](NodeId id) {
    const Node& n = from.node(id);
    std::vector<ValueId> now = concerns(from, n) ? replace(r, n) : std::vector<ValueId>();
    if (now.empty()) return r.copy_node(id);
    changed = true;
    for (size_t i = 0; i < n.outputs.size(); i++) r.set(n.outputs[i], now.at(i));
  };
  return rewrite_program(program, r, changed);
}

} // namespace tenon
