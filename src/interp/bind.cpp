// Input tensors against the program's signature: dtypes, ranks, sizes; and the values of its symbols.
#include <cmath>

#include "base/numeric.h"
#include "expr/eval.h"
#include "interp/interp.h"

namespace tenon {

namespace {

double read_number(const TensorView& t) {
  return dispatch(t.dtype, [&]<class T>(T) { return convert<double>(*static_cast<const T*>(t.data)); });
}

// Sizes that are bare symbols bind them; those that are expressions are checked once all symbols are bound.
void bind_sizes(const ProgramInput& in, const Type& type, const TensorView& t, SymbolValues& symbols) {
  require_input(t.dtype == type.dtype, "input {}: dtype is {}, the program takes {}", in.name, name_of(t.dtype), name_of(type.dtype));
  require_input(t.sizes.size() == type.rank(), "input {}: rank is {}, the program takes {}", in.name, t.sizes.size(), type.rank());
  for (size_t d = 0; d < type.rank(); d++) {
    Expr want = type.sizes[d];
    int64_t size = t.sizes[d];
    if (auto c = const_int(want)) require_input(size == *c, "input {}: size {} of dim {} must be {}", in.name, size, d, *c);
    if (want->op != Op::Symbol) continue;
    auto [it, fresh] = symbols.emplace(want->name, static_cast<double>(size));
    require_input(it->second == static_cast<double>(size), "input {}: size {} of dim {} differs from {}, which another input gives for {}",
                  in.name, size, d, it->second, want->name);
    SizeRange range = accepted_range(*want);
    range.lo = std::max<int64_t>(range.lo, 0);
    require_input(range.contains(size), "input {}: size {} of dim {} ({}) is outside its range {}", in.name, size, d, want->name,
                  text_of(range));
  }
}

// A symbol that no size is by itself, from one that is linear in it: 4*s + 1.
bool solve(Expr want, int64_t size, SymbolValues& symbols) {
  const ExprNode* unknown = nullptr;
  bool one = true;
  visit(want, [&](const ExprNode& n) {
    if (n.op != Op::Symbol || symbols.contains(n.name)) return;
    one &= !unknown;
    unknown = &n;
  });
  if (!unknown || !one) return false;
  auto at = [&](double v) {
    SymbolValues s = symbols;
    s[unknown->name] = v;
    return evaluate_size(want, s);
  };
  int64_t rest = at(0), factor = at(1) - rest;
  if (factor <= 0) return false;
  symbols[unknown->name] = std::floor(static_cast<double>(size - rest) / static_cast<double>(factor));
  return true;
}

} // namespace

void bind_symbol(SymbolValues& symbols, const ExprNode& symbol, double value) {
  SizeRange range = accepted_range(symbol);
  if (int64_t whole = value >= 0x1p63 ? INT64_MAX : convert<int64_t>(value); !range.contains(whole))
    bad_input("{}", outside_message(range, whole));
  symbols[symbol.name] = value;
}

SymbolValues bind_symbols(const LoadedProgram& program, const std::vector<TensorView>& inputs) {
  SymbolValues symbols;
  size_t next = 0;
  std::vector<std::pair<const ProgramInput*, const TensorView*>> users;
  for (auto& in : program.inputs) {
    if (in.kind != InputKind::User || !in.value.valid()) continue;
    require_input(next < inputs.size(), "too few inputs: {}", inputs.size());
    const TensorView& t = inputs[next++];
    users.emplace_back(&in, &t);
    const Type& type = program.graph.type(in.value);
    if (type.is_tensor()) bind_sizes(in, type, t, symbols);
    else {
      require_input(t.sizes.empty(), "input {}: a number must be a 0-d tensor", in.name);
      if (type.value && type.value->op == Op::Symbol) bind_symbol(symbols, *type.value, read_number(t));
    }
  }
  for (bool more = true; more;) {
    more = false;
    for (auto [in, t] : users)
      for (size_t d = 0; d < program.graph.type(in->value).sizes.size(); d++)
        more |= solve(program.graph.type(in->value).sizes[d], t->sizes[d], symbols);
  }
  for (auto [in, t] : users) {
    const Type& type = program.graph.type(in->value);
    for (size_t d = 0; type.is_tensor() && d < type.rank(); d++) {
      if (type.sizes[d]->op == Op::Symbol || type.sizes[d]->is_const()) continue;
      int64_t want = evaluate_size(type.sizes[d], symbols);
      require_input(t->sizes[d] == want, "input {}: size {} of dim {} must be {} = {}", in->name, t->sizes[d], d, to_string(type.sizes[d]),
                    want);
    }
  }
  return symbols;
}

} // namespace tenon
