// Operators and kernels of the user's own, the part that is plain C: what a shared library of them includes, and what tenon.c.h and
// custom_op.h register. C99, C++, and what reads C headers for other languages.
#pragma once
#include <stddef.h>
#include <stdint.h>

// Visible outside of the library that defines it.
#define TENON_C_API __attribute__((visibility("default")))
// Fields are zero unless set: C++ is told, C zeroes what an initialiser leaves out.
#ifdef __cplusplus
#define TENON_ZERO = {}
extern "C" {
#else
#define TENON_ZERO
#endif

/// Types of elements, as tenon::DType numbers them. Bool is one byte, 0 or 1; C64 and C128 are pairs of F32 or F64; floats of 8 bits are
/// named by their bits of exponent and mantissa (FN: no infinity, UZ: one zero).
enum tenon_dtype {
  TENON_BOOL,
  TENON_U8,
  TENON_I8,
  TENON_I16,
  TENON_I32,
  TENON_I64,
  TENON_F16,
  TENON_BF16,
  TENON_F32,
  TENON_F64,
  TENON_C64,
  TENON_C128,
  TENON_U64,
  TENON_F8E4M3FN,
  TENON_F8E5M2,
  TENON_F8E4M3FNUZ,
  TENON_F8E5M2FNUZ
};

/// An operand or result in dense memory. `dtype` is one of enum tenon_dtype, `strides` are in elements: row-major, but of the tensors of
/// rank 4 and 5 of a kernel that is called for channels-last memory. A None in a list of tensors has no data and rank -1.
typedef struct tenon_tensor {
  void* data;
  const int64_t* sizes;
  const int64_t* strides;
  int32_t rank;
  int32_t dtype;
} tenon_tensor;

/// An argument of the schema, or an attribute of the node. The member of its type points at `count` elements, which are those of a list,
/// or one; the other members are null. None: all of them are null.
typedef struct tenon_value {
  const char* name;
  const tenon_tensor* tensors;
  const int64_t* ints;      ///< int, SymInt, bool, ScalarType (of enum tenon_dtype)
  const double* numbers;    ///< float, Scalar
  const char* const* texts; ///< str, Device, Layout, MemoryFormat
  size_t count;
} tenon_value;

/// One call. `args` are the arguments in the schema's order, defaults filled in. `attributes` are those of the node, as passes over the
/// graph set them (in C++ ir::Node::setAttribute). `outputs` have their memory already: the results, the elements of a Tensor[] one after
/// the other, numbers as 0-d tensors (int: i64, float: f64, bool); behind them the new values of arguments that the schema writes,
/// Tensor(a!).
typedef struct tenon_op_call {
  const tenon_value* args;
  const tenon_value* attributes;
  const tenon_tensor* outputs;
  size_t num_args, num_attributes, num_outputs;
  void* data; ///< that of tenon_op or tenon_kernel
} tenon_op_call;

/// Returns null, or what is wrong with the values: a text that lives until the thread's next call. May be called from many threads at once.
typedef const char* (*tenon_op_function)(const tenon_op_call* call);

/// An operator. The texts are copied; `function` and `data` must live as long as the process uses them.
typedef struct tenon_op {
  /// As torch.library writes it: "mine::gate(Tensor x, Tensor y, float scale=1.0) -> Tensor".
  const char* schema TENON_ZERO;
  /// The shape rule: a type for each result that is a tensor, separated by ';'. "x": that of argument x; of a Tensor[], the types of all
  /// its elements. "x[x.size(0), 2*y.size(-1)]": the dtype of x with these sizes, and "i64[n]" a dtype of its own; integer arguments are
  /// known by name, and so is a dtype that an argument of the type ScalarType gives. "x[...] * n": n results of that type, where n is
  /// known when the program is compiled. The types of a Tensor[] are all that the rule gives. Null for expressions.
  const char* results TENON_ZERO;
  tenon_op_function function TENON_ZERO; ///< null for expressions
  void* data TENON_ZERO;
  /// The element of the result from the elements of the (broadcast) arguments: "x * sigmoid(scale*y)". It is computed in torch's
  /// result type of the tensors, f32 for f16 and bf16. Null for functions.
  const char* expression TENON_ZERO;
} tenon_op;

/// Where the memory that a kernel takes lies, told by its first tensor, as the program was exported.
enum { TENON_ROW_MAJOR, TENON_CHANNELS_LAST, TENON_ANY_LAYOUT };

/// A function that computes an operator of tenon's own. It takes those nodes of a program whose tensors have dtypes and a layout that it
/// names, where the option `kernel` asks for it; tenon computes the others. It must give what the operator gives: the interpreter runs the
/// operator itself.
typedef struct tenon_kernel {
  const char* name TENON_ZERO; ///< with a namespace of its own: "mine::gelu"
  const char* op TENON_ZERO;   ///< "aten::gelu", "aten::softmax.int"; its schema gives the arguments of the call
  /// Those that its tensor arguments may have: "f32 bf16". Null: any.
  const char* dtypes TENON_ZERO;
  /// TENON_ROW_MAJOR: all tensors are row-major, copied where they are not. TENON_CHANNELS_LAST: those of rank 4 and 5 are channels-last,
  /// results too. TENON_ANY_LAYOUT: either, strides tell.
  int32_t layout TENON_ZERO;
  tenon_op_function function TENON_ZERO;
  void* data TENON_ZERO;
} tenon_kernel;

/// What a shared library exports: tenon_ops, tenon_kernels, or both. They give its operators or kernels, and how many.
TENON_C_API const tenon_op* tenon_ops(size_t* count);
TENON_C_API const tenon_kernel* tenon_kernels(size_t* count);

#ifdef __cplusplus
}
#endif
