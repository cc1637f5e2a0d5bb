// Conversions between f32 and the 16-bit floats, and from floats to integers.
#include "codegen/llvm/vector_math_ops.h"

namespace tenon::vmath {
namespace {

llvm::Type* like(llvm::Value* v, llvm::Type* element) { return v->getType()->getWithNewType(element); }

} // namespace

llvm::Value* bf16_to_f32(const Emitter& e, llvm::Value* bits) {
  llvm::IRBuilderBase& b = e.builder;
  llvm::Value* wide = b.CreateZExt(bits, like(bits, b.getInt32Ty()));
  return b.CreateBitCast(b.CreateShl(wide, 16), like(bits, b.getFloatTy()));
}

llvm::Value* widened_to_bf16(const Emitter& e, llvm::Value* x) {
  llvm::IRBuilderBase& b = e.builder;
  return b.CreateTrunc(b.CreateLShr(b.CreateBitCast(x, like(x, b.getInt32Ty())), 16), like(x, b.getInt16Ty()));
}

// In integers, as the AVX-512 instruction for it turns denormals into zeros.
llvm::Value* f32_to_bf16(const Emitter& e, llvm::Value* x) {
  if (e.flushes_denormals && e.target.avx512_bf16 && x->getType()->isVectorTy())
    return e.builder.CreateBitCast(e.builder.CreateFPTrunc(x, like(x, e.builder.getBFloatTy())), like(x, e.builder.getInt16Ty()));
  Math m(e, x);
  V u = m.bits(m.wrap(x));
  V rounded = (u + m.integer(0x7fff) + ((u >> 16) & m.integer(1))) >> 16;
  llvm::Value* nan = m.b.CreateFCmpUNO(x, x);
  V bits = m.select(m.wrap(nan), m.integer(0x7fc0), rounded);
  return m.b.CreateTrunc(bits.v, like(x, m.b.getInt16Ty()));
}

llvm::Value* f16_to_f32(const Emitter& e, llvm::Value* bits) {
  llvm::IRBuilderBase& b = e.builder;
  return b.CreateFPExt(b.CreateBitCast(bits, like(bits, b.getHalfTy())), like(bits, b.getFloatTy()));
}

llvm::Value* f32_to_f16(const Emitter& e, llvm::Value* x) {
  llvm::IRBuilderBase& b = e.builder;
  return b.CreateBitCast(b.CreateFPTrunc(x, like(x, b.getHalfTy())), like(x, b.getInt16Ty()));
}

// The x86 conversions give the lowest integer out of range. LLVM calls that poison: freeze makes it some fixed value, which
// for non-constant lanes is the instruction's. Below 32 bits it goes through i32 and is cut:
// beyond i32 an f32 has no low byte left, so the way through i64 that PyTorch takes for u8 ends the same.
llvm::Value* float_to_int(const Emitter& e, llvm::Value* x, int bits) {
  llvm::IRBuilderBase& b = e.builder;
  llvm::Type* step = bits == 64 ? b.getInt64Ty() : b.getInt32Ty();
  llvm::Value* n = b.CreateFreeze(b.CreateFPToSI(x, like(x, step)));
  return bits < 32 ? b.CreateTrunc(n, like(x, b.getIntNTy(static_cast<unsigned>(bits)))) : n;
}

llvm::Value* float_to_bool(const Emitter& e, llvm::Value* x) {
  Math m(e, x);
  return m.b.CreateFCmpUNE(x, m.number(0).v);
}

} // namespace tenon::vmath
