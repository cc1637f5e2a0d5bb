// PlanBuilder: the kernels of all steps, each compiled once, and those much alike as one.
#include <algorithm>

#include "codegen/codegen.h"
#include "compile/plan_builder.h"
#include "loops/canonical.h"
#include "loops/share.h"

namespace tenon {

namespace {

constexpr int64_t cold_operations = 1 << 18; // some 10 microseconds: a hundredth of what compiling a kernel takes
constexpr size_t long_series = 4;            // kernels of unknown sizes that are worth one with more scalars
constexpr int64_t least_of_tile = 16;        // strides, not the 2s and 3s of what is computed

template <class F> void for_each_kernel(std::vector<Step>& steps, const F& f) {
  for_each_step(steps, [&](Step& s) {
    if (auto* k = std::get_if<KernelStep>(&s.run)) f(*k);
    else if (auto* m = std::get_if<MatmulStep>(&s.run)) f(m->epilogue);
    else if (auto* c = std::get_if<ConvStep>(&s.run)) f(c->epilogue);
    else if (auto* a = std::get_if<AttentionStep>(&s.run)) f(a->score), f(a->finish);
  });
}

} // namespace

PlanBuilder::Heat PlanBuilder::heat_of(Expr elements, int weight) const {
  auto n = const_int(elements);
  return !n ? Heat::Unknown : *n * (weight + 1) <= cold_operations ? Heat::Cold : Heat::Hot;
}

// The kernel's number, and what its scalars are in this step.
int PlanBuilder::add_kernel(const Kernel& kernel, Heat heat, std::vector<Slot>& scalars) {
  size_t fixed = heat == Heat::Tile ? std::size(tile_symbols) : 0;
  CanonicalKernel k = canonical(kernel, *out_.pool, fixed);
  for (size_t i = 0; i + fixed < k.scalars.size(); i++) scalars.push_back(slot(k.scalars[i]));
  auto [it, fresh] = kernels_.emplace(to_string(k.kernel), static_cast<int>(out_.kernels.size()));
  if (fresh) {
    verify(k.kernel);
    out_.kernels.push_back(std::move(k.kernel));
    heat_.push_back(heat);
  }
  Heat& known = heat_[static_cast<size_t>(it->second)];
  known = std::max(known, heat);
  return it->second;
}

// Kernels of one shape become one that takes as scalars what they differ in, where that costs little when they run.
void PlanBuilder::share_kernels() {
  std::vector<KernelShape> shapes(out_.kernels.size());
  std::map<std::string_view, std::vector<size_t>> groups;
  auto least = [&](size_t k) { return heat_[k] == Heat::Tile ? least_of_tile : INT64_MIN; };
  auto fixed = [&](size_t k) { return heat_[k] == Heat::Tile ? std::size(tile_symbols) : 0; };
  for (size_t k = 0; k < shapes.size(); k++) {
    if (heat_[k] == Heat::Hot) continue;
    shapes[k] = shape_of(out_.kernels[k], *out_.pool, least(k), fixed(k));
    groups[shapes[k].text].push_back(k);
  }
  std::vector<Kernel> kernels;
  std::vector<int> number(shapes.size(), -1);
  std::vector<std::vector<Slot>> added(shapes.size());
  for (size_t k = 0; k < shapes.size(); k++) {
    if (number[k] >= 0) continue;
    number[k] = static_cast<int>(kernels.size());
    auto group = heat_[k] == Heat::Hot ? groups.end() : groups.find(shapes[k].text);
    bool unknown = group != groups.end() &&
                   std::any_of(group->second.begin(), group->second.end(), [&](size_t m) { return heat_[m] == Heat::Unknown; });
    if (group == groups.end() || group->second.size() < (unknown ? long_series : 2)) {
      kernels.push_back(std::move(out_.kernels[k]));
      continue;
    }
    std::vector<const Kernel*> members;
    std::vector<KernelShape> member_shapes;
    for (size_t m : group->second) members.push_back(&out_.kernels[m]), member_shapes.push_back(shapes[m]);
    SharedKernel shared = share(members, member_shapes, *out_.pool, least(k), fixed(k));
    verify(shared.kernel);
    kernels.push_back(std::move(shared.kernel));
    for (size_t i = 0; i < members.size(); i++) {
      size_t m = group->second[i];
      number[m] = number[k];
      for (int64_t v : shared.scalars[i]) added[m].push_back(slots_.constant(v));
    }
  }
  out_.kernels = std::move(kernels);
  for_each_kernel(plan_.steps, [&](auto& step) {
    if (step.kernel < 0) return;
    auto& more = added[static_cast<size_t>(step.kernel)];
    step.scalars.insert(step.scalars.end(), more.begin(), more.end());
    step.kernel = number[static_cast<size_t>(step.kernel)];
  });
}

// Touches nothing but what it makes: packing goes on at the same time.
std::vector<CompiledKernel> PlanBuilder::compile_kernels(Keep keep, const Together& together) {
  std::vector<const Kernel*> pointers;
  for (const Kernel& k : out_.kernels) pointers.push_back(&k);
  out_.texts.resize(keep.texts ? pointers.size() : 0);
  out_.objects.resize(keep.objects ? pointers.size() : 0);
  return tenon::compile_kernels(pointers, jit_, together, out_.texts, out_.objects);
}

void PlanBuilder::link_kernels(const std::vector<CompiledKernel>& compiled) {
  if (!compiled.empty()) {
    linked_.owned.push_back(compiled[0].code); // of all
    out_.own_bytes += compiled[0].code->memory_bytes();
  }
  for (const CompiledKernel& k : compiled) linked_.kernels.push_back(k.function);
  for (const Kernel& k : out_.kernels) plan_.kernels.push_back(k.name);
}

} // namespace tenon
