// A call's types come from the operator's row: in a graph of its own, unknown sizes and numbers are symbols; what is a number in the result
// is known. A row takes a symbol for two or more, so the call is made once more with ones: what is another then is not known.
#include "executor/propagate_types.h"

#include <algorithm>
#include <set>

#include "builtins/elements.h"
#include "builtins/resolve.h"
#include "executor/constants.h"
#include "ir/builder.h"
#include "ops/call_names.h"
#include "ops/names.h"
#include "script/lint.h"

namespace tenon::executor {

namespace {

using MaybeTypes = std::optional<std::vector<Type>>;

const Node* producer(const Graph& g, ValueId v) { return g.value(v).node.valid() ? &g.node(g.value(v).node) : nullptr; }
Type dynamic() { return Type::simple(TypeKind::Dynamic); }

Resolved resolved(const Graph& g, const Node& n) {
  std::vector<Given> given;
  for (const Arg& a : n.args) given.push_back({g.type(a.get<ValueId>())});
  auto r = resolve_node(n.op, given);
  return r ? std::move(*r) : Resolved();
}

/// One call of an operator in a graph of its own.
class Call {
public:
  Call(const Graph& g, const Resolved& r, bool ones) : g_(g), r_(r), ones_(ones) {}

  // None where the types do not tell.
  MaybeTypes types(const ArgList& values) {
    ArgList args;
    for (size_t i = 0; i < r_.args.size(); i++) {
      auto a = passed(r_.args[i], r_.signature->args[i], values);
      if (!a) return std::nullopt;
      args.push_back(std::move(*a));
    }
    std::vector<Type> out;
    for (V v : Builder(own_, own_.top(), false).call_full(*r_.def, std::move(args))) out.push_back(known(v.type()));
    return out;
  }

private:
  using MaybeArg = std::optional<Arg>;

  // The type in the other graph: sizes that are numbers.
  Type known(const Type& t) const {
    if (!t.is_tensor()) return t;
    Type out = Type::tensor(t.dtype, std::vector<Expr>(t.rank()));
    for (size_t d = 0; d < t.rank(); d++)
      if (auto n = const_int(t.sizes[d])) out.sizes[d] = g_.pool().integer(*n);
    return out;
  }

  MaybeArg passed(const Passed& p, const SchemaArg& schema, const ArgList& values) {
    if (p.from == Passed::From::Default) return schema.fallback;
    if (!p.convert.empty()) return std::nullopt;
    if (p.from == Passed::From::Given) return arg(values[p.index].get<ValueId>(), schema);
    ArgList list;
    for (size_t k = 0; k < p.count; k++) {
      auto a = arg(values[p.from == Passed::From::Repeat ? p.index : p.index + k].get<ValueId>(), schema);
      if (!a) return std::nullopt;
      list.push_back(std::move(*a));
    }
    return list;
  }

  MaybeArg arg(ValueId v, const SchemaArg& schema) {
    const Type& t = g_.type(v);
    if (t.is_tensor()) return param(v);
    const Node* n = producer(g_, v);
    if (n && n->op == prim::Constant && !t.is_any_tensor())
      return arg_of(schema, constant_of(g_, *n), [](const IValue&) -> Arg { bad_input("a tensor among constants"); });
    if (n && (n->op == prim::ListConstruct || n->op == prim::TupleConstruct)) {
      ArgList list;
      for (const Arg& e : n->args) {
        auto a = arg(e.get<ValueId>(), schema);
        if (!a) return std::nullopt;
        list.push_back(std::move(*a));
      }
      return list;
    }
    bool is_size =
        t.is(TypeKind::Int) && schema.type != ArgType::DType && schema.type != ArgType::Layout && schema.type != ArgType::MemoryFormat;
    if (is_size || t.is(TypeKind::Float)) return unknown(is_size ? DType::I64 : DType::F64);
    return std::nullopt;
  }

  Expr unknown(DType type, int64_t least = INT64_MIN) {
    if (ones_) return type == DType::I64 ? own_.pool().integer(1) : own_.pool().number(1, type);
    return own_.pool().symbol(own_.pool().fresh_symbol("s"), type, type == DType::I64 ? least : INT64_MIN);
  }

  // The same value is the same parameter.
  ValueId param(ValueId v) {
    if (params_.get(v).valid()) return params_.get(v);
    const Type& t = g_.type(v);
    std::vector<Expr> sizes;
    for (Expr s : t.sizes) sizes.push_back(s && const_int(s) ? own_.pool().integer(*const_int(s)) : unknown(DType::I64, 2));
    return params_[v] = own_.add_param(own_.top(), Type::tensor(t.dtype, std::move(sizes)));
  }

  const Graph& g_;
  const Resolved& r_;
  bool ones_;
  Graph own_;
  SideTable<ValueId, ValueId> params_;
};

class Propagation {
public:
  explicit Propagation(Graph& g) : g_(g) {}

  bool run() {
    std::vector<Type> before;
    for (uint32_t i = 0; i < g_.num_values(); i++) before.push_back(g_.type(ValueId{i}));
    block(g_.top());
    bool changed = false;
    for (uint32_t i = 0; i < before.size(); i++) changed |= before[i] != g_.type(ValueId{i});
    return changed;
  }

  void node(NodeId id) {
    const Node& n = g_.node(id);
    if (n.op == prim::If) return branches(n);
    if (n.op == prim::Loop) return loop(n);
    if (n.op == prim::Constant) return constant(n);
    if (n.op == prim::unchecked_cast && g_.type(n.outputs[0]).is_any_tensor()) return set(n.outputs[0], argument(n, 0));
    if (n.op == prim::ListUnpack || n.op == prim::TupleUnpack || n.op == prim::TupleConstruct || n.op == prim::TupleIndex)
      return container(n);
    if (std::ranges::none_of(n.outputs, [&](ValueId v) { return g_.type(v).is_any_tensor(); })) return;
    Resolved r = resolved(g_, n);
    MaybeTypes types = r.in_place ? std::vector<Type>{argument(n, 0)} : of_call(n, r);
    for (size_t i = 0; i < n.outputs.size(); i++)
      if (g_.type(n.outputs[i]).is_any_tensor()) set(n.outputs[i], types && i < types->size() ? (*types)[i] : dynamic(), meta_of(n));
  }

private:
  void block(BlockId id) {
    for (NodeId n : g_.block(id).nodes) node(n);
  }
  const Type& argument(const Node& n, size_t i) const { return g_.type(n.args.at(i).get<ValueId>()); }

  void set(ValueId v, Type t) { set(v, std::move(t), g_.value(v).meta); }
  void set(ValueId v, Type t, const TensorMeta& meta) {
    if (t.is_tensor()) t.strides.clear(), g_.value(v).meta = meta;
    g_.value(v).type = std::move(t);
  }

  // Operands of which at least dtype and rank are known, those in lists included.
  std::vector<ValueId> known_operands(const ArgList& args) {
    std::vector<ValueId> out;
    for (const Arg& a : args) {
      const Node* n = producer(g_, a.get<ValueId>());
      if (g_.type(a.get<ValueId>()).is_tensor()) out.push_back(a.get<ValueId>());
      else if (n && n->op == prim::ListConstruct && is_as_made(a.get<ValueId>()))
        for (ValueId v : known_operands(n->args)) out.push_back(v);
    }
    return out;
  }

  // Whether a list holds what the node that makes it says: nothing writes to it, or has it under another name.
  bool is_as_made(ValueId list) {
    if (!open_lists_) find_open_lists(g_.top(), open_lists_.emplace());
    return !open_lists_->contains(list);
  }
  void find_open_lists(BlockId id, std::set<ValueId>& open) const {
    auto add = [&](const ArgList& args) {
      for (const Arg& a : args)
        if (g_.type(a.get<ValueId>()).is(TypeKind::List)) open.insert(a.get<ValueId>());
    };
    for (NodeId node : g_.block(id).nodes) {
      const Node& n = g_.node(node);
      bool has_list = std::ranges::any_of(n.args, [&](const Arg& a) { return g_.type(a.get<ValueId>()).is(TypeKind::List); });
      if (has_list && !only_reads(n)) add(n.args);
      for (BlockId b : n.blocks) find_open_lists(b, open), add(g_.block(b).returns);
    }
  }
  bool only_reads(const Node& n) const {
    if (n.op == prim::ListUnpack || n.op == call::len || n.op == call::op_getitem) return true;
    Resolved r = resolved(g_, n);
    return r.def && (r.in_place || r.out || !r.signature->mutates());
  }

  // A result needs a gradient where an operand does, and lies where the operands do.
  TensorMeta meta_of(const Node& n) {
    TensorMeta meta;
    for (ValueId id : known_operands(n.args)) {
      const TensorMeta& of = g_.value(id).meta;
      if (!meta.requires_grad) meta.device = of.device, meta.device_index = of.device_index;
      meta.requires_grad |= of.requires_grad;
    }
    return meta;
  }

  // ---- one node

  void constant(const Node& n) {
    const Arg* value = n.attribute("value");
    if (!value || !value->is<TensorId>()) return;
    const Tensor& t = g_.stored(value->get<TensorId>());
    std::vector<Expr> sizes;
    for (int64_t s : t.sizes()) sizes.push_back(g_.pool().integer(s));
    set(n.outputs[0], Type::tensor(t.dtype(), std::move(sizes)));
  }

  void container(const Node& n) {
    std::vector<Type> types =
        n.op == prim::ListUnpack ? elements(n.args.at(0).get<ValueId>()) : script::container_results(g_, n.op, n.args);
    if (types.size() != n.outputs.size()) types.assign(n.outputs.size(), dynamic());
    for (size_t i = 0; i < types.size(); i++)
      if ((types[i].is_any_tensor() && g_.type(n.outputs[i]).is_any_tensor()) || types[i].is(TypeKind::Tuple))
        set(n.outputs[i], named_as(g_.type(n.outputs[i]), types[i]));
  }
  static Type named_as(const Type& was, const Type& now) {
    if (!was.is(TypeKind::Tuple) || !now.is(TypeKind::Tuple) || !was.parts || was.elements().size() != now.elements().size()) return now;
    return Type::tuple(now.elements(), was.name(), was.parts->fields);
  }

  // The tensors of a list, by what makes it.
  std::vector<Type> elements(ValueId list) {
    const Node* n = producer(g_, list);
    std::vector<Type> types;
    if (!is_as_made(list)) return types;
    if (n && n->op == prim::ListConstruct)
      for (const Arg& a : n->args) types.push_back(g_.type(a.get<ValueId>()));
    else if (n && n->blocks.empty() && n->outputs.size() == 1) types = of_call(*n, resolved(g_, *n)).value_or(types);
    return types;
  }

  // The types that the operator's row gives; none where nothing is known.
  MaybeTypes of_call(const Node& n, const Resolved& r) {
    if (!r.def || r.def->data_dependent || r.out || known_operands(n.args).empty()) return std::nullopt;
    MaybeTypes types = try_call(n, r, false), with_ones = types ? try_call(n, r, true) : std::nullopt;
    if (!with_ones) return types;
    for (size_t i = 0; i < types->size(); i++) (*types)[i] = i < with_ones->size() ? common((*types)[i], (*with_ones)[i]) : dynamic();
    return types;
  }
  MaybeTypes try_call(const Node& n, const Resolved& r, bool ones) const {
    try {
      return Call(g_, r, ones).types(n.args);
    } catch (const Error&) { // what does not fit is told when the program runs
      return std::nullopt;
    }
  }

  // ---- what is true of both

  static Type common(const Type& a, const Type& b) {
    if (a.is_any_tensor() && b.is_any_tensor()) {
      if (!a.is_tensor() || !b.is_tensor() || a.dtype != b.dtype || a.rank() != b.rank()) return dynamic();
      Type t = Type::tensor(a.dtype, a.sizes);
      for (size_t d = 0; d < t.rank(); d++)
        if (a.sizes[d] != b.sizes[d]) t.sizes[d] = {};
      return t;
    }
    if (a.is(TypeKind::Tuple) && b.is(TypeKind::Tuple) && a.elements().size() == b.elements().size()) {
      std::vector<Type> elements;
      for (size_t i = 0; i < a.elements().size(); i++) elements.push_back(common(a.element(i), b.element(i)));
      return named_as(a, Type::tuple(std::move(elements)));
    }
    return unify(a, b).value_or(a);
  }
  // Gives `v` what is true of both. An If or Loop may say more of its results than its blocks do: that they are optional.
  void join(ValueId v, ValueId a, ValueId b) {
    if (!g_.type(v).is_any_tensor() && !g_.type(v).is(TypeKind::Tuple)) return;
    TensorMeta meta = g_.value(a).meta;
    meta.requires_grad |= g_.value(b).meta.requires_grad;
    set(v, common(g_.type(a), g_.type(b)), meta);
  }
  ValueId returned(BlockId b, size_t i) const { return g_.block(b).returns.at(i).get<ValueId>(); }

  void branches(const Node& n) {
    for (BlockId b : n.blocks) block(b);
    for (size_t i = 0; i < n.outputs.size(); i++) join(n.outputs[i], returned(n.blocks.at(0), i), returned(n.blocks.at(1), i));
  }

  // What is carried has the types that all turns have in common: found when a turn gives what it was given.
  void loop(const Node& n) {
    BlockId body = n.blocks.at(0);
    const std::vector<ValueId> params = g_.block(body).params;
    for (size_t i = 0; i < n.outputs.size(); i++) {
      ValueId given = n.args.at(i + 2).get<ValueId>();
      join(params.at(i + 1), given, given);
    }
    for (bool settled = false; !settled;) {
      block(body);
      settled = true;
      for (size_t i = 0; i < n.outputs.size(); i++) {
        ValueId param = params[i + 1];
        Value was = g_.value(param);
        join(param, param, returned(body, i + 1));
        settled &= was.type == g_.type(param) && was.meta == g_.value(param).meta;
      }
    }
    for (size_t i = 0; i < n.outputs.size(); i++) join(n.outputs[i], params[i + 1], params[i + 1]);
  }

  Graph& g_;
  std::optional<std::set<ValueId>> open_lists_;
};

} // namespace

void infer_types(Graph& graph, NodeId node) { Propagation(graph).node(node); }
bool propagate_types(Graph& graph) { return Propagation(graph).run(); }

} // namespace tenon::executor
