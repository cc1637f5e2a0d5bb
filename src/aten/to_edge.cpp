// ATen to core ATen and to Edge: every call goes through a Builder in that mode, which decomposes and, for Edge, promotes.
#include "aten/passes.h"

#include <unordered_set>

#include <fmt/ranges.h>

#include "ir/dim_order.h"
#include "ir/verify.h"
#include "ops/custom.h"
#include "ops/names.h"

namespace tenon {

namespace {

SideTable<ValueId, bool> used_values(const Graph& g) {
  SideTable<ValueId, bool> used(false);
  for (uint32_t i = 0; i < g.num_nodes(); i++) for_each_use(g, NodeId{i}, [&](ValueId v) { used[v] = true; });
  for (const Arg& a : g.block(g.top()).returns) for_each_value(a, [&](ValueId v) { used[v] = true; });
  return used;
}

// What the program records of a result must be what the row gives: other nodes were exported for it. Of results that
// nothing uses, torch's decompositions record other dtypes than its kernels give.
void check_types(const Graph& from, const Node& n, const Values& now, const SideTable<ValueId, bool>& used) {
  require_input(now.size() >= n.outputs.size(), "{} gives {} results, the program records {}", n.op, now.size(), n.outputs.size());
  for (size_t i = 0; i < n.outputs.size(); i++) {
    const Type& want = from.type(n.outputs[i]);
    if (!want.is_tensor() || !used.get(n.outputs[i])) continue;
    const Type& got = now[i].type();
    bool same = got.dtype == want.dtype && got.rank() == want.rank();
    for (size_t d = 0; same && d < want.rank(); d++)
      same = !(const_int(got.sizes[d]) && const_int(want.sizes[d])) || got.sizes[d] == want.sizes[d];
    require_input(same, "{} gives {}, the program records {}", n.op, to_string(got), to_string(want));
  }
}

// Results come in the memory that torch recorded for them, where that is dense: the graph returns them permuted to its order.
void return_in_memory_order(LoadedProgram& program, Rewriter& r) {
  const ArgList& recorded = r.from.block(r.from.top()).returns;
  ArgList& returns = r.to.block(r.to.top()).returns;
  for (size_t i = 0; i < program.outputs.size() && i < returns.size(); i++) {
    if (program.outputs[i].kind != OutputKind::User || !returns[i].is<ValueId>()) continue;
    std::vector<int> order = dim_order(r.from.type(recorded[i].get<ValueId>()));
    if (order.empty()) continue;
    V result = r.builder.wrap(returns[i].get<ValueId>());
    returns[i] = r.builder.permute(result, std::vector<int64_t>(order.begin(), order.end())).id;
    program.outputs[i].order = std::move(order);
  }
}

// A new value of a buffer or an input takes the old one's place.
void check_mutations(const LoadedProgram& program, const Graph& g) {
  auto& returns = g.block(g.top()).returns;
  for (size_t i = 0; i < program.outputs.size() && i < returns.size(); i++) {
    const ProgramOutput& out = program.outputs[i];
    if (!out.is_mutation()) continue;
    auto in = std::find_if(program.inputs.begin(), program.inputs.end(),
                           [&](auto& x) { return x.value.valid() && (out.writes_state() ? x.target : x.name) == out.target; });
    require_input(in != program.inputs.end() && returns[i].is<ValueId>(), "the mutated {} is no input", out.target);
    const Type &was = g.type(in->value), &now = g.type(returns[i].get<ValueId>());
    require_input(was.is_tensor() && now.is_tensor() && was.dtype == now.dtype && was.sizes == now.sizes, "{} is {}, and its new value {}",
                  out.target, to_string(was), to_string(now));
  }
}

void refuse_objects(const LoadedProgram& program) {
  for (auto& in : program.inputs)
    if (in.value.valid() && program.graph.type(in.value).kind == TypeKind::Custom)
      unsupported("input {}{} is an object", in.name, in.target.empty() ? "" : fmt::format(" ({})", in.target));
}

// torch's shape rule of unique_consecutive inserts the new size where it should replace one, if the dim is negative. Then the
// row is right.
bool is_misrecorded(const Graph& g, const Node& n, const ArgList& args, const std::vector<Type>& recorded) {
  return n.def->data_dependent && n.def->infer && n.def->infer(Call(g, *n.def, args)).at(0).rank() != recorded.at(0).rank();
}

Arg substitute(const Arg& a, Substitution& s) {
  if (a.is<Expr>()) return s.apply(a.get<Expr>());
  if (!a.is<ArgList>()) return a;
  ArgList out;
  for (const Arg& e : a.get<ArgList>()) out.push_back(substitute(e, s));
  return out;
}

// A decomposition that goes through an operator of data-dependent size (nonzero, of a mask) makes a symbol of its own for
// it; the rest of the program knows the size by the symbol that torch recorded. The recorded one replaces it. Where the row
// has a formula for what torch made a new symbol (a slice between data-dependent bounds), the formula replaces the symbol.
class Ties {
public:
  explicit Ties(Graph& g) : g_(g), nodes_(g.num_nodes()), values_(g.num_values()) {}

  void tie(const Graph& from, const Node& n, const Values& now) {
    Substitution s;
    bool any = false;
    std::vector<std::pair<Expr, Expr>> checks;
    for (size_t i = 0; i < n.outputs.size(); i++) {
      const Type &want = from.type(n.outputs[i]), &made = now[i].type();
      if (want.is_tensor() && !(made.is_tensor() && made.rank() == want.rank())) continue; // a gradient that is not asked for
      for (size_t d = 0; want.is_tensor() && d < want.rank(); d++) {
        Expr got = now[i].sizes()[d];
        if (got == want.sizes[d] || want.sizes[d]->op != Op::Symbol || !bound_.insert(want.sizes[d].get()).second) continue;
        if (got->op == Op::Symbol && !bound_.contains(got.get())) s.set(got, want.sizes[d]), any = true;
        else formulas_.set(want.sizes[d], got), has_formulas_ = true;
      }
      if (want.value && now[i].type().value) any |= tie_number(want.value, now[i].type().value, s, checks);
    }
    if (any) rename(g_, nodes_, values_, s);
    note();
    for (const auto& [got, want] : checks) check_equal(n, now[0].builder().block(), got, want);
  }

  Arg with_formulas(const Arg& a) { return has_formulas_ ? substitute(a, formulas_) : a; }
  ArgList with_formulas(ArgList args) {
    for (Arg& a : args) a = with_formulas(a);
    return args;
  }
  /// Nodes that were copied as they are may still name what has a formula.
  void finish(Graph& g) {
    if (has_formulas_) rename(g, 0, 0, formulas_);
  }

  /// Symbols of all values made so far have their value there.
  void note() {
    for (; values_ < g_.num_values(); values_++) {
      const Type& t = g_.type(ValueId{static_cast<uint32_t>(values_)});
      if (t.value) bind(t.value);
      for (Expr e : t.sizes) bind(e);
    }
    nodes_ = g_.num_nodes();
  }

private:
  // A number that an operator of the user gives. Where the export has a symbol for it (of a boolean: symbol == 1), it takes that name. What
  // the export took for known must be what the operator gives.
  bool tie_number(Expr want, Expr got, Substitution& s, std::vector<std::pair<Expr, Expr>>& checks) {
    Expr name = want;
    if (want->op == Op::Eq) name = want->args[0]->op == Op::Symbol ? want->args[0] : want->args[1];
    if (name->op == Op::Symbol && !bound_.contains(name.get()) && is_float(name->type) == is_float(got->type)) {
      s.set(got, name);
      return bound_.insert(name.get()).second;
    }
    checks.emplace_back(got, want->type == DType::Bool ? cast(want, DType::I64) : want);
    return false;
  }
  void check_equal(const Node& n, BlockId block, Expr got, Expr want) {
    std::string text = fmt::format("{} gives another number than the program was exported with, {}", n.op, to_string(want));
    ArgList args{eq(got, cast(want, got->type)), text};
    g_.append(block, Node{.op = prim::Assert, .def = find_op(prim::Assert), .args = std::move(args), .origin = n.origin}, {});
  }

  void bind(Expr e) {
    if (e->op == Op::Symbol) bound_.insert(e.get());
  }
  static void rename(Graph& g, size_t node, size_t value, Substitution& s) {
    for (; node < g.num_nodes(); node++) {
      Node& n = g.node(NodeId{static_cast<uint32_t>(node)});
      for (Arg& a : n.args) a = substitute(a, s);
      for (Attribute& a : n.attributes) a.value = substitute(a.value, s);
    }
    for (; value < g.num_values(); value++) {
      Type& t = g.value(ValueId{static_cast<uint32_t>(value)}).type;
      for (Expr& e : t.sizes) e = s.apply(e);
      if (t.value) t.value = s.apply(t.value);
    }
  }

  Graph& g_;
  size_t nodes_, values_; // what is new since
  std::unordered_set<const ExprNode*> bound_;
  Substitution formulas_;
  bool has_formulas_ = false;
};

// The graph, each call made anew by `r`. Core ATen keeps the memory that torch recorded.
Graph rebuild(LoadedProgram& program, Rewriter& r) {
  const Graph& from = program.graph;
  refuse_objects(program);
  if (auto missing = missing_operators(from); !missing.empty()) unsupported("{}", fmt::join(missing, ", "));
  const SideTable<ValueId, bool> used = used_values(from);
  Ties ties(r.to);
  auto convert = [&](const Node& n) {
    ties.note();
    std::vector<Type> hint;
    for (ValueId v : n.outputs) hint.push_back(from.type(v));
    ArgList args = ties.with_formulas(r(n.args));
    bool wrong = is_misrecorded(r.to, n, args, hint);
    // as_strided addresses memory, which lies as torch recorded it.
    if (n.def->signature.find("storage_offset") >= 0)
      r.to.value(args[0].get<ValueId>()).type.strides = from.type(n.args[0].get<ValueId>()).strides;
    size_t first = r.to.num_nodes();
    Values now = r.builder.call_full(*n.def, args, wrong ? nullptr : &hint);
    ops::keep_attributes(r.to, first, n.attributes);
    if (!wrong) check_types(from, n, now, used), ties.tie(from, n, now);
    for (size_t i = 0; i < n.outputs.size(); i++) {
      r.set(n.outputs[i], now[i]);
      if (!r.builder.edge()) r.to.value(now[i].id).type.strides = hint[i].strides;
    }
  };
  r.node = [&](NodeId id) {
    const Node& n = from.node(id);
    if (n.op.dialect() == "prim") return r.copy_node(id);
    std::string name = n.outputs.empty() ? "" : from.value(n.outputs[0]).name;
    within_node(name.empty() ? n.op.name() : "%" + name, n.origin.get(), [&] { convert(n); });
  };
  r.copy_all();
  if (r.builder.edge()) return_in_memory_order(program, r);
  Graph& out = r.to;
  ties.finish(out);
  out.block(out.top()).returns = ties.with_formulas(out.block(out.top()).returns);
  for (auto& in : program.inputs)
    if (in.value.valid()) in.value = r[in.value];
  check_mutations(program, out);
  return std::move(r.to);
}

} // namespace

bool to_core(LoadedProgram& program) {
  if (program.is_edge || is_core(program.graph)) return false;
  Rewriter r(program.graph, false);
  r.builder.to_core();
  program.graph = rebuild(program, r);
  return true;
}

bool to_edge(LoadedProgram& program) {
  if (program.is_edge) return false;
  Rewriter r(program.graph, true);
  Graph out = rebuild(program, r);
  // torch's strides have done their work. From here on strides are those of tenon's own memory, where inputs are row-major.
  for (uint32_t i = 0; i < out.num_values(); i++) out.value(ValueId{i}).type.strides.clear();
  program.graph = std::move(out);
  program.is_edge = true;
  return true;
}

} // namespace tenon
