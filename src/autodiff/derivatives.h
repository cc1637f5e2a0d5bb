// What rows say of their reverse derivatives (OpRow::vjp, BuiltinRow::vjp), read. Entries are separated by ';':
//   "self: grad * other; other: grad * self"       the gradient of an argument, as an expression of the script language
//   "mat1, mat2: both(grad, mat1, mat2, needs)"     of several at once: a tuple; `needs` says which of them are asked for
//   "result: input @ weight.t() + bias"             what the operator is in terms of others: it is differentiated as that
//   "none"                                          gradients stop here: there is none, or it is zero everywhere
//   "aten::mul.Tensor"                              those of that row, whose arguments have the same names
//   "broadcasts"                                    of an operator that is no pointwise row: operands broadcast all the same
// Names in an expression: the arguments; `result`, or `result0` ...; the gradient `grad` of the result, or of the first, and `grad1` ... of
// the others; `NAME_size` and `NAME_dtype` of a tensor NAME, which keep no elements of it; functions of autodiff/prelude.cpp. Where
// an operator broadcasts, or takes operands of several dtypes, expressions give the gradient before it is summed up and cast.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "builtins/builtin.h"
#include "ir/op.h"
#include "script/inline.h"

namespace tenon::autodiff {

struct Rule {
  std::vector<std::string> of; ///< arguments
  std::string function;        ///< of `library()`
  std::vector<std::string> params;
};

struct Derivative {
  std::vector<Rule> rules;
  std::optional<Rule> result; ///< what it is in terms of other operators
  bool sums_to_operands = false;
  bool stops() const { return rules.empty() && !result; }
  const Rule* rule_of(std::string_view arg) const;
};

/// Of a row of src/ops or src/builtins; null where it has none. Thread-safe.
const Derivative* derivative_of(const OpDef& def);
const Derivative* derivative_of(const BuiltinOp& op);
/// The functions of all rules, and helpers.
const script::Functions& library();

// Parts of the library's source.
// Parts of the library's source.
// Parts of the library's source.
namespace prelude {
extern const char gradients[]; ///< how gradients are put together
extern const char operators[]; ///< what expressions of rows call: pointwise operators and reductions
extern const char products[];
extern const char selections[];
extern const char losses[];
extern const char recurrent[]; ///< and linear algebra
} // namespace prelude

} // namespace tenon::autodiff
