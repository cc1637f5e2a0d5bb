// The stages in order, and what links their results.
#include "compile/build_plan.h"

#include <algorithm>
#include <atomic>

#include "compile/assign_buffers.h"
#include "ir/pass_runner.h"

namespace tenon {

namespace {

// The process asks for tile registers with the first program that has a use for them.
bool multiplies_narrow(const Graph& g) {
  for (uint32_t i = 0; i < g.num_nodes(); i++) {
    const Node& n = g.node(NodeId{i});
    if (!n.def || (n.def->kind != Kind::Matmul && n.def->kind != Kind::Conv)) continue;
    DType t = g.type(tensor_operands(n.args, g).at(0)).dtype;
    if (t == DType::BF16 || is_byte(t)) return true;
  }
  return false;
}

/// Constants that were folded for the other plan too are its own. Gives the bytes of the others.
size_t share_constants(Plan& plan, std::span<const std::byte> file, const LinkedPlan* shared) {
  size_t own = 0;
  for (Tensor& t : plan.constants) {
    std::span<const std::byte> bytes = memory_of(t);
    if (bytes.empty() || (bytes.data() >= file.data() && bytes.data() < file.data() + file.size())) continue;
    auto same = [&](const Tensor& other) {
      return other.dtype() == t.dtype() && other.sizes() == t.sizes() && std::ranges::equal(memory_of(other), bytes);
    };
    std::span<const Tensor> others = shared ? std::span<const Tensor>(shared->plan.constants) : std::span<const Tensor>();
    if (auto at = std::ranges::find_if(others, same); at != others.end()) t = *at;
    else own += bytes.size();
  }
  return own;
}

size_t link(LinkedPlan& linked, const std::vector<CompiledKernel>& kernels) {
  for (const CompiledKernel& k : kernels) linked.kernels.push_back(k.function);
  if (kernels.empty()) return 0;
  linked.owned.push_back(kernels[0].code); // of all
  return kernels[0].code->memory_bytes();
}

} // namespace

Machine::Machine(const LoadedProgram& backend, const Options& options, const LinkedPlan* shared)
    : target(host_target(options.isa)), has_narrow(multiplies_narrow(backend.graph)) {
  Target multiplied = target;
  if (!has_narrow) multiplied.amx_bf16 = multiplied.amx_int8 = false;
  if (!shared) own = std::make_shared<const MicroKernels>(multiplied);
  micro_kernels = shared ? shared->micro_kernels : &own->table();
}

// Touches nothing but what it makes: packing goes on at the same time.
CompiledCode compile_code(const SelectedKernels& selected, const Target& target, const Together& together, Keep keep) {
  CompiledCode out;
  std::vector<const Kernel*> pointers;
  for (const Kernel& k : selected.kernels) pointers.push_back(&k);
  out.texts.resize(keep.texts ? pointers.size() : 0);
  out.objects.resize(keep.objects ? pointers.size() : 0);
  Jit jit(target, kernel_symbols());
  out.kernels = compile_kernels(pointers, jit, together, out.texts, out.objects, selected.prebuilt);
  return out;
}

Compiled build_plan(LoadedProgram backend, const Options& options, Keep keep, LargeMemory packed,
                    std::shared_ptr<const LinkedPlan> shared) {
  StageTimer timer;
  Machine machine(backend, options, shared.get());
  PlanTarget target(machine.target);
  // Files hold what is read most quickly, and another plan of the program finds what the first one has.
  target.leaves = keep.objects || shared ? Leaves::None : options.specialization.in_background ? Leaves::AtFirst : Leaves::ForGood;
  std::vector<LoweredRegion> regions = lower_regions(backend.graph, target, options.forbid_fallback);
  timer.done("lower_regions");
  SelectedKernels selected = select_kernels(backend.graph, regions, *machine.micro_kernels, target);
  timer.done("select_kernels",
             fmt::format("{} of {} kernels prebuilt", std::ranges::count_if(selected.prebuilt, [](auto& p) { return p != nullptr; }),
                         selected.prebuilt.size()));
  EmittedPlan emitted = emit_steps(backend, regions, selected, options, target);
  timer.done("emit_steps");
  assign_buffers(emitted.plan);
  timer.done("assign_buffers");
  auto linked = std::make_shared<LinkedPlan>();
  linked->plan = std::move(emitted.plan), linked->library = std::move(emitted.library), linked->fallbacks = std::move(emitted.fallbacks);
  linked->micro_kernels = machine.micro_kernels;
  linked->owned.push_back(shared ? std::shared_ptr<const void>(shared) : machine.own);

  selected.later.pack_later(*linked, backend.file);
  // From here on constants belong to those who read them: buffers, and what is to be packed. The interpreter reads the graph's.
  regions.clear();
  backend.weights.clear();
  backend.graph.forget_tensors();
  Compiled out;
  out.target = machine.target, out.has_narrow = machine.has_narrow;
  // Compiling computes and packing moves memory: side by side they take less than one after the other.
  Workers workers(options.threads, options.pool);
  std::atomic<int> thread{0};
  std::atomic<bool> prepared{false};
  auto prepare = [&] {
    if (!prepared.exchange(true)) prepare_micro_kernels(linked->plan, *linked->micro_kernels);
  };
  CompiledCode code = compile_code(
      selected, machine.target,
      [&](const std::function<void()>& compile) {
        auto beside = [&](const std::function<void()>& pack) {
          workers.together([&] { thread++ % 2 ? (prepare(), pack(), compile()) : (compile(), pack()); });
        };
        out.own_bytes += selected.weights.pack(*linked, packed, beside, backend.file, shared.get());
        workers.together(compile); // where nothing is packed
      },
      keep);
  if (packed.has_small_pages() && options.specialization.in_background)
    linked->page_joiner = std::make_unique<PageJoiner>(std::move(packed));
  prepare(); // where no second thread did
  out.own_bytes += share_constants(linked->plan, backend.file, shared.get());
  open_delegates(*linked);
  out.own_bytes += link(*linked, code.kernels);
  timer.done("compile_code, pack_weights");
  out.objects = std::move(code.objects);
  out.plan = std::move(linked);
  return out;
}

} // namespace tenon
