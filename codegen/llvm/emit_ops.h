// Scalar operators as LLVM instructions on values of any lane count: what src/expr/eval.h says, at the builder's insertion
// point. Bool is i1, f16 and bf16 travel as i16, c64 as i64. Knows nothing of loops or memory.
#pragma once
#include <span>

#include <llvm/IR/DerivedTypes.h>
#include <llvm/IR/Value.h>
#include <llvm/Support/Alignment.h>

#include "codegen/llvm/vector_math.h"
#include "expr/expr.h"

namespace llvm {
class LLVMContext;
class Type;
class Value;
} // namespace llvm

namespace tenon::emit {

/// A C function of the table that the Jit was given.
llvm::FunctionCallee c_function(llvm::IRBuilderBase& b, const std::string& name, llvm::FunctionType* type);

llvm::Type* register_type(llvm::LLVMContext& context, DType type);
/// As register_type, but Bool is a byte.
llvm::Type* memory_type(llvm::LLVMContext& context, DType type);
llvm::Value* constant(llvm::LLVMContext& context, const ExprNode& node);
bool is_signed(DType type);
inline bool is_vector(llvm::Value* v) { return v->getType()->isVectorTy(); }
/// The type of as many lanes as v has.
inline llvm::Type* like(llvm::Value* v, llvm::Type* element) { return v->getType()->getWithNewType(element); }
inline const llvm::Align any_alignment(1); // tensors of the caller may lie anywhere

llvm::Value* lower_unary(const vmath::Emitter& e, Op op, DType type, llvm::Value* x);
/// The operator of `node` on operands of its arguments' dtype; the node's bounds of integers help divisions.
llvm::Value* lower_binary(const vmath::Emitter& e, const ExprNode& node, llvm::Value* a, llvm::Value* b);
llvm::Value* lower_cast(const vmath::Emitter& e, DType from, DType to, llvm::Value* x);
llvm::Value* lower_bitcast(const vmath::Emitter& e, DType from, DType to, llvm::Value* x);
/// The special function `name`, lane by lane.
llvm::Value* lower_call(const vmath::Emitter& e, std::string_view name, DType type, std::span<llvm::Value* const> args);

/// Integer TruncDiv, Fmod, FloorDiv and Mod (emit_divide.cpp).
llvm::Value* lower_divide(const vmath::Emitter& e, const ExprNode& node, llvm::Value* a, llvm::Value* b);
/// The greatest common divisor of integers.
llvm::Value* lower_gcd(llvm::IRBuilderBase& b, bool is_signed, llvm::Value* x, llvm::Value* y);

} // namespace tenon::emit
