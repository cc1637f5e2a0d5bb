// Expressions: each is written once, in the scope of the deepest thing it depends on; what moves by a constant step with the
// vector axis stays a scalar as long as it can.
#include <algorithm>
#include <cmath>
#include <tuple>

#include <llvm/IR/MDBuilder.h>

#include "codegen/llvm/emit.h"
#include "codegen/llvm/emit_ops.h"
#include "expr/eval.h"

namespace tenon::emit {

namespace {

bool is_sum(const ExprNode& n) { return n.op == Op::Add || n.op == Op::Sub || n.op == Op::Neg; }

// Traits of an expression: what decides whether a Select must guard the loads in its branches.
constexpr uint8_t has_load = 1;  // or a check
constexpr uint8_t has_index = 2; // a loop index or size outside of loads
constexpr uint8_t indirect = 4;  // a check, or a load at an index that was itself loaded

} // namespace

// ---- analysis

Motion KernelEmitter::motion(const ExprNode& n) {
  if (!vector_.axis || n.is_const()) return {};
  if (auto it = motion_.find(&n); it != motion_.end()) return it->second;
  Motion m = motion_of(n);
  motion_[&n] = m;
  return m;
}

Motion KernelEmitter::motion_of(const ExprNode& n) {
  if (&n == vector_.axis) return {Motion::Constant, 1};
  if (n.op == Op::Axis || n.op == Op::Symbol) return {};
  if (n.op == Op::Reg) {
    auto it = registers_.find(static_cast<int>(n.bits));
    return {it != registers_.end() && is_vector(it->second.v) ? Motion::Other : Motion::Uniform};
  }
  if (n.type == DType::I64 && (n.op == Op::FloorDiv || n.op == Op::Mod)) return motion_of_division(n);
  bool index = n.type == DType::I64;
  Motion sum = {};
  const ExprNode* moving = nullptr;
  bool constant_factors = true, one = true;
  for (size_t i = 0; i < n.args.size(); i++) {
    Motion m = motion(*n.args[i]);
    if (m.kind == Motion::Uniform) {
      constant_factors &= n.args[i]->is_const();
      continue;
    }
    if (moving) one = false;
    moving = n.args[i].get();
    sum.kind = std::max(sum.kind, m.kind);
    sum.step += n.op == Op::Neg || (n.op == Op::Sub && i == 1) ? -m.step : m.step;
  }
  if (!moving) return {};
  if (!index || sum.kind == Motion::Other) return {Motion::Other};
  if (is_sum(n)) return sum;
  if (n.op != Op::Mul || !one) return {Motion::Other};
  if (!constant_factors || sum.kind == Motion::Linear) return {Motion::Linear};
  for (Expr a : n.args)
    if (a.get() != moving) sum.step *= a->bits;
  return sum;
}

// The greatest power of two that is known to divide the value in lane 0: all pieces of a vector loop begin at multiples of
// their width.
int64_t KernelEmitter::known_factor(const ExprNode& n) const {
  constexpr int64_t most = int64_t{1} << 20;
  if (n.is_const()) return n.bits == 0 ? most : std::min(most, n.bits & -n.bits);
  if (&n == vector_.axis) return vector_.factor;
  int64_t f = n.op == Op::Add ? most : 1;
  if (n.op == Op::Add)
    for (Expr a : n.args) f = std::min(f, known_factor(*a));
  if (n.op == Op::Mul)
    for (Expr a : n.args) f = std::min(most, f * known_factor(*a));
  if (n.op == Op::Min || n.op == Op::Max || n.op == Op::Select) {
    f = most;
    for (size_t k = n.op == Op::Select; k < n.args.size(); k++) f = std::min(f, known_factor(*n.args[k]));
  }
  return f;
}

// x / c and x % c where whole vectors lie between two multiples of c: the first stays, the second moves as x does.
Motion KernelEmitter::motion_of_division(const ExprNode& n) {
  Motion x = motion(*n.args[0]);
  if (x.kind == Motion::Uniform && motion(*n.args[1]).kind == Motion::Uniform) return {};
  auto c = const_int(n.args[1]);
  if (x.kind != Motion::Constant || x.step < 0 || !c || *c <= 0) return {Motion::Other};
  int64_t span = x.step * vector_.width;
  if (x.step == 0) return {Motion::Constant, 0};
  if (*c % span != 0 || known_factor(*n.args[0]) % span != 0) return {Motion::Other};
  return {Motion::Constant, n.op == Op::Mod ? x.step : 0};
}

int KernelEmitter::scope_of(const ExprNode& n) const {
  if (n.is_const()) return 0;
  if (const Val* v = recall({&n, view_value})) return v->scope;
  if (&n == vector_.axis) return vector_.base.scope;
  if (n.op == Op::Axis) return axes_.lookup(&n).scope;
  if (n.op == Op::Reg) return registers_.lookup(static_cast<int>(n.bits)).scope;
  if (n.op == Op::Load && kernel_.buffers[static_cast<size_t>(n.bits)].kind != BufferKind::Input) return top();
  int scope = 0;
  for (Expr a : n.args) scope = std::max(scope, scope_of(*a));
  return scope;
}

uint8_t KernelEmitter::traits(const ExprNode& n) {
  if (n.op == Op::Axis || n.op == Op::Symbol) return has_index;
  if (auto it = traits_.find(&n); it != traits_.end()) return it->second;
  uint8_t t = 0;
  for (Expr a : n.args) t |= traits(*a);
  if (n.op == Op::Load) t = static_cast<uint8_t>(has_load | (t & has_load ? indirect : 0));
  if (n.op == Op::Checked) t |= has_load | indirect;
  traits_[&n] = t;
  return t;
}

// A condition on data does not stand for bounds of an index that is not data.
bool KernelEmitter::needs_guard(Expr condition, Expr branch) {
  uint8_t t = traits(*branch);
  return (t & indirect) || ((t & has_load) && (traits(*condition) & has_index));
}

int KernelEmitter::guard_scope() const {
  for (int i = top(); i >= 0; i--)
    if (scopes_[static_cast<size_t>(i)].kind == Scope::Guard) return i;
  return 0;
}

// ---- values

Val KernelEmitter::value(Expr e) {
  const ExprNode& n = *e;
  if (n.is_const()) return {constant(context_, n), 0};
  if (const Val* v = recall({&n, view_value})) return *v;
  Val v;
  Motion m = motion(n);
  if (n.op == Op::Load) v = load(n);
  else if (m.kind == Motion::Constant || m.kind == Motion::Linear) v = moving_index(n, m);
  else if (is_leaf(n.op)) return leaf(n);
  else if (n.op == Op::Select) v = select(n);
  else if (n.op == Op::Checked) v = checked(n);
  else if (n.type == DType::I64 && (n.op == Op::Add || n.op == Op::Mul)) v = sum_or_product(n, false);
  else {
    v = m.kind == Motion::Other && is_compare(n.op) ? compare_moving(n) : Val{};
    if (!v.v && n.op == Op::Cast && m.kind == Motion::Other) v = cast_moving(n);
    if (!v.v) v = quotient_of_sum(n);
    if (!v.v) v = quotient_by_reduced(n);
    if (!v.v) v = operation(n);
  }
  return remember({&n, view_value}, v);
}

Val KernelEmitter::leaf(const ExprNode& n) {
  if (n.op == Op::Axis) {
    auto it = axes_.find(&n);
    require(it != axes_.end(), "kernel {}: axis i{} is used outside of its loop", kernel_.name, n.bits);
    return it->second;
  }
  if (n.op == Op::Reg) {
    auto it = registers_.find(static_cast<int>(n.bits));
    require(it != registers_.end(), "kernel {}: r{} is used before its reduction", kernel_.name, n.bits);
    return it->second;
  }
  internal_error("kernel {}: symbol {} is not among its scalars", kernel_.name, n.name);
}

Val KernelEmitter::widened(Val v, unsigned width) {
  if (width == 1 || is_vector(v.v)) return v;
  if (auto* c = llvm::dyn_cast<llvm::Constant>(v.v))
    return {llvm::ConstantVector::getSplat(llvm::ElementCount::getFixed(width), c), v.scope};
  Key key{v.v, view_splat + width};
  if (const Val* known = recall(key)) return *known;
  int scope = at(v.scope);
  llvm::Value* splat = b_.CreateVectorSplat(width, v.v);
  done(scope);
  return remember(key, {splat, scope});
}

Val KernelEmitter::operation(const ExprNode& n) {
  llvm::SmallVector<Val, 4> args;
  unsigned width = 1;
  int scope = 0;
  for (Expr a : n.args) {
    args.push_back(value(a));
    if (is_vector(args.back().v)) width = vector_.width;
    scope = std::max(scope, args.back().scope);
  }
  llvm::SmallVector<llvm::Value*, 4> v;
  for (Val a : args) v.push_back(widened(a, width).v);
  scope = at(scope);
  llvm::Value* r;
  DType from = n.args[0]->type;
  if (n.op == Op::Cast && n.type == DType::BF16 && is_widened(*n.args[0], DType::BF16)) r = vmath::widened_to_bf16(math(), v[0]);
  else if (n.op == Op::Cast) r = lower_cast(math(), from, n.type, v[0]);
  else if (n.op == Op::Bitcast) r = lower_bitcast(math(), from, n.type, v[0]);
  else if (n.op == Op::Call) r = lower_call(math(), n.name, n.type, v);
  else if (is_unary(n.op)) r = lower_unary(math(), n.op, n.type, v[0]);
  else {
    r = lower_binary(math(), n, v[0], v[1]);
    for (size_t i = 2; i < v.size(); i++) r = lower_binary(math(), n, r, v[i]);
  }
  done(scope);
  return {r, scope};
}

// A mean, or a variance: an F32 sum that is held in F64 is divided there, and rounded once.
Val KernelEmitter::quotient_of_sum(const ExprNode& n) {
  if (n.op != Op::Div || n.type != DType::F32 || n.args[0]->op != Op::Reg) return {};
  auto it = exact_.find(static_cast<int>(n.args[0]->bits));
  if (it == exact_.end()) return {};
  Val x = it->second, y = value(n.args[1]);
  unsigned width = is_vector(x.v) || is_vector(y.v) ? vector_.width : 1;
  x = widened(x, width), y = widened(y, width);
  auto convert = [&](llvm::Value* v, llvm::Type* element) { return b_.CreateFPCast(v, v->getType()->getWithNewType(element)); };
  int scope = at(std::max(x.scope, y.scope));
  llvm::Value* q = b_.CreateFDiv(x.v, convert(y.v, b_.getDoubleTy()));
  q = convert(q, b_.getFloatTy());
  done(scope);
  return {q, scope};
}

// Many elements by what their row was reduced to: x / y = (x s) (1 / (y s)), with a power of two s that keeps the reciprocal of a divisor
// near the ends of the range normal and full of digits. Where that makes x s infinite or zero, so is the quotient.
Val KernelEmitter::quotient_by_reduced(const ExprNode& n) {
  if (n.op != Op::Div || (n.type != DType::F32 && n.type != DType::F64) ||
      !contains(n.args[1], [](const ExprNode& e) { return e.op == Op::Reg; }))
    return {};
  Val x = value(n.args[0]), y = value(n.args[1]);
  auto repeats = [&](int from, int to) {
    return std::any_of(scopes_.begin() + from + 1, scopes_.begin() + to + 1, [](const Scope& s) { return s.kind == Scope::Body; });
  };
  if (!is_vector(x.v) || is_vector(y.v) || x.scope <= y.scope || !repeats(y.scope, x.scope)) return {};
  Key scale_key{y.v, view_scale}, reciprocal_key{y.v, view_reciprocal};
  if (!recall(scale_key)) {
    bool wide = n.type == DType::F64;
    auto number = [&](int exponent) { return llvm::ConstantFP::get(y.v->getType(), std::ldexp(1.0, exponent)); };
    int end = wide ? 900 : 100, shift = wide ? 500 : 64, scope = at(y.scope);
    llvm::Value* size = b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, y.v);
    llvm::Value* scale = b_.CreateSelect(b_.CreateFCmpOLT(size, number(-end)), number(shift), number(0));
    scale = b_.CreateSelect(b_.CreateFCmpOGT(size, number(end)), number(-shift), scale);
    llvm::Value* reciprocal = b_.CreateFDiv(number(0), b_.CreateFMul(y.v, scale));
    done(scope);
    remember(scale_key, {scale, scope}), remember(reciprocal_key, {reciprocal, scope});
  }
  Val s = widened(*recall(scale_key), vector_.width), r = widened(*recall(reciprocal_key), vector_.width);
  int scope = at(x.scope);
  llvm::Value* q = b_.CreateFMul(b_.CreateFMul(x.v, s.v), r.v);
  done(scope);
  return {q, scope};
}

// Operands that live further out come first, so that the partial results are written there too; constants come last.
Val KernelEmitter::sum_or_product(const ExprNode& n, bool of_base) {
  struct Operand {
    Val v;
    bool vector, constant;
  };
  llvm::SmallVector<Operand, 4> args;
  for (Expr a : n.args) {
    Val v = of_base ? base(a) : value(a);
    args.push_back({v, is_vector(v.v), a->is_const()});
  }
  sort_few(args, [](const Operand& x, const Operand& y) {
    return std::tuple(x.constant, x.vector, x.v.scope) < std::tuple(y.constant, y.vector, y.v.scope);
  });
  Val acc = args[0].v;
  for (size_t i = 1; i < args.size(); i++) {
    Val x = args[i].v;
    unsigned width = is_vector(acc.v) || is_vector(x.v) ? vector_.width : 1;
    acc = widened(acc, width), x = widened(x, width);
    int scope = at(std::max(acc.scope, x.scope));
    acc = {n.op == Op::Add ? b_.CreateAdd(acc.v, x.v) : b_.CreateMul(acc.v, x.v), scope};
    done(scope);
  }
  return acc;
}

// ---- expressions that move with the vector axis

Val KernelEmitter::base(Expr e) {
  const ExprNode& n = *e;
  if (motion(n).kind == Motion::Uniform) return value(e);
  if (&n == vector_.axis) return vector_.base;
  Key key{&n, view_base};
  if (const Val* v = recall(key)) return *v;
  if (n.op == Op::Add || n.op == Op::Mul) return remember(key, sum_or_product(n, true));
  Val x = base(n.args[0]), y = n.op == Op::Neg ? Val{} : base(n.args[1]);
  int scope = at(std::max(x.scope, y.scope));
  llvm::Value* r = n.op == Op::Neg ? b_.CreateNeg(x.v) : lower_binary(math(), n, x.v, y.v);
  done(scope);
  return remember(key, {r, scope});
}

Val KernelEmitter::stride(Expr e) {
  const ExprNode& n = *e;
  Motion m = motion(n);
  if (m.kind != Motion::Linear) return {b_.getInt64(static_cast<uint64_t>(m.step)), 0};
  Val acc{};
  for (size_t i = 0; i < n.args.size(); i++) {
    bool moves = motion(*n.args[i]).kind != Motion::Uniform;
    if (n.op != Op::Mul && !moves) continue;
    Val x = moves ? stride(n.args[i]) : value(n.args[i]);
    if (!acc.v && n.op == Op::Add) {
      acc = x;
      continue;
    }
    if (!acc.v) acc = {b_.getInt64(n.op == Op::Mul ? 1 : 0), 0};
    int scope = at(std::max(acc.scope, x.scope));
    if (n.op == Op::Mul) acc = {b_.CreateMul(acc.v, x.v), scope};
    else if (n.op == Op::Neg || (n.op == Op::Sub && (i == 1))) acc = {b_.CreateSub(acc.v, x.v), scope};
    else acc = {b_.CreateAdd(acc.v, x.v), scope};
    done(scope);
  }
  return acc;
}

llvm::Value* KernelEmitter::lane_numbers(llvm::Type* element, int64_t step, unsigned width) {
  llvm::SmallVector<llvm::Constant*, 64> lanes;
  for (unsigned i = 0; i < width; i++) lanes.push_back(llvm::ConstantInt::get(element, static_cast<uint64_t>(step * i)));
  return llvm::ConstantVector::get(lanes);
}

Val KernelEmitter::moving_index(const ExprNode& n, Motion m) {
  Val first = base(Expr(&n));
  if (m.kind == Motion::Constant && m.step == 0) return first;
  Val splat = widened(first, vector_.width), steps{};
  if (m.kind == Motion::Constant) steps = {lane_numbers(b_.getInt64Ty(), m.step, vector_.width), 0};
  else {
    Val s = widened(stride(Expr(&n)), vector_.width);
    int scope = at(s.scope);
    steps = {b_.CreateMul(s.v, lane_numbers(b_.getInt64Ty(), 1, vector_.width)), scope};
    done(scope);
  }
  int scope = at(std::max(splat.scope, steps.scope));
  llvm::Value* r = b_.CreateAdd(splat.v, steps.v);
  done(scope);
  return {r, scope};
}

// a + i s < b + i t for lanes i: the scalar b - a against lane numbers, narrow as the lanes of data are. The difference may be
// clamped to where no lane is affected.
Val KernelEmitter::compare_moving(const ExprNode& n) {
  Motion x = motion(*n.args[0]), y = motion(*n.args[1]);
  if (n.args[0]->type != DType::I64 || x.kind > Motion::Constant || y.kind > Motion::Constant) return {};
  int64_t step = x.step - y.step, limit = std::abs(step) * vector_.width + 1;
  Val a = base(n.args[0]), b = base(n.args[1]);
  int scope = at(std::max(a.scope, b.scope));
  if (step == 0) {
    llvm::Value* r = lower_binary(math(), n, a.v, b.v);
    done(scope);
    return {r, scope};
  }
  unsigned bits = std::clamp(static_cast<unsigned>(target_.vector_bits) / vector_.width, 8u, 64u);
  while (bits < 64 && limit >= int64_t{1} << (bits - 1)) bits *= 2;
  llvm::Value* d = b_.CreateSub(b.v, a.v);
  d = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, d, b_.getInt64(static_cast<uint64_t>(limit)));
  d = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, d, b_.getInt64(static_cast<uint64_t>(-limit)));
  llvm::Type* narrow = b_.getIntNTy(bits);
  llvm::Value* splat = b_.CreateVectorSplat(vector_.width, b_.CreateTrunc(d, narrow));
  llvm::Value* r = lower_binary(math(), n, lane_numbers(narrow, step, vector_.width), splat);
  done(scope);
  return {r, scope};
}

// A moving index as a number: in 32 bits where it fits.
Val KernelEmitter::cast_moving(const ExprNode& n) {
  const ExprNode& x = *n.args[0];
  Motion m = motion(x);
  if (x.type != DType::I64 || m.kind != Motion::Constant || x.lo < INT32_MIN || x.hi > INT32_MAX - 4096) return {};
  if (n.type == DType::Bool || n.type == DType::I64) return {};
  Val first = base(n.args[0]);
  int scope = at(first.scope);
  llvm::Value* splat = b_.CreateVectorSplat(vector_.width, b_.CreateTrunc(first.v, b_.getInt32Ty()));
  llvm::Value* lanes = b_.CreateAdd(splat, lane_numbers(b_.getInt32Ty(), m.step, vector_.width));
  llvm::Value* r = lower_cast(math(), DType::I32, n.type, lanes);
  done(scope);
  return {r, scope};
}

// ---- guards

// The branch under a condition: its unsafe loads are written within a scope that knows the condition.
Val KernelEmitter::guarded(Expr branch, Val condition, bool sense, int scope) {
  size_t keep = static_cast<size_t>(std::max({place(scope), guard_scope(), condition.scope})) + 1;
  if (keep < scopes_.size() && scopes_[keep].kind == Scope::Enter) keep++;
  std::vector<Scope> further(std::make_move_iterator(scopes_.begin() + static_cast<ptrdiff_t>(keep)),
                             std::make_move_iterator(scopes_.end()));
  scopes_.erase(scopes_.begin() + static_cast<ptrdiff_t>(keep), scopes_.end());
  at(top());
  llvm::Value* c = sense ? condition.v : b_.CreateNot(condition.v);
  Scope guard{Scope::Guard, scopes_.back().owner};
  if (int g = guard_scope()) guard.uniform = scopes_[static_cast<size_t>(g)].uniform, guard.lanes = scopes_[static_cast<size_t>(g)].lanes;
  if (is_vector(c)) guard.lanes = guard.lanes ? b_.CreateAnd(guard.lanes, c) : c;
  else guard.uniform = guard.uniform ? b_.CreateAnd(guard.uniform, c) : c;
  done(top());
  scopes_.push_back(std::move(guard));
  Val v = value(branch);
  if (v.scope == top()) v.scope--;
  pop();
  scopes_.insert(scopes_.end(), std::make_move_iterator(further.begin()), std::make_move_iterator(further.end()));
  return v;
}

Val KernelEmitter::select(const ExprNode& n) {
  Val c = value(n.args[0]), branch[2];
  if (auto* known = llvm::dyn_cast<llvm::ConstantInt>(c.v)) { // in this copy of an unrolled loop: another may choose the other
    Val v = value(n.args[known->isZero() ? 2 : 1]);
    return {v.v, std::max(v.scope, c.scope)};
  }
  for (int i = 0; i < 2; i++) {
    Expr e = n.args[static_cast<size_t>(i) + 1];
    if (!needs_guard(n.args[0], e) || recall({e.get(), view_value})) branch[i] = value(e);
    else branch[i] = guarded(e, c, i == 0, scope_of(n));
  }
  unsigned width = is_vector(c.v) || is_vector(branch[0].v) || is_vector(branch[1].v) ? vector_.width : 1;
  Val x = widened(branch[0], width), y = widened(branch[1], width);
  int scope = at(std::max({c.scope, x.scope, y.scope}));
  llvm::Value* r = b_.CreateSelect(c.v, x.v, y.v);
  done(scope);
  return {r, scope};
}

// Index 0 and an error in place of an index out of range. The branch is next to never taken.
Val KernelEmitter::checked(const ExprNode& n) {
  Val index = value(n.args[0]), size = value(n.args[1]);
  unsigned width = is_vector(index.v) || is_vector(size.v) ? vector_.width : 1;
  index = widened(index, width);
  Val sizes = widened(size, width);
  Mask m = mask();
  if (width == 1 && guard_scope() == 0) m = {}; // some lane is active
  int scope = at(std::max({index.scope, sizes.scope, m.scope}));
  llvm::Value* in = b_.CreateICmpULT(index.v, sizes.v);
  llvm::Value* bad = b_.CreateNot(in);
  if (m.lanes && width > 1) bad = b_.CreateAnd(bad, m.lanes);
  llvm::Value* any = width > 1 ? b_.CreateOrReduce(bad) : bad;
  if (m.uniform) any = b_.CreateAnd(any, m.uniform);
  if (m.lanes && width == 1) any = b_.CreateAnd(any, b_.CreateOrReduce(m.lanes));
  llvm::BasicBlock *rare = new_block("out_of_range"), *join = new_block("in_range");
  b_.CreateCondBr(any, rare, join, llvm::MDBuilder(context_).createBranchWeights(1, 1 << 20));
  b_.SetInsertPoint(rare);
  llvm::Value *i = index.v, *s = sizes.v;
  if (width > 1) {
    llvm::Value* lane = b_.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, b_.CreateBitCast(bad, b_.getIntNTy(width)), b_.getTrue());
    i = b_.CreateExtractElement(i, lane), s = b_.CreateExtractElement(s, lane);
  }
  llvm::Value* error = b_.CreateLoad(b_.getPtrTy(), b_.CreateConstGEP1_64(b_.getPtrTy(), function_->getArg(0), 3));
  b_.CreateStore(i, b_.CreateConstGEP1_64(b_.getInt64Ty(), error, 1));
  b_.CreateStore(s, b_.CreateConstGEP1_64(b_.getInt64Ty(), error, 2));
  b_.CreateStore(b_.getInt64(1), error);
  b_.CreateBr(join);
  b_.SetInsertPoint(join);
  llvm::Value* r = n.args.size() > 2 ? nullptr : b_.CreateSelect(in, index.v, llvm::Constant::getNullValue(index.v->getType()));
  done(scope);
  if (r) return {r, scope};
  Val held = value(n.args[2]);
  return {held.v, std::max(scope, held.scope)};
}

} // namespace tenon::emit
