// Loops: rolled, unrolled, or in pieces of whole vectors and a masked rest.
#include <algorithm>
#include <bit>

#include "codegen/llvm/emit.h"
#include "codegen/llvm/emit_ops.h"

namespace tenon::emit {

namespace {

constexpr int64_t unroll_count = 8;   // loops up to this long are unrolled ...
constexpr unsigned unroll_total = 64; // ... nested ones up to this product
constexpr size_t unroll_weight = 400; // ... and up to this many operators in all

std::optional<int64_t> constant_of(llvm::Value* v) {
  if (auto* c = llvm::dyn_cast<llvm::ConstantInt>(v)) return c->getSExtValue();
  return std::nullopt;
}

size_t operators(Expr e) {
  size_t n = 0;
  visit(e, [&](const ExprNode&) { n++; });
  return n;
}

// The widest element of a loop's data, and the narrowest in memory. Indices, though 64 bits wide, mostly stay scalars.
struct ElementBytes {
  size_t widest = 1, narrowest = 8;
};

void look(Expr e, ElementBytes& bytes) {
  visit(e, [&](const ExprNode& n) {
    if (n.op == Op::Load) bytes.narrowest = std::min(bytes.narrowest, size_of(n.type));
    if (n.op == Op::Load || (n.op == Op::Cast && n.type != DType::I64)) bytes.widest = std::max(bytes.widest, size_of(n.type));
  });
}

void look(const std::vector<Stmt>& body, ElementBytes& bytes) {
  for (const Stmt& s : body) {
    if (auto* l = std::get_if<Loop>(&s.v)) look(l->body, bytes);
    else if (auto* r = std::get_if<ReduceRegion>(&s.v)) look(r->body, bytes);
    else if (auto* a = std::get_if<Accumulate>(&s.v)) {
      bytes.widest = std::max(bytes.widest, size_of(a->value->type));
      look(a->value, bytes);
    } else if (!std::holds_alternative<Turn>(s.v)) {
      auto& st = std::get<Store>(s.v);
      bytes.widest = std::max(bytes.widest, size_of(st.value->type));
      bytes.narrowest = std::min(bytes.narrowest, size_of(st.value->type));
      look(st.value, bytes);
    }
  }
}

} // namespace

size_t KernelEmitter::weight(const std::vector<Stmt>& body) const {
  size_t n = 0;
  for (const Stmt& s : body) {
    if (auto* l = std::get_if<Loop>(&s.v)) {
      int64_t count = const_int(l->axis->args[0]).value_or(unroll_count + 1);
      if (l->lanes > 1 || count > unroll_count) return unroll_weight + 1;
      n += weight(l->body) * static_cast<size_t>(std::max<int64_t>(count, 1));
    } else if (auto* r = std::get_if<ReduceRegion>(&s.v)) n += weight(r->body);
    else if (auto* st = std::get_if<Store>(&s.v)) n += operators(st->value) + 1;
    else if (auto* a = std::get_if<Accumulate>(&s.v)) n += operators(a->value) + 1;
    else return unroll_weight + 1;
    if (n > unroll_weight) return n;
  }
  return n;
}

bool KernelEmitter::unrolls(const Loop& l) const {
  auto count = const_int(l.axis->args[0]);
  if (l.lanes > 1 || !count) return false;
  if (*count == 1) return true;
  return *count <= unroll_count && unrolled_ * static_cast<unsigned>(*count) <= unroll_total &&
         weight(l.body) * static_cast<size_t>(*count) <= unroll_weight;
}

// Lanes of one register of the widest data, and of masked vectors: AVX2 has none of elements below 4 bytes, there the last
// elements are done one by one.
KernelEmitter::Widths KernelEmitter::loop_widths(const Loop& l) {
  auto [it, fresh] = widths_.try_emplace(&l);
  if (!fresh) return it->second;
  ElementBytes bytes;
  look(l.body, bytes);
  unsigned lanes = static_cast<unsigned>(l.lanes),
           native = std::min(lanes, static_cast<unsigned>(target_.lanes(static_cast<int>(bytes.widest))));
  return it->second = {lanes, native, target_.avx512() || bytes.narrowest >= 4 ? native : 1};
}

// Whole vectors, then whole registers, then what is left in the narrowest vector that holds it.
llvm::SmallVector<Piece, 4> KernelEmitter::constant_pieces(const Loop& l, int64_t n) {
  llvm::SmallVector<Piece, 4> out;
  int64_t at = 0;
  auto add = [&](unsigned width, int64_t count, bool masked) {
    if (count > 0)
      out.push_back({.width = width,
                     .masked = masked,
                     .once = count <= width,
                     .guarded = false,
                     .begin = b_.getInt64(static_cast<uint64_t>(at)),
                     .end = b_.getInt64(static_cast<uint64_t>(at + count))});
    at += count;
  };
  Widths w = loop_widths(l);
  for (unsigned width : {w.lanes, w.native}) add(width, (n - at) / width * width, false);
  if (w.masked == 1) add(1, n - at, false);
  if (at < n) {
    unsigned width = std::bit_ceil(static_cast<unsigned>(n - at));
    add(width, n - at, n - at != width);
  }
  return out;
}

llvm::SmallVector<Piece, 4> KernelEmitter::pieces(const Loop& l, llvm::Value* extent) {
  if (auto n = constant_of(extent)) return constant_pieces(l, *n);
  llvm::Value* zero = b_.getInt64(0);
  auto [width, native, masked] = loop_widths(l);
  if (width == 1) return {{.width = 1, .masked = false, .once = false, .guarded = false, .begin = zero, .end = extent}};
  llvm::Value* whole = b_.CreateAnd(extent, b_.getInt64(static_cast<uint64_t>(-static_cast<int64_t>(width))));
  return {{.width = width, .masked = false, .once = false, .guarded = true, .begin = zero, .end = whole},
          {.width = masked, .masked = masked > 1, .once = masked == width, .guarded = true, .begin = whole, .end = extent}};
}

llvm::SmallVector<unsigned, 4> KernelEmitter::widths(const Loop& l) {
  llvm::SmallVector<unsigned, 4> out;
  if (auto n = const_int(l.axis->args[0])) {
    for (const Piece& p : constant_pieces(l, *n)) out.push_back(p.width);
  } else {
    out.push_back(static_cast<unsigned>(l.lanes));
    if (l.lanes > 1) out.push_back(loop_widths(l).masked);
  }
  return out;
}

void KernelEmitter::loop(const Loop& l) {
  if (l.tile > 1 && untiled_ != &l) return tiles(l);
  Val extent = value(l.axis->args[0]);
  require(!extent.v->getType()->isVectorTy(), "kernel {}: the extent of i{} varies by lane", kernel_.name, l.axis->bits);
  require(l.lanes == 1 || !vector_.axis, "kernel {}: vector loops are nested", kernel_.name);
  require(std::has_single_bit(static_cast<unsigned>(l.lanes)) && l.lanes <= 128, "{} lanes", l.lanes);
  auto count = constant_of(extent.v);
  if (count && *count <= 0) return;
  at(extent.scope);
  llvm::SmallVector<Piece, 4> parts = pieces(l, extent.v);
  if (count || l.axis->args[0]->lo > 0) return run(l, parts);

  StateKeys keys;
  modified(l, vector_.width, keys);
  StateValues before = states(keys);
  llvm::BasicBlock *enter = new_block("enter"), *exit = new_block("done");
  push(Scope::Enter, enter);
  run(l, parts);
  llvm::BasicBlock* ran = block();
  b_.SetInsertPoint(ran);
  b_.CreateBr(exit);
  pop();
  llvm::BasicBlock* skipped = block();
  b_.SetInsertPoint(skipped);
  b_.CreateCondBr(b_.CreateICmpSGT(extent.v, b_.getInt64(0)), enter, exit);
  merge(keys, before, skipped, ran, exit);
  block() = exit;
}

void KernelEmitter::run(const Loop& l, llvm::ArrayRef<Piece> parts) {
  if (unrolls(l)) {
    int64_t count = *const_int(l.axis->args[0]);
    unrolled_ *= static_cast<unsigned>(count);
    for (int64_t i = 0; i < count; i++) {
      push(Scope::Body, nullptr);
      run_body(l, parts[0], b_.getInt64(static_cast<uint64_t>(i)));
      pop();
    }
    unrolled_ /= static_cast<unsigned>(count);
    return;
  }
  for (const Piece& p : parts)
    if (p.once) once(l, p);
    else if (int64_t steps = block_of(l, p)) sum_in_blocks(l, p, steps);
    else rolled(l, p);
}

void KernelEmitter::once(const Loop& l, const Piece& p) {
  if (!p.guarded) {
    push(Scope::Body, nullptr);
    run_body(l, p, p.begin);
    return pop();
  }
  StateKeys keys;
  modified(l.body, p.width > 1 ? p.width : vector_.width, keys);
  StateValues before = states(keys);
  llvm::BasicBlock *body = new_block("rest"), *exit = new_block("done");
  push(Scope::Body, body);
  run_body(l, p, p.begin);
  llvm::BasicBlock* ran = block();
  b_.SetInsertPoint(ran);
  b_.CreateBr(exit);
  pop();
  llvm::BasicBlock* skipped = block();
  close_branch(p, body, exit);
  merge(keys, before, skipped, ran, exit);
  block() = exit;
}

// From the end of the current block into a piece, or past it.
void KernelEmitter::close_branch(const Piece& p, llvm::BasicBlock* body, llvm::BasicBlock* exit) {
  b_.SetInsertPoint(block());
  if (p.guarded) b_.CreateCondBr(b_.CreateICmpSLT(p.begin, p.end), body, exit);
  else b_.CreateBr(body);
}

void KernelEmitter::rolled(const Loop& l, const Piece& p) {
  StateKeys keys;
  modified(l.body, p.width > 1 ? p.width : vector_.width, keys);
  StateValues before = states(keys);
  llvm::BasicBlock *body = new_block("loop"), *exit = new_block("done");
  push(Scope::Body, body);
  b_.SetInsertPoint(body);
  llvm::PHINode* i = b_.CreatePHI(b_.getInt64Ty(), 2);
  StateValues phis = open_phis(keys, body);
  run_body(l, p, i);
  llvm::BasicBlock* latch = block();
  b_.SetInsertPoint(latch);
  llvm::Value* next = b_.CreateNSWAdd(i, b_.getInt64(p.width));
  b_.CreateCondBr(b_.CreateICmpSLT(next, p.end), body, exit);
  pop();
  llvm::BasicBlock* before_block = block();
  close_branch(p, body, exit);
  i->addIncoming(p.begin, before_block);
  i->addIncoming(next, latch);
  add_incoming(phis, before, before_block);
  add_incoming(phis, states(keys), latch);
  if (p.guarded) merge(keys, before, before_block, latch, exit);
  block() = exit;
}

// The statements for `width` values of the axis from `base` on, in the scope on top.
void KernelEmitter::run_body(const Loop& l, const Piece& p, llvm::Value* base) {
  const ExprNode* axis = l.axis.get();
  if (p.width == 1) {
    axes_[axis] = {base, top()};
    statements(l.body);
    axes_.erase(axis);
    return;
  }
  vector_ = {.axis = axis, .width = p.width, .base = {base, top()}, .factor = p.width};
  motion_.clear();
  if (p.masked) {
    int scope = at(top());
    unsigned bits = std::clamp(static_cast<unsigned>(target_.vector_bits) / p.width, 8u, 64u);
    llvm::Value* left = b_.CreateSub(p.end, base);
    if (!p.once) left = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, left, b_.getInt64(p.width));
    llvm::Type* narrow = b_.getIntNTy(bits);
    llvm::Value* splat = b_.CreateVectorSplat(p.width, b_.CreateTrunc(left, narrow));
    vector_.mask = {b_.CreateICmpULT(lane_numbers(narrow, 1, p.width), splat), scope};
    vector_.left = {left, scope};
    done(scope);
  }
  statements(l.body);
  vector_ = {};
  motion_.clear();
}

void KernelEmitter::parallel_loop() {
  llvm::Value *begin = function_->getArg(1), *end = function_->getArg(2);
  llvm::BasicBlock *enter = new_block("enter"), *body = new_block("parallel"), *exit = new_block("done");
  push(Scope::Enter, enter);
  push(Scope::Body, body);
  b_.SetInsertPoint(body);
  llvm::PHINode* i = b_.CreatePHI(b_.getInt64Ty(), 2);
  axes_[kernel_.parallel.get()] = {i, top()};
  for (const Stmt& s : kernel_.body) statement(s), pass_++;
  llvm::BasicBlock* latch = block();
  b_.SetInsertPoint(latch);
  llvm::Value* next = b_.CreateNSWAdd(i, b_.getInt64(1));
  b_.CreateCondBr(b_.CreateICmpSLT(next, end), body, exit);
  pop();
  i->addIncoming(begin, block());
  i->addIncoming(next, latch);
  b_.SetInsertPoint(block());
  b_.CreateBr(body);
  pop();
  b_.SetInsertPoint(block());
  b_.CreateCondBr(b_.CreateICmpSLT(begin, end), enter, exit);
  block() = exit;
}

} // namespace tenon::emit
