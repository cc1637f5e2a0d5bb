// Which sizes a kernel would be other code without: those of its inner loops, and those it divides by. How often its outermost loop runs is
// the caller's business, as is where the elements end that it takes in equal chunks, or the rows, as many as a block holds; a stride is a
// number like another.
#include <algorithm>
#include <unordered_set>

#include "loops/from_region.h"
#include "loops/region_draft.h"

namespace tenon {

namespace {

constexpr int64_t least_fixed_chunk = 256; // elements: vectors that are not full are few

/// Whether the extent is that of a chunk of `whole` elements, of which the kernel's outermost loop takes one after the other.
bool is_chunk(const Kernel& k, Expr extent) {
  if (extent->op != Op::Min) return false;
  for (int side : {0, 1}) {
    auto chunk = const_int(extent->args[static_cast<size_t>(side)]);
    if (!chunk || *chunk < least_fixed_chunk) continue;
    ExprPool& pool = *extent->pool;
    Substitution first;
    first.set(k.parallel, pool.integer(0));
    Expr rest = extent->args[static_cast<size_t>(1 - side)], whole = first.apply(rest);
    return rest == whole - k.parallel * pool.integer(*chunk) &&
           k.parallel->args[0] == floor_div(whole + pool.integer(*chunk - 1), pool.integer(*chunk));
  }
  return false;
}

/// As many rows as a block holds, which depends on how long they are; the last block has fewer. Empty: the extent is another.
Expr rows_of_block(const Kernel& k, Expr extent) {
  auto moves = [&](const Expr& e) { return contains(e, [&](const ExprNode& n) { return &n == k.parallel.get(); }); };
  if (extent->op != Op::Min || extent->args.size() != 2 || moves(extent->args[0]) == moves(extent->args[1])) return {};
  Expr rows = extent->args[moves(extent->args[0])];
  return const_int(rows) ? Expr() : rows;
}

} // namespace

std::vector<Expr> sizes_in_code(const Kernel& kernel) {
  std::vector<Expr> out;
  auto add = [&](auto& self, Expr e) -> void {
    if (e->op == Op::Symbol && std::ranges::find(out, e) == out.end()) out.push_back(e);
    if (e->op == Op::Axis) return;
    for (Expr a : e->args) self(self, a);
  };
  std::unordered_set<Expr> seen{kernel.parallel};
  auto look = [&](auto& self, Expr e) -> void {
    if (!e || !seen.insert(e).second) return;
    if (e->op == Op::FloorDiv || e->op == Op::Mod) add(add, e->args[1]);
    if (e->op != Op::Axis)
      for (Expr a : e->args) self(self, a);
    else if (Expr rows = rows_of_block(kernel, e->args[0])) add(add, rows);
    else if (!is_chunk(kernel, e->args[0])) add(add, e->args[0]);
  };
  for_each_expr(kernel.body, [&](Expr e) { look(look, e); });
  return out;
}

} // namespace tenon
