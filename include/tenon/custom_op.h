// Operators of the user's own: torch.library operators that a program calls, given as a C function, or as a scalar
// expression, which fuses like a built-in operator. The structs are plain C, so that shared libraries can hold operators.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "tenon/error.h"

extern "C" {

/// An operand or result: contiguous row-major memory. `dtype` is a tenon::DType. A None of type `Tensor?` has no data and rank -1.
typedef struct tenon_tensor {
  void* data;
  const int64_t* sizes;
  int32_t rank;
  int32_t dtype;
} tenon_tensor;

/// One call. `inputs` are the Tensor arguments in schema order, the elements of a Tensor[] one after the other. `ints` are the
/// int, SymInt and bool arguments in schema order, `numbers` the float and Scalar ones. A list puts its length into `ints`,
/// before its elements; an optional number puts 1 there, or 0 where it is None. `outputs` have their memory already; those
/// of an argument that the schema writes, Tensor(a!), come after the returned ones and take its new value.
typedef struct tenon_op_call {
  const tenon_tensor* inputs;
  const tenon_tensor* outputs;
  const int64_t* ints;
  const double* numbers;
  size_t num_inputs, num_outputs, num_ints, num_numbers;
  void* data; ///< that of tenon_op
} tenon_op_call;

/// Returns null, or what is wrong with the values: a text that lives until the thread's next call. May be called from many threads at once.
typedef const char* (*tenon_op_function)(const tenon_op_call* call);

/// An operator. The texts are copied; `function` and `data` must live as long as the process uses them.
typedef struct tenon_op {
  /// As torch.library writes it: "mine::gate(Tensor x, Tensor y, float scale=1.0) -> Tensor".
  const char* schema = nullptr;
  /// The shape rule: a type for each result, separated by ';'. "x": that of argument x. "x[x.size(0), 2*y.size(-1)]": the dtype
  /// of x with these sizes; "i64[n]": a dtype of its own; integer arguments are known by name. Null for expressions.
  const char* results = nullptr;
  tenon_op_function function = nullptr; ///< null for expressions
  void* data = nullptr;
  /// The element of the result from the elements of the (broadcast) arguments: "x * sigmoid(scale*y)". It is computed in torch's
  /// result type of the tensors, f32 for f16 and bf16. Null for functions.
  const char* expression = nullptr;
} tenon_op;

/// What a shared library of operators defines: its operators, and how many.
TENON_API const tenon_op* tenon_ops(size_t* count);
}

namespace tenon {

/// Makes an operator known to programs loaded from now on, in the whole process. Errors: BadInput for a schema, rule or expression
/// that is wrong, and for a name that has another meaning already. Thread-safe.
TENON_API Status register_op(const tenon_op& op);

/// Registers what the shared library at `path` exports; the library stays loaded. Errors: BadInput. Thread-safe.
TENON_API Status load_op_library(const std::string& path);

} // namespace tenon
