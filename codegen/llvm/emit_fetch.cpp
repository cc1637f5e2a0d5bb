// Rows that are passed over more than once: while a row is computed from the caches, memory has nothing to do. Its next passes ask for what
// the next row, or whatever the next iteration of the outermost loop takes, reads and writes.
#include "codegen/llvm/emit.h"

namespace tenon::emit {

namespace {

constexpr int64_t line_bytes = 64;
constexpr int64_t most_row_bytes = 32 << 10; // this row and the next one, read and written, stay in a second cache with much else

} // namespace

/// How far an offset moves with the outermost loop, in elements; null where it does not by steps.
Val KernelEmitter::row_distance(Expr offset) {
  auto moves = [&](const Expr& e) { return contains(e, [&](const ExprNode& n) { return &n == kernel_.parallel.get(); }); };
  llvm::SmallVector<Expr, 4> terms;
  if (offset->op == Op::Add) terms.append(offset->args.begin(), offset->args.end());
  else terms.push_back(offset);
  auto term = std::find_if(terms.begin(), terms.end(), moves);
  if (term == terms.end() || std::count_if(terms.begin(), terms.end(), moves) > 1) return {};
  Val distance{b_.getInt64(1), 0};
  if (*term == kernel_.parallel) return distance;
  if ((*term)->op != Op::Mul || std::count((*term)->args.begin(), (*term)->args.end(), kernel_.parallel) != 1) return {};
  for (const Expr& factor : (*term)->args) {
    if (factor == kernel_.parallel) continue;
    Val v = value(factor);
    if (moves(factor) || v.v->getType()->isVectorTy()) return {};
    int scope = at(std::max(distance.scope, v.scope));
    distance = {b_.CreateMul(distance.v, v.v), scope};
    done(scope);
  }
  return distance;
}

/// Asks for the vector at `p` of the next row.
void KernelEmitter::fetch_next_row(int buffer, Expr offset, Val p, bool written) {
  auto bytes = static_cast<int64_t>(size_of(kernel_.buffers[static_cast<size_t>(buffer)].dtype));
  if (vector_.width * bytes < line_bytes) return;
  Val distance = row_distance(offset);
  if (!distance.v) return;
  int64_t most = most_row_bytes / bytes;
  if (auto* c = llvm::dyn_cast<llvm::ConstantInt>(distance.v)) {
    if (c->getSExtValue() <= 0 || c->getSExtValue() > most) return;
  } else { // others would push out what this row takes: it asks for itself
    int scope = at(distance.scope);
    llvm::Value* near = b_.CreateICmpULE(distance.v, b_.getInt64(static_cast<uint64_t>(most)));
    distance.v = b_.CreateSelect(near, distance.v, b_.getInt64(0));
    done(scope);
  }
  int scope = at(top());
  llvm::Value* next = b_.CreateGEP(b_.getInt8Ty(), p.v, b_.CreateMul(distance.v, b_.getInt64(static_cast<uint64_t>(bytes))));
  for (int64_t at = 0; at < vector_.width * bytes; at += line_bytes)
    b_.CreateIntrinsic(
        llvm::Intrinsic::prefetch, {next->getType()},
        {b_.CreateConstGEP1_64(b_.getInt8Ty(), next, static_cast<uint64_t>(at)), b_.getInt32(written), b_.getInt32(3), b_.getInt32(1)});
  done(scope);
}

/// The second pass over what is read asks for it.
void KernelEmitter::fetch_read(const ExprNode& load, Val p) {
  Passes& passes = passes_.try_emplace(&load, Passes{pass_, pass_}).first->second;
  if (passes.second == passes.first) passes.second = pass_;
  if (pass_ > passes.first && pass_ == passes.second) fetch_next_row(static_cast<int>(load.bits), load.args[0], p, false);
}

void KernelEmitter::fetch_written(int buffer, Expr offset, Val p) {
  if (pass_ > 0 && kernel_.buffers[static_cast<size_t>(buffer)].kind == BufferKind::Output) fetch_next_row(buffer, offset, p, true);
}

} // namespace tenon::emit
