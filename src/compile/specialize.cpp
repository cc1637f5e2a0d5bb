// Symbols are solved for one after the other, from sizes that name a single unknown one.
#include "compile/specialize.h"

#include <unordered_set>

namespace tenon {

namespace {

/// The one symbol that the size still depends on; none where there are none or several.
Expr only_symbol(Expr size) {
  std::unordered_set<const ExprNode*> symbols;
  visit(size, [&](const ExprNode& n) {
    if (n.op == Op::Symbol) symbols.insert(&n);
  });
  return symbols.size() == 1 ? Expr(*symbols.begin()) : Expr();
}

Expr with(Expr e, Expr symbol, int64_t value) {
  Substitution s;
  s.set(symbol, e->pool->integer(value));
  return s.apply(e);
}

/// What the symbol is where `size`, which is linear in it, has this value.
std::optional<int64_t> solve(Expr size, Expr symbol, int64_t value) {
  auto rest = const_int(with(size, symbol, 0)), next = const_int(with(size, symbol, 1));
  if (!rest || !next || *next == *rest) return std::nullopt;
  return (value - *rest) / (*next - *rest);
}

} // namespace

std::map<std::string, int64_t> symbols_of(const LoadedProgram& program, std::span<const int64_t> sizes) {
  LoadedProgram own = program; // with expressions that may be rebuilt
  std::vector<Expr> dims;
  for (const ProgramInput& in : own.inputs)
    if (in.kind == InputKind::User && in.value.valid() && own.graph.type(in.value).is_tensor())
      dims.insert(dims.end(), own.graph.type(in.value).sizes.begin(), own.graph.type(in.value).sizes.end());
  require_input(dims.size() == sizes.size(), "{} sizes are given, the program's inputs have {}", sizes.size(), dims.size());
  std::map<std::string, int64_t> symbols;
  for (bool more = true; more;) {
    more = false;
    for (size_t i = 0; i < dims.size(); i++) {
      if (sizes[i] < 0) continue;
      Expr symbol = only_symbol(dims[i]);
      auto value = symbol ? solve(dims[i], symbol, sizes[i]) : std::nullopt;
      if (!value) continue;
      symbols[symbol->name] = *value, more = true;
      for (Expr& d : dims) d = with(d, symbol, *value);
    }
  }
  for (size_t i = 0; i < dims.size(); i++)
    require_input(sizes[i] < 0 || const_int(dims[i]) == sizes[i], "no sizes of the program give {} where {} is asked for",
                  to_string(dims[i]), sizes[i]);
  return symbols;
}

LoadedProgram specialize(const LoadedProgram& program, const std::map<std::string, int64_t>& symbols) {
  LoadedProgram out = program;
  out.graph = Graph(program.graph, symbols);
  return out;
}

} // namespace tenon
