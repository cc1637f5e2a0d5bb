// The notation of the vector math files, and their tables of functions.
#include "codegen/llvm/vector_math_ops.h"

#include <limits>

#include <llvm/IR/Function.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>

namespace tenon::vmath {
namespace {

bool is_float(V a) { return a.v->getType()->isFPOrFPVectorTy(); }
V like(V a, double x) { return a.m->number(x); }

} // namespace

V operator+(V a, V b) { return {a.m, is_float(a) ? a.m->b.CreateFAdd(a.v, b.v) : a.m->b.CreateAdd(a.v, b.v)}; }
V operator-(V a, V b) { return {a.m, is_float(a) ? a.m->b.CreateFSub(a.v, b.v) : a.m->b.CreateSub(a.v, b.v)}; }
V operator*(V a, V b) { return {a.m, a.m->b.CreateFMul(a.v, b.v)}; }
V operator/(V a, V b) { return {a.m, a.m->b.CreateFDiv(a.v, b.v)}; }
V operator-(V a) { return {a.m, a.m->b.CreateFNeg(a.v)}; }
V operator&(V a, V b) { return {a.m, a.m->b.CreateAnd(a.v, b.v)}; }
V operator|(V a, V b) { return {a.m, a.m->b.CreateOr(a.v, b.v)}; }
V operator^(V a, V b) { return {a.m, a.m->b.CreateXor(a.v, b.v)}; }
V operator!(V a) { return {a.m, a.m->b.CreateNot(a.v)}; }
V operator<<(V a, int n) { return {a.m, a.m->b.CreateShl(a.v, a.m->integer(n).v)}; }
V operator>>(V a, int n) { return {a.m, a.m->b.CreateLShr(a.v, a.m->integer(n).v)}; }
V operator+(V a, double b) { return a + like(a, b); }
V operator-(V a, double b) { return a - like(a, b); }
V operator*(V a, double b) { return a * like(a, b); }
V operator+(double a, V b) { return like(b, a) + b; }
V operator-(double a, V b) { return like(b, a) - b; }
V operator/(double a, V b) { return like(b, a) / b; }
V operator<(V a, V b) { return {a.m, a.m->b.CreateFCmpOLT(a.v, b.v)}; }
V operator<(V a, double b) { return a < like(a, b); }
V operator>(V a, double b) { return {a.m, a.m->b.CreateFCmpOGT(a.v, like(a, b).v)}; }
V operator>=(V a, V b) { return {a.m, a.m->b.CreateFCmpOGE(a.v, b.v)}; }
V operator>=(V a, double b) { return a >= like(a, b); }
V operator<=(V a, double b) { return {a.m, a.m->b.CreateFCmpOLE(a.v, like(a, b).v)}; }
V operator==(V a, V b) { return {a.m, a.m->b.CreateFCmpOEQ(a.v, b.v)}; }
V operator==(V a, double b) { return a == like(a, b); }

Math::Math(const Emitter& e, llvm::Value* like) : e(e), b(e.builder), type(like->getType()), guard_(e.builder) {
  b.clearFastMathFlags();
  f64 = type->getScalarType()->isDoubleTy();
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
  lanes = vector ? vector->getNumElements() : 1;
  int_type = type->getWithNewType(b.getIntNTy(f64 ? 64 : 32));
  mantissa = f64 ? 52 : 23;
  bias = f64 ? 1023 : 127;
}

V Math::number(double x) const { return wrap(llvm::ConstantFP::get(type, x)); }
V Math::integer(int64_t x) const { return wrap(llvm::ConstantInt::get(int_type, static_cast<uint64_t>(x))); }
V Math::infinity() const { return number(std::numeric_limits<double>::infinity()); }
V Math::nan() const { return wrap(llvm::ConstantFP::getNaN(type)); }

V Math::fma(V a, V x, V c) const { return wrap(b.CreateIntrinsic(llvm::Intrinsic::fma, {type}, {a.v, x.v, c.v})); }

V Math::poly(V x, std::initializer_list<double> c) const {
  V sum = number(c.end()[-1]);
  for (const double* k = c.end() - 1; k != c.begin(); k--) sum = fma(sum, x, number(k[-1]));
  return sum;
}

V Math::select(V condition, V yes, V no) const { return wrap(b.CreateSelect(condition.v, yes.v, no.v)); }
V Math::at_most(V x, double limit) const { return select(x > limit, limit, x); }
V Math::at_least(V x, double limit) const { return select(x < limit, limit, x); }
V Math::copysign(V magnitude, V sign) const { return wrap(b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, magnitude.v, sign.v)); }

V Math::unless(V rare, V fast, const std::function<V()>& slow) const {
  llvm::Value* any = lanes > 1 || type->isVectorTy() ? b.CreateOrReduce(rare.v) : rare.v;
  llvm::Function* function = b.GetInsertBlock()->getParent();
  llvm::LLVMContext& context = b.getContext();
  llvm::BasicBlock* before = b.GetInsertBlock();
  auto* slow_block = llvm::BasicBlock::Create(context, "rare", function);
  auto* join = llvm::BasicBlock::Create(context, "join", function);
  b.CreateCondBr(any, slow_block, join, llvm::MDBuilder(context).createBranchWeights(1, 1 << 20));
  b.SetInsertPoint(slow_block);
  V other = select(rare, slow(), fast); // a lane never depends on its neighbours
  llvm::BasicBlock* slow_end = b.GetInsertBlock();
  b.CreateBr(join);
  b.SetInsertPoint(join);
  llvm::PHINode* phi = b.CreatePHI(fast.v->getType(), 2);
  phi->addIncoming(fast.v, before);
  phi->addIncoming(other.v, slow_end);
  return wrap(phi);
}

V Math::libm(const char* name, std::initializer_list<V> args) const {
  llvm::SmallVector<llvm::Value*, 2> values;
  for (V a : args) values.push_back(a.v);
  return wrap(call_per_lane(e, std::string(name) + (f64 ? "" : "f"), values));
}

bool fills_avx512(const Math& m) {
  int64_t bits = int64_t(m.lanes) * (m.f64 ? 64 : 32);
  return m.e.target.avx512() && m.type->isVectorTy() && (bits == 128 || bits == 256 || bits % 512 == 0);
}

V call_avx512(const Math& m, const Avx512Instruction& instruction, llvm::ArrayRef<V> operands, std::optional<int> immediate) {
  llvm::IRBuilderBase& b = m.b;
  unsigned bits = m.lanes * (m.f64 ? 64 : 32), most = m.f64 ? 8 : 16;
  llvm::SmallVector<llvm::Value*, 6> args;
  if (bits <= 512) {
    for (V o : operands) args.push_back(o.v);
    if (immediate) args.push_back(b.getInt32(static_cast<uint32_t>(*immediate)));
    args.push_back(args[0]); // where the mask, of all lanes, would hold nothing
    args.push_back(llvm::ConstantInt::getAllOnesValue(b.getIntNTy(std::max(m.lanes, 8u))));
    if (bits == 512) args.push_back(b.getInt32(4)); // the current rounding mode
    return m.wrap(b.CreateIntrinsic((m.f64 ? instruction.f64 : instruction.f32)[bits / 256], {}, args));
  }
  llvm::Value* whole = llvm::PoisonValue::get(m.type);
  for (unsigned at = 0; at < m.lanes; at += most) { // a register at a time
    llvm::SmallVector<int, 16> take;
    for (unsigned i = 0; i < most; i++) take.push_back(static_cast<int>(at + i));
    Math part(m.e, b.CreateShuffleVector(operands[0].v, take));
    llvm::SmallVector<V, 2> pieces;
    for (V o : operands) pieces.push_back(part.wrap(b.CreateShuffleVector(o.v, take)));
    whole = b.CreateInsertVector(m.type, whole, call_avx512(part, instruction, pieces, immediate).v, b.getInt64(at));
  }
  return m.wrap(whole);
}

llvm::Value* call_per_lane(const Emitter& e, std::string_view name, std::span<llvm::Value* const> args) {
  llvm::IRBuilderBase& b = e.builder;
  llvm::Type* type = args[0]->getType();
  llvm::Type* scalar = type->getScalarType();
  llvm::Function* function = b.GetInsertBlock()->getParent();
  llvm::SmallVector<llvm::Type*, 2> parameters(args.size(), scalar);
  llvm::FunctionCallee callee = function->getParent()->getOrInsertFunction(llvm::StringRef(name.data(), name.size()),
                                                                           llvm::FunctionType::get(scalar, parameters, false));
  if (auto* f = llvm::dyn_cast<llvm::Function>(callee.getCallee())) f->addFnAttr(llvm::Attribute::NoUnwind);
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
  if (!vector) return b.CreateCall(callee, llvm::SmallVector<llvm::Value*, 2>(args.begin(), args.end()));

  // The lanes go through memory: a rolled loop over an array per argument, the first of which receives the results.
  llvm::SmallVector<llvm::Value*, 2> arrays;
  {
    llvm::IRBuilderBase::InsertPointGuard here(b);
    llvm::BasicBlock& entry = function->getEntryBlock();
    b.SetInsertPoint(&entry, entry.begin());
    for (size_t i = 0; i < args.size(); i++) arrays.push_back(b.CreateAlloca(type));
  }
  for (size_t i = 0; i < args.size(); i++) b.CreateStore(args[i], arrays[i]);
  llvm::BasicBlock* before = b.GetInsertBlock();
  auto* loop = llvm::BasicBlock::Create(b.getContext(), "lanes", function);
  auto* done = llvm::BasicBlock::Create(b.getContext(), "lanes_done", function);
  b.CreateBr(loop);
  b.SetInsertPoint(loop);
  llvm::PHINode* i = b.CreatePHI(b.getInt64Ty(), 2);
  llvm::SmallVector<llvm::Value*, 2> lane;
  for (llvm::Value* a : arrays) lane.push_back(b.CreateLoad(scalar, b.CreateGEP(scalar, a, i)));
  b.CreateStore(b.CreateCall(callee, lane), b.CreateGEP(scalar, arrays[0], i));
  llvm::Value* next = b.CreateAdd(i, b.getInt64(1));
  i->addIncoming(b.getInt64(0), before);
  i->addIncoming(next, loop);
  b.CreateCondBr(b.CreateICmpULT(next, b.getInt64(vector->getNumElements())), loop, done);
  b.SetInsertPoint(done);
  return b.CreateLoad(type, arrays[0]);
}

llvm::Value* through_f64(const Emitter& e, llvm::Value* x, const std::function<V(const Math&, V)>& f) {
  llvm::Value* wide = e.builder.CreateFPExt(x, x->getType()->getWithNewType(e.builder.getDoubleTy()));
  Math m(e, wide);
  return e.builder.CreateFPTrunc(f(m, m.wrap(wide)).v, x->getType());
}

std::span<const UnaryRow> unary_functions() {
  static constexpr UnaryRow rows[] = {
      {"exp", exp},     {"exp2", exp2},   {"expm1", expm1}, {"sigmoid", sigmoid}, {"sinh", sinh},   {"cosh", cosh},
      {"tanh", tanh},   {"log", log},     {"log2", log2},   {"log10", log10},     {"log1p", log1p}, {"asinh", asinh},
      {"acosh", acosh}, {"atanh", atanh}, {"sin", sin},     {"cos", cos},         {"tan", tan},     {"asin", asin},
      {"acos", acos},   {"atan", atan},   {"erf", erf},     {"erfc", erfc},       {"sqrt", sqrt},   {"rsqrt", rsqrt},
      {"abs", abs},     {"floor", floor}, {"ceil", ceil},   {"trunc", trunc},     {"round", round},
  };
  return rows;
}

std::span<const BinaryRow> binary_functions() {
  static constexpr BinaryRow rows[] = {
      {"pow", pow}, {"atan2", atan2}, {"fmod", fmod}, {"remainder", remainder}, {"minimum", minimum}, {"maximum", maximum},
  };
  return rows;
}

} // namespace tenon::vmath
