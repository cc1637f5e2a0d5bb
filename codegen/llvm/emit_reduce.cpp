// Reductions. An accumulator has a state per vector width it is used at: whole vectors and the masked rest of a loop add to
// states of their own, which meet at the end of the region. States are SSA values: loops carry them in phis.
#include <limits>

#include <llvm/IR/Constants.h>

#include "codegen/llvm/emit.h"
#include "codegen/llvm/emit_ops.h"

namespace tenon::emit {

namespace {

bool finds_position(Reduction op) { return op == Reduction::ArgMax || op == Reduction::ArgMin; }
bool finds_least(Reduction op) { return op == Reduction::Min || op == Reduction::ArgMin; }

// An f32 that takes up many terms loses the last of their digits. So terms are added up in blocks, and blocks in f64.
constexpr int64_t block_steps = 32;
// The sums of the last lanes, which round most, meet in f64.
constexpr unsigned last_lanes = 8;

bool is_narrow_sum(const Accumulator& a) { return a.op == Reduction::Sum && a.type == DType::F32; }

// The number of the register that takes up the blocks of another.
int wide(int reg) { return reg + (1 << 25); }

llvm::Value* convert_float(llvm::IRBuilder<>& b, llvm::Value* v, llvm::Type* element) {
  return b.CreateFPCast(v, v->getType()->getWithNewType(element));
}

// The extreme that loses against every value.
llvm::Constant* worst(llvm::Type* type, DType dtype, bool least) {
  if (type->isFloatingPointTy()) return llvm::ConstantFP::getInfinity(type, !least);
  if (dtype == DType::Bool) return llvm::ConstantInt::get(type, least);
  unsigned bits = type->getIntegerBitWidth();
  bool s = is_signed(dtype);
  return llvm::ConstantInt::get(type, least ? (s ? llvm::APInt::getSignedMaxValue(bits) : llvm::APInt::getMaxValue(bits))
                                            : (s ? llvm::APInt::getSignedMinValue(bits) : llvm::APInt::getMinValue(bits)));
}

} // namespace

// ---- one accumulator

AccumulatorState KernelEmitter::identity(const Accumulator& a, unsigned width) {
  llvm::Type* type = register_type(context_, a.type);
  llvm::Constant* c;
  switch (a.op) {
  case Reduction::Sum:
  case Reduction::Any: c = llvm::Constant::getNullValue(type); break;
  case Reduction::Prod:
  case Reduction::All: c = type->isFloatingPointTy() ? llvm::ConstantFP::get(type, 1) : llvm::ConstantInt::get(type, 1); break;
  case Reduction::Max:
  case Reduction::Min:
  case Reduction::ArgMax:
  case Reduction::ArgMin: c = worst(type, a.type, finds_least(a.op)); break;
  default: internal_error("kernel {}: accumulator r{} has no reduction", kernel_.name, a.reg);
  }
  llvm::Value* value = width > 1 ? llvm::ConstantVector::getSplat(llvm::ElementCount::getFixed(width), c) : c;
  llvm::Value* position = finds_position(a.op) ? llvm::Constant::getNullValue(vector_of(b_.getInt64Ty(), width)) : nullptr;
  return {width, value, position};
}

AccumulatorState& KernelEmitter::state(StateKey key) {
  OpenAccumulator& a = open_[key.first];
  for (AccumulatorState& s : a.states)
    if (s.width == key.second) return s;
  a.states.push_back(identity(a.what, key.second));
  return a.states.back();
}

llvm::Value* KernelEmitter::combine_values(const Accumulator& a, llvm::Value* x, llvm::Value* y) {
  bool floats = is_float(a.type);
  switch (a.op) {
  case Reduction::Sum: return floats ? b_.CreateFAdd(x, y) : a.type == DType::Bool ? b_.CreateOr(x, y) : b_.CreateAdd(x, y);
  case Reduction::Prod: return floats ? b_.CreateFMul(x, y) : a.type == DType::Bool ? b_.CreateAnd(x, y) : b_.CreateMul(x, y);
  case Reduction::Any: return b_.CreateOr(x, y);
  case Reduction::All: return b_.CreateAnd(x, y);
  default: break;
  }
  bool least = finds_least(a.op);
  if (floats) { // keeps x where either is NaN; then y where it is: one instruction, and one off the chain through x
    llvm::Value* m = b_.CreateSelect(least ? b_.CreateFCmpOLT(y, x) : b_.CreateFCmpOGT(y, x), y, x);
    return a.loses_nan ? m : b_.CreateSelect(b_.CreateFCmpUNO(y, y), y, m);
  }
  bool s = is_signed(a.type);
  if (a.type == DType::Bool) return least ? b_.CreateAnd(x, y) : b_.CreateOr(x, y);
  return b_.CreateBinaryIntrinsic(
      least ? (s ? llvm::Intrinsic::smin : llvm::Intrinsic::umin) : (s ? llvm::Intrinsic::smax : llvm::Intrinsic::umax), x, y);
}

// `ordered`: y comes after x, and wins only where it is better.
AccumulatorState KernelEmitter::combine(const Accumulator& a, const AccumulatorState& x, const AccumulatorState& y, bool ordered) {
  if (!finds_position(a.op)) return {x.width, combine_values(a, x.value, y.value), nullptr};
  bool least = a.op == Reduction::ArgMin, s = is_signed(a.type), floats = is_float(a.type);
  llvm::Value *better, *equal = nullptr;
  if (floats) { // better, or the first NaN
    better = least ? b_.CreateFCmpULT(y.value, x.value) : b_.CreateFCmpUGT(y.value, x.value);
    better = b_.CreateAnd(better, b_.CreateFCmpORD(x.value, x.value));
    llvm::Value* both = b_.CreateAnd(b_.CreateFCmpUNO(x.value, x.value), b_.CreateFCmpUNO(y.value, y.value));
    if (!ordered) equal = b_.CreateOr(b_.CreateFCmpOEQ(x.value, y.value), both);
  } else {
    using P = llvm::CmpInst::Predicate;
    better = b_.CreateICmp(least ? (s ? P::ICMP_SLT : P::ICMP_ULT) : (s ? P::ICMP_SGT : P::ICMP_UGT), y.value, x.value);
    if (!ordered) equal = b_.CreateICmpEQ(x.value, y.value);
  }
  if (!ordered) better = b_.CreateOr(better, b_.CreateAnd(equal, b_.CreateICmpSLT(y.position, x.position)));
  return {x.width, b_.CreateSelect(better, y.value, x.value), b_.CreateSelect(better, y.position, x.position)};
}

AccumulatorState KernelEmitter::halve(const Accumulator& a, const AccumulatorState& s) {
  unsigned half = s.width / 2;
  auto part = [&](llvm::Value* v, unsigned from) -> llvm::Value* {
    if (!v) return nullptr;
    if (half == 1) return b_.CreateExtractElement(v, from);
    llvm::SmallVector<int, 64> lanes;
    for (unsigned i = 0; i < half; i++) lanes.push_back(static_cast<int>(from + i));
    return b_.CreateShuffleVector(v, lanes);
  };
  return combine(a, {half, part(s.value, 0), part(s.position, 0)}, {half, part(s.value, half), part(s.position, half)}, false);
}

// ---- regions

Val KernelEmitter::result(const OpenAccumulator& a) {
  int scope = at(top());
  AccumulatorState r;
  if (a.per_lane) {
    r = identity(a.what, vector_.width);
    for (const AccumulatorState& s : a.states) r = s;
  } else {
    llvm::SmallVector<AccumulatorState, 2> states = a.states;
    std::sort(states.begin(), states.end(), [](const auto& x, const auto& y) { return x.width > y.width; });
    if (states.empty()) states.push_back(identity(a.what, 1));
    r = states[0];
    bool exactly = is_narrow_sum(a.what) && r.width > 1;
    auto meet = [&](AccumulatorState s) {
      if (exactly && s.width <= last_lanes) s.value = convert_float(b_, s.value, b_.getDoubleTy());
      return s;
    };
    r = meet(r);
    for (size_t i = 1; i <= states.size(); i++) {
      unsigned next = i < states.size() ? states[i].width : 1;
      while (r.width > next) r = meet(halve(a.what, r));
      if (i < states.size()) r = combine(a.what, r, meet(states[i]), false);
    }
  }
  done(scope);
  return {finds_position(a.what.op) ? r.position : r.value, scope};
}

void KernelEmitter::region(const ReduceRegion& r) {
  bool per_lane = vector_.axis != nullptr;
  for (const Accumulator& a : r.accumulators) {
    open_[a.reg] = {.what = a, .per_lane = per_lane, .states = {}};
    if (a.widened) open_[a.reg].what.type = DType::F64;
    else if (is_narrow_sum(a) && may_sum_long(r.body))
      open_[wide(a.reg)] = {.what = {wide(a.reg), Reduction::Sum, DType::F64}, .per_lane = per_lane, .states = {}};
  }
  statements(r.body);
  for (const Accumulator& a : r.accumulators) {
    Val sum = result(open_[a.reg]);
    exact_.erase(a.reg);
    if (open_.count(wide(a.reg))) sum = exact_[a.reg] = sum_of_blocks(sum, result(open_[wide(a.reg)]));
    else if (sum.v->getType()->getScalarType()->isDoubleTy() && a.type == DType::F32) exact_[a.reg] = sum;
    registers_[a.reg] = exact_.count(a.reg) ? converted(sum, b_.getFloatTy()) : sum;
    open_.erase(a.reg);
    open_.erase(wide(a.reg));
  }
}

void KernelEmitter::accumulate(const Accumulate& a) {
  auto it = open_.find(a.reg);
  require(it != open_.end(), "kernel {}: r{} is accumulated outside of its region", kernel_.name, a.reg);
  Accumulator what = it->second.what;
  bool per_lane = it->second.per_lane;
  Val v = widened(value(a.value), vector_.width);
  if (what.widened) v = converted(v, b_.getDoubleTy());
  Val position = finds_position(what.op) ? widened(value(a.position), vector_.width) : Val{};
  int scope = at(top());
  AccumulatorState& s = state({a.reg, vector_.width});
  AccumulatorState next = combine(what, s, {s.width, v.v, position.v}, true);
  if (vector_.mask.v && !per_lane) {
    next.value = b_.CreateSelect(vector_.mask.v, next.value, s.value);
    if (s.position) next.position = b_.CreateSelect(vector_.mask.v, next.position, s.position);
  }
  s = next;
  done(scope);
}

// ---- states through loops

// Which states of accumulators that are open now the statements change.
void KernelEmitter::modified(const std::vector<Stmt>& body, unsigned width, StateKeys& out) {
  for (const Stmt& s : body) {
    if (auto* l = std::get_if<Loop>(&s.v)) modified(*l, width, out);
    else if (auto* r = std::get_if<ReduceRegion>(&s.v)) modified(r->body, width, out);
    else if (auto* a = std::get_if<Accumulate>(&s.v)) {
      for (int reg : {a->reg, wide(a->reg)})
        if (StateKey key{reg, width}; open_.count(reg) && !llvm::is_contained(out, key)) out.push_back(key);
    }
  }
}

void KernelEmitter::modified(const Loop& l, unsigned width, StateKeys& out) {
  if (open_.empty()) return;
  if (l.lanes == 1) return modified(l.body, width, out);
  for (unsigned w : widths(l)) modified(l.body, w, out);
}

StateValues KernelEmitter::states(const StateKeys& keys) {
  StateValues out;
  for (StateKey k : keys) out.push_back(state(k));
  return out;
}

StateValues KernelEmitter::open_phis(const StateKeys& keys, llvm::BasicBlock* at) {
  StateValues phis;
  b_.SetInsertPoint(at);
  for (StateKey k : keys) {
    AccumulatorState& s = state(k);
    s.value = b_.CreatePHI(s.value->getType(), 2);
    if (s.position) s.position = b_.CreatePHI(s.position->getType(), 2);
    phis.push_back(s);
  }
  return phis;
}

void KernelEmitter::add_incoming(const StateValues& phis, const StateValues& values, llvm::BasicBlock* from) {
  for (size_t i = 0; i < phis.size(); i++) {
    llvm::cast<llvm::PHINode>(phis[i].value)->addIncoming(values[i].value, from);
    if (phis[i].position) llvm::cast<llvm::PHINode>(phis[i].position)->addIncoming(values[i].position, from);
  }
}

// The states behind a branch that may skip what changes them.
void KernelEmitter::merge(const StateKeys& keys, const StateValues& before, llvm::BasicBlock* skipped, llvm::BasicBlock* ran,
                          llvm::BasicBlock* exit) {
  StateValues after = states(keys);
  StateValues phis = open_phis(keys, exit);
  add_incoming(phis, before, skipped);
  add_incoming(phis, after, ran);
}

// ---- long sums

Val KernelEmitter::converted(Val v, llvm::Type* element) {
  int scope = at(v.scope);
  llvm::Value* out = convert_float(b_, v.v, element);
  done(scope);
  return {out, scope};
}

// Sums in F32 and in F64 together.
Val KernelEmitter::sum_of_blocks(Val rest, Val blocks) {
  int scope = at(top());
  llvm::Value* sum = b_.CreateFAdd(blocks.v, convert_float(b_, rest.v, b_.getDoubleTy()));
  done(scope);
  return {sum, scope};
}

StateKeys KernelEmitter::long_sums(const StateKeys& keys) const {
  StateKeys out;
  for (StateKey k : keys)
    if (open_.count(wide(k.first))) out.push_back(k);
  return out;
}

// Steps of the loops that one pass through the statements takes.
int64_t KernelEmitter::steps_of(const std::vector<Stmt>& body) const {
  int64_t steps = 1;
  for (const Stmt& s : body) {
    const Loop* l = std::get_if<Loop>(&s.v);
    if (auto* r = std::get_if<ReduceRegion>(&s.v)) steps = std::max(steps, steps_of(r->body));
    if (l) steps = std::max(steps, std::max<int64_t>(std::min(l->axis->args[0]->hi / l->lanes, 2 * block_steps), 1) * steps_of(l->body));
  }
  return std::min(steps, 2 * block_steps);
}

bool KernelEmitter::may_sum_long(const std::vector<Stmt>& body) const { return steps_of(body) > block_steps; }

/// How many steps of the loop make a block: none if loops inside see to it, or it is too short.
int64_t KernelEmitter::block_of(const Loop& l, const Piece& p) {
  StateKeys keys;
  modified(l.body, p.width > 1 ? p.width : vector_.width, keys);
  if (long_sums(keys).empty() || p.width < static_cast<unsigned>(l.lanes)) return 0; // what whole vectors left
  int64_t inside = steps_of(l.body);
  return inside > block_steps || l.axis->args[0]->hi / p.width <= block_steps / inside ? 0 : block_steps / inside;
}

void KernelEmitter::add_blocks(const StateKeys& keys) {
  int scope = at(top());
  for (StateKey k : keys) {
    AccumulatorState& all = state({wide(k.first), k.second});
    all.value = b_.CreateFAdd(all.value, convert_float(b_, state(k).value, b_.getDoubleTy()));
    state(k) = identity(open_[k.first].what, k.second);
  }
  done(scope);
}

void KernelEmitter::sum_in_blocks(const Loop& l, const Piece& p, int64_t steps) {
  StateKeys keys;
  modified(l.body, p.width > 1 ? p.width : vector_.width, keys);
  StateKeys sums = long_sums(keys);
  StateValues before = states(keys);
  llvm::BasicBlock *body = new_block("block"), *exit = new_block("done");
  push(Scope::Body, body);
  b_.SetInsertPoint(body);
  llvm::PHINode* first = b_.CreatePHI(b_.getInt64Ty(), 2);
  StateValues phis = open_phis(keys, body);
  int scope = at(top());
  llvm::Value* next = b_.CreateNSWAdd(first, b_.getInt64(static_cast<uint64_t>(steps) * p.width));
  Piece block_piece = p;
  block_piece.guarded = false, block_piece.begin = first;
  block_piece.end = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, next, p.end);
  done(scope);
  rolled(l, block_piece);
  add_blocks(sums);
  llvm::BasicBlock* latch = block();
  b_.SetInsertPoint(latch);
  b_.CreateCondBr(b_.CreateICmpSLT(next, p.end), body, exit);
  pop();
  llvm::BasicBlock* before_block = block();
  close_branch(p, body, exit);
  first->addIncoming(p.begin, before_block);
  first->addIncoming(next, latch);
  add_incoming(phis, before, before_block);
  add_incoming(phis, states(keys), latch);
  if (p.guarded) merge(keys, before, before_block, latch, exit);
  block() = exit;
}

} // namespace tenon::emit
