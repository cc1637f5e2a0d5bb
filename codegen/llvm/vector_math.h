// Mathematical functions as inlined vector IR: each call emits straight code for a vector of any lane count (or a scalar) of
// f32 or f64 at the builder's insertion point. Used by the emitter for pointwise bodies.
//
// The results follow C's libm for NaN, infinities, signed zeros and denormals; the errors in units in the last place are the
// table of tests/unit/vector_math_test.cpp. Functions whose large arguments or rare cases need another algorithm end the
// builder's block with a branch: after any call here, the current block is builder.GetInsertBlock().
#pragma once
#include <span>
#include <string_view>

#include "codegen/target.h"

namespace llvm {
class IRBuilderBase;
class Value;
} // namespace llvm

namespace tenon::vmath {

struct Emitter {
  llvm::IRBuilderBase& builder;
  const Target& target;
  bool flushes_denormals = false; // rounding to bf16 may
};

using Unary = llvm::Value* (*)(const Emitter&, llvm::Value*);
using Binary = llvm::Value* (*)(const Emitter&, llvm::Value*, llvm::Value*);

llvm::Value* exp(const Emitter&, llvm::Value* x);
llvm::Value* exp2(const Emitter&, llvm::Value* x);
llvm::Value* expm1(const Emitter&, llvm::Value* x);
llvm::Value* sigmoid(const Emitter&, llvm::Value* x); // 1 / (1 + exp(-x)), denormal results included
llvm::Value* sinh(const Emitter&, llvm::Value* x);
llvm::Value* cosh(const Emitter&, llvm::Value* x);
llvm::Value* tanh(const Emitter&, llvm::Value* x);
llvm::Value* pow(const Emitter&, llvm::Value* x, llvm::Value* y);

llvm::Value* log(const Emitter&, llvm::Value* x);
llvm::Value* log2(const Emitter&, llvm::Value* x);
llvm::Value* log10(const Emitter&, llvm::Value* x);
llvm::Value* log1p(const Emitter&, llvm::Value* x);
llvm::Value* asinh(const Emitter&, llvm::Value* x);
llvm::Value* acosh(const Emitter&, llvm::Value* x);
llvm::Value* atanh(const Emitter&, llvm::Value* x);

llvm::Value* sin(const Emitter&, llvm::Value* x);
llvm::Value* cos(const Emitter&, llvm::Value* x);
llvm::Value* tan(const Emitter&, llvm::Value* x);
llvm::Value* asin(const Emitter&, llvm::Value* x);
llvm::Value* acos(const Emitter&, llvm::Value* x);
llvm::Value* atan(const Emitter&, llvm::Value* x);
llvm::Value* atan2(const Emitter&, llvm::Value* y, llvm::Value* x);

llvm::Value* erf(const Emitter&, llvm::Value* x);
llvm::Value* erfc(const Emitter&, llvm::Value* x);

llvm::Value* sqrt(const Emitter&, llvm::Value* x);
llvm::Value* rsqrt(const Emitter&, llvm::Value* x); // 1 / sqrt(x), correctly rounded steps
llvm::Value* abs(const Emitter&, llvm::Value* x);
llvm::Value* floor(const Emitter&, llvm::Value* x);
llvm::Value* ceil(const Emitter&, llvm::Value* x);
llvm::Value* trunc(const Emitter&, llvm::Value* x);
llvm::Value* round(const Emitter&, llvm::Value* x);                     // half to even
llvm::Value* fmod(const Emitter&, llvm::Value* x, llvm::Value* y);      // sign of x, exact
llvm::Value* remainder(const Emitter&, llvm::Value* x, llvm::Value* y); // sign of y, as Python's %
llvm::Value* minimum(const Emitter&, llvm::Value* x, llvm::Value* y);   // NaN if either is
llvm::Value* maximum(const Emitter&, llvm::Value* x, llvm::Value* y);

/// The functions above by name ("exp", "rsqrt", "fmod" ...).
struct UnaryRow {
  std::string_view name;
  Unary emit;
};
struct BinaryRow {
  std::string_view name;
  Binary emit;
};
std::span<const UnaryRow> unary_functions();
std::span<const BinaryRow> binary_functions();

/// Functions that Op::Call names, as the rows of expr/special.h.
std::span<const UnaryRow> special_functions();
std::span<const BinaryRow> special_binary_functions_of(bool f64);

/// Calls the C function `name` lane by lane, its arguments and result of the lanes' type: rare functions and rare branches.
/// All arguments have the same type. The loop is rolled: code stays small.
llvm::Value* call_per_lane(const Emitter&, std::string_view name, std::span<llvm::Value* const> args);

/// 16-bit floats travel as i16 lanes. To f32 exactly; from f32 to nearest even, NaN kept, denormals kept unless the emitter says
/// otherwise.
llvm::Value* bf16_to_f32(const Emitter&, llvm::Value* bits);
llvm::Value* f32_to_bf16(const Emitter&, llvm::Value* x);
/// Of values that are floats of bf16.
llvm::Value* widened_to_bf16(const Emitter&, llvm::Value* x);
llvm::Value* f16_to_f32(const Emitter&, llvm::Value* bits);
llvm::Value* f32_to_f16(const Emitter&, llvm::Value* x);
/// f32 or f64 to signed or unsigned integers of `bits` bits (8, 16, 32, 64), toward zero. Out of range and NaN give what
/// PyTorch's CPU casts give on x86, the lowest i32 or i64 cut to the width; never poison.
llvm::Value* float_to_int(const Emitter&, llvm::Value* x, int bits);
/// x != 0, NaN included; i1 lanes.
llvm::Value* float_to_bool(const Emitter&, llvm::Value* x);

} // namespace tenon::vmath
