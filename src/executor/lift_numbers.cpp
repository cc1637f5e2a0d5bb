// Lifter: arithmetic on numbers that are not known yet, and what is asked of tensors.
#include <algorithm>

#include "builtins/elements.h"
#include "executor/lifter.h"
#include "ops/call_names.h"
#include "ops/names.h"

namespace tenon::executor {

namespace {

using Binary = Expr (*)(Expr, Expr);

// Both as one kind: a bool counts as an int, and an int beside a float as a float.
std::pair<Expr, Expr> alike(Expr a, Expr b) {
  bool real = is_float(a->type) || is_float(b->type);
  DType t = real ? DType::F64 : DType::I64;
  return {cast(a, t), cast(b, t)};
}

Expr true_div(Expr a, Expr b) { return cast(a, DType::F64) / cast(b, DType::F64); }

Binary binary_of(OpId op) {
  static const std::unordered_map<OpId, Binary> all{
      {call::add, [](Expr a, Expr b) { return a + b; }},
      {call::sub, [](Expr a, Expr b) { return a - b; }},
      {call::mul, [](Expr a, Expr b) { return a * b; }},
      {call::div, true_div},
      {call::lt, lt},
      {call::le, le},
      {call::gt, gt},
      {call::ge, ge},
      {call::eq, eq},
      {call::ne, ne},
      {prim::min, [](Expr a, Expr b) { return min(a, b); }},
      {prim::max, [](Expr a, Expr b) { return max(a, b); }},
  };
  auto it = all.find(op);
  return it == all.end() ? nullptr : it->second;
}

bool is_whole(Expr e) { return e->type == DType::I64; }

} // namespace

bool Lifter::run_number(const Node& n) {
  if (n.outputs.size() != 1 || n.args.empty() || n.args.size() > 3) return false;
  bool all_known = true;
  std::vector<Expr> e;
  for (const Arg& a : n.args) {
    const Lift& v = of(a.get<ValueId>());
    if (!v.as<NumberState>() && !v.as<Induction>()) return false;
    all_known &= v.as<NumberState>() && v.as<NumberState>()->value->is_const();
  }
  if (all_known) return false;      // computed as always
  if (n.op == call::derive_index) { // of range(start, end, step)
    auto start = known(of(n.args[1].get<ValueId>())), step = known(of(n.args[2].get<ValueId>()));
    if (start && step && start->is(IValue::Tag::Int) && start->to_int() == 0 && step->to_int() == 1)
      return bind(n, Lift(of(n.args[0].get<ValueId>()))), true;
  }
  for (const Arg& a : n.args) e.push_back(expression(of(a.get<ValueId>())));
  auto give = [&](Expr v) { return bind(n, number(v)), true; };
  if (n.op == call::derive_index) return give(e[1] + e[0] * e[2]);
  if (e.size() == 2) {
    bool bools = e[0]->type == DType::Bool && e[1]->type == DType::Bool;
    if (n.op == call::op_and && bools) return give(logical_and(e[0], e[1]));
    if (n.op == call::op_or && bools) return give(logical_or(e[0], e[1]));
    if (n.op == call::op_xor && bools) return give(ne(cast(e[0], DType::I64), cast(e[1], DType::I64)));
    auto divisor = const_int(e[1]);
    bool divides = is_whole(e[0]) && is_whole(e[1]) && divisor && *divisor > 0;
    if (n.op == call::floordiv && divides) return give(floor_div(e[0], e[1]));
    if (n.op == call::remainder && divides) return give(mod(e[0], e[1]));
    auto [a, b] = alike(e[0], e[1]);
    if (n.op == call::div && !(e[1]->is_const() && e[1]->number() != 0)) return false;
    if (Binary f = binary_of(n.op)) return give(f(a, b));
    return false;
  }
  if (e.size() != 1) return false;
  if (n.op == call::op_not) return give(logical_not(e[0]->type == DType::Bool ? e[0] : ne(e[0], constant_like(0, e[0]))));
  if (n.op == call::neg && e[0]->type != DType::Bool) return give(-e[0]);
  if (n.op == call::Float) return give(cast(e[0], DType::F64));
  if (n.op == call::Int && !is_float(e[0]->type)) return give(cast(e[0], DType::I64));
  if (n.op == call::Bool) return give(e[0]->type == DType::Bool ? e[0] : ne(e[0], constant_like(0, e[0])));
  return false;
}

bool Lifter::is_visible(Expr e, int depth) const {
  if (auto it = read_at_.find(e.get()); it != read_at_.end()) return it->second <= depth;
  return std::all_of(e->args.begin(), e->args.end(), [&](Expr a) { return is_visible(a, depth); });
}

Lift Lifter::item(V tensor, int64_t lo, int64_t hi) {
  Graph& g = out_.program.graph;
  DType dtype = tensor.dtype();
  if (is_complex(dtype)) refuse("a complex number read from a tensor");
  for (Expr s : tensor.sizes())
    if (!is_const_int(s, 1)) refuse("a number read from a tensor of several elements");
  if (tensor.rank() > 0) tensor = b_.reshape(tensor, {});
  bool real = is_float(dtype);
  Expr symbol = b_.pool().symbol(b_.pool().fresh_symbol(real ? "x" : "u"), real ? DType::F64 : DType::I64, lo, hi);
  g.append(b_.block(), {.op = prim::Item, .def = find_op(prim::Item), .args = {Arg(tensor)}, .origin = b_.origin()},
           {Type::scalar(real ? TypeKind::Float : TypeKind::Int, symbol)});
  read_at_[symbol.get()] = depth_;
  return number(dtype == DType::Bool ? ne(symbol, b_.pool().integer(0)) : symbol);
}

bool Lifter::run_query(const Node& n) {
  if (n.args.empty()) return false;
  auto arg = [&](size_t i) -> const Lift& { return of(n.args.at(i).get<ValueId>()); };
  ExprPool& pool = b_.pool();
  if ((n.op == call::op_is || n.op == call::op_isnot) && n.args.size() == 2) {
    auto none = [&](size_t i) { return arg(i).as<IValue>() && arg(i).as<IValue>()->is_none(); };
    bool opaque = arg(0).as<Opaque>() || arg(1).as<Opaque>() || arg(0).as<Undefined>() || arg(1).as<Undefined>();
    if (opaque || (!none(0) && !none(1))) return false;
    return bind(n, number(pool.boolean((none(0) && none(1)) == (n.op == call::op_is)))), true;
  }
  if (n.op == call::tensor && !arg(0).as<TensorP>()) {
    auto* num = arg(0).as<NumberState>();
    auto dtype = n.args.size() > 1 ? known(arg(1)) : std::nullopt;
    if (!num || !dtype) return false;
    DType t = dtype->is(IValue::Tag::Int)  ? builtins::dtype_of_code(dtype->to_int())
              : is_float(num->value->type) ? DType::F32
                                           : num->value->type;
    return bind(n, make(b_.scalar(num->value, t))), true;
  }
  if (!arg(0).as<TensorP>()) return false;
  if (n.op == call::Int || n.op == call::Float || n.op == call::Bool || n.op == call::item || n.op == call::IntImplicit ||
      n.op == call::FloatImplicit || n.op == call::ScalarImplicit) {
    Lift v = item(value_of(arg(0)));
    Expr e = expression(v);
    if (n.op == call::Bool && e->type != DType::Bool) e = ne(e, constant_like(0, e));
    if (n.op == call::Float || n.op == call::FloatImplicit) e = cast(e, DType::F64);
    if (n.op == call::Int || n.op == call::IntImplicit) {
      if (is_float(e->type)) refuse("an int of a tensor of floats");
      e = cast(e, DType::I64);
    }
    return bind(n, number(e)), true;
  }
  const Type type = out_.program.graph.type(read(**arg(0).as<TensorP>()).id);
  if (n.op == call::dim) return bind(n, number(pool.integer(static_cast<int64_t>(type.rank())))), true;
  if (n.op == call::numel) return bind(n, number(product(pool, type.sizes))), true;
  if (n.op == call::size && n.args.size() == 1) {
    Lifts sizes;
    for (Expr s : type.sizes) sizes.push_back(number(s));
    Lift l = list(std::move(sizes));
    (*l.as<ListP>())->element = TypeKind::Int;
    return bind(n, std::move(l)), true;
  }
  if (n.op == call::size || (n.op == call::len && type.rank() > 0)) {
    auto d = n.op == call::len ? std::optional<int64_t>(0) : const_int(expression(arg(1)));
    if (!d) refuse("a size of a dim that is not known");
    return bind(n, number(type.sizes.at(static_cast<size_t>(wrap_dim(*d, type.rank(), n.op))))), true;
  }
  if (n.op == prim::dtype) return bind(n, number(pool.integer(builtins::code_of_dtype(type.dtype)))), true;
  if (n.op == prim::device) return bind(n, {IValue("cpu", IValue::Tag::Device)}), true;
  if (n.op == prim::is_cuda || n.op == prim::requires_grad) return bind(n, number(pool.boolean(false))), true;
  if (n.op == call::is_complex) return bind(n, number(pool.boolean(is_complex(type.dtype)))), true;
  if (n.op == call::is_floating_point) return bind(n, number(pool.boolean(is_float(type.dtype)))), true;
  return false;
}

} // namespace tenon::executor
