// The verifier of graphs.
#include "ir/verify.h"

#include <algorithm>

#include "ir/builder.h"
#include "ir/define.h"
#include "ir/promote.h"
#include "ops/names.h"

namespace tenon {

bool is_region(const Node& n) { return n.op == own::loops || n.op == own::matmul || n.op == own::conv || n.op == own::attention; }

namespace {

bool is_number(const Arg& a) { return a.is<bool>() || a.is<int64_t>() || a.is<double>() || a.is<Expr>(); }
bool is_integer(const Arg& a) { return a.is<bool>() || a.is<int64_t>() || (a.is<Expr>() && !is_float(a.get<Expr>()->type)); }

// Whether one element (not a list) may stand where the schema says `type`.
bool fits_element(const Graph& g, ArgType type, const Arg& a) {
  bool is_value = a.is<ValueId>();
  switch (type) {
  case ArgType::Tensor: return (is_value && g.type(a.get<ValueId>()).is_tensor()) || is_number(a) || a.is<std::complex<double>>();
  case ArgType::Scalar: return is_value || is_number(a) || a.is<std::complex<double>>();
  case ArgType::Int: return is_integer(a) || (is_value && g.type(a.get<ValueId>()).kind == TypeKind::Int);
  case ArgType::Float: return is_number(a) || (is_value && g.type(a.get<ValueId>()).kind == TypeKind::Float);
  case ArgType::Bool: return is_integer(a) || (is_value && g.type(a.get<ValueId>()).kind == TypeKind::Bool);
  case ArgType::String: return a.is<std::string>() || a.is<Word>();
  case ArgType::DType: return a.is<DType>() || a.is<Word>();
  case ArgType::Layout:
  case ArgType::MemoryFormat:
  case ArgType::Device: return a.is<Word>() || a.is<std::string>() || a.is<int64_t>();
  case ArgType::Generator: return false; // only None
  case ArgType::Complex: return is_number(a) || a.is<std::complex<double>>();
  case ArgType::Custom:
  case ArgType::Any: return true;
  }
  return false;
}

} // namespace

bool fits(const Graph& g, const SchemaArg& s, const Arg& a) {
  if (s.type == ArgType::Any || s.type == ArgType::Custom) return true;
  if (a.is_none()) return s.optional || (s.has_default && s.fallback.is_none());
  if (!s.list) return fits_element(g, s.type, a);
  if (!a.is<ArgList>()) return s.type != ArgType::Tensor && fits_element(g, s.type, a); // one number stands for the list
  for (const Arg& e : a.get<ArgList>())
    if (e.is_none() ? !s.optional_elements : !fits_element(g, s.type, e)) return false;
  return true;
}

namespace {

bool is_inplace_call(const Node& n) { return n.def && (n.def->signature.mutates() || functional_name(n.op) != n.op); }

// The same kind, dtype and rank; sizes equal where both are numbers.
bool same_type(const Type& a, const Type& b) {
  if (a.kind != b.kind) return false;
  if (!a.is_tensor()) return true;
  if (a.dtype != b.dtype || a.rank() != b.rank()) return false;
  for (size_t d = 0; d < a.rank(); d++)
    if (const_int(a.sizes[d]) && const_int(b.sizes[d]) && a.sizes[d] != b.sizes[d]) return false;
  return true;
}

class Verifier {
public:
  Verifier(const Graph& g, Dialect dialect, ErrorKind kind = ErrorKind::Internal) : g_(g), dialect_(dialect), kind_(kind) {}

  void run() { check_block(g_.top(), false); }

private:
  template <class... A> [[noreturn]] void fail(const Node& n, fmt::format_string<A...> f, A&&... a) const {
    std::string from = n.origin ? to_string(*n.origin) : "", text = n.op.name();
    for (uint32_t i = 0; i < g_.num_nodes(); i++)
      if (&g_.node(NodeId{i}) == &n) text = to_string(g_, NodeId{i});
    text = text.substr(0, std::min({text.find('\n'), text.find("  # File"), size_t{400}}));
    throw Error(kind_, fmt::format("{} in `{}`{}", fmt::format(f, std::forward<A>(a)...), text, from.empty() ? "" : ", from " + from));
  }

  void define(ValueId v) { visible_[v] = true; }

  void check_uses(const Node& n, const Arg& a, std::string_view what) const {
    for_each_value(a, [&](ValueId v) {
      if (v.index >= g_.num_values() || !visible_.get(v)) fail(n, "{} uses a value that is not defined there", what);
    });
  }

  void check_block(BlockId id, bool in_region) {
    const Block& b = g_.block(id);
    std::vector<ValueId> mine = b.params;
    for (ValueId p : b.params) {
      if (g_.value(p).node.valid()) fail(g_.node(g_.value(p).node), "a result is a block's parameter");
      if (visible_.get(p)) throw Error(kind_, fmt::format("%{} is a parameter twice", g_.value(p).name));
      define(p);
    }
    for (NodeId n : b.nodes) {
      check_node(g_.node(n), in_region);
      for (size_t i = 0; i < g_.node(n).outputs.size(); i++) {
        ValueId v = g_.node(n).outputs[i];
        if (visible_.get(v)) fail(g_.node(n), "a value is defined twice");
        if (g_.value(v).node != n || g_.value(v).index != i) fail(g_.node(n), "a result belongs to another node");
        define(v), mine.push_back(v);
      }
    }
    for (const Arg& r : b.returns)
      for_each_value(r, [&](ValueId v) {
        if (v.index < g_.num_values() && visible_.get(v)) return;
        constexpr std::string_view what = "a block returns a value that is not defined in it";
        if (b.owner.valid()) fail(g_.node(b.owner), "{}", what);
        throw Error(kind_, fmt::format("the output: {}", what));
      });
    for (ValueId v : mine) visible_[v] = false;
  }

  void check_node(const Node& n, bool in_region) {
    for (const Arg& a : n.args) check_uses(n, a, "an argument");
    for (const Attribute& a : n.attributes) check_uses(n, a.value, "an attribute");
    bool is_listed = !n.def && kind_ == ErrorKind::BadInput; // what no row has: all of it is told when the program is compiled
    if (std::string why = is_listed ? "" : refusal(g_, n, dialect_, in_region); !why.empty()) fail(n, "{}", why);
    if (n.def) check_args(n), check_results(n);
    if (n.def && kind_ == ErrorKind::Internal) check_types(n);
    for (ValueId v : n.outputs)
      if (g_.type(v).is_tensor() && !g_.type(v).strides.empty() && g_.type(v).strides.size() != g_.type(v).rank())
        fail(n, "strides of another rank");
    for (BlockId b : n.blocks) check_block(b, in_region || is_region(n));
    if (dialect_ != Dialect::Script) check_blocks(n);
  }

  void check_args(const Node& n) const {
    auto& schema = n.def->signature.args;
    if (n.args.size() != schema.size()) fail(n, "{} arguments, the schema has {}", n.args.size(), schema.size());
    for (size_t i = 0; i < schema.size(); i++)
      if (!fits(g_, schema[i], n.args[i])) fail(n, "argument {} does not fit the schema {}", schema[i].name, to_string(n.def->signature));
  }

  // As many results as the schema says, of its kinds; what is recorded as None is not used.
  void check_results(const Node& n) const {
    const Schema& schema = n.def->signature;
    bool counted = n.def->kind != Kind::Prim && !schema.variadic_result && std::ranges::none_of(schema.returns, &SchemaArg::list);
    if (!counted || std::ranges::all_of(n.outputs, [&](ValueId v) { return is_none(v); })) return;
    if (n.outputs.size() != schema.returns.size()) fail(n, "{} results, the schema gives {}", n.outputs.size(), schema.returns.size());
    for (size_t i = 0; i < n.outputs.size(); i++)
      if (bool tensor = schema.returns[i].type == ArgType::Tensor; !is_none(n.outputs[i]) && tensor != g_.type(n.outputs[i]).is_tensor())
        fail(n, "result {} is {}, the schema gives {}", i, to_string(g_.type(n.outputs[i])), tensor ? "a tensor" : "a number");
  }
  bool is_none(ValueId v) const { return g_.type(v).kind == TypeKind::None; }

  void check_types(const Node& n) const {
    if (n.def->kind == Kind::Prim || n.def->data_dependent || is_inplace_call(n)) return;
    if (n.op.name().starts_with(own::to_layout.name())) {
      if (!same_type(g_.type(n.args[0].get<ValueId>()), g_.type(n.outputs.at(0)))) fail(n, "a layout change that changes the type");
      return;
    }
    std::vector<Type> want;
    try {
      want = infer_types(g_, *n.def, n.args);
    } catch (const Error& e) {
      if (e.kind == ErrorKind::Unsupported && dialect_ <= Dialect::Core) return; // to_edge says so where it matters
      fail(n, "the row refuses the call: {}", e.what());
    }
    if (want.size() < n.outputs.size()) fail(n, "{} results, the row gives {}", n.outputs.size(), want.size());
    for (size_t i = 0; i < n.outputs.size(); i++) {
      const Type& got = g_.type(n.outputs[i]);
      if (got.kind != TypeKind::None && !same_type(want[i], got))
        fail(n, "result {} is {}, the row gives {}", i, to_string(got), to_string(want[i]));
    }
  }

  // ---- blocks of control flow and regions

  Type type_of(const Arg& a) const {
    if (a.is<ValueId>()) return g_.type(a.get<ValueId>());
    if (a.is_none()) return Type::scalar(TypeKind::None);
    if (a.is<double>() || (a.is<Expr>() && is_float(a.get<Expr>()->type))) return Type::scalar(TypeKind::Float);
    return Type::scalar(a.is<bool>() ? TypeKind::Bool : TypeKind::Int);
  }

  void expect_types(const Node& n, std::string_view what, const std::vector<Type>& got, const std::vector<Type>& want) const {
    if (got.size() != want.size()) fail(n, "{}: {} values where {} are needed", what, got.size(), want.size());
    for (size_t i = 0; i < got.size(); i++)
      if (!same_type(got[i], want[i])) fail(n, "{}: value {} is {} where {} is needed", what, i, to_string(got[i]), to_string(want[i]));
  }

  std::vector<Type> types_of(const std::vector<ValueId>& values) const {
    std::vector<Type> out;
    for (ValueId v : values) out.push_back(g_.type(v));
    return out;
  }
  std::vector<Type> types_of(const ArgList& args) const {
    std::vector<Type> out;
    for (const Arg& a : args) out.push_back(type_of(a));
    return out;
  }
  std::vector<Type> params(BlockId b) const { return types_of(g_.block(b).params); }
  std::vector<Type> returns(BlockId b) const { return types_of(g_.block(b).returns); }
  void expect_blocks(const Node& n, size_t count) const {
    if (n.blocks.size() != count) fail(n, "{} blocks where {} are needed", n.blocks.size(), count);
  }

  void check_blocks(const Node& n) const {
    if (is_region(n)) {
      expect_blocks(n, 1);
      expect_types(n, "the region's parameters", params(n.blocks[0]), {});
      expect_types(n, "the region's results", returns(n.blocks[0]), types_of(n.outputs));
    } else if (n.op == prim::If) {
      expect_blocks(n, 2);
      for (BlockId b : n.blocks) {
        expect_types(n, "a branch's parameters", params(b), {});
        expect_types(n, "a branch's results", returns(b), types_of(n.outputs));
      }
    } else if (n.op == prim::While) check_while(n);
    else if (n.op == prim::Scan) check_scan(n);
    else if (n.op == prim::Delegate) check_delegate(n);
    else if (n.op.dialect() == "prim" || n.def) expect_blocks(n, 0);
  }

  void check_while(const Node& n) const {
    expect_blocks(n, 2);
    std::vector<Type> carried = types_of(n.args[0].get<ArgList>());
    for (BlockId b : n.blocks) expect_types(n, "the loop's parameters", params(b), carried);
    if (g_.block(n.blocks[0]).returns.size() != 1) fail(n, "the condition gives one value");
    expect_types(n, "the loop's body", returns(n.blocks[1]), types_of(n.outputs));
    expect_types(n, "the loop's results", types_of(n.outputs), carried);
  }

  void check_delegate(const Node& n) const {
    if (n.blocks.empty()) return; // behind the Edge dialect
    expect_blocks(n, 1);
    expect_types(n, "the delegate's parameters", params(n.blocks[0]), types_of(n.args[0].get<ArgList>()));
    expect_types(n, "the delegate's results", returns(n.blocks[0]), types_of(n.outputs));
  }

  void check_scan(const Node& n) const {
    expect_blocks(n, 1);
    std::vector<Type> want = types_of(n.args[0].get<ArgList>());
    size_t carried = want.size();
    for (Type t : types_of(n.args[1].get<ArgList>())) {
      if (!t.is_tensor() || t.sizes.empty()) fail(n, "a scan runs over tensors with dims");
      t.sizes.erase(t.sizes.begin());
      want.push_back(t);
    }
    expect_types(n, "the scan's parameters", params(n.blocks[0]), want);
    std::vector<Type> results = types_of(n.outputs);
    for (size_t i = carried; i < results.size(); i++) {
      if (!results[i].is_tensor() || results[i].sizes.empty()) fail(n, "result {} is no stack", i);
      results[i].sizes.erase(results[i].sizes.begin());
    }
    expect_types(n, "the scan's body", returns(n.blocks[0]), results);
  }

  const Graph& g_;
  Dialect dialect_;
  ErrorKind kind_; // of what is found; what was given has types that to_edge compares with those it derives
  SideTable<ValueId, bool> visible_{false};
};

// What Edge asks of a pointwise call: operands are tensors, those that take part in promotion of one dtype.
std::string refusal_of_operands(const Graph& g, const Node& n) {
  if (n.def->kind != Kind::Pointwise) return {};
  std::optional<DType> common;
  for (size_t i = 0; i < n.args.size(); i++) {
    auto& schema = n.def->signature.args[i];
    bool operand = schema.type == ArgType::Tensor || schema.type == ArgType::Scalar;
    if (!operand || n.args[i].is_none() || n.args[i].is<ArgList>()) continue;
    if (!n.args[i].is<ValueId>()) return fmt::format("operand {} is a number", schema.name);
    if (is_kept(*n.def, i)) continue;
    DType t = g.type(n.args[i].get<ValueId>()).dtype;
    if (t != common.value_or(t)) return fmt::format("operand {} is {} among operands of {}", schema.name, name_of(t), name_of(*common));
    common = t;
  }
  return {};
}

std::string refusal_edge(const Graph& g, const Node& n) {
  if (n.op.dialect() == "prim") return n.def ? "" : "no such operator";
  bool step = n.def && (n.def->library || n.def->body) && n.op.dialect() != "aten"; // torchvision::nms, custom operators
  if (n.op.dialect() != "edge" && n.op.dialect() != "tenon" && !step) return "not an operator of Edge";
  if (!n.def) return "no such operator";
  if (!n.def->stays_in_edge()) return "a composite operator";
  if (is_inplace_call(n)) return "an operator that writes its operands";
  return refusal_of_operands(g, n);
}

std::string refusal_core(const Graph& g, const Node& n) {
  if (n.op.dialect() == "edge" || n.op.dialect() == "tenon") return "not an operator of ATen";
  if (n.op.dialect() == "prim" || !n.def) return {};
  if (is_inplace_call(n)) return "an operator that writes its operands";
  return stays_in_core(g, *n.def, n.args) ? "" : "an operator that core ATen takes apart";
}

bool all_nodes(const Graph& g, BlockId block, Dialect dialect, bool in_region) {
  for (NodeId id : g.block(block).nodes) {
    const Node& n = g.node(id);
    if (!refusal(g, n, dialect, in_region).empty()) return false;
    for (BlockId b : n.blocks)
      if (!all_nodes(g, b, dialect, in_region || is_region(n))) return false;
  }
  return true;
}

} // namespace

std::string_view name_of(Dialect dialect) {
  constexpr std::string_view names[] = {"any", "aten", "core", "edge", "backend", "script"};
  return names[static_cast<int>(dialect)];
}

std::string refusal(const Graph& g, const Node& n, Dialect dialect, bool in_region) {
  switch (dialect) {
  case Dialect::Script: return "";
  case Dialect::Any: return n.def || is_region(n) ? "" : "no such operator";
  case Dialect::Aten:
    if (n.op.dialect() == "edge" || n.op.dialect() == "tenon") return "not an operator of ATen";
    return n.def ? "" : "no such operator";
  case Dialect::Core: return n.def ? refusal_core(g, n) : "no such operator";
  case Dialect::Edge: return refusal_edge(g, n);
  case Dialect::Backend: break;
  }
  if (is_region(n)) return in_region ? "a region inside a region" : "";
  if (std::string why = refusal_edge(g, n); !why.empty()) return why;
  if (n.def->is_composite()) return "a composite operator";
  if (in_region) return has_definition(n) && n.outputs.size() == 1 ? "" : "a region computes defined operators only";
  if (n.op == own::join) return {};
  if (n.op.dialect() != "prim" && !n.def->library && has_definition(n)) return "an operator outside of regions";
  for (ValueId v : tensor_operands(n.args, g))
    if (!g.type(v).strides.empty()) return "a step outside of regions that reads strided memory";
  return {};
}

bool is_aten(const Graph& g) { return all_nodes(g, g.top(), Dialect::Aten, false); }
bool is_core(const Graph& g) { return all_nodes(g, g.top(), Dialect::Core, false); }
bool is_edge(const Graph& g) { return all_nodes(g, g.top(), Dialect::Edge, false); }

void verify_contiguous(const Graph& g) {
  std::string first;
  size_t count = 0;
  std::function<void(BlockId)> see = [&](BlockId block) {
    auto look = [&](ValueId v) {
      if (g.type(v).is_tensor() && !g.type(v).strides.empty() && count++ == 0) first = to_string(g, Arg(v)) + " : " + to_string(g.type(v));
    };
    for (ValueId p : g.block(block).params) look(p);
    for (NodeId id : g.block(block).nodes) {
      for (ValueId v : g.node(id).outputs) look(v);
      for (BlockId b : g.node(id).blocks) see(b);
    }
  };
  see(g.top());
  require_input(count == 0, "{} is not in contiguous format, as {} values of the graph", first, count);
}

void verify(const Graph& graph, Dialect dialect) { Verifier(graph, dialect).run(); }
void verify_given(const Graph& graph, Dialect dialect) { Verifier(graph, dialect, ErrorKind::BadInput).run(); }

} // namespace tenon
