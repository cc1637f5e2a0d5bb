// The reference interpreter: runs an Edge graph with row definitions and plain loops. The oracle of all tests, and the
// fallback of last resort.
#pragma once
#include <unordered_map>

#include "ir/op.h"
#include "ir/program.h"
#include "runtime/collectives.h"

namespace tenon {

/// Values of symbols, by name.
using SymbolValues = std::unordered_map<std::string, double>;

/// Evaluates a definition over concrete operands, with bounds checks on every load. `axes` of `compute` may be symbolic.
Tensor evaluate(const Compute& compute, DType output, const std::vector<Tensor>& operands, const SymbolValues& symbols);
/// Integers of an expression under given symbols; BadInput where a symbol has no value.
int64_t evaluate_size(Expr e, const SymbolValues& symbols);
/// Gives a symbol its value; BadInput where that is outside its range.
void bind_symbol(SymbolValues& symbols, const ExprNode& symbol, double value);

/// Runs the top block on values for its parameters, in the pool of the graph; gives its returns (numbers as 0-d tensors, None as undefined
/// ones).
/// `collectives`: null where nothing communicates.
std::vector<Tensor> interpret(const Graph& graph, const std::vector<Tensor>& inputs, SymbolValues symbols, uint64_t seed,
                              const Collectives* collectives = nullptr);
/// Values of the symbols in the parameters' types, from the tensors given for them; BadInput names the input, the
/// dimension and the allowed range where something does not fit.
SymbolValues bind_symbols(const LoadedProgram& program, const std::vector<TensorView>& inputs);

} // namespace tenon
