// StepEmitter: signature and buffers. The steps are in the other emit_*.cpp.
#include <algorithm>
#include <climits>
#include <unordered_set>

#include "backend/affine.h"
#include "compile/step_emitter.h"
#include "expr/eval.h"
#include "ops/names.h"

namespace tenon {

// ---- signature

InputSpec StepEmitter::input_spec(const ProgramInput& in, bool is_fixed) {
  InputSpec s{.name = in.name};
  if (is_fixed) {
    s.is_fixed = true;
    s.fixed = to_expr(g_.pool(), in.fixed)->number();
    return s;
  }
  const Type& t = g_.type(in.value);
  if (!t.is_tensor()) {
    s.is_number = true;
    s.dtype = t.kind == TypeKind::Float ? DType::F64 : DType::I64;
    if (t.value && t.value->op == Op::Symbol) s.number_slot = slots_.bind_checked(t.value, 0);
    return s;
  }
  s.dtype = t.dtype;
  for (Expr size : t.sizes) {
    InputDim d{.text = to_string(size)};
    if (size->op == Op::Symbol) {
      d.kind = slots_.is_bound(size) ? InputDim::Kind::Equal : InputDim::Kind::Bind;
      d.slot = slots_.bind(size, 0);
      d.lo = std::max<int64_t>(accepted_range(*size).lo, 0);
      d.hi = size->hi;
    }
    s.dims.push_back(d);
  }
  s.buffer = buffer_of(in.value);
  return s;
}

void StepEmitter::add_inputs() {
  int position = 0;
  for (const ProgramInput& in : program_.inputs) {
    if (in.value.valid()) {
      bool user = in.kind == InputKind::User;
      const Type& t = g_.type(in.value);
      if (t.is_tensor()) {
        int b = new_buffer(Type::tensor(t.dtype, {}), user ? BufferPlace::Input : BufferPlace::State, in.name);
        plan_.buffers[static_cast<size_t>(b)].index = user ? position : static_cast<int>(plan_.initial_state.size());
        buffers_[in.value] = b;
        if (!user) plan_.initial_state.push_back(program_.weights.at(in.target)), plan_.state_names.push_back(in.target);
      }
      if (user) plan_.inputs.push_back(input_spec(in, false)), position++;
    } else if (in.kind == InputKind::Fixed && to_expr(g_.pool(), in.fixed)) plan_.inputs.push_back(input_spec(in, true)), position++;
  }
  solve_sizes();
  // Sizes that are expressions are known only now that all symbols are bound.
  size_t user = 0;
  for (auto& in : program_.inputs) {
    if (!in.value.valid()) continue;
    const Type& t = g_.type(in.value);
    if (t.is_tensor()) plan_.buffers[static_cast<size_t>(buffers_.at(in.value))].sizes = slots_of(t.sizes);
    if (in.kind != InputKind::User) continue;
    while (plan_.inputs[user].is_fixed) user++;
    InputSpec& s = plan_.inputs[user++];
    for (size_t d = 0; d < s.dims.size(); d++)
      if (s.dims[d].slot < 0) s.dims[d].slot = slot(t.sizes[d]), s.dims[d].equal = slots_.exactly(t.sizes[d]);
  }
}

// Where no size is just s, one that is 4*s + 1 gives its value; that the division leaves no rest is checked when bound.
bool StepEmitter::solve_size(Expr size, InputDim& dim) {
  std::unordered_set<const ExprNode*> unknown;
  visit(size, [&](const ExprNode& n) {
    if (n.op == Op::Symbol && !slots_.is_bound(Expr(&n))) unknown.insert(&n);
  });
  if (unknown.size() != 1) return false;
  Expr symbol(*unknown.begin());
  ExprPool& pool = g_.pool();
  auto at = [&](int64_t v) {
    Substitution s;
    s.set(symbol, pool.integer(v));
    return s.apply(size);
  };
  Expr rest = at(0);
  auto factor = const_int(at(1) - rest);
  if (!factor || *factor <= 0) return false;
  Expr whole = pool.symbol(pool.fresh_symbol("size"));
  dim.kind = InputDim::Kind::Bind;
  dim.slot = slots_.bind(whole, 0);
  int64_t least = std::max<int64_t>(accepted_range(*symbol).lo, 0);
  if (auto c = const_int(rest)) {
    dim.lo = *factor * least + *c;
    if (symbol->hi < INT64_MAX / *factor - std::abs(*c)) dim.hi = *factor * symbol->hi + *c;
  }
  slots_.define(symbol, floor_div(whole - rest, pool.integer(*factor)));
  dim.equal = slots_.exactly(size);
  return true;
}

void StepEmitter::solve_sizes() {
  for (bool more = true; more;) {
    more = false;
    size_t user = 0;
    for (auto& in : program_.inputs) {
      if (!in.value.valid() || in.kind != InputKind::User) continue;
      while (plan_.inputs[user].is_fixed) user++;
      InputSpec& s = plan_.inputs[user++];
      for (size_t d = 0; d < s.dims.size(); d++)
        if (s.dims[d].slot < 0) more |= solve_size(g_.type(in.value).sizes[d], s.dims[d]);
    }
  }
}

// What a buffer or an input becomes is written there when all steps are done.
void StepEmitter::add_mutation(const ProgramOutput& spec, ValueId v) {
  OutputSpec o{.buffer = buffer_of(v), .sizes = {}, .dtype = g_.type(v).dtype, .is_state = spec.writes_state()};
  for (auto& in : program_.inputs) {
    if (!in.value.valid()) continue;
    int index = plan_.buffers[static_cast<size_t>(buffers_.contains(in.value) ? buffers_.at(in.value) : 0)].index;
    if (o.is_state && in.target == spec.target && in.kind != InputKind::User) o.state = index;
    if (!o.is_state && in.name == spec.target && in.kind == InputKind::User) o.input = index;
  }
  require(o.state >= 0 || o.input >= 0, "{} is changed and is not an input", spec.target);
  BufferPlace place = plan_.buffers[static_cast<size_t>(o.buffer)].place;
  if (place == BufferPlace::State || place == BufferPlace::Input) { // an old value, which a new one may replace first
    int copy = new_buffer(g_.type(v), BufferPlace::Arena, spec.target);
    copy_to(v, copy);
    o.buffer = copy;
  }
  plan_.outputs.push_back(o);
}

// A result's sizes as the caller sees them. The graph returns them in the order of memory, or a value that lies in memory so.
static std::vector<Expr> result_sizes(const Type& t, const ProgramOutput& spec) {
  std::vector<Expr> sizes = t.sizes;
  for (size_t k = 0; t.strides.empty() && k < spec.order.size(); k++) sizes[static_cast<size_t>(spec.order[k])] = t.sizes[k];
  return sizes;
}

// Of a view that is returned, what it is of, unless that is a result itself.
int StepEmitter::unviewed(int buffer) const {
  auto at = [&](int b) -> const PlanBuffer& { return plan_.buffers[static_cast<size_t>(b)]; };
  for (auto v = views_.find(buffer); v != views_.end(); v = views_.find(buffer)) {
    if (at(v->second).dtype != at(buffer).dtype || at(v->second).place == BufferPlace::Output) break;
    buffer = v->second;
  }
  return buffer;
}

void StepEmitter::add_outputs() {
  auto& returns = g_.block(g_.top()).returns;
  int position = 0;
  for (size_t i = 0; i < returns.size(); i++) {
    const ProgramOutput& spec = program_.outputs[i];
    if (spec.is_mutation()) {
      add_mutation(spec, returns[i].get<ValueId>());
      continue;
    }
    if (!spec.is_returned() || (!returns[i].is<ValueId>() && !to_expr(g_.pool(), returns[i]))) continue;
    int b = returns[i].is<ValueId>() && g_.type(returns[i].get<ValueId>()).is_tensor() ? buffer_of(returns[i].get<ValueId>())
                                                                                       : scalar_buffer(returns[i]);
    b = unviewed(b);
    PlanBuffer* p = &plan_.buffers[static_cast<size_t>(b)];
    if (p->place == BufferPlace::Arena) p->place = BufferPlace::Output;
    else if (p->place != BufferPlace::Dynamic) {
      int copy = static_cast<int>(plan_.buffers.size());
      PlanBuffer made = *p;
      made.place = BufferPlace::Output;
      plan_.buffers.push_back(std::move(made));
      append(NodeId{}, CopyStep{b, copy});
      b = copy;
    }
    OutputSpec o{.buffer = b, .dtype = plan_.buffers[static_cast<size_t>(b)].dtype, .returned_as = position++};
    if (returns[i].is<ValueId>()) o.sizes = slots_of(result_sizes(g_.type(returns[i].get<ValueId>()), spec)), o.order = spec.order;
    plan_.outputs.push_back(std::move(o));
  }
}

// ---- buffers

std::vector<Slot> StepEmitter::slots_of(const std::vector<Expr>& sizes) {
  std::vector<Slot> out;
  for (Expr e : sizes) out.push_back(exact_slot(e));
  return out;
}

std::vector<Slot> StepEmitter::scalars_of(const KernelUse& use) {
  for (Expr e : use.in_code) in_code_.insert(e.get());
  std::vector<Slot> out;
  for (Expr e : use.scalars) out.push_back(slot(e));
  return out;
}

// Of each dimension, whether all that varies of it is among the numbers that kernels get.
void StepEmitter::note_sizes_in_code() {
  size_t user = 0;
  for (auto& in : program_.inputs) {
    if (!in.value.valid() || in.kind != InputKind::User) continue;
    while (plan_.inputs[user].is_fixed) user++;
    InputSpec& s = plan_.inputs[user++];
    for (size_t d = 0; d < s.dims.size(); d++) {
      bool in_code = !g_.type(in.value).sizes[d]->is_const();
      visit(g_.type(in.value).sizes[d], [&](const ExprNode& n) { in_code &= n.op != Op::Symbol || in_code_.contains(&n); });
      s.dims[d].in_code = in_code;
    }
  }
}

int StepEmitter::new_buffer(const Type& t, BufferPlace place, const std::string& name) {
  PlanBuffer b{.name = name, .dtype = t.dtype, .sizes = slots_of(t.sizes), .place = place, .is_conditional = conditional_ > 0};
  bool dynamic = false;
  for (Expr e : t.sizes) dynamic |= slots_.stage_of(e) > 0;
  if (place == BufferPlace::Arena) {
    if (dynamic) b.place = BufferPlace::Dynamic;
    else {
      Expr bytes = g_.pool().integer(static_cast<int64_t>(size_of(t.dtype)));
      for (Expr e : t.sizes) bytes = bytes * max(e, g_.pool().integer(0));
      b.bytes = slot(bytes);
    }
  }
  plan_.buffers.push_back(std::move(b));
  return static_cast<int>(plan_.buffers.size() - 1);
}

int StepEmitter::buffer_of(ValueId v) {
  if (auto it = buffers_.find(v); it != buffers_.end()) return it->second;
  const Tensor* constant = g_.constant(v);
  require(constant != nullptr, "value %{} has no buffer", v.index);
  int b = new_buffer(g_.type(v), BufferPlace::Constant, g_.value(v).name);
  plan_.buffers[static_cast<size_t>(b)].index = static_cast<int>(plan_.constants.size());
  plan_.constants.push_back(constant->contiguous());
  return buffers_[v] = b;
}

int StepEmitter::define(const Type& type, const std::string& name) {
  int b = new_buffer(type, BufferPlace::Arena, name);
  if (plan_.buffers[static_cast<size_t>(b)].place == BufferPlace::Dynamic) dynamic_.push_back(b);
  return b;
}

// The whole's memory is there from its first part on.
void StepEmitter::define_part(ValueId v, const JoinedPart& part) {
  if (!buffers_.contains(part.whole)) define(part.whole);
  const Type& t = g_.type(v);
  buffers_[v] = static_cast<int>(plan_.buffers.size());
  plan_.buffers.push_back({.name = g_.value(v).name,
                           .dtype = t.dtype,
                           .sizes = slots_of(t.sizes),
                           .place = BufferPlace::Part,
                           .index = buffers_.at(part.whole),
                           .offset = slot(part.offset * static_cast<double>(size_of(t.dtype)))});
}

// What a step's result is, under another type alone; else no value.
static ValueId same_bytes(const Graph& g, NodeId id) {
  const Node& n = g.node(id);
  if (n.op == edge::view_as_real || n.op == own::as_complex) return n.args[0].get<ValueId>();
  if (n.op != own::loops || n.outputs.size() != 1 || g.block(n.blocks[0]).nodes.size() != 1) return {};
  const Node& view = g.node(g.block(n.blocks[0]).nodes[0]);
  if (view.op != edge::view) return {};
  auto from = view.args[0].get<ValueId>();
  return g.type(from).strides.empty() && g.type(n.outputs[0]).strides.empty() ? from : ValueId{};
}

// Complex numbers and their parts are the same bytes, and so is a tensor under other sizes. Where these lie is known before the steps run,
// or they are copied.
bool StepEmitter::define_in_place(NodeId id) {
  ValueId from = same_bytes(g_, id);
  if (!from.valid()) return false;
  ValueId to = g_.node(id).outputs[0];
  if (auto part = parts_.find(from); part != parts_.end() && part->second.whole == to) return true;
  if (g_.node(id).op == own::as_complex || parts_.contains(to) || bound_.contains(to)) return false;
  const PlanBuffer* whole = &plan_.buffers[static_cast<size_t>(buffer_of(from))];
  while (whole->place == BufferPlace::Part) whole = &plan_.buffers[static_cast<size_t>(whole->index)];
  if (whole->place == BufferPlace::Dynamic || whole->place == BufferPlace::Alias) return false;
  define_part(to, {from, g_.pool().integer(0)});
  views_.emplace(buffers_.at(to), buffers_.at(from));
  return true;
}

void StepEmitter::define(ValueId v) {
  if (auto part = parts_.find(v); part != parts_.end()) return define_part(v, part->second);
  auto bound = bound_.find(v);
  buffers_[v] = bound != bound_.end() ? bound->second : define(g_.type(v), g_.value(v).name);
}

} // namespace tenon
