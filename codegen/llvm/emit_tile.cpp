// Tiles: a vector loop and a short loop around it, of which some accesses are contiguous along the one, some along the other. Elements
// of the latter are picked out of vectors, or put into them. Tiles are always whole: the last one of a loop overlaps the one before,
// which stores the same values twice; a loop too short for one runs as if it were none. Transposes of longer axes are calls.
#include "codegen/llvm/emit.h"
#include "codegen/llvm/emit_ops.h"

namespace tenon::emit {

namespace {

int64_t least(Expr e) { return const_int(e).value_or(e->lo); }
bool divides(unsigned step, Expr extent) { return const_int(extent).value_or(1) % step == 0; }

// Loads that are done for all elements, whatever their index.
void find_loads(Expr e, llvm::SmallVectorImpl<const ExprNode*>& out) {
  if (e->op == Op::Load) {
    if (!llvm::is_contained(out, e.get())) out.push_back(e.get());
    return;
  }
  bool guards = e->op == Op::Select && contains(e->args[0], [](const ExprNode& n) { return n.op == Op::Axis || n.op == Op::Symbol; });
  for (size_t k = 0; k < (guards ? 1 : e->args.size()); k++)
    if (e->op != Op::Axis) find_loads(e->args[k], out);
}

} // namespace

void KernelEmitter::tiles(const Loop& l) {
  const Loop& in = std::get<Loop>(l.body[0].v);
  auto as_plain_loops = [&] {
    untiled_ = &l;
    loop(l);
    untiled_ = nullptr;
  };
  Expr inner = in.axis->args[0];
  if (const_int(inner).value_or(in.lanes) < in.lanes) return as_plain_loops();
  Val columns = value(inner);
  unsigned lanes = static_cast<unsigned>(in.lanes);
  unsigned factor = divides(lanes, inner) ? lanes : 1;
  auto whole = [&] {
    steps(columns, lanes, [&](llvm::Value* j) {
      Val base = {factor > 1 ? j : b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, j, b_.CreateSub(columns.v, b_.getInt64(lanes))), top()};
      tile(l, in, {b_.getInt64(0), 0}, base, factor);
    });
  };
  if (least(inner) >= in.lanes) return whole();
  int scope = at(columns.scope);
  llvm::Value* fits = b_.CreateICmpSGE(columns.v, b_.getInt64(lanes));
  done(scope);
  llvm::BasicBlock *tiled = new_block("tiled"), *plain = new_block("plain"), *exit = new_block("done");
  push(Scope::Enter, tiled);
  whole();
  b_.SetInsertPoint(block());
  b_.CreateBr(exit);
  pop();
  push(Scope::Enter, plain);
  as_plain_loops();
  b_.SetInsertPoint(block());
  b_.CreateBr(exit);
  pop();
  b_.SetInsertPoint(block());
  b_.CreateCondBr(fits, tiled, plain);
  block() = exit;
}

// body(i) for i = 0, step .. while below `end`, at least once; it begins at the end of the scope on top.
template <class F> void KernelEmitter::steps(Val end, unsigned step, const F& body) {
  if (auto* c = llvm::dyn_cast<llvm::ConstantInt>(end.v); c && c->getSExtValue() <= step) {
    push(Scope::Body, nullptr);
    at(top());
    body(b_.getInt64(0));
    return pop();
  }
  llvm::BasicBlock *loop = new_block("tiles"), *exit = new_block("done");
  push(Scope::Body, loop);
  b_.SetInsertPoint(loop);
  llvm::PHINode* i = b_.CreatePHI(b_.getInt64Ty(), 2);
  body(i);
  llvm::BasicBlock* latch = block();
  b_.SetInsertPoint(latch);
  llvm::Value* next = b_.CreateNSWAdd(i, b_.getInt64(step));
  b_.CreateCondBr(b_.CreateICmpSLT(next, end.v), loop, exit);
  pop();
  b_.SetInsertPoint(block());
  b_.CreateBr(loop);
  i->addIncoming(b_.getInt64(0), block());
  i->addIncoming(next, latch);
  block() = exit;
}

// One tile, from `other` and `base` on.
void KernelEmitter::tile(const Loop& l, const Loop& in, Val other, Val base, unsigned factor) {
  const ExprNode* axis = l.axis.get();
  vector_ = {.axis = in.axis.get(), .width = static_cast<unsigned>(in.lanes), .base = base, .factor = factor};
  motion_.clear();
  tile_.axis = axis, tile_.count = static_cast<unsigned>(l.tile);
  axes_[axis] = other;
  llvm::SmallVector<const ExprNode*, 8> loads;
  for (const Stmt& s : in.body) {
    const Store& store = std::get<Store>(s.v);
    find_loads(store.value, loads);
    if (turns(store.offset)) tile_.stores[&store] = {};
  }
  for (const ExprNode* n : loads)
    if (turns(n->args[0])) load_turned(*n);
  for (unsigned k = 0; k < tile_.count; k++) {
    push(Scope::Body, nullptr);
    at(top());
    axes_[axis] = {b_.CreateAdd(other.v, b_.getInt64(k)), top()};
    done(top());
    tile_.now = k;
    statements(in.body);
    pop();
  }
  axes_[axis] = other;
  for (const Stmt& s : in.body)
    if (tile_.stores.count(&std::get<Store>(s.v))) store_turned(std::get<Store>(s.v));
  axes_.erase(axis);
  vector_ = {};
  motion_.clear();
  tile_.axis = nullptr;
  tile_.loads.clear();
  tile_.stores.clear();
}

// Contiguous along the outer axis, of which a tile has all: then it is one stretch of memory.
bool KernelEmitter::turns(Expr offset) {
  Motion m = motion(*offset);
  if (m.kind != Motion::Constant || m.step != tile_.count) return false;
  VectorAxis lanes = std::exchange(vector_, {.axis = tile_.axis, .width = tile_.count, .base = axes_.lookup(tile_.axis)});
  motion_.clear();
  Motion other = motion(*offset);
  vector_ = lanes;
  motion_.clear();
  return other.kind == Motion::Constant && other.step == 1;
}

void KernelEmitter::load_turned(const ExprNode& n) {
  int buffer = static_cast<int>(n.bits);
  unsigned lanes = vector_.width, count = tile_.count;
  llvm::Type* type = memory_type(context_, kernel_.buffers[static_cast<size_t>(buffer)].dtype);
  Val p = pointer(buffer, n.args[0]);
  int scope = at(top());
  Vectors parts, out;
  for (unsigned k = 0; k < count; k++)
    parts.push_back(
        mark(buffer, b_.CreateAlignedLoad(vector_of(type, lanes), b_.CreateGEP(type, p.v, b_.getInt64(k * lanes)), any_alignment)));
  for (unsigned k = 0; k < count; k++) out.push_back(pick(parts, [&](unsigned lane) { return lane * count + k; }));
  done(scope);
  tile_.loads[&n] = std::move(out);
}

void KernelEmitter::store_turned(const Store& s) {
  unsigned lanes = vector_.width, count = tile_.count;
  llvm::Type* type = memory_type(context_, kernel_.buffers[static_cast<size_t>(s.buffer)].dtype);
  Vectors values = tile_.stores.find(&s)->second;
  Val p = pointer(s.buffer, s.offset);
  int scope = at(top());
  for (unsigned k = 0; k < count; k++) {
    auto element = [&](unsigned lane) { return (k * lanes + lane) % count * lanes + (k * lanes + lane) / count; };
    b_.CreateAlignedStore(pick(values, element), b_.CreateGEP(type, p.v, b_.getInt64(k * lanes)), any_alignment);
  }
  done(scope);
}

// The vector of the given elements of all of `from`, numbered through.
llvm::Value* KernelEmitter::pick(llvm::ArrayRef<llvm::Value*> from, llvm::function_ref<unsigned(unsigned)> element) {
  unsigned lanes = llvm::cast<llvm::FixedVectorType>(from[0]->getType())->getNumElements();
  llvm::Value* out = nullptr;
  llvm::SmallVector<bool, 64> have(lanes, false);
  for (unsigned source = 0; source < from.size(); source++) {
    llvm::SmallVector<int, 64> chosen;
    bool used = false;
    for (unsigned i = 0; i < lanes; i++) {
      bool here = element(i) / lanes == source;
      used |= here;
      chosen.push_back(here ? static_cast<int>(element(i) % lanes + (out ? lanes : 0)) : have[i] ? static_cast<int>(i) : -1);
      have[i] |= here;
    }
    if (used) out = out ? b_.CreateShuffleVector(out, from[source], chosen) : b_.CreateShuffleVector(from[source], chosen);
  }
  return out;
}

// A transpose in memory is a call.
void KernelEmitter::turn(const Turn& t) {
  const KernelBuffer& to = kernel_.buffers[static_cast<size_t>(t.to)];
  llvm::Type *ptr = b_.getPtrTy(), *i64 = b_.getInt64Ty();
  llvm::SmallVector<Val, 6> args{pointer(t.to, t.to_offset), value(t.to_step), pointer(t.from, t.from_offset),
                                 value(t.from_step),         value(t.rows),    value(t.columns)};
  llvm::SmallVector<llvm::Value*, 7> values;
  for (Val v : args) values.push_back(v.v);
  values.push_back(b_.getInt1(to.streamed));
  auto* type = llvm::FunctionType::get(b_.getVoidTy(), {ptr, i64, ptr, i64, i64, i64, b_.getInt1Ty()}, false);
  int scope = at(top());
  llvm::CallInst* call = b_.CreateCall(c_function(b_, fmt::format("tenon_transpose{}", size_of(to.dtype)), type), values);
  call->addParamAttr(6, llvm::Attribute::ZExt);
  done(scope);
  streams_ |= to.streamed;
}

} // namespace tenon::emit
