// Loads and stores: scalar, contiguous or by lane, after how the offset moves with the vector axis; under the masks of open
// guards and of the loop's last lanes.
#include <llvm/Analysis/VectorUtils.h>

#include <numeric>

#include "codegen/llvm/emit.h"
#include "codegen/llvm/emit_ops.h"

namespace tenon::emit {

namespace {

constexpr int64_t max_spread = 4;      // elements apart that one wide load still beats a gather
constexpr unsigned zeros_bytes = 1024; // a vector of 128 lanes of 8 bytes

} // namespace

// What the guards and the loop's end allow; null parts allow all. The parts are available in `scope`.
KernelEmitter::Mask KernelEmitter::mask() {
  Mask m;
  int g = guard_scope();
  if (g > 0) {
    const Scope& s = scopes_[static_cast<size_t>(g)];
    m = {s.uniform, s.lanes, g};
  }
  if (!vector_.mask.v || vector_.mask.scope > top()) return m;
  m.scope = std::max(m.scope, vector_.mask.scope);
  if (!m.lanes) m.lanes = vector_.mask.v;
  else {
    int scope = at(m.scope);
    m.lanes = b_.CreateAnd(m.lanes, vector_.mask.v);
    done(scope);
  }
  return m;
}

// ---- addresses

Val KernelEmitter::buffer_pointer(int buffer) {
  size_t i = static_cast<size_t>(buffer);
  const KernelBuffer& b = kernel_.buffers[i];
  if (b.kind != BufferKind::Scratch || !b.scratch_offset) return {buffers_[i], 0};
  Key key{&b, view_pointer};
  if (const Val* known = recall(key)) return *known;
  Val offset = value(b.scratch_offset);
  int scope = at(offset.scope);
  llvm::Value* p = b_.CreateGEP(b_.getInt8Ty(), buffers_[i], offset.v);
  done(scope);
  return remember(key, {p, scope});
}

// Adds the terms that live further out first, a constant last: it becomes part of the instruction's address.
Val KernelEmitter::add_offsets(int buffer, Val p, llvm::ArrayRef<Expr> terms, bool of_base) {
  llvm::Type* type = memory_type(context_, kernel_.buffers[static_cast<size_t>(buffer)].dtype);
  llvm::SmallVector<Val, 4> values;
  int64_t constant = 0;
  for (Expr t : terms)
    if (t->is_const()) constant += t->bits;
    else values.push_back(of_base ? base(t) : value(t));
  sort_few(values, [](Val x, Val y) { return x.scope < y.scope; });
  for (size_t i = 0; i < values.size();) {
    Val sum = values[i++];
    int scope = at(std::max(p.scope, sum.scope));
    for (; i < values.size() && values[i].scope == sum.scope; i++) sum.v = b_.CreateAdd(sum.v, values[i].v);
    p = {b_.CreateGEP(type, p.v, sum.v), scope};
    done(scope);
  }
  if (constant == 0) return p;
  int scope = at(p.scope);
  p = {b_.CreateGEP(type, p.v, b_.getInt64(static_cast<uint64_t>(constant))), scope};
  done(scope);
  return p;
}

/// The address of the element, of lane 0 where the offset moves.
Val KernelEmitter::pointer(int buffer, Expr offset) {
  Key key{offset.get(), view_pointer + 1 + static_cast<unsigned>(buffer)};
  if (const Val* known = recall(key)) return *known;
  llvm::SmallVector<Expr, 4> terms;
  if (offset->op == Op::Add) terms.append(offset->args.begin(), offset->args.end());
  else terms.push_back(offset);
  return remember(key, add_offsets(buffer, buffer_pointer(buffer), terms, true));
}

/// Where every lane's element is: elements from an address.
std::pair<Val, Val> KernelEmitter::lane_places(int buffer, Expr offset) {
  Motion m = motion(*offset);
  if (m.kind == Motion::Constant) return {pointer(buffer, offset), {lane_numbers(b_.getInt64Ty(), m.step, vector_.width), 0}};
  if (m.kind == Motion::Linear) {
    Val p = pointer(buffer, offset), s = widened(stride(offset), vector_.width);
    int scope = at(s.scope);
    llvm::Value* index = b_.CreateMul(s.v, lane_numbers(b_.getInt64Ty(), 1, vector_.width));
    done(scope);
    return {p, {index, scope}};
  }
  Val index;
  llvm::SmallVector<Expr, 4> fixed;
  auto split = [&](Expr t) {
    if (motion(*t).kind == Motion::Uniform) return fixed.push_back(t);
    Val v = value(t);
    if (!index.v) return void(index = v);
    int scope = at(std::max(index.scope, v.scope));
    index = {b_.CreateAdd(widened(index, vector_.width).v, widened(v, vector_.width).v), scope};
    done(scope);
  };
  Val p = buffer_pointer(buffer);
  if (offset->op == Op::Add)
    for (Expr t : offset->args) split(t);
  else split(offset);
  p = add_offsets(buffer, p, fixed, false);
  return {p, widened(index, vector_.width)};
}

/// The address of every lane's element.
Val KernelEmitter::lane_pointers(int buffer, Expr offset) {
  llvm::Type* type = memory_type(context_, kernel_.buffers[static_cast<size_t>(buffer)].dtype);
  auto [p, index] = lane_places(buffer, offset);
  int scope = at(std::max(p.scope, index.scope));
  llvm::Value* r = b_.CreateGEP(type, p.v, index.v);
  done(scope);
  return {r, scope};
}

// ---- loads

llvm::Value* KernelEmitter::lanes_of(const Mask& m) {
  if (!m.uniform) return m.lanes;
  llvm::Value* all = b_.CreateVectorSplat(vector_.width, m.uniform);
  return m.lanes ? b_.CreateAnd(m.lanes, all) : all;
}

llvm::Value* KernelEmitter::from_memory(DType type, llvm::Value* v) {
  return type == DType::Bool ? b_.CreateICmpNE(v, llvm::Constant::getNullValue(v->getType())) : v;
}
llvm::Value* KernelEmitter::to_memory(DType type, llvm::Value* v) {
  return type == DType::Bool ? b_.CreateZExt(v, v->getType()->getWithNewType(b_.getInt8Ty())) : v;
}

// The pointers where the condition holds, elsewhere zeros that can always be read.
llvm::Value* KernelEmitter::safe_pointer(llvm::Value* p, llvm::Value* condition) {
  if (!zeros_) {
    auto* type = llvm::ArrayType::get(b_.getInt8Ty(), zeros_bytes);
    zeros_ =
        new llvm::GlobalVariable(module_, type, true, llvm::GlobalValue::PrivateLinkage, llvm::ConstantAggregateZero::get(type), "zeros");
    zeros_->setAlignment(llvm::Align(64));
  }
  llvm::Value* other = zeros_;
  if (auto* v = llvm::dyn_cast<llvm::FixedVectorType>(p->getType())) other = b_.CreateVectorSplat(v->getNumElements(), other);
  return b_.CreateSelect(condition, p, other);
}

llvm::Value* KernelEmitter::load_scalar(int buffer, llvm::Value* p, const Mask& m) {
  llvm::Value* condition = m.uniform;
  if (m.lanes) {
    llvm::Value* any = b_.CreateOrReduce(m.lanes);
    condition = condition ? b_.CreateAnd(condition, any) : any;
  }
  if (condition) p = safe_pointer(p, condition);
  llvm::Type* type = memory_type(context_, kernel_.buffers[static_cast<size_t>(buffer)].dtype);
  return mark(buffer, b_.CreateAlignedLoad(type, p, any_alignment));
}

llvm::Value* KernelEmitter::load_contiguous(int buffer, llvm::Value* p, const Mask& m) {
  DType dtype = kernel_.buffers[static_cast<size_t>(buffer)].dtype;
  llvm::Type* type = vector_of(memory_type(context_, dtype), vector_.width);
  llvm::Value* lanes = m.lanes;
  if (m.uniform && target_.avx512()) lanes = lanes_of(m);
  else if (m.uniform) p = safe_pointer(p, m.uniform);
  if (!lanes) return mark(buffer, b_.CreateAlignedLoad(type, p, any_alignment));
  return mark(buffer, b_.CreateMaskedLoad(type, p, any_alignment, lanes, llvm::Constant::getNullValue(type)));
}

// A masked load of as many elements as the type has; the mask may be longer. One of another number than a power of two is put together lane
// by lane where LLVM takes it apart: so such a load is of pieces.
llvm::Value* KernelEmitter::load_pieces(int buffer, llvm::Value* p, llvm::FixedVectorType* type, llvm::Value* mask) {
  unsigned all = type->getNumElements(), piece = all & -all;
  auto* piece_type = llvm::FixedVectorType::get(type->getElementType(), piece);
  llvm::SmallVector<llvm::Value*, 8> pieces;
  for (unsigned at = 0; at < all; at += piece) {
    llvm::SmallVector<int, 64> chosen(piece);
    std::iota(chosen.begin(), chosen.end(), static_cast<int>(at));
    llvm::Value *read = piece == all ? mask : b_.CreateShuffleVector(mask, chosen),
                *from = b_.CreateConstGEP1_64(type->getElementType(), p, at);
    pieces.push_back(mark(buffer, b_.CreateMaskedLoad(piece_type, from, any_alignment, read, llvm::Constant::getNullValue(piece_type))));
  }
  return llvm::concatenateVectors(b_, pieces);
}

// Every step-th element, from one wide load that ends with the last of them; backwards for step -1, only without guards.
llvm::Value* KernelEmitter::load_spread(int buffer, llvm::Value* first, int64_t step, const Mask& m) {
  llvm::Type* element = memory_type(context_, kernel_.buffers[static_cast<size_t>(buffer)].dtype);
  unsigned width = vector_.width, spread = static_cast<unsigned>(std::abs(step)), all = spread * width;
  llvm::FixedVectorType* type = llvm::FixedVectorType::get(element, all);
  llvm::Value* p = step > 0 ? first : b_.CreateGEP(element, first, b_.getInt64(static_cast<uint64_t>(step) * (width - 1)));
  llvm::SmallVector<int, 64> chosen;
  for (unsigned i = 0; i < width; i++) chosen.push_back(static_cast<int>(step > 0 ? i * spread : width - 1 - i));
  llvm::Value* v;
  if (spread == 1) {
    llvm::Value* lanes = m.lanes ? b_.CreateShuffleVector(m.lanes, chosen) : nullptr;
    v = lanes ? static_cast<llvm::Value*>(
                    mark(buffer, b_.CreateMaskedLoad(type, p, any_alignment, lanes, llvm::Constant::getNullValue(type))))
              : mark(buffer, b_.CreateAlignedLoad(type, p, any_alignment));
  } else {
    llvm::SmallVector<llvm::Constant*, 64> last;
    for (unsigned i = 0; i < all; i++) last.push_back(b_.getInt1(i <= spread * (width - 1)));
    llvm::Value* read = llvm::ConstantVector::get(last);
    if (llvm::Value* lanes = lanes_of(m)) {
      llvm::SmallVector<int, 64> of_lane; // of the mask, or of zeros behind it
      for (unsigned i = 0; i < llvm::PowerOf2Ceil(all); i++)
        of_lane.push_back(static_cast<int>(i % spread || i >= all ? width : i / spread));
      read = b_.CreateShuffleVector(lanes, llvm::Constant::getNullValue(lanes->getType()), of_lane);
    }
    v = load_pieces(buffer, p, type, read);
  }
  return b_.CreateShuffleVector(v, chosen);
}

Val KernelEmitter::load(const ExprNode& n) {
  int buffer = static_cast<int>(n.bits);
  if (auto it = tile_.loads.find(&n); it != tile_.loads.end()) {
    int scope = at(top());
    llvm::Value* v = from_memory(kernel_.buffers[static_cast<size_t>(buffer)].dtype, it->second[tile_.now]);
    done(scope);
    return {v, scope};
  }
  const KernelBuffer& b = kernel_.buffers[static_cast<size_t>(buffer)];
  Expr offset = n.args[0];
  Motion motion_ = motion(*offset);
  bool moves = motion_.kind != Motion::Uniform && !(motion_.kind == Motion::Constant && motion_.step == 0);
  bool contiguous = motion_.kind == Motion::Constant && motion_.step == 1;
  Mask m = mask();
  bool maskable = target_.avx512() || size_of(b.dtype) >= 4;
  bool backwards = motion_.kind == Motion::Constant && motion_.step == -1 && !m.uniform && (maskable || !m.lanes);
  bool masks = m.uniform || m.lanes;
  bool spread =
      motion_.kind == Motion::Constant && motion_.step >= 2 && motion_.step <= max_spread && (masks ? target_.avx512() : maskable);
  spread |= backwards;
  if (motion_.kind == Motion::Other && b.kind == BufferKind::Input && may_be_near(buffer, offset, m)) {
    auto [base, index] = lane_places(buffer, offset);
    return gather_near(buffer, base, index);
  }
  Val p = moves && !contiguous && !spread ? lane_pointers(buffer, offset) : pointer(buffer, offset);
  if (!moves && guard_scope() == 0) m = {}; // some lane is active
  int scope = std::max(p.scope, m.scope);
  if (b.kind != BufferKind::Input) scope = top();
  scope = at(scope);
  llvm::Value* v = !moves       ? load_scalar(buffer, p.v, m)
                   : contiguous ? load_contiguous(buffer, p.v, m)
                   : spread     ? load_spread(buffer, p.v, motion_.step, m)
                                : gather(buffer, p.v, m);
  v = from_memory(b.dtype, v);
  done(scope);
  if (contiguous && !masks && b.kind == BufferKind::Input) fetch_read(n, p);
  return {v, scope};
}

// ---- stores

// Past the caches, where whole lines of 64 bytes are stored: parts of lines would go to memory one by one.
bool KernelEmitter::streams(int buffer, Expr offset, llvm::Type* type) const {
  const KernelBuffer& b = kernel_.buffers[static_cast<size_t>(buffer)];
  int64_t size = static_cast<int64_t>(size_of(b.dtype));
  bool lines = type->isVectorTy() && vector_.width * static_cast<unsigned>(size) % 64 == 0;
  return b.streamed && lines && known_factor(*offset) * size % 64 == 0;
}

// The active lanes in pieces of half as many each, all lanes at once: AVX2's masked stores are dozens of instructions on some machines.
void KernelEmitter::store_first(llvm::Value* x, llvm::Value* p) {
  llvm::Value* count = vector_.left.v;
  auto part = [&](unsigned from, unsigned n) -> llvm::Value* {
    if (n == 1) return b_.CreateExtractElement(x, from);
    llvm::SmallVector<int, 32> chosen(n);
    std::iota(chosen.begin(), chosen.end(), static_cast<int>(from));
    return b_.CreateShuffleVector(x, chosen);
  };
  auto behind = [&](unsigned n) { return b_.CreateConstGEP1_64(x->getType()->getScalarType(), p, n); };
  if (auto* known = llvm::dyn_cast<llvm::ConstantInt>(count)) {
    for (unsigned n = vector_.width, at = 0; n >= 1; at += known->getZExtValue() & n, n /= 2)
      if (known->getZExtValue() & n) b_.CreateAlignedStore(part(at, n), behind(at), any_alignment);
    return;
  }
  for (unsigned n = vector_.width; n >= 1; n /= 2) {
    llvm::BasicBlock *before = b_.GetInsertBlock(), *store = new_block("piece"), *join = new_block("left");
    llvm::Value* low = part(0, n);
    b_.CreateCondBr(b_.CreateICmpNE(b_.CreateAnd(count, n), b_.getInt64(0)), store, join);
    b_.SetInsertPoint(store);
    b_.CreateAlignedStore(low, p, any_alignment);
    bool rest = n < vector_.width && n > 1;
    llvm::Value *high = rest ? part(n, n) : nullptr, *next = rest ? behind(n) : nullptr;
    b_.CreateBr(join);
    b_.SetInsertPoint(join);
    if (!rest) continue;
    llvm::PHINode *left = b_.CreatePHI(low->getType(), 2), *at = b_.CreatePHI(p->getType(), 2);
    left->addIncoming(low, before), left->addIncoming(high, store);
    at->addIncoming(p, before), at->addIncoming(next, store);
    x = left, p = at;
  }
}

void KernelEmitter::store_value(int buffer, Expr offset, Val v) {
  DType dtype = kernel_.buffers[static_cast<size_t>(buffer)].dtype;
  Motion motion_ = motion(*offset);
  bool moves = motion_.kind != Motion::Uniform && !(motion_.kind == Motion::Constant && motion_.step == 0);
  bool contiguous = motion_.kind == Motion::Constant && motion_.step == 1;
  bool scalar = !moves && !is_vector(v.v);
  Val p = scalar || contiguous ? pointer(buffer, offset) : Val{};
  if (!p.v) p = moves ? lane_pointers(buffer, offset) : widened(pointer(buffer, offset), vector_.width);
  if (!scalar) v = widened(v, vector_.width);
  int scope = at(top());
  llvm::Value* x = to_memory(dtype, v.v);
  llvm::Value* lanes = vector_.mask.v;
  if (contiguous && !lanes && streams(buffer, offset, x->getType())) {
    llvm::StoreInst* store = b_.CreateAlignedStore(x, p.v, llvm::Align(64));
    store->setMetadata(llvm::LLVMContext::MD_nontemporal, llvm::MDNode::get(context_, llvm::ConstantAsMetadata::get(b_.getInt32(1))));
    streams_ = true;
  } else if (scalar || (contiguous && !lanes)) b_.CreateAlignedStore(x, p.v, any_alignment);
  else {
    if (!lanes) lanes = llvm::Constant::getAllOnesValue(vector_of(b_.getInt1Ty(), vector_.width));
    if (contiguous && !target_.avx512() && vector_.left.v) store_first(x, p.v);
    else if (contiguous) b_.CreateMaskedStore(x, p.v, any_alignment, lanes);
    else b_.CreateMaskedScatter(x, p.v, any_alignment, lanes);
  }
  done(scope);
  if (contiguous && !lanes && !streams(buffer, offset, x->getType())) fetch_written(buffer, offset, p);
}

} // namespace tenon::emit
