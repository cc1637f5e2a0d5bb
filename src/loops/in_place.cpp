// Which inputs a kernel reads just where it writes its result.
#include "loops/from_region.h"

namespace tenon {

namespace {

// The store of a kernel that has one, outside of reductions.
const Store* only_store(const std::vector<Stmt>& body) {
  if (body.size() != 1) return nullptr;
  if (auto* loop = std::get_if<Loop>(&body[0].v)) return loop->tile == 1 ? only_store(loop->body) : nullptr;
  return std::get_if<Store>(&body[0].v);
}

} // namespace

std::vector<int> inputs_beside_result(const Kernel& kernel) {
  const Store* store = only_store(kernel.body);
  if (!store || kernel.buffers[static_cast<size_t>(store->buffer)].streamed) return {};
  std::vector<bool> fits(kernel.buffers.size()), loaded(fits.size());
  for (size_t b = 0; b < fits.size(); b++) fits[b] = kernel.buffers[b].kind == BufferKind::Input;
  auto check = [&](const ExprNode& n) {
    if (n.op != Op::Load) return;
    loaded[static_cast<size_t>(n.bits)] = true;
    if (n.args[0] != store->offset) fits[static_cast<size_t>(n.bits)] = false;
  };
  visit(store->value, check);
  visit(store->offset, check);
  std::vector<int> out;
  for (size_t b = 0; b < fits.size(); b++)
    if (fits[b] && loaded[b]) out.push_back(static_cast<int>(b));
  return out;
}

} // namespace tenon
