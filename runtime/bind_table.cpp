#include "runtime/bind_table.h"

#include <algorithm>
#include <map>

#include "runtime/conv_chain.h"

namespace tenon {

namespace {

// Steps without what tells them apart but does not matter to plans of memory and launches: which buffers, which weights.

MatmulStep alike(MatmulStep s) {
  s.a = 0, s.b = s.b < 0 ? -1 : 0, s.c = s.c < 0 ? -1 : 0, s.packed = s.packed < 0 ? -1 : 0, s.later = s.later < 0 ? -1 : 0;
  s.a_offset = s.b_offset = -1;
  s.number = 0, s.epilogue = {};
  return s;
}

ConvStep alike(ConvStep s) {
  s.input = 0, s.output = s.output < 0 ? -1 : 0, s.weight = s.weight < 0 ? -1 : 0;
  s.packed = s.packed < 0 ? -1 : 0, s.packed_windows = s.packed_windows < 0 ? -1 : 0;
  s.number = 0, s.epilogue = {};
  return s;
}

AttentionStep alike(AttentionStep s, const Plan& plan) {
  for (AttentionStep::Operand* o : {&s.q, &s.k, &s.v}) {
    DType type = plan.buffers[static_cast<size_t>(o->buffer)].dtype;
    auto first = std::ranges::find(plan.buffers, type, &PlanBuffer::dtype);
    o->buffer = static_cast<int>(first - plan.buffers.begin()), o->offset = -1;
  }
  s.score = s.finish = {};
  return s;
}

template <class F> void for_each_slot(const MatmulStep& s, const F& f) {
  for (Slot x : {s.m, s.n, s.k, s.a_row, s.a_k, s.b_k, s.b_n, s.c_row}) f(x);
  for (auto* pair : {&s.batch, &s.a_batch, &s.b_batch, &s.c_batch}) f((*pair)[0]), f((*pair)[1]);
}
template <class F> void for_each_slot(const ConvStep& s, const F& f) {
  for (Slot x : {s.batch, s.in_pixel, s.in_batch, s.out_pixel, s.out_batch}) f(x);
  for (int d = 0; d < 3; d++) f(s.in[d]), f(s.out[d]);
}
template <class F> void for_each_slot(const AttentionStep& s, const F& f) {
  for (Slot x : {s.rows, s.keys, s.depth, s.columns, s.upper, s.lower}) f(x);
  for (Slot x : s.digits) f(x);
  for (auto* o : {&s.q, &s.k, &s.v}) {
    f(o->row), f(o->column);
    for (Slot x : o->batch) f(x);
  }
}

template <class T> int number_of(std::vector<T>& all, T value) {
  auto at = std::ranges::find(all, value);
  if (at == all.end()) at = all.insert(at, std::move(value));
  return static_cast<int>(at - all.begin());
}

} // namespace

void BindTable::add(const Plan& plan, const Step& step) {
  if (step.waits_for > 0) return waiting[static_cast<size_t>(step.waits_for)].push_back(&step);
  if (auto* m = std::get_if<MatmulStep>(&step.run)) matmul_of[static_cast<size_t>(m->number)] = number_of(matmuls, alike(*m));
  if (auto* c = std::get_if<ConvStep>(&step.run)) conv_of[static_cast<size_t>(c->number)] = number_of(convs, alike(*c));
  if (auto* a = std::get_if<AttentionStep>(&step.run)) number_of(attentions, alike(*a, plan));
  if (auto* k = std::get_if<KernelStep>(&step.run); k && k->scratch_bytes >= 0) number_of(kernel_scratch, k->scratch_bytes);
}

void BindTable::find_free_numbers(const Plan& plan) {
  std::vector<bool> is_read(plan.sizes.initial.size()); // by binding, or to compute what that reads
  auto read = [&](Slot s) {
    if (s >= 0) is_read[static_cast<size_t>(s)] = true;
  };
  std::ranges::for_each(sizes, read);
  std::ranges::for_each(kernel_scratch, read);
  for (const MatmulStep& s : matmuls) for_each_slot(s, read);
  for (const ConvStep& s : convs) for_each_slot(s, read);
  for (const AttentionStep& s : attentions) for_each_slot(s, read);
  for (const OutputSpec& o : plan.outputs) std::ranges::for_each(plan.buffers[static_cast<size_t>(o.buffer)].sizes, read);
  for (const InputSpec& in : plan.inputs)
    for (const InputDim& d : in.dims) read(d.slot), read(d.equal);
  auto& first = plan.sizes.stages.at(0).instructions;
  for (auto i = first.rbegin(); i != first.rend(); ++i) {
    if (!is_read[static_cast<size_t>(i->out)]) continue;
    const int32_t operands[] = {i->a, i->b, i->c};
    for (int k = 0; k < operands_of(i->op); k++) read(operands[k]);
  }
  for (const InputSpec& in : plan.inputs)
    is_free.push_back(in.is_number && (in.number_slot < 0 || !is_read[static_cast<size_t>(in.number_slot)]));
}

BindTable::BindTable(const Plan& plan)
    : matmul_of(static_cast<size_t>(plan.num_matmuls), -1), conv_of(static_cast<size_t>(plan.num_convs), -1),
      chain_starts(possible_chains(plan)), waiting(plan.sizes.stages.size()) {
  std::map<std::pair<size_t, std::vector<Slot>>, uint32_t> known;
  for (size_t i = 0; i < plan.buffers.size(); i++) {
    const PlanBuffer& b = plan.buffers[i];
    if (b.place != BufferPlace::Arena && b.place != BufferPlace::Part) continue;
    auto [at, fresh] = known.emplace(std::pair(size_of(b.dtype), b.sizes), static_cast<uint32_t>(extents.size()));
    if (fresh) {
      uint32_t begin = static_cast<uint32_t>(sizes.size());
      sizes.insert(sizes.end(), b.sizes.begin(), b.sizes.end());
      extents.push_back({size_of(b.dtype), begin, static_cast<uint32_t>(sizes.size())});
    }
    if (!b.is_conditional && extents[at->second].named < 0) extents[at->second].named = static_cast<int>(i);
    if (b.place == BufferPlace::Arena) arena.push_back({static_cast<int>(i), b.first, b.last, at->second});
  }
  std::vector<Interval> lives;
  for (const ArenaBuffer& b : arena) lives.push_back({b.first, b.last, 0, 0});
  overlaps = Overlaps(lives, plan.num_steps);
  for_each_step(plan.steps, [&](const Step& s) { add(plan, s); });
  find_free_numbers(plan);
}

} // namespace tenon
