// Type promotion and broadcasting, as torch.result_type and torch.broadcast_shapes define them.
#include "ir/promote.h"

#include <algorithm>

namespace tenon {

namespace {

int category(DType t) { return is_complex(t) ? 3 : is_float(t) || is_float8(t) ? 2 : is_int(t) ? 1 : 0; }

DType promote_ints(DType a, DType b) {
  if (a == b) return a;
  if (a == DType::Bool) return b;
  if (b == DType::Bool) return a;
  if (a == DType::U64 || b == DType::U64) return DType::U64; // with signed ones torch gives none
  if (a == DType::U8 || b == DType::U8) {                    // the other one is signed
    DType other = a == DType::U8 ? b : a;
    return other == DType::I8 ? DType::I16 : other;
  }
  return std::max(a, b);
}

// What torch collects for each priority: dims > 0, 0-d tensors, numbers.
struct Collected {
  bool any[3] = {false, false, false};
  DType type[3] = {DType::Bool, DType::Bool, DType::Bool};
  void add(int priority, DType t) {
    type[priority] = any[priority] ? promote(type[priority], t) : t;
    any[priority] = true;
  }
  DType result() const {
    DType r = DType::Bool;
    bool have = false;
    for (int p = 0; p < 3; p++) {
      if (!any[p]) continue;
      if (!have) r = type[p];
      else if (category(type[p]) > category(r)) r = category(type[p]) == 3 && is_float(r) ? complex_type(r) : promote(r, type[p]);
      have = true;
    }
    return r;
  }
};

DType number_type(const Arg& a) {
  if (a.is<double>()) return DType::F32; // the default dtype
  if (a.is<bool>()) return DType::Bool;
  if (a.is<std::complex<double>>()) return DType::C64;
  if (a.is<Expr>()) return is_float(a.get<Expr>()->type) ? DType::F32 : a.get<Expr>()->type;
  return DType::I64;
}

bool is_operand(const SchemaArg& a) { return a.type == ArgType::Tensor || a.type == ArgType::Scalar; }

} // namespace

DType promote(DType a, DType b) {
  if (a == b) return a;
  if (is_float8(a) || is_float8(b)) unsupported("promotion of {} and {}", name_of(a), name_of(b)); // torch has none either
  if (is_complex(a) || is_complex(b))
    return a == DType::C128 || b == DType::C128 || a == DType::F64 || b == DType::F64 ? DType::C128 : DType::C64;
  if (is_float(a) && is_float(b)) return is_reduced_float(a) && is_reduced_float(b) ? DType::F32 : std::max(a, b);
  if (is_float(a)) return a;
  if (is_float(b)) return b;
  return promote_ints(a, b);
}

bool is_kept(const OpDef& def, size_t arg) {
  std::string_view keep = def.keep;
  const std::string& name = def.signature.args[arg].name;
  while (!keep.empty()) {
    size_t end = std::min(keep.find(' '), keep.size());
    if (keep.substr(0, end) == name) return true;
    keep.remove_prefix(std::min(end + 1, keep.size()));
  }
  return !is_operand(def.signature.args[arg]);
}

Promotion promotion_of(const Graph& graph, const OpDef& def, const ArgList& args) {
  Collected c;
  std::optional<DType> first;
  for (size_t i = 0; i < args.size(); i++) {
    if (is_kept(def, i) || args[i].is_none()) continue;
    if (args[i].is<ValueId>()) {
      const Type& t = graph.type(args[i].get<ValueId>());
      c.add(t.rank() > 0 ? 0 : 1, t.dtype);
      if (!first) first = t.dtype;
    } else c.add(2, number_type(args[i]));
  }
  DType common = c.result();
  switch (def.promote) {
  case Promote::Default: return {common, common};
  case Promote::Float: {
    DType t = is_float(common) || is_complex(common) ? common : DType::F32;
    return {t, t};
  }
  case Promote::Compare: return {common, DType::Bool};
  case Promote::Logical: return {DType::Bool, DType::Bool};
  case Promote::First: return {first.value_or(common), first.value_or(common)};
  }
  internal_error("no such promotion");
}

std::vector<Expr> broadcast(ExprPool& pool, const std::vector<Expr>& a, const std::vector<Expr>& b, std::string_view op) {
  std::vector<Expr> out(std::max(a.size(), b.size()));
  for (size_t k = 0; k < out.size(); k++) {
    Expr x = k < a.size() ? a[a.size() - 1 - k] : pool.integer(1), y = k < b.size() ? b[b.size() - 1 - k] : pool.integer(1);
    Expr& o = out[out.size() - 1 - k];
    if (x == y || is_const_int(y, 1)) o = x;
    else if (is_const_int(x, 1)) o = y;
    else if (const_int(x) && const_int(y))
      bad_input("{}: The size of tensor a ({}) must match the size of tensor b ({}) at non-singleton dimension {}", op, *const_int(x),
                *const_int(y), out.size() - 1 - k);
    else o = const_int(x) ? x : const_int(y) ? y : x; // symbols: the program's own guards make them equal
  }
  return out;
}

void check_sizes(const std::vector<Expr>& sizes, std::string_view op) {
  constexpr int64_t most = int64_t{1} << 59; // elements; their bytes fit an int64_t
  int64_t elements = 1;
  for (Expr s : sizes) {
    require_input(s->hi >= 0, "{}: a size of {}", op, to_string(s));
    if (s->is_const() && (__builtin_mul_overflow(elements, std::max<int64_t>(s->bits, 1), &elements) || elements > most))
      bad_input("{}: a tensor of more than 2^59 elements", op);
  }
}

} // namespace tenon
