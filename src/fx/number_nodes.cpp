// Expressions as nodes.
#include "fx/number_nodes.h"

#include <algorithm>

namespace tenon {

std::string FxNames::fresh(std::string name) {
  static const std::set<std::string, std::less<>> taken = {
      "False", "None",  "True",   "and",      "as",     "assert",   "async", "await", "break",  "class",   "continue",
      "def",   "del",   "elif",   "else",     "except", "finally",  "for",   "from",  "global", "if",      "import",
      "in",    "is",    "lambda", "nonlocal", "not",    "or",       "pass",  "raise", "return", "try",     "while",
      "with",  "yield", "self",   "torch",    "math",   "operator", "inf",   "nan",   "device", "getattr", "round"};
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0]))) name = "_" + name;
  std::string unique = name;
  for (int k = 1; taken.contains(unique) || !used_.insert(unique).second; k++) unique = fmt::format("{}_{}", name, k);
  return unique;
}

Type NumberNodes::type_of(Expr e) {
  return Type::scalar(e->type == DType::Bool ? TypeKind::Bool : is_float(e->type) ? TypeKind::Float : TypeKind::Int, e);
}

void NumberNodes::know(Expr value, uint32_t node) {
  known_.emplace(value, ValueId{node});
  // A boolean is u0 == 1 or u0 != 0 of a symbol that is 0 or 1.
  bool compares = (value->op == Op::Eq || value->op == Op::Ne) && is_const_int(value->args[1], value->op == Op::Eq);
  if (!compares || value->args[0]->op != Op::Symbol || known_.contains(value->args[0])) return;
  known_.emplace(value->args[0], add("torch.sym_ite", {ValueId{node}, 1, 0}, value->args[0]));
}

void NumberNodes::see(const Type& type, uint32_t node) {
  for (size_t d = 0; d < type.rank(); d++)
    if (!type.sizes[d]->is_const()) sizes_.push_back({type.sizes[d], node, static_cast<int64_t>(d)});
}

Arg NumberNodes::add(std::string target, std::initializer_list<Arg> args, Expr value) {
  std::string base = target.starts_with("torch.ops.aten.") ? target.substr(15) : target.substr(target.rfind('.') + 1);
  std::replace(base.begin(), base.end(), '.', '_');
  while (base.ends_with("_")) base.pop_back(); // and_
  fx_.nodes.push_back({.name = names_.fresh(base), .val = FxVal::one(type_of(value)), .target = std::move(target), .args = args});
  return ValueId{static_cast<uint32_t>(fx_.nodes.size() - 1)};
}

Arg NumberNodes::arg(Expr e) {
  if (e->is_const()) {
    if (e->type == DType::Bool) return e->bits != 0;
    return is_float(e->type) ? Arg(e->number()) : Arg(e->bits);
  }
  if (auto known = known_.find(e); known != known_.end()) return known->second;
  auto size = std::find_if(sizes_.begin(), sizes_.end(), [&](const Size& s) { return s.size == e; });
  Arg made = size != sizes_.end() ? add("torch.ops.aten.sym_size.int", {ValueId{size->node}, size->dim}, e) : function(e);
  known_.emplace(e, made);
  return made;
}

Arg NumberNodes::symbol(Expr e) {
  if (auto solved = solve(e)) return *solved;
  unsupported("the number {} is no tensor's size, and nothing reads it", e->name);
}

// A symbol that only stands in a size such as s*4 + 1.
std::optional<Arg> NumberNodes::solve(Expr symbol) {
  ExprPool& pool = *symbol->pool;
  for (const Size& s : sizes_) {
    auto at = [&](int64_t value) {
      Substitution put;
      put.set(symbol, pool.integer(value));
      return const_int(put.apply(s.size));
    };
    auto zero = at(0), one = at(1);
    if (!zero || !one || *one <= *zero) continue;
    Expr factor = pool.integer(*one - *zero), rest = pool.integer(*zero);
    if (symbol * factor + rest != s.size) continue;
    Expr multiple = s.size - rest;
    bool is_there = known_.contains(multiple) || std::ranges::find(sizes_, multiple, &Size::size) != sizes_.end();
    Arg made = is_there ? arg(multiple) : add("operator.sub", {arg(s.size), rest->bits}, multiple); // not computed of the symbol itself
    return add("operator.floordiv", {made, factor->bits}, symbol);
  }
  return std::nullopt;
}

// Of as many operands as it has, two at a time.
Arg NumberNodes::fold(Expr e, std::string_view target) {
  Arg made = arg(e->args[0]);
  Expr value = e->args[0];
  for (size_t i = 1; i < e->args.size(); i++) {
    value = i + 1 == e->args.size() ? e : binary(e->op, value, e->args[i]);
    made = add(std::string(target), {made, arg(e->args[i])}, value);
  }
  return made;
}

// Negative terms are subtracted.
Arg NumberNodes::sum(Expr e) {
  Arg made = arg(e->args[0]);
  Expr value = e->args[0];
  for (size_t i = 1; i < e->args.size(); i++) {
    Expr term = e->args[i], opposite = -term;
    bool negative = is_int(term->type) && ((term->op == Op::Const && term->bits < 0) ||
                                           (term->op == Op::Mul && term->args.back()->bits < 0 && term->args.back()->op == Op::Const));
    value = i + 1 == e->args.size() ? e : value + term;
    made = negative ? add("operator.sub", {made, arg(opposite)}, value) : add("operator.add", {made, arg(term)}, value);
  }
  return made;
}

Arg NumberNodes::cast(Expr e) {
  Expr from = e->args[0];
  if (is_float(e->type)) return is_float(from->type) ? arg(from) : add("torch.sym_float", {arg(from)}, e);
  if (from->type == DType::Bool) return add("torch.sym_ite", {arg(from), 1, 0}, e);
  if (!is_float(from->type)) return arg(from);
  if (from->op == Op::Floor) return add("math.floor", {arg(from->args[0])}, e);
  if (from->op == Op::Ceil) return add("math.ceil", {arg(from->args[0])}, e);
  if (from->op == Op::Round) return add("round", {arg(from->args[0])}, e);
  return add("math.trunc", {arg(from->op == Op::Trunc ? from->args[0] : from)}, e);
}

Arg NumberNodes::function(Expr e) {
  switch (e->op) {
  case Op::Symbol: return symbol(e);
  case Op::Add: return sum(e);
  case Op::Sub: return fold(e, "operator.sub");
  case Op::Mul: return fold(e, "operator.mul");
  case Op::Div: return fold(e, "operator.truediv");
  case Op::FloorDiv: return fold(e, "operator.floordiv");
  case Op::Mod: return fold(e, "operator.mod");
  case Op::Pow: return fold(e, "operator.pow");
  case Op::Min: return fold(e, "torch.sym_min");
  case Op::Max: return fold(e, "torch.sym_max");
  case Op::And: return fold(e, "operator.and_");
  case Op::Or: return fold(e, "operator.or_");
  case Op::Xor: return fold(e, "operator.xor");
  case Op::Shl: return fold(e, "operator.lshift");
  case Op::Shr: return fold(e, "operator.rshift");
  case Op::Eq: return fold(e, "operator.eq");
  case Op::Ne: return fold(e, "operator.ne");
  case Op::Lt: return fold(e, "operator.lt");
  case Op::Le: return fold(e, "operator.le");
  case Op::Neg: return add("operator.neg", {arg(e->args[0])}, e);
  case Op::Not: return add("torch.sym_not", {arg(e->args[0])}, e);
  case Op::Abs: return add("operator.abs", {arg(e->args[0])}, e);
  case Op::Select: return add("torch.sym_ite", {arg(e->args[0]), arg(e->args[1]), arg(e->args[2])}, e);
  case Op::Cast: return cast(e);
  case Op::Floor:
  case Op::Ceil:
  case Op::Round:
  case Op::Trunc: return add("torch.sym_float", {cast(tenon::cast(e, DType::I64))}, e);
  case Op::Sqrt:
  case Op::Sin:
  case Op::Cos:
  case Op::Tan:
  case Op::Asin:
  case Op::Acos:
  case Op::Atan:
  case Op::Sinh:
  case Op::Cosh:
  case Op::Tanh:
  case Op::Log2: return add(fmt::format("torch._sym_{}", name_of(e->op)), {arg(e->args[0])}, e);
  default: unsupported("{} as a number that a graph of torch computes", to_string(e));
  }
}

} // namespace tenon
