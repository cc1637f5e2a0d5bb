#include "runtime/bind_table.h"

#include <algorithm>
#include <map>

#include "runtime/conv_chain.h"

namespace tenon {

namespace {

// Steps without what tells them apart but does not matter to plans of memory and launches: which buffers, which weights.

MatmulStep alike(MatmulStep s) {
  s.a = 0, s.b = s.b < 0 ? -1 : 0, s.c = s.c < 0 ? -1 : 0, s.packed = s.packed < 0 ? -1 : 0;
  s.a_offset = s.b_offset = s.m;
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
    o->buffer = static_cast<int>(first - plan.buffers.begin()), o->offset = s.rows;
  }
  s.score = s.finish = {};
  return s;
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
}

} // namespace tenon
