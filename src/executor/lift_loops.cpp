// Lifter: loops. What is known beforehand is written out; a counted loop becomes a scan, another one a while loop.
#include "executor/lifter.h"
#include "ops/call_names.h"
#include "ops/names.h"

namespace tenon::executor {

namespace {

// Nodes that a loop may be written out to.
constexpr size_t most_unrolled = 300;

size_t size_of(const Graph& g, BlockId block) {
  size_t n = 0;
  for (NodeId id : g.block(block).nodes) {
    if (g.node(id).op != prim::Constant) n++;
    for (BlockId inner : g.node(id).blocks) n += size_of(g, inner);
  }
  return n;
}

} // namespace

// The tensors of a value that goes round a loop. Numbers are tensors meanwhile.
void Lifter::flatten(const Lift& v, std::vector<V>& out) {
  if (v.as<TensorP>() || v.as<NumberState>() || v.as<Induction>()) return out.push_back(as_tensor(v));
  if (auto* t = v.as<TupleState>()) {
    for (const Lift& e : *t->items) flatten(e, out);
    return;
  }
  if (auto* l = v.as<ListP>(); l && !(*l)->rows && !(*l)->path) {
    for (const Lift& e : (*l)->items) flatten(e, out);
    return;
  }
  if (v.as<IValue>() && v.as<IValue>()->is_none()) return;
  refuse("a value that cannot go round a loop");
}

Lift Lifter::rebuilt(const Lift& like, std::span<const V> values, size_t& next) {
  if (like.as<TensorP>()) { // what it is at the beginning may be shown by others
    Lift t = make(values[next++]);
    (*t.as<TensorP>())->is_fixed = true;
    return t;
  }
  if (like.as<NumberState>() || like.as<Induction>()) return item(values[next++]);
  auto all = [&](const Lifts& items) {
    Lifts out;
    for (const Lift& e : items) out.push_back(rebuilt(e, values, next));
    return out;
  };
  if (auto* t = like.as<TupleState>()) return tuple(all(*t->items));
  if (auto* l = like.as<ListP>()) {
    Lift made = list(all((*l)->items));
    (*made.as<ListP>())->is_fixed = true;
    return made;
  }
  return like;
}

// Rounds whose condition is known, as they come. True: the loop is over.
bool Lifter::unroll(const Node& n, Lifts& carried, Lift& go_on, int64_t& done) {
  const Block& body = script_.block(n.blocks.at(0));
  auto trip = known(of(n.args.at(0).get<ValueId>()));
  if (!trip) return false;
  // A counted loop all at once, or not at all.
  ValueId next = body.returns.at(0).get<ValueId>();
  NodeId made = script_.value(next).node;
  bool counted = made.valid() && script_.node(made).op == prim::Constant;
  size_t size = size_of(script_, n.blocks[0]);
  auto rounds = static_cast<size_t>(std::max<int64_t>(trip->to_int(), 0));
  if (counted && rounds * size > most_unrolled && rounds > 1) return false;
  for (size_t nodes = 0; done < trip->to_int(); done++, nodes += size) {
    auto k = known(go_on);
    if (!k || nodes > most_unrolled) return false;
    if (!k->to_bool()) return true;
    env_[body.params.at(0)] = number(b_.pool().integer(done));
    for (size_t i = 0; i < carried.size(); i++) env_[body.params.at(i + 1)] = carried[i];
    run_block(n.blocks[0]);
    go_on = of(next);
    Lifts now;
    for (size_t i = 0; i < carried.size(); i++) now.push_back(of(body.returns.at(i + 1).get<ValueId>()));
    carried = std::move(now);
  }
  return true;
}

void Lifter::run_loop(const Node& n) {
  Lifts carried;
  for (size_t i = 2; i < n.args.size(); i++) carried.push_back(of(n.args[i].get<ValueId>()));
  Lift go_on = of(n.args.at(1).get<ValueId>());
  int64_t done = 0;
  if (!unroll(n, carried, go_on, done)) {
    Expr trip = expression(of(n.args[0].get<ValueId>()));
    const Block& body = script_.block(n.blocks.at(0));
    NodeId made = script_.value(body.returns.at(0).get<ValueId>()).node;
    bool counted = made.valid() && script_.node(made).op == prim::Constant && known(go_on) && known(go_on)->to_bool() && done == 0;
    if (counted) run_scan(n, carried, max(trip, b_.pool().integer(0)));
    else run_while(n, carried, go_on, trip, done);
  }
  for (size_t i = 0; i < n.outputs.size(); i++) env_[n.outputs[i]] = carried.at(i);
}

// What a round changes: the values that go round, then the tensors from outside that it writes. The body is written down again, where it
// is found to write more of them.
struct Lifter::Round {
  Lifts carried;                // at its beginning
  std::vector<V> values;        // these as tensors
  std::vector<TensorP> written; // from outside
  std::vector<bool> stays;      // by carried value: the same all the time
};

Lifter::Round Lifter::first_round(const Node& n, const Lifts& carried) {
  Round r{.carried = carried, .values = {}, .written = {}, .stays = {}};
  const Block& body = script_.block(n.blocks.at(0));
  for (size_t i = 0; i < carried.size(); i++) {
    // A tensor may be the same one at the end, though written meanwhile: is_complete looks.
    r.stays.push_back(body.returns.at(i + 1) == Arg(body.params.at(i + 1)) || carried[i].as<TensorP>());
  }
  return r;
}

// The state at the beginning of a block of the loop, whose parameters are `params`.
void Lifter::enter(const Node& n, const Round& r, std::span<const V> params) {
  const Block& body = script_.block(n.blocks.at(0));
  size_t next = 0;
  for (size_t i = 0; i < r.carried.size(); i++)
    env_[body.params.at(i + 1)] = r.stays[i] ? r.carried[i] : rebuilt(r.carried[i], params, next);
  for (const TensorP& t : r.written) {
    scopes_.back()->written.try_emplace(t, *t);
    t->value = params[next++].id, t->version++;
  }
}

// What the body gives: as tensors of the types that were carried.
std::vector<V> Lifter::round_results(const Node& n, const Round& r) {
  const Block& body = script_.block(n.blocks.at(0));
  std::vector<V> out;
  for (size_t i = 0; i < r.carried.size(); i++)
    if (!r.stays[i]) {
      const Lift& v = of(body.returns.at(i + 1).get<ValueId>());
      fix(v);
      flatten(v, out);
    }
  for (const TensorP& t : r.written) out.push_back(b_.wrap(t->value));
  if (out.size() != r.values.size()) refuse("a loop whose values change their form");
  for (size_t i = 0; i < out.size(); i++) {
    if (out[i].dtype() != r.values[i].dtype()) refuse("a loop whose values change their dtype");
    if (out[i].sizes() != r.values[i].sizes()) refuse("a loop whose values change their sizes");
  }
  return out;
}

// Whether all that the body wrote goes round; else it does from now on, and the node that was begun is dropped.
bool Lifter::is_complete(const Node& n, Round& r, const std::map<TensorP, ValueId>& written, NodeId id) {
  const Block& body = script_.block(n.blocks.at(0));
  size_t before = r.written.size();
  bool stays = true;
  for (size_t i = 0; i < r.carried.size(); i++) {
    if (!r.stays[i] || body.returns.at(i + 1) == Arg(body.params.at(i + 1))) continue;
    auto* t = of(body.returns.at(i + 1).get<ValueId>()).as<TensorP>();
    if (!t || *t != *r.carried[i].as<TensorP>()) r.stays[i] = stays = false;
  }
  for (auto& [t, v] : written)
    if (std::find(r.written.begin(), r.written.end(), t) == r.written.end()) r.written.push_back(t);
  if (stays && r.written.size() == before) return true;
  std::erase(out_.program.graph.block(b_.block()).nodes, id);
  return false;
}

void Lifter::finish(const Round& r, Lifts& carried, std::span<const V> results) {
  size_t next = 0;
  for (size_t i = 0; i < carried.size(); i++)
    if (!r.stays[i]) carried[i] = rebuilt(r.carried[i], results, next);
  for (const TensorP& t : r.written) write(t, results[next++]);
}

void Lifter::run_scan(const Node& n, Lifts& carried, Expr trip) {
  Graph& g = out_.program.graph;
  Round r = first_round(n, carried);
  for (;;) {
    r.values.clear();
    for (size_t i = 0; i < carried.size(); i++)
      if (!r.stays[i]) fix(carried[i]), flatten(carried[i], r.values);
    for (const TensorP& t : r.written) r.values.push_back(b_.wrap(t->value));
    NodeId id = g.append(b_.block(), {.op = prim::Scan, .def = find_op(prim::Scan), .origin = b_.origin()}, {});
    BlockId outer = b_.block();
    Scope scope{.is_scan = true, .length = trip, .block = g.add_block(id)};
    b_.set_block(scope.block);
    std::vector<V> params, results, stacks;
    for (V v : r.values) params.push_back(b_.wrap(g.add_param(scope.block, Type::tensor(v.dtype(), v.sizes()))));
    scopes_.push_back(&scope), depth_++;
    enter(n, r, params);
    env_[script_.block(n.blocks[0]).params.at(0)] = {Induction{depth_ - 1}};
    run_block(n.blocks[0]);
    results = round_results(n, r);
    std::vector<bool> numbers;
    for (auto& [l, v] : scope.appended) {
      if (!v.as<TensorP>() && !v.as<NumberState>() && !v.as<Induction>()) refuse("a list of something else than tensors");
      numbers.push_back(!v.as<TensorP>());
      stacks.push_back(as_tensor(v));
    }
    if (scope.slices.empty()) expression({Induction{depth_ - 1}}); // something to run over
    auto written = leave(scope);
    b_.set_block(outer);
    if (!is_complete(n, r, written, id)) continue;
    close_scan(id, scope, r, results, stacks);
    std::vector<V> after;
    for (ValueId v : g.node(id).outputs) after.push_back(b_.wrap(v));
    finish(r, carried, after);
    for (size_t i = 0; i < stacks.size(); i++) {
      Lift stack = make(after[results.size() + i]);
      (*stack.as<TensorP>())->is_fixed = true;
      scope.appended[i].first->rows = std::make_shared<RowsState>(RowsState{*stack.as<TensorP>(), trip, numbers[i]});
    }
    return;
  }
}

// The node's arguments and outputs, once its body is there. It runs over 0, 1, 2 ... where its number is asked for.
void Lifter::close_scan(NodeId id, const Scope& scope, const Round& r, const std::vector<V>& results, const std::vector<V>& stacks) {
  Graph& g = out_.program.graph;
  std::erase(g.block(b_.block()).nodes, id); // what it runs over comes before it
  ArgList xs;
  for (auto& [whole, slice] : scope.slices) xs.emplace_back(whole.valid() ? Arg(whole) : Arg(b_.arange(scope.length, DType::I64)));
  g.block(b_.block()).nodes.push_back(id);
  g.node(id).args = {ArgList(r.values.begin(), r.values.end()), xs, false, false};
  ArgList returns(results.begin(), results.end());
  for (V v : results) g.add_output(id, Type::tensor(v.dtype(), v.sizes()));
  for (V v : stacks) {
    returns.emplace_back(v);
    std::vector<Expr> sizes = v.sizes();
    sizes.insert(sizes.begin(), scope.length);
    g.add_output(id, Type::tensor(v.dtype(), sizes));
  }
  g.block(scope.block).returns = std::move(returns);
}

void Lifter::run_while(const Node& n, Lifts& carried, const Lift& go_on, Expr trip, int64_t done) {
  Graph& g = out_.program.graph;
  Round r = first_round(n, carried);
  auto flag = [&](const Lift& v) {
    Expr e = expression(v);
    return b_.scalar(e->type == DType::Bool ? e : ne(e, constant_like(0, e)), DType::Bool);
  };
  bool counts = const_int(trip).value_or(0) < INT64_MAX;
  for (;;) {
    r.values = {};
    for (size_t i = 0; i < carried.size(); i++)
      if (!r.stays[i]) fix(carried[i]), flatten(carried[i], r.values);
    for (const TensorP& t : r.written) r.values.push_back(b_.wrap(t->value));
    Expr at = b_.pool().integer(done);
    std::vector<V> initial = r.values;
    Lift first = number(counts ? logical_and(lt(at, trip), expression(go_on)) : expression(go_on));
    initial.push_back(flag(first)), initial.push_back(b_.scalar(at, DType::I64));
    NodeId id = g.append(
        b_.block(),
        {.op = prim::While, .def = find_op(prim::While), .args = {ArgList(initial.begin(), initial.end())}, .origin = b_.origin()}, {});
    BlockId outer = b_.block(), test = g.add_block(id);
    for (V v : initial) g.add_param(test, Type::tensor(v.dtype(), v.sizes()));
    g.block(test).returns = {Arg(g.block(test).params[initial.size() - 2])};
    Scope scope{.block = g.add_block(id)};
    b_.set_block(scope.block);
    std::vector<V> params;
    for (V v : initial) params.push_back(b_.wrap(g.add_param(scope.block, Type::tensor(v.dtype(), v.sizes()))));
    scopes_.push_back(&scope), depth_++;
    enter(n, r, params);
    Lift count = item(params.back());
    env_[script_.block(n.blocks[0]).params.at(0)] = count;
    run_block(n.blocks[0]);
    std::vector<V> results = round_results(n, r);
    Expr next = expression(count) + 1, again = expression(of(script_.block(n.blocks[0]).returns.at(0).get<ValueId>()));
    if (again->type != DType::Bool) again = ne(again, constant_like(0, again));
    results.push_back(flag(number(counts ? logical_and(again, lt(next, trip)) : again)));
    results.push_back(b_.scalar(next, DType::I64));
    auto written = leave(scope);
    b_.set_block(outer);
    if (!is_complete(n, r, written, id)) continue;
    g.block(scope.block).returns = ArgList(results.begin(), results.end());
    std::vector<V> after;
    for (V v : initial) after.push_back(b_.wrap(g.add_output(id, Type::tensor(v.dtype(), v.sizes()))));
    return finish(r, carried, after);
  }
}

} // namespace tenon::executor
