// What the vector math files write their formulas in: V, a value with arithmetic operators, and Math, which makes constants,
// fused multiply-adds, bit tricks and rare branches of one type. Private to codegen/llvm/vector_math*.cpp.
#pragma once
#include <functional>
#include <initializer_list>
#include <optional>

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Intrinsics.h>

#include "codegen/llvm/vector_math.h"

namespace tenon::vmath {

class Math;

constexpr double pi = 3.141592653589793;

/// A scalar or vector of floats, integers or booleans. Operators work lane by lane; a plain number is a splat constant.
struct V {
  const Math* m;
  llvm::Value* v;
};

V operator+(V a, V b);
V operator-(V a, V b);
V operator*(V a, V b);
V operator/(V a, V b);
V operator-(V a);
V operator&(V a, V b);
V operator|(V a, V b);
V operator^(V a, V b);
V operator!(V a);
V operator<<(V a, int n);
V operator>>(V a, int n); // logical
V operator+(V a, double b);
V operator-(V a, double b);
V operator*(V a, double b);
V operator+(double a, V b);
V operator-(double a, V b);
V operator/(double a, V b);
// Ordered comparisons of floats: false where a NaN is involved.
V operator<(V a, V b);
V operator<(V a, double b);
V operator>(V a, double b);
V operator>=(V a, V b);
V operator>=(V a, double b);
V operator<=(V a, double b);
V operator==(V a, V b);
V operator==(V a, double b);

/// Emits for one float type: element f32 or f64 with the lane count of the value it was made from. While it lives, the
/// builder's fast-math flags are cleared: the formulas mean exactly what they say.
class Math {
public:
  Math(const Emitter& e, llvm::Value* like);

  const Emitter& e;
  llvm::IRBuilderBase& b;
  llvm::Type* type;     // of the floats
  llvm::Type* int_type; // integers of the same width
  unsigned lanes;       // 1 for a scalar, too
  bool f64;
  int mantissa, bias; // bits of the mantissa, exponent bias

  V wrap(llvm::Value* v) const { return {this, v}; }
  V number(double x) const;
  V integer(int64_t x) const;
  V infinity() const;
  V nan() const;

  V fma(V a, V x, V c) const;
  V fma(V a, double x, V c) const { return fma(a, number(x), c); }
  V fma(V a, double x, double c) const { return fma(a, number(x), number(c)); }
  /// c[0] + c[1] x + c[2] x^2 ... by Horner's rule.
  V poly(V x, std::initializer_list<double> c) const;
  V select(V condition, V yes, V no) const;
  V select(V condition, V yes, double no) const { return select(condition, yes, number(no)); }
  V select(V condition, double yes, V no) const { return select(condition, number(yes), no); }
  /// x limited from above or below; NaN stays.
  V at_most(V x, double limit) const;
  V at_least(V x, double limit) const;
  V abs(V x) const { return call(llvm::Intrinsic::fabs, x); }
  V sqrt(V x) const { return call(llvm::Intrinsic::sqrt, x); }
  V copysign(V magnitude, V sign) const;
  V call(llvm::Intrinsic::ID id, V x) const { return wrap(b.CreateUnaryIntrinsic(id, x.v)); }

  V bits(V x) const { return wrap(b.CreateBitCast(x.v, int_type)); }
  V as_float(V bits) const { return wrap(b.CreateBitCast(bits.v, type)); }
  V negative(V x) const { return wrap(b.CreateICmpSLT(bits(x).v, integer(0).v)); } // by the sign bit
  V nonzero(V bits) const { return wrap(b.CreateICmpNE(bits.v, integer(0).v)); }

  /// 1.5 * 2^mantissa: adding it rounds to an integer, which then stands in the low bits.
  double magic() const { return f64 ? 0x1.8p52 : 0x1.8p23; }

  /// `fast`, except in lanes where `rare` holds: there `slow()`, emitted in a block out of the way.
  V unless(V rare, V fast, const std::function<V()>& slow) const;
  /// The C function `name` ("sin"; f32 adds its "f"), lane by lane.
  V libm(const char* name, std::initializer_list<V> args) const;

private:
  llvm::IRBuilderBase::FastMathFlagGuard guard_;
};

/// An instruction of AVX-512: its masked intrinsics for registers of 128, 256 and 512 bits.
struct Avx512Instruction {
  llvm::Intrinsic::ID f32[3], f64[3];
};
/// Whether lanes like m's are one such register, or several of 512 bits.
bool fills_avx512(const Math& m);
/// The instruction on all lanes of `operands`, and an immediate; fills_avx512(m) holds.
V call_avx512(const Math& m, const Avx512Instruction& instruction, llvm::ArrayRef<V> operands, std::optional<int> immediate = {});

/// e^x = p 2^n: p in [0.7, 1.42], n an integer as a float, `shifted` = n + magic().
struct ExpParts {
  V p, n, shifted;
};
/// |x| must stay below 2^mantissa / 2; NaN ends in p.
ExpParts exp_parts(const Math& m, V x);
/// p 2^n, rounded once where it overflows or becomes denormal.
V scale(const Math& m, V p, V n, V shifted);
/// 2^n for an integer n = shifted - magic() within the normal exponents.
V power_of_two(const Math& m, V shifted);

/// Of f32.
V erf_by_table(const Math& m, V x);

/// x = 2^e (1 + f) for a positive normal x, f in [-1/3, 1/3].
struct LogParts {
  V e, f;
  V exponent_bits; // e in the place of the exponent
};
LogParts log_parts(const Math& m, V x);
/// ln(1 + f) for f in [-1/3, 1/3].
V log1p_poly(const Math& m, V f);
/// hi + lo = ln(x) for f64 x >= 0; hi alone where it is infinite or NaN.
struct Pair {
  V hi, lo;
};
Pair log_pair(const Math& m, V x);
/// Widens f32 lanes to f64, applies f there, rounds once: rare functions that would need double-float arithmetic.
llvm::Value* through_f64(const Emitter& e, llvm::Value* x, const std::function<V(const Math&, V)>& f);
/// A formula in f64, `wide` where its lanes are f64: f32 needs half of the digits.
template <V (*formula)(const Math&, V x, bool wide)> llvm::Value* in_f64(const Emitter& e, llvm::Value* x) {
  if (!x->getType()->getScalarType()->isDoubleTy()) return through_f64(e, x, [](const Math& m, V v) { return formula(m, v, false); });
  Math m(e, x);
  return formula(m, m.wrap(x), true).v;
}

/// Parts of special_functions().
std::span<const UnaryRow> airy_functions();
std::span<const UnaryRow> bessel_functions();
std::span<const UnaryRow> normal_functions();

} // namespace tenon::vmath
