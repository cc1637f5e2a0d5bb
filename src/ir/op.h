// What a row of the operator table says. Parser, verifier, interpreter, folding, code generation, tests and the support
// table all read these rows; an operator is defined nowhere else.
#pragma once
#include <functional>
#include <memory>
#include <optional>

#include "ir/call.h"
#include "ir/schema.h"
#include "runtime/library.h"

namespace tenon {

class Builder;

/// How an operator computes.
enum class Kind : uint8_t {
  Pointwise, ///< each output element from the elements at its (broadcast) index: `body`
  View,      ///< each output element is one input element, or a constant: `define` without reduction
  Reduce,    ///< `define` with reduction axes
  Matmul,    ///< products over a common axis; has a `define`, and micro-kernels
  Conv,      ///< convolution; has a `define`, and micro-kernels
  Library,   ///< a hand-written step: `library`
  Composite, ///< written with other operators: `decompose`; gone after to_edge, `late` ones after decompose_late
  Prim,      ///< control flow and constants; the stages know them by name
};

/// The dtype in which a pointwise operator computes and what it gives.
enum class Promote : uint8_t {
  Default, ///< torch's result type of all operands, and so the output
  Float,   ///< the same, but integers become f32
  Compare, ///< computed in the result type, output Bool
  Logical, ///< every operand to Bool, output Bool
  First,   ///< the dtype of the first operand
};

/// A pointwise body's view of the operands: a["self"] is the element, in the compute dtype.
class BodyArgs {
public:
  BodyArgs(const Call& call, std::vector<Expr> operands) : call(call), operands_(std::move(operands)) {}
  /// Operand by schema name; a missing optional operand is an empty Expr.
  Expr operator[](std::string_view name) const;
  Expr operator[](int i) const { return operands_[static_cast<size_t>(i)]; }
  const Call& call;

private:
  std::vector<Expr> operands_; // by schema position
};
using Body = Expr (*)(const BodyArgs&);

enum class Reduction : uint8_t { None, Sum, Prod, Max, Min, Any, All, ArgMax, ArgMin };

/// A definition: out[axes] = reduction over reduce_axes of body. Loads name the operand by its place among the node's
/// tensor operands (flattened, missing ones left out). The accumulator has the dtype of `body`; the result is converted to
/// the output's dtype. ArgMax and ArgMin give the row-major position in reduce_axes of the first extreme (NaN is extreme).
struct Compute {
  std::vector<Expr> axes;
  std::vector<Expr> reduce_axes = {};
  Reduction reduction = Reduction::None;
  Expr body = {};
};

/// What `define` sees: the call, an axis for each output dim, loads.
class DefineArgs {
public:
  DefineArgs(const Call& call, const Type& output);
  const Call& call;
  const Type& output;
  ExprPool& pool;
  std::vector<Expr> axes;

  Expr i(size_t d) const { return axes[d]; }
  Expr integer(int64_t v) const { return pool.integer(v); }
  /// A new reduction axis over [0, extent).
  Expr reduce_axis(Expr extent) const;
  /// Element of the operand named `arg` at `indices`. `element` picks one of a list argument.
  Expr load(std::string_view arg, std::vector<Expr> indices, size_t element = 0) const;
  /// The load, cast to the dtype it is accumulated in: f32 for f16 and bf16, i64 for sums of integers on request.
  Expr load_wide(std::string_view arg, std::vector<Expr> indices) const;

private:
  mutable int64_t next_axis_;
};
using Define = Compute (*)(const DefineArgs&);

/// A library step: which tensors it reads, and its parameters: integers, floats and texts.
struct LibraryStep {
  LibraryFn function = nullptr;
  std::vector<ValueId> inputs = {};
  std::vector<Expr> ints = {};
  std::vector<double> numbers = {};
  std::vector<std::string> texts = {};
};

class V;       // builder.h
struct Values; // builder.h
using Infer = std::vector<Type> (*)(const Call&);
using Decompose = Values (*)(Builder&, const Call&);

struct ViewWrite; // ops/view_inverse.h
using ViewInverse = V (*)(Builder&, const ViewWrite&);
struct Tangents; // ops/jvp.h
using Jvp = V (*)(Builder&, const Tangents&);
/// The dtype that autocast to `lower` gives an operator's floating-point operands; none where it leaves them as they are.
using Autocast = std::optional<DType> (*)(DType lower, const Graph& graph, const ArgList& args);
struct BatchedCall; // ops/vectorize.h
using Vectorize = Values (*)(Builder&, const BatchedCall&);

/// Sets of dtypes for the Edge constraints.
using DTypes = uint32_t;
constexpr DTypes set_of(std::initializer_list<DType> types) {
  DTypes s = 0;
  for (DType t : types) s |= DTypes{1} << static_cast<int>(t);
  return s;
}
inline constexpr DTypes float_types = set_of({DType::F16, DType::BF16, DType::F32, DType::F64});
inline constexpr DTypes reduced_types = set_of({DType::F16, DType::BF16});
inline constexpr DTypes full_floats = set_of({DType::F32, DType::F64});
inline constexpr DTypes int_types = set_of({DType::U8, DType::I8, DType::I16, DType::I32, DType::I64});
inline constexpr DTypes u64_type = set_of({DType::U64}); // torch computes little with it
inline constexpr DTypes bool_type = set_of({DType::Bool});
inline constexpr DTypes real_types = float_types | int_types;
inline constexpr DTypes number_types = real_types | bool_type | u64_type;
inline constexpr DTypes complex_types = set_of({DType::C64, DType::C128});
inline constexpr DTypes float8_types = set_of({DType::F8E4M3FN, DType::F8E5M2, DType::F8E4M3FNUZ, DType::F8E5M2FNUZ});
/// What generated code moves: complex tensors are computed by their parts.
inline constexpr DTypes any_type = number_types | float8_types;

struct OpRow {
  std::string_view schema;
  Kind kind = Kind::Composite;
  Promote promote = Promote::Default;
  std::string_view keep = {}; ///< operands, separated by blanks, that take no part in promotion
  Body body = nullptr;
  Infer infer = nullptr; ///< output types; pointwise and composite rows need none
  Define define = nullptr;
  Decompose decompose = nullptr;       ///< of another kind than Composite: may give no values, and the call stays as it is
  bool (*late)(const Call&) = nullptr; ///< composites: whether the call stays whole in the Edge graph, until decompose_late
  LibraryStep (*library)(const Call&) = nullptr;
  DTypes dtypes = any_type;    ///< of the operands, in the Edge dialect
  std::string_view types = {}; ///< of operands and results that have other dtypes: the language of edge/operand_types.h
  bool data_dependent = false; ///< output sizes depend on values: their types come from the program
  /// Of views, that is where the schema says that the result has an operand's memory: whether it has it in a call. None: always.
  bool (*shares)(const Type& operand, const Type& result) = nullptr;
  ViewInverse view_inverse = nullptr; ///< of views: what they are a view of, once they are written
  Jvp jvp = nullptr;                  ///< the tangent of the first result; none: that of its parts
  Autocast autocast = nullptr;        ///< none: operands stay as they are
  bool layout_follows = false;        ///< the result lies in memory as its operand does; pointwise ones always do
  Vectorize vectorize = nullptr;      ///< the operator on a batch; pointwise ones need none; may give no values
  std::string_view vjp = {};          ///< the reverse derivatives, in the language of autodiff/derivatives.h
};

/// A row with its parsed schema.
struct OpDef : OpRow {
  Schema signature;
  bool is_core = false;           ///< of the core ATen dialect: torch tags it so
  Decompose to_core = nullptr;    ///< what it is in that dialect, where `decompose` does not say it; may give no values
  Decompose on_complex = nullptr; ///< what it is on complex tensors, where views and decompositions do not say it already
  bool is_composite() const { return kind == Kind::Composite; }
  bool stays_in_edge() const { return !is_composite() || late; }
};

/// The row of "aten::add.Tensor" or "edge::add.Tensor"; null where there is none. Thread-safe.
const OpDef* find_op(std::string_view name);
/// "aten::add_.Tensor" -> "aten::add.Tensor"; other names unchanged.
std::string functional_name(std::string_view name);
/// All rows, ordered by name.
std::vector<const OpDef*> all_ops();
/// The tensor operands of a call, flattened in schema order: what Compute's loads count.
std::vector<ValueId> tensor_operands(const ArgList& args, const Graph& graph);

} // namespace tenon
