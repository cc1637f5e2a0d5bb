// expand_late: what is computed from weights alone is computed before it is expanded, once for all images of a batch.
#include <algorithm>
#include <unordered_set>

#include "edge/match.h"
#include "edge/passes.h"
#include "ir/define.h"
#include "ops/names.h"

namespace tenon {

namespace {

class ExpandLate {
public:
  bool run(LoadedProgram& program) {
    auto all = [](const Graph&, const Node&) { return true; }; // `replace` notes which are fixed
    return has_call(program.graph, edge::expand) &&
           rewrite_nodes(program, all, [this](Rewriter& r, const Node& n) { return replace(r, n); });
  }

private:
  std::vector<ValueId> replace(Rewriter& r, const Node& n) {
    if (!n.def || n.outputs.size() != 1 || !n.blocks.empty() || !has_definition(n)) return {};
    std::vector<ValueId> operands = tensor_operands(n.args, r.from);
    if (!std::all_of(operands.begin(), operands.end(), [&](ValueId v) { return r.from.stored_constant(v) || fixed_.contains(v); }))
      return {};
    fixed_.insert(n.outputs[0]);
    const Type& type = r.from.type(n.outputs[0]);
    if (!type.is_tensor() || !type.strides.empty() ||
        std::any_of(n.attributes.begin(), n.attributes.end(), [](const Attribute& a) { return a.value.is<ValueId>(); }))
      return {};
    ArgList args = r(n.args);
    std::vector<bool> late = late_dims(r, n, args, type);
    if (std::find(late.begin(), late.end(), true) == late.end()) return {};
    std::vector<bool> dims = operand_dims(n, args, late);
    for (Arg& a : args)
      if (a.is<ValueId>()) a = narrow(r.builder.wrap(a.get<ValueId>()), dims).id;
    Type narrowed = type;
    for (size_t d = 0; d < late.size(); d++)
      if (late[d]) narrowed.sizes[d] = r.builder.integer(1);
    NodeId now =
        r.to.append(r.builder.block(),
                    Node{.op = n.op, .def = n.def, .args = std::move(args), .attributes = n.attributes, .origin = n.origin}, {narrowed});
    return {r.builder.expand(r.builder.wrap(r.to.node(now).outputs[0]), type.sizes).id};
  }

  static int64_t rank_of(V x) { return static_cast<int64_t>(x.rank()); }
  static V source(V x) {
    const Node* e = made_by(x.builder().graph(), x.id, edge::expand);
    return e ? x.builder().wrap(e->args[0].get<ValueId>()) : x;
  }
  // Whether `x` repeats along its dim d; dims it has by broadcasting are negative.
  static bool is_repeated(V x, int64_t d) {
    V s = source(x);
    int64_t at = d - rank_of(x) + rank_of(s);
    return d < 0 || at < 0 || is_const_int(s.size(at), 1);
  }
  static bool is_expanded(V x, int64_t d) { return d >= 0 && !is_const_int(x.size(d), 1) && is_repeated(x, d); }

  // The operand with 1 for sizes of such dims, counted from the last one.
  static V narrow(V x, const std::vector<bool>& dims) {
    std::vector<Expr> sizes = x.sizes();
    for (size_t back = 1; back <= std::min(sizes.size(), dims.size()); back++)
      if (dims[dims.size() - back]) sizes[sizes.size() - back] = x.builder().integer(1);
    if (sizes == x.sizes()) return x;
    V s = source(x);
    return s.sizes() == sizes ? s : x.builder().expand(s, sizes);
  }

  static std::vector<int64_t> dims_of(const Arg& list, int64_t rank) {
    std::vector<int64_t> dims;
    for (const Arg& d : list.get<ArgList>()) dims.push_back(wrap_dim(d.get<int64_t>(), static_cast<size_t>(rank), "dim"));
    return dims;
  }

  // The dims of the result that it need not have before it is expanded.
  static std::vector<bool> late_dims(Rewriter& r, const Node& n, const ArgList& args, const Type& type) {
    int64_t rank = static_cast<int64_t>(type.rank());
    std::vector<bool> late(type.rank(), false);
    std::vector<V> operands;
    for (const Arg& a : args) {
      if (a.is<ValueId>()) operands.push_back(r.builder.wrap(a.get<ValueId>()));
      if (a.is<ArgList>() && !tensor_operands({a}, r.to).empty()) return late;
    }
    if (operands.empty()) return late;
    V x = operands[0];
    auto each = [&](auto&& f) {
      for (int64_t d = 0; d < rank; d++) late[static_cast<size_t>(d)] = f(d);
    };
    if (n.def->kind == Kind::Pointwise) {
      each([&](int64_t d) {
        bool any = false, all = true;
        for (V o : operands) {
          int64_t at = d - rank + rank_of(o);
          any |= is_expanded(o, at), all &= is_repeated(o, at);
        }
        return any && all;
      });
    } else if (n.def->kind == Kind::Reduce && args.size() > 2 && args[1].is<ArgList>() && args[2] == Arg(true)) {
      std::vector<int64_t> summed = dims_of(args[1], rank);
      each([&](int64_t d) { return !summed.empty() && std::find(summed.begin(), summed.end(), d) == summed.end() && is_expanded(x, d); });
    } else if (n.op == edge::slice_Tensor && args[1].is<int64_t>()) {
      each([&](int64_t d) { return d != wrap_dim(args[1].get<int64_t>(), type.rank(), "slice") && is_expanded(x, d); });
    } else if (n.op == edge::permute) {
      std::vector<int64_t> order = dims_of(args[1], rank);
      each([&](int64_t d) { return is_expanded(x, order[static_cast<size_t>(d)]); });
    }
    return late;
  }

  // The same dims, of the operands.
  static std::vector<bool> operand_dims(const Node& n, const ArgList& args, const std::vector<bool>& late) {
    if (n.op != edge::permute) return late;
    std::vector<int64_t> order = dims_of(args[1], static_cast<int64_t>(late.size()));
    std::vector<bool> dims(late.size());
    for (size_t d = 0; d < late.size(); d++) dims[static_cast<size_t>(order[d])] = late[d];
    return dims;
  }

  std::unordered_set<ValueId> fixed_; // values of the old graph
};

} // namespace

bool expand_late(LoadedProgram& program) {
  bool any = false;
  while (ExpandLate().run(program)) any = true;
  if (any) remove_dead_code(program);
  return any;
}

} // namespace tenon
