#include "codegen/llvm/emit_ops.h"

#include <functional>

#include <llvm/IR/Constants.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include "base/numeric.h"
#include "expr/eval.h"

namespace tenon::emit {

namespace {

const llvm::Constant* splat_of(llvm::Value* v) {
  auto* c = llvm::dyn_cast<llvm::Constant>(v);
  return c && c->getType()->isVectorTy() ? c->getSplatValue() : c;
}

} // namespace

bool is_signed(DType type) { return !is_unsigned(type) && type != DType::Bool; }

llvm::Type* register_type(llvm::LLVMContext& c, DType type) {
  switch (type) {
  case DType::Bool: return llvm::Type::getInt1Ty(c);
  case DType::F32: return llvm::Type::getFloatTy(c);
  case DType::F64: return llvm::Type::getDoubleTy(c);
  default: return llvm::Type::getIntNTy(c, static_cast<unsigned>(size_of(type) * 8));
  }
}

llvm::Type* memory_type(llvm::LLVMContext& c, DType type) {
  return type == DType::Bool ? llvm::Type::getInt8Ty(c) : register_type(c, type);
}

llvm::Value* constant(llvm::LLVMContext& c, const ExprNode& n) {
  llvm::Type* type = register_type(c, n.type);
  switch (n.type) {
  case DType::F32:
  case DType::F64: return llvm::ConstantFP::get(type, n.number());
  case DType::F16: return llvm::ConstantInt::get(type, F16(static_cast<float>(n.number())).bits);
  case DType::BF16: return llvm::ConstantInt::get(type, BF16(static_cast<float>(n.number())).bits);
  case DType::Bool: return llvm::ConstantInt::getBool(c, n.bits != 0);
  default: return llvm::ConstantInt::get(type, static_cast<uint64_t>(n.bits));
  }
}

// ---- unary

namespace {

vmath::Unary math_function(Op op) {
  switch (op) {
  case Op::Abs: return vmath::abs;
  case Op::Sqrt: return vmath::sqrt;
  case Op::Rsqrt: return vmath::rsqrt;
  case Op::Exp: return vmath::exp;
  case Op::Exp2: return vmath::exp2;
  case Op::Expm1: return vmath::expm1;
  case Op::Log: return vmath::log;
  case Op::Log2: return vmath::log2;
  case Op::Log10: return vmath::log10;
  case Op::Log1p: return vmath::log1p;
  case Op::Sin: return vmath::sin;
  case Op::Cos: return vmath::cos;
  case Op::Tan: return vmath::tan;
  case Op::Asin: return vmath::asin;
  case Op::Acos: return vmath::acos;
  case Op::Atan: return vmath::atan;
  case Op::Sinh: return vmath::sinh;
  case Op::Cosh: return vmath::cosh;
  case Op::Tanh: return vmath::tanh;
  case Op::Asinh: return vmath::asinh;
  case Op::Acosh: return vmath::acosh;
  case Op::Atanh: return vmath::atanh;
  case Op::Erf: return vmath::erf;
  case Op::Erfc: return vmath::erfc;
  case Op::Sigmoid: return vmath::sigmoid;
  case Op::Floor: return vmath::floor;
  case Op::Ceil: return vmath::ceil;
  case Op::Round: return vmath::round;
  case Op::Trunc: return vmath::trunc;
  default: return nullptr;
  }
}

} // namespace

llvm::Value* lower_unary(const vmath::Emitter& e, Op op, DType type, llvm::Value* x) {
  llvm::IRBuilderBase& b = e.builder;
  if (type == DType::F32 || type == DType::F64) {
    if (op == Op::Neg) return b.CreateFNeg(x);
    if (vmath::Unary f = math_function(op)) return f(e, x);
  } else if (type == DType::Bool) {
    if (op == Op::Not) return b.CreateNot(x);
    if (op == Op::Abs) return x;
  } else if (is_int(type)) {
    if (op == Op::Neg) return b.CreateNeg(x);
    if (op == Op::Not) return b.CreateNot(x);
    if (op == Op::Abs) return is_signed(type) ? b.CreateBinaryIntrinsic(llvm::Intrinsic::abs, x, b.getFalse()) : x;
    if (op >= Op::Floor && op <= Op::Trunc) return x;
  }
  internal_error("generated code has no operator {} on {}", name_of(op), name_of(type));
}

// ---- casts

namespace {

llvm::Value* int_to_float(const vmath::Emitter& e, DType from, llvm::Value* x, llvm::Type* to) {
  llvm::Type* type = like(x, to);
  return is_signed(from) ? e.builder.CreateSIToFP(x, type) : e.builder.CreateUIToFP(x, type);
}

llvm::Value* widen(const vmath::Emitter& e, DType from, llvm::Value* x) {
  return from == DType::BF16 ? vmath::bf16_to_f32(e, x) : vmath::f16_to_f32(e, x);
}

} // namespace

llvm::Value* lower_cast(const vmath::Emitter& e, DType from, DType to, llvm::Value* x) {
  llvm::IRBuilderBase& b = e.builder;
  if (from == to) return x;
  if (is_reduced_float(from)) return lower_cast(e, DType::F32, to, widen(e, from, x));
  if (is_reduced_float(to)) {
    llvm::Value* f = lower_cast(e, from, DType::F32, x);
    return to == DType::BF16 ? vmath::f32_to_bf16(e, f) : vmath::f32_to_f16(e, f);
  }
  llvm::Type* element = register_type(b.getContext(), to);
  if (is_float(from)) {
    if (to == DType::Bool) return vmath::float_to_bool(e, x);
    if (is_int(to)) return vmath::float_to_int(e, x, static_cast<int>(size_of(to) * 8));
    return b.CreateFPCast(x, like(x, element));
  }
  if (to == DType::Bool) return b.CreateICmpNE(x, llvm::Constant::getNullValue(x->getType()));
  if (is_float(to)) return int_to_float(e, from, x, element);
  return b.CreateIntCast(x, like(x, element), is_signed(from));
}

llvm::Value* lower_bitcast(const vmath::Emitter& e, DType from, DType to, llvm::Value* x) {
  require(size_of(from) == size_of(to) && from != DType::Bool && to != DType::Bool, "bitcast from {} to {}", name_of(from), name_of(to));
  return e.builder.CreateBitCast(x, like(x, register_type(e.builder.getContext(), to)));
}

// ---- binary

namespace {

llvm::Value* compare(llvm::IRBuilderBase& b, Op op, DType type, llvm::Value* x, llvm::Value* y) {
  using P = llvm::CmpInst::Predicate;
  if (is_float(type)) {
    P p = op == Op::Eq ? P::FCMP_OEQ : op == Op::Ne ? P::FCMP_UNE : op == Op::Lt ? P::FCMP_OLT : P::FCMP_OLE;
    return b.CreateFCmp(p, x, y);
  }
  bool s = is_signed(type);
  P p = op == Op::Eq   ? P::ICMP_EQ
        : op == Op::Ne ? P::ICMP_NE
        : op == Op::Lt ? (s ? P::ICMP_SLT : P::ICMP_ULT)
                       : (s ? P::ICMP_SLE : P::ICMP_ULE);
  return b.CreateICmp(p, x, y);
}

// Exponents that a few multiplications give to within an ulp.
llvm::Value* float_pow(const vmath::Emitter& e, llvm::Value* x, llvm::Value* y) {
  llvm::IRBuilderBase& b = e.builder;
  auto* c = llvm::dyn_cast_or_null<llvm::ConstantFP>(splat_of(y));
  if (c && c->isExactlyValue(1)) return x;
  if (c && c->isExactlyValue(2)) return b.CreateFMul(x, x);
  if (c && c->isExactlyValue(3)) return b.CreateFMul(b.CreateFMul(x, x), x);
  if (c && c->isExactlyValue(-1)) return b.CreateFDiv(llvm::ConstantFP::get(x->getType(), 1), x);
  return vmath::pow(e, x, y);
}

// As torch: through the remainder, so that large quotients are exact.
llvm::Value* float_floor_div(const vmath::Emitter& e, llvm::Value* x, llvm::Value* y) {
  llvm::IRBuilderBase& b = e.builder;
  llvm::IRBuilderBase::FastMathFlagGuard exact(b);
  b.clearFastMathFlags();
  auto number = [&](double v) { return llvm::ConstantFP::get(x->getType(), v); };
  llvm::Value* zero = number(0);
  llvm::Value* quotient = b.CreateFDiv(x, y);
  llvm::Value* r = vmath::fmod(e, x, y);
  llvm::Value* q = b.CreateFDiv(b.CreateFSub(x, r), y);
  llvm::Value* differ = b.CreateXor(b.CreateFCmpOLT(y, zero), b.CreateFCmpOLT(r, zero));
  llvm::Value* below = b.CreateAnd(b.CreateFCmpUNE(r, zero), differ);
  q = b.CreateSelect(below, b.CreateFSub(q, number(1)), q);
  llvm::Value* f = vmath::floor(e, q);
  f = b.CreateSelect(b.CreateFCmpOGT(b.CreateFSub(q, f), number(0.5)), b.CreateFAdd(f, number(1)), f);
  llvm::Value* signed_zero = b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, zero, quotient);
  f = b.CreateSelect(b.CreateFCmpOEQ(q, zero), signed_zero, f);
  return b.CreateSelect(b.CreateFCmpOEQ(y, zero), quotient, f);
}

llvm::Value* float_binary(const vmath::Emitter& e, Op op, llvm::Value* x, llvm::Value* y) {
  llvm::IRBuilderBase& b = e.builder;
  switch (op) {
  case Op::Add: return b.CreateFAdd(x, y);
  case Op::Sub: return b.CreateFSub(x, y);
  case Op::Mul: return b.CreateFMul(x, y);
  case Op::Div: return b.CreateFDiv(x, y);
  case Op::Min: return vmath::minimum(e, x, y);
  case Op::Max: return vmath::maximum(e, x, y);
  case Op::Pow: return float_pow(e, x, y);
  case Op::Atan2: return vmath::atan2(e, x, y);
  case Op::Fmod: return vmath::fmod(e, x, y);
  case Op::Mod: return vmath::remainder(e, x, y);
  case Op::TruncDiv: return vmath::trunc(e, b.CreateFDiv(x, y));
  case Op::FloorDiv: return float_floor_div(e, x, y);
  default: internal_error("generated code has no operator {} on floats", name_of(op));
  }
}

llvm::Value* bool_binary(llvm::IRBuilderBase& b, Op op, llvm::Value* x, llvm::Value* y) {
  switch (op) {
  case Op::And:
  case Op::Mul:
  case Op::Min: return b.CreateAnd(x, y);
  case Op::Or:
  case Op::Add:
  case Op::Max: return b.CreateOr(x, y);
  case Op::Xor:
  case Op::Sub: return b.CreateXor(x, y);
  default: internal_error("generated code has no operator {} on bool", name_of(op));
  }
}

// Amounts outside [0, width) shift everything out.
llvm::Value* shift(llvm::IRBuilderBase& b, Op op, DType type, llvm::Value* x, llvm::Value* n) {
  unsigned width = x->getType()->getScalarSizeInBits();
  llvm::Value* last = llvm::ConstantInt::get(n->getType(), width - 1);
  llvm::Value* amount = b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, n, last);
  if (op == Op::Shr && is_signed(type)) return b.CreateAShr(x, amount);
  llvm::Value* shifted = op == Op::Shl ? b.CreateShl(x, amount) : b.CreateLShr(x, amount);
  return b.CreateSelect(b.CreateICmpUGT(n, last), llvm::Constant::getNullValue(x->getType()), shifted);
}

// Calls f for each lane in a rolled loop: rare functions, small code. `args` have one lane count, and the result has it too.
llvm::Value* per_lane(llvm::IRBuilderBase& b, llvm::Type* result, std::span<llvm::Value* const> args,
                      const std::function<llvm::Value*(std::span<llvm::Value* const>)>& f) {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(args[0]->getType());
  if (!vector) return f(args);
  llvm::BasicBlock* before = b.GetInsertBlock();
  llvm::Function* function = before->getParent();
  auto* loop = llvm::BasicBlock::Create(b.getContext(), "lanes", function);
  auto* done = llvm::BasicBlock::Create(b.getContext(), "lanes_done", function);
  llvm::SmallVector<llvm::Value*, 4> arrays;
  auto array = [&](llvm::Type* type) {
    llvm::IRBuilderBase::InsertPointGuard here(b);
    b.SetInsertPoint(&function->getEntryBlock(), function->getEntryBlock().begin());
    return b.CreateAlloca(type);
  };
  for (llvm::Value* a : args) b.CreateStore(a, arrays.emplace_back(array(a->getType())));
  llvm::Type* results = llvm::FixedVectorType::get(result, vector->getNumElements());
  llvm::Value* out = array(results);
  b.CreateBr(loop);
  b.SetInsertPoint(loop);
  llvm::PHINode* i = b.CreatePHI(b.getInt64Ty(), 2);
  llvm::SmallVector<llvm::Value*, 4> lane;
  for (size_t k = 0; k < args.size(); k++) {
    llvm::Type* type = args[k]->getType()->getScalarType();
    lane.push_back(b.CreateLoad(type, b.CreateGEP(type, arrays[k], i)));
  }
  b.CreateStore(f(lane), b.CreateGEP(result, out, i));
  llvm::Value* next = b.CreateAdd(i, b.getInt64(1));
  i->addIncoming(b.getInt64(0), before);
  i->addIncoming(next, b.GetInsertBlock());
  b.CreateCondBr(b.CreateICmpULT(next, b.getInt64(vector->getNumElements())), loop, done);
  b.SetInsertPoint(done);
  return b.CreateLoad(results, out);
}

} // namespace

llvm::FunctionCallee c_function(llvm::IRBuilderBase& b, const std::string& name, llvm::FunctionType* type) {
  llvm::FunctionCallee f = b.GetInsertBlock()->getModule()->getOrInsertFunction(name, type);
  llvm::cast<llvm::Function>(f.getCallee())->addFnAttr(llvm::Attribute::NoUnwind);
  return f;
}

namespace {

llvm::Value* int_pow(const vmath::Emitter& e, DType type, llvm::Value* x, llvm::Value* y) {
  llvm::IRBuilderBase& b = e.builder;
  auto* c = llvm::dyn_cast_or_null<llvm::ConstantInt>(splat_of(y));
  if (c && c->equalsInt(2)) return b.CreateMul(x, x);
  llvm::Type* i64 = b.getInt64Ty();
  llvm::FunctionCallee f = c_function(b, "tenon_int_pow", llvm::FunctionType::get(i64, {i64, i64}, false));
  llvm::Type* element = x->getType()->getScalarType();
  return per_lane(b, element, {{x, y}}, [&](std::span<llvm::Value* const> a) -> llvm::Value* {
    auto wide = [&](llvm::Value* v) { return b.CreateIntCast(v, i64, is_signed(type)); };
    return b.CreateTrunc(b.CreateCall(f, {wide(a[0]), wide(a[1])}), element);
  });
}

llvm::Value* int_binary(const vmath::Emitter& e, const ExprNode& n, DType type, llvm::Value* x, llvm::Value* y) {
  llvm::IRBuilderBase& b = e.builder;
  bool s = is_signed(type);
  switch (n.op) {
  case Op::Add: return b.CreateAdd(x, y);
  case Op::Sub: return b.CreateSub(x, y);
  case Op::Mul: return b.CreateMul(x, y);
  case Op::And: return b.CreateAnd(x, y);
  case Op::Or: return b.CreateOr(x, y);
  case Op::Xor: return b.CreateXor(x, y);
  case Op::Min: return b.CreateBinaryIntrinsic(s ? llvm::Intrinsic::smin : llvm::Intrinsic::umin, x, y);
  case Op::Max: return b.CreateBinaryIntrinsic(s ? llvm::Intrinsic::smax : llvm::Intrinsic::umax, x, y);
  case Op::Shl:
  case Op::Shr: return shift(b, n.op, type, x, y);
  case Op::Pow: return int_pow(e, type, x, y);
  case Op::Gcd: return lower_gcd(b, s, x, y);
  case Op::TruncDiv:
  case Op::Fmod:
  case Op::FloorDiv:
  case Op::Mod: return lower_divide(e, n, x, y);
  default: internal_error("generated code has no operator {} on integers", name_of(n.op));
  }
}

} // namespace

llvm::Value* lower_binary(const vmath::Emitter& e, const ExprNode& n, llvm::Value* x, llvm::Value* y) {
  DType type = n.args[0]->type;
  if (is_compare(n.op)) return compare(e.builder, n.op, type, x, y);
  if (type == DType::Bool) return bool_binary(e.builder, n.op, x, y);
  if (is_int(type)) return int_binary(e, n, type, x, y);
  require(type == DType::F32 || type == DType::F64, "generated code has no operator {} on {}", name_of(n.op), name_of(type));
  return float_binary(e, n.op, x, y);
}

llvm::Value* lower_call(const vmath::Emitter& e, std::string_view name, DType type, std::span<llvm::Value* const> args) {
  llvm::IRBuilderBase& b = e.builder;
  llvm::Type* element = register_type(b.getContext(), type);
  require(element->isFloatingPointTy() && find_special(name), "generated code has no function {} on {}", name, name_of(type));
  bool f64_type = element->isDoubleTy();
  for (auto& row : vmath::special_functions())
    if (row.name == name) return row.emit(e, args[0]);
  for (auto& row : vmath::special_binary_functions_of(f64_type))
    if (row.name == name) return row.emit(e, args[0], args[1]);
  auto* f64 = b.getDoubleTy();
  llvm::FunctionCallee f = c_function(b, "special." + std::string(name), llvm::FunctionType::get(f64, {b.getPtrTy()}, false));
  llvm::Value* doubles;
  {
    llvm::IRBuilderBase::InsertPointGuard here(b);
    llvm::BasicBlock& entry = b.GetInsertBlock()->getParent()->getEntryBlock();
    b.SetInsertPoint(&entry, entry.begin());
    doubles = b.CreateAlloca(llvm::ArrayType::get(f64, args.size()));
  }
  return per_lane(b, element, args, [&](std::span<llvm::Value* const> a) -> llvm::Value* {
    for (size_t i = 0; i < a.size(); i++) b.CreateStore(b.CreateFPCast(a[i], f64), b.CreateConstGEP1_64(f64, doubles, i));
    return b.CreateFPCast(b.CreateCall(f, {doubles}), element);
  });
}

} // namespace tenon::emit
