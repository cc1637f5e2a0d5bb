// Lifter: arguments become parameters, results and written arguments outputs.
#include "executor/lift.h"

#include "builtins/dict.h"
#include "executor/lifter.h"

namespace tenon::executor {

using Tag = IValue::Tag;

void Lifter::refuse(const std::string& what) const { unsupported("{}", what); }

Expr Lifter::size_symbol(int64_t size) {
  ExprPool& pool = b_.pool();
  if (sizes_ == Sizes::Known || size < 2) return pool.integer(size);
  auto [it, fresh] = symbols_.try_emplace(size);
  if (fresh) it->second = pool.symbol(fmt::format("s{}", symbols_.size() - 1), DType::I64, 2, INT64_MAX);
  return it->second;
}

Lift Lifter::tensor_argument(const Tensor& t, const std::vector<uint32_t>& path) {
  std::vector<Expr> sizes;
  for (int64_t s : t.sizes()) sizes.push_back(size_symbol(s));
  Graph& g = out_.program.graph;
  ValueId p = g.add_param(g.top(), Type::tensor(t.dtype(), std::move(sizes)));
  out_.program.inputs.push_back({.name = fmt::format("arg{}", out_.leaves.size()), .target = {}, .value = p});
  Lift made = make(b_.wrap(p));
  (*made.as<TensorP>())->leaf = out_.leaves.size();
  (*made.as<TensorP>())->is_row_major = t.is_contiguous(); // plans are for arguments that agree in it
  arguments_.push_back(*made.as<TensorP>());
  out_.leaves.push_back({path});
  return made;
}

Lift Lifter::number_argument(const IValue& v, const std::vector<uint32_t>& path) {
  if (sizes_ == Sizes::Known || v.is(Tag::Bool)) return lifted(v);
  bool real = v.is(Tag::Double);
  Expr symbol = b_.pool().symbol(fmt::format("n{}", out_.leaves.size()), real ? DType::F64 : DType::I64);
  Graph& g = out_.program.graph;
  ValueId p = g.add_param(g.top(), Type::scalar(real ? TypeKind::Float : TypeKind::Int, symbol));
  out_.program.inputs.push_back({.name = fmt::format("arg{}", out_.leaves.size()), .target = {}, .value = p});
  arguments_.push_back(nullptr);
  out_.leaves.push_back({path, true});
  return number(symbol);
}

Lift Lifter::argument(const IValue& v, const std::vector<uint32_t>& path) {
  switch (v.tag()) {
  case Tag::Tensor: return tensor_argument(v.to_tensor(), path);
  case Tag::Int:
  case Tag::Double:
  case Tag::Bool: return number_argument(v, path);
  case Tag::List:
  case Tag::Tuple: {
    Lifts items;
    std::vector<uint32_t> inner = path;
    inner.push_back(0);
    for (const IValue& e : v.is(Tag::List) ? v.to_list() : v.to_tuple()) items.push_back(argument(e, inner)), inner.back()++;
    if (v.is(Tag::Tuple)) return tuple(std::move(items));
    Lift made = list(std::move(items));
    (*made.as<ListP>())->path = path, (*made.as<ListP>())->element = v.list_box().element;
    return made;
  }
  case Tag::None:
  case Tag::String:
  case Tag::Device: return {v};
  default: return {Opaque{path}};
  }
}

size_t Lifter::output(ValueId v) {
  auto [it, fresh] = outputs_.try_emplace(v, out_.program.outputs.size());
  if (fresh) {
    out_.program.outputs.push_back({});
    out_.program.graph.block(out_.program.graph.top()).returns.emplace_back(v);
  }
  return it->second;
}

Recipe Lifter::recipe(const Lift& v) {
  using Kind = Recipe::Kind;
  if (auto* t = v.as<TensorP>()) {
    if ((*t)->leaf) return {.kind = Kind::Argument, .path = out_.leaves.at(*(*t)->leaf).path};
    if (root_of(**t).leaf) refuse("a result that is a view of an argument");
    return {.kind = Kind::Tensor, .output = output(read(**t).id)};
  }
  if (auto k = known(v); k && !v.as<ListP>()) return {.kind = Kind::Constant, .constant = *k};
  if (auto* o = v.as<Opaque>()) return {.kind = Kind::Argument, .path = o->path};
  if (auto* l = v.as<ListP>()) {
    if ((*l)->path) {
      if ((*l)->is_written) refuse("a list of the caller that is written");
      return {.kind = Kind::Argument, .path = *(*l)->path};
    }
    if ((*l)->rows && !(*l)->rows->of_numbers) return {.kind = Kind::Rows, .output = output(read(*(*l)->rows->stack).id)};
    Recipe r{.kind = Kind::List};
    for (const Lift& e : elements(*l)) r.items.push_back(recipe(e));
    return r;
  }
  if (auto* t = v.as<TupleState>()) {
    Recipe r{.kind = Kind::Tuple};
    for (const Lift& e : *t->items) r.items.push_back(recipe(e));
    return r;
  }
  if (v.as<Undefined>()) return {};
  Expr e = expression(v);
  Kind kind = e->type == DType::Bool ? Kind::Bool : is_float(e->type) ? Kind::Float : Kind::Int;
  return {.kind = kind, .output = output(as_tensor(v).id)};
}

// Results that show each other's memory, but for a tensor that is there twice.
static void refuse_shared(const Lift& v, std::map<const TensorState*, const TensorState*>& seen) {
  if (auto* t = v.as<TensorP>()) {
    auto [it, fresh] = seen.try_emplace(&root_of(**t), t->get());
    if (!fresh && it->second != t->get()) unsupported("results that are views of one tensor");
  } else if (auto* l = v.as<ListP>()) {
    for (const Lift& e : (*l)->items) refuse_shared(e, seen);
  } else if (auto* t = v.as<TupleState>())
    for (const Lift& e : *t->items) refuse_shared(e, seen);
}

void Lifter::add_writes() {
  Graph& g = out_.program.graph;
  for (size_t i = 0; i < arguments_.size(); i++) {
    if (!arguments_[i] || arguments_[i]->version == 0) continue;
    out_.program.outputs.push_back({.kind = OutputKind::InputMutation, .target = out_.program.inputs[i].name});
    g.block(g.top()).returns.emplace_back(arguments_[i]->value);
    out_.writes_arguments = true;
    out_.row_major.push_back(i);
  }
  if (has_writes_) out_.row_major.insert(out_.row_major.end(), viewed_.begin(), viewed_.end());
}

Lifted Lifter::run(std::span<const IValue> args) {
  const Block& top = script_.block(script_.top());
  require_input(args.size() == top.params.size(), "{} arguments for {} inputs", args.size(), top.params.size());
  for (uint32_t i = 0; i < args.size(); i++) env_[top.params[i]] = argument(args[i], {i});
  run_block(script_.top());
  std::map<const TensorState*, const TensorState*> seen;
  for (const Arg& r : top.returns) refuse_shared(of(r.get<ValueId>()), seen);
  for (const Arg& r : top.returns) out_.results.push_back(recipe(of(r.get<ValueId>())));
  for (auto& l : arguments_)
    if (l && l->version > 0 && seen.contains(l.get()) && seen.at(l.get()) != l.get()) refuse("a result that is a view of an argument");
  add_writes();
  return std::move(out_);
}

Lifted lift(const Graph& graph, std::span<const IValue> args, Sizes sizes) { return Lifter(graph, sizes).run(args); }

} // namespace tenon::executor
