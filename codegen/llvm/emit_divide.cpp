// Integer division and remainders: none may trap, vectors without a division instruction go through floats of twice the width,
// and what is known of the operands (constants, signs) makes them cheap. Greatest common divisors, without divisions.
#include <bit>

#include <llvm/IR/Constants.h>
#include <llvm/IR/IRBuilder.h>

#include "codegen/llvm/emit_ops.h"

namespace tenon::emit {
namespace {

// a / d toward zero, for d neither 0 nor -1. The quotient of two n-bit integers in a float with more than n mantissa bits
// never rounds up to the next integer, as their distance to it is at least 1 / d.
llvm::Value* quotient(llvm::IRBuilderBase& b, bool is_signed, llvm::Value* a, llvm::Value* d) {
  unsigned bits = a->getType()->getScalarSizeInBits();
  if (!a->getType()->isVectorTy() || llvm::isa<llvm::Constant>(d) || bits == 64) return is_signed ? b.CreateSDiv(a, d) : b.CreateUDiv(a, d);
  llvm::Type* type = like(a, bits <= 16 ? b.getFloatTy() : b.getDoubleTy());
  auto number = [&](llvm::Value* v) { return is_signed ? b.CreateSIToFP(v, type) : b.CreateUIToFP(v, type); };
  llvm::IRBuilderBase::FastMathFlagGuard exact(b);
  b.clearFastMathFlags();
  llvm::Value* q = b.CreateFPToSI(b.CreateFDiv(number(a), number(d)), like(a, b.getInt32Ty()));
  return b.CreateTrunc(q, a->getType());
}

bool rounds_down(Op op) { return op == Op::FloorDiv || op == Op::Mod; }
bool is_quotient(Op op) { return op == Op::TruncDiv || op == Op::FloorDiv; }

// Both operands known not to be negative, the divisor positive; `small`: below 2^31.
llvm::Value* divide_natural(llvm::IRBuilderBase& b, Op op, bool small, llvm::Value* a, llvm::Value* d) {
  llvm::Type* type = a->getType();
  bool narrow = small && type->getScalarSizeInBits() == 64;
  if (narrow) a = b.CreateTrunc(a, like(a, b.getInt32Ty())), d = b.CreateTrunc(d, like(d, b.getInt32Ty()));
  llvm::Value* r;
  if (llvm::isa<llvm::Constant>(d) || !type->isVectorTy()) r = is_quotient(op) ? b.CreateUDiv(a, d) : b.CreateURem(a, d);
  else {
    // Lanes beyond the end of a loop may have any divisor.
    d = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, d, llvm::ConstantInt::get(d->getType(), 1));
    r = quotient(b, true, a, d);
    if (!is_quotient(op)) r = b.CreateSub(a, b.CreateMul(r, d));
  }
  return narrow ? b.CreateZExt(r, type) : r;
}

llvm::Value* divide_any(llvm::IRBuilderBase& b, Op op, bool is_signed, llvm::Value* a, llvm::Value* divisor) {
  llvm::Value* zero = llvm::Constant::getNullValue(a->getType());
  llvm::Value* none = b.CreateICmpEQ(divisor, zero);
  llvm::Value* minus = is_signed ? b.CreateICmpEQ(divisor, llvm::Constant::getAllOnesValue(a->getType())) : nullptr;
  llvm::Value* unsafe = minus ? b.CreateOr(none, minus) : none;
  llvm::Value* d = b.CreateSelect(unsafe, llvm::ConstantInt::get(a->getType(), 1), divisor);
  llvm::Value* q = quotient(b, is_signed, a, d);
  llvm::Value* r = b.CreateSub(a, b.CreateMul(q, d)); // 0 for the unsafe divisors, as defined
  llvm::Value* adjust = nullptr;
  if (is_signed && rounds_down(op)) adjust = b.CreateAnd(b.CreateICmpNE(r, zero), b.CreateICmpSLT(b.CreateXor(r, d), zero));
  if (!is_quotient(op)) return adjust ? b.CreateAdd(r, b.CreateSelect(adjust, d, zero)) : r;
  if (adjust) q = b.CreateAdd(q, b.CreateSExt(adjust, a->getType()));
  if (minus) q = b.CreateSelect(minus, b.CreateNeg(a), q);
  return b.CreateSelect(none, zero, q);
}

} // namespace

llvm::Value* lower_divide(const vmath::Emitter& e, const ExprNode& n, llvm::Value* a, llvm::Value* b) {
  llvm::IRBuilderBase& builder = e.builder;
  const ExprNode &x = *n.args[0], &y = *n.args[1];
  if (n.type == DType::I64 && x.lo >= 0 && y.lo > 0) return divide_natural(builder, n.op, x.hi <= INT32_MAX && y.hi <= INT32_MAX, a, b);
  bool s = is_signed(n.type);
  if (y.is_const() && y.bits > 0 && !s) return divide_natural(builder, n.op, false, a, b);
  if (y.is_const() && y.bits > 0) {
    llvm::Value* zero = llvm::Constant::getNullValue(a->getType());
    if (rounds_down(n.op) && (y.bits & (y.bits - 1)) == 0) {
      if (n.op == Op::Mod) return builder.CreateAnd(a, llvm::ConstantInt::get(a->getType(), static_cast<uint64_t>(y.bits - 1)));
      return builder.CreateAShr(a, static_cast<uint64_t>(std::countr_zero(static_cast<uint64_t>(y.bits))));
    }
    llvm::Value* q = builder.CreateSDiv(a, b);
    if (n.op == Op::TruncDiv) return q;
    llvm::Value* r = builder.CreateSub(a, builder.CreateMul(q, b));
    if (n.op == Op::Fmod) return r;
    llvm::Value* below = builder.CreateICmpSLT(r, zero);
    if (n.op == Op::Mod) return builder.CreateAdd(r, builder.CreateSelect(below, b, zero));
    return builder.CreateAdd(q, builder.CreateSExt(below, a->getType()));
  }
  return divide_any(builder, n.op, s, a, b);
}

// Stein's algorithm, until no lane has anything left: the lesser of two odd numbers, and their difference without its factors of two.
llvm::Value* lower_gcd(llvm::IRBuilderBase& b, bool is_signed, llvm::Value* x, llvm::Value* y) {
  llvm::Type *type = x->getType(), *wide = type->getScalarSizeInBits() < 32 ? like(x, b.getInt32Ty()) : type;
  llvm::Value *zero = llvm::Constant::getNullValue(wide), *one = llvm::ConstantInt::get(wide, 1);
  auto magnitude = [&](llvm::Value* v) {
    v = b.CreateIntCast(v, wide, is_signed);
    return is_signed ? b.CreateSelect(b.CreateICmpSLT(v, zero), b.CreateNeg(v), v) : v;
  };
  auto is_zero = [&](llvm::Value* v) { return b.CreateICmpEQ(v, zero); };
  auto twos = [&](llvm::Value* v) { // none of 0
    return b.CreateIntrinsic(llvm::Intrinsic::cttz, {wide}, {b.CreateSelect(is_zero(v), one, v), b.getTrue()});
  };
  llvm::Value *m = magnitude(x), *n = magnitude(y), *shift = twos(b.CreateOr(m, n)), *none = is_zero(m);
  llvm::Value *odd = b.CreateSelect(none, n, m), *rest = b.CreateSelect(none, zero, n);
  odd = b.CreateLShr(odd, twos(odd));
  llvm::BasicBlock* before = b.GetInsertBlock();
  auto block = [&](const char* name) { return llvm::BasicBlock::Create(b.getContext(), name, before->getParent()); };
  llvm::BasicBlock *head = block("gcd"), *body = block("gcd_step"), *done = block("gcd_done");
  b.CreateBr(head);
  b.SetInsertPoint(head);
  llvm::PHINode *a = b.CreatePHI(wide, 2), *d = b.CreatePHI(wide, 2);
  a->addIncoming(odd, before), d->addIncoming(rest, before);
  llvm::Value* left = b.CreateICmpNE(d, zero);
  b.CreateCondBr(is_vector(left) ? b.CreateOrReduce(left) : left, body, done);
  b.SetInsertPoint(body);
  llvm::Value* c = b.CreateLShr(d, twos(d));
  llvm::Value *low = b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, a, c), *high = b.CreateBinaryIntrinsic(llvm::Intrinsic::umax, a, c);
  a->addIncoming(b.CreateSelect(left, low, a), body), d->addIncoming(b.CreateSelect(left, b.CreateSub(high, low), zero), body);
  b.CreateBr(head);
  b.SetInsertPoint(done);
  return b.CreateTrunc(b.CreateShl(a, shift), type);
}

} // namespace tenon::emit
