// Dim orders of strides, which may be expressions.
#include "ir/dim_order.h"

#include <algorithm>
#include <numeric>

namespace tenon {

namespace {

// torch records strides over max(1, s): of an empty tensor they are as of one element. Which order that is, the size itself says.
Expr without_bounds(Expr e) {
  Substitution s;
  visit(e, [&](const ExprNode& n) {
    if (n.op != Op::Max || n.args.size() != 2) return;
    for (size_t i : {0, 1})
      if (is_const_int(n.args[i], 1)) s.set(Expr(&n), n.args[1 - i]);
  });
  return s.apply(e);
}

std::vector<int> of_longer_dims(std::vector<int> order, const std::vector<Expr>& sizes) {
  std::erase_if(order, [&](int d) { return is_const_int(sizes[static_cast<size_t>(d)], 1); });
  return order;
}

} // namespace

std::vector<int> dim_order(const Type& t) {
  size_t rank = t.rank();
  if (t.strides.size() != rank || rank == 0) return {};
  std::vector<Expr> sizes, strides;
  for (Expr e : t.sizes) sizes.push_back(without_bounds(e));
  for (Expr e : t.strides) strides.push_back(without_bounds(e));
  std::vector<int> order; // innermost first
  std::vector<bool> done(rank, false);
  Expr expected = t.sizes[0]->pool->integer(1);
  // Those of size 1 first: what stands outside of them has the same stride.
  auto take = [&](bool of_one) {
    for (size_t d = rank; d-- > 0;) {
      if (done[d] || strides[d] != expected || is_const_int(sizes[d], 1) != of_one) continue;
      order.push_back(static_cast<int>(d)), done[d] = true, expected = expected * sizes[d];
      return true;
    }
    return false;
  };
  while (take(true) || take(false)) {}
  for (size_t d = rank; d-- > 0;) {
    if (done[d]) continue;
    if (!is_const_int(sizes[d], 1)) return {};
    order.push_back(static_cast<int>(d));
  }
  std::reverse(order.begin(), order.end());
  std::vector<int> longer = of_longer_dims(order, sizes);
  return std::is_sorted(longer.begin(), longer.end()) ? std::vector<int>() : order;
}

bool lies_in_order(const Type& t, const std::vector<int>& order) {
  std::vector<int> own = dim_order(t);
  return !own.empty() && of_longer_dims(own, t.sizes) == of_longer_dims(order, t.sizes);
}

std::vector<Expr> strides_in_order(const std::vector<Expr>& sizes, const std::vector<int>& order) {
  std::vector<Expr> strides(sizes.size());
  if (sizes.empty()) return strides;
  Expr stride = sizes[0]->pool->integer(1);
  for (size_t i = order.size(); i-- > 0;) {
    auto d = static_cast<size_t>(order[i]);
    strides[d] = stride, stride = stride * sizes[d];
  }
  return strides;
}

std::vector<int> order_of_format(std::string_view format, size_t rank) {
  if (!(format == "channels_last" && rank == 4) && !(format == "channels_last_3d" && rank == 5)) return {};
  std::vector<int> order(rank);
  std::iota(order.begin() + 1, order.end() - 1, 2);
  order.back() = 1;
  return order;
}

} // namespace tenon
