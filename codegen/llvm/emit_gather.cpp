// Loads from computed places, lane by lane. Where the places of a register's lanes ascend from the first to the last
// within two registers, as when images are resized, they are picked out of what lies there; whether they do is asked
// each time.
#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/IntrinsicsX86.h>

#include "codegen/llvm/emit.h"
#include "codegen/llvm/emit_ops.h"

namespace tenon::emit {

namespace {

constexpr unsigned view_near = 2000; // and the next ones: a memoised Nearness of an index

} // namespace

// Below 4 bytes there is no gather instruction, and on some machines only a slow one: loads lane by lane, of which none
// must branch.
llvm::Value* KernelEmitter::gather(int buffer, llvm::Value* pointers, const Mask& m) {
  DType dtype = kernel_.buffers[static_cast<size_t>(buffer)].dtype;
  llvm::Type* type = vector_of(memory_type(context_, dtype), vector_.width);
  llvm::Value* lanes = lanes_of(m);
  if (lanes && (size_of(dtype) < 4 || target_.slow_gather)) {
    pointers = safe_pointer(pointers, lanes);
    lanes = nullptr;
  }
  if (!lanes) lanes = llvm::Constant::getAllOnesValue(vector_of(b_.getInt1Ty(), vector_.width));
  return mark(buffer, b_.CreateMaskedGather(type, pointers, any_alignment, lanes, llvm::Constant::getNullValue(type)));
}

bool KernelEmitter::may_be_near(int buffer, Expr offset, const Mask& m) {
  size_t bytes = size_of(kernel_.buffers[static_cast<size_t>(buffer)].dtype);
  bool fits = bytes == 4 || (bytes == 2 && target_.avx512());
  return fits && !m.lanes && !m.uniform && vector_.width % static_cast<unsigned>(target_.lanes(4)) == 0 &&
         !contains(offset, [](const ExprNode& n) { return n.op == Op::Load || n.op == Op::Checked; });
}

// Of register `part` of an index: the first lane's, how far the others are from it, and from the first to the last; and
// whether they lie between these.
KernelEmitter::Nearness KernelEmitter::nearness(Val index, unsigned part) {
  unsigned lanes = static_cast<unsigned>(target_.lanes(4)), first_lane = part * lanes;
  auto key = [&](unsigned k) { return Key{index.v, view_near + 4 * part + k}; };
  if (const Val* first = recall(key(0))) return {first->v, recall(key(1))->v, recall(key(2))->v, recall(key(3))->v};
  int scope = at(index.scope);
  llvm::SmallVector<int, 64> own;
  for (unsigned i = 0; i < lanes; i++) own.push_back(static_cast<int>(first_lane + i));
  llvm::Value *first = b_.CreateExtractElement(index.v, first_lane), *last = b_.CreateExtractElement(index.v, first_lane + lanes - 1);
  llvm::Value *span = b_.CreateSub(last, first),
              *ahead = b_.CreateSub(b_.CreateShuffleVector(index.v, own), b_.CreateVectorSplat(lanes, first));
  llvm::Value* between = b_.CreateAndReduce(b_.CreateICmpULE(ahead, b_.CreateVectorSplat(lanes, span)));
  llvm::Value* near = b_.CreateAnd(between, b_.CreateICmpULT(span, b_.getInt64(2 * lanes)));
  Nearness n{first, b_.CreateTrunc(ahead, vector_of(b_.getInt32Ty(), lanes)), b_.CreateTrunc(span, b_.getInt32Ty()), near};
  done(scope);
  unsigned k = 0;
  for (llvm::Value* v : {n.first, n.ahead, n.span, n.near}) remember(key(k++), {v, scope});
  return n;
}

// A register of elements out of the two that begin at the first.
llvm::Value* KernelEmitter::load_near(int buffer, llvm::Value* base, const Nearness& n) {
  llvm::Type* element = memory_type(context_, kernel_.buffers[static_cast<size_t>(buffer)].dtype);
  unsigned lanes = static_cast<unsigned>(target_.lanes(4)), bytes = element->getPrimitiveSizeInBits() / 8,
           count = bytes == 4 ? lanes : 2 * lanes;
  llvm::Value *p = b_.CreateGEP(element, base, n.first), *part[2] = {};
  llvm::Type* type = vector_of(element, count);
  for (unsigned k = 0; k * count < 2 * lanes; k++) {
    llvm::Value* number = b_.CreateAdd(lane_numbers(b_.getInt32Ty(), 1, count), b_.CreateVectorSplat(count, b_.getInt32(k * count)));
    llvm::Value* inside = b_.CreateICmpULE(number, b_.CreateVectorSplat(count, n.span));
    llvm::Value* from = b_.CreateGEP(element, p, b_.getInt64(k * count));
    part[k] = mark(buffer, b_.CreateMaskedLoad(type, from, any_alignment, inside, llvm::Constant::getNullValue(type)));
  }
  if (bytes == 2) {
    llvm::SmallVector<int, 64> widen, narrow;
    for (unsigned i = 0; i < count; i++) widen.push_back(static_cast<int>(std::min(i, lanes - 1)));
    for (unsigned i = 0; i < lanes; i++) narrow.push_back(static_cast<int>(i));
    llvm::Type* shorts = vector_of(b_.getInt16Ty(), count);
    llvm::Value* order = b_.CreateShuffleVector(b_.CreateTrunc(n.ahead, vector_of(b_.getInt16Ty(), lanes)), widen);
    llvm::Value* v = b_.CreateIntrinsic(llvm::Intrinsic::x86_avx512_permvar_hi_512, {}, {b_.CreateBitCast(part[0], shorts), order});
    return b_.CreateBitCast(b_.CreateShuffleVector(v, narrow), vector_of(element, lanes));
  }
  llvm::Type* floats = vector_of(b_.getFloatTy(), lanes);
  for (llvm::Value*& v : part) v = b_.CreateBitCast(v, floats);
  llvm::Value* v;
  if (target_.avx512()) v = b_.CreateIntrinsic(llvm::Intrinsic::x86_avx512_vpermi2var_ps_512, {}, {part[0], n.ahead, part[1]});
  else {
    for (llvm::Value*& x : part) x = b_.CreateIntrinsic(llvm::Intrinsic::x86_avx2_permps, {}, {x, n.ahead});
    v = b_.CreateSelect(b_.CreateICmpULT(n.ahead, b_.CreateVectorSplat(lanes, b_.getInt32(lanes))), part[0], part[1]);
  }
  return b_.CreateBitCast(v, type);
}

// In the scope of both the base and the index.
Val KernelEmitter::gather_near(int buffer, Val base, Val index) {
  llvm::Type* element = memory_type(context_, kernel_.buffers[static_cast<size_t>(buffer)].dtype);
  unsigned lanes = static_cast<unsigned>(target_.lanes(4)), parts = vector_.width / lanes;
  llvm::SmallVector<Nearness, 8> near;
  for (unsigned k = 0; k < parts; k++) near.push_back(nearness(index, k));
  int scope = at(std::max(base.scope, index.scope));
  llvm::Value* all = near[0].near;
  for (unsigned k = 1; k < parts; k++) all = b_.CreateAnd(all, near[k].near);
  llvm::BasicBlock *close = new_block("near"), *far = new_block("far"), *join = new_block("loaded");
  b_.CreateCondBr(all, close, far);
  b_.SetInsertPoint(close);
  llvm::SmallVector<llvm::Value*, 8> some;
  for (const Nearness& n : near) some.push_back(load_near(buffer, base.v, n));
  llvm::Value* from_near = llvm::concatenateVectors(b_, some);
  b_.CreateBr(join);
  b_.SetInsertPoint(far);
  llvm::Value* from_far = gather(buffer, b_.CreateGEP(element, base.v, index.v), {});
  b_.CreateBr(join);
  b_.SetInsertPoint(join);
  llvm::PHINode* v = b_.CreatePHI(from_near->getType(), 2);
  v->addIncoming(from_near, close);
  v->addIncoming(from_far, far);
  llvm::Value* loaded = from_memory(kernel_.buffers[static_cast<size_t>(buffer)].dtype, v);
  done(scope);
  return {loaded, scope};
}

} // namespace tenon::emit
