// Lifter: lists, and what is done with them as a whole.
#include <algorithm>

#include "executor/lifter.h"
#include "ops/call_names.h"
#include "ops/names.h"

namespace tenon::executor {

Lift Lifter::slice_of(const RowsState& rows, const Lift& index) {
  // The scan's own number picks the slices that it runs over.
  if (auto* i = index.as<Induction>()) {
    Scope& s = *scopes_.at(static_cast<size_t>(i->loop));
    if (s.is_scan && rows.stack->depth <= i->loop && !s.written.contains(rows.stack) && rows.length == s.length) {
      ValueId whole = read(*rows.stack).id;
      auto it = std::find_if(s.slices.begin(), s.slices.end(), [&](auto& p) { return p.first == whole; });
      if (it == s.slices.end()) {
        Type slice = out_.program.graph.type(whole);
        slice.sizes.erase(slice.sizes.begin());
        s.slices.emplace_back(whole, out_.program.graph.add_param(s.block, std::move(slice)));
        it = s.slices.end() - 1;
      }
      V v = b_.wrap(it->second);
      return rows.of_numbers ? item(v) : make(v);
    }
  }
  Expr at = expression(index);
  if (auto i = const_int(at); !i) at = select(lt(at, b_.pool().integer(0)), at + rows.length, at);
  else if (auto n = const_int(rows.length); n && (*i < -*n || *i >= *n)) bad_input("list index out of range");
  V v = b_.select(read(*rows.stack), 0, at);
  return rows.of_numbers ? item(v) : make(v);
}

static int64_t wrapped(int64_t i, size_t size) {
  auto n = static_cast<int64_t>(size);
  if (i < -n || i >= n) bad_input("list index out of range");
  return i < 0 ? i + n : i;
}

bool Lifter::run_list(const Node& n) {
  if (n.args.empty()) return false;
  auto arg = [&](size_t i) -> const Lift& { return of(n.args.at(i).get<ValueId>()); };
  auto* l = arg(0).as<ListP>();
  if (!l) return false;
  ListP self = *l;
  auto changes = [&] {
    if (self->depth != depth_ || self->is_fixed) refuse(fmt::format("{} on a list from outside of a loop or branch", n.op));
    self->is_written = true;
    elements(self);
  };
  if (n.op == call::len)
    return bind(n, number(self->rows ? self->rows->length : b_.pool().integer(static_cast<int64_t>(self->items.size())))), true;
  if (n.op == call::op_getitem) {
    if (self->rows) return bind(n, slice_of(*self->rows, arg(1))), true;
    auto i = const_int(expression(arg(1)));
    if (!i) refuse("an element of a list at a place that is not known");
    return bind(n, Lift(self->items[static_cast<size_t>(wrapped(*i, self->items.size()))])), true;
  }
  if (n.op == call::append) {
    Scope* inner = scopes_.empty() ? nullptr : scopes_.back();
    if (self->depth == depth_ - 1 && inner && inner->is_scan && !self->rows && !self->is_fixed) {
      for (auto& [other, v] : inner->appended)
        if (other == self) refuse("two elements appended in one round of a loop");
      if (!self->items.empty()) refuse("a list that a loop goes on with");
      inner->appended.emplace_back(self, arg(1));
      self->is_written = true;
      return bind(n, {self}), true;
    }
    changes();
    self->items.push_back(arg(1));
    return bind(n, {self}), true;
  }
  if (n.op == call::_set_item) {
    auto i = const_int(expression(arg(1)));
    if (!i) refuse("a write to a list at a place that is not known");
    changes();
    self->items[static_cast<size_t>(wrapped(*i, self->items.size()))] = arg(2);
    return bind(n, {self}), true;
  }
  if (n.op == call::add && arg(1).as<ListP>()) {
    Lifts items = elements(self);
    for (const Lift& e : elements(*arg(1).as<ListP>())) items.push_back(e);
    return bind(n, list(std::move(items))), true;
  }
  if (n.op == call::list) return bind(n, list(elements(self))), true;
  return false;
}

// torch.stack and torch.cat of slices of one tensor.
bool Lifter::stack_rows(const Node& n) {
  if (n.args.size() != 2 || (n.op != call::stack && n.op != call::cat)) return false;
  auto* l = of(n.args[0].get<ValueId>()).as<ListP>();
  if (!l || !(*l)->rows || (*l)->rows->of_numbers) return false;
  V stack = read(*(*l)->rows->stack);
  auto dim = const_int(expression(of(n.args[1].get<ValueId>())));
  auto rank = static_cast<int64_t>(stack.rank()) - (n.op == call::cat ? 1 : 0);
  if (!dim || *dim < -rank || *dim >= rank) refuse("a dim that is not known");
  int64_t at = *dim < 0 ? *dim + rank : *dim;
  std::vector<int64_t> order;
  for (int64_t d = 1; d < static_cast<int64_t>(stack.rank()); d++) order.push_back(d);
  order.insert(order.begin() + at, 0);
  V moved = at == 0 ? stack : b_.permute(stack, order);
  if (n.op == call::stack) { // a tensor of its own
    return bind(n, make(moved)), true;
  }
  std::vector<Expr> sizes = moved.sizes();
  auto k = static_cast<size_t>(at);
  sizes[k] = sizes[k] * sizes[k + 1];
  sizes.erase(sizes.begin() + at + 1);
  return bind(n, make(b_.reshape(moved, sizes))), true;
}

} // namespace tenon::executor
