// The step loop.
#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include "expr/eval.h"
#include "runtime/backends.h"
#include "runtime/library_steps.h"
#include "runtime/step_call.h"

namespace tenon {

namespace {

bool run(const KernelStep& s, Frame& f) {
  KernelCall call(s, f, f.pointers.data());
  if (call.iterations <= 0 || (s.elements >= 0 && slot(f, s.elements) == 0)) return true;
  f.error[0] = 0;
  constexpr double chunk_ns = 8000; // a chunk smaller than this is not worth another thread
  double ns = iteration_ns(s, f);
  if (f.workers->threads() == 1 || static_cast<double>(call.iterations) * ns <= chunk_ns) call.run(0, call.iterations, 0);
  else {
    auto body = [&](int64_t begin, int64_t end, int worker) { call.run(begin, end, worker); };
    f.workers->run(call.iterations, std::max<int64_t>(1, static_cast<int64_t>(chunk_ns / ns)), body);
  }
  return f.error[0] == 0 || fail_index(f);
}

bool run(const MatmulStep& s, Frame& f) {
  MatmulCall call(s, f, f.pointers.data());
  f.error[0] = 0;
  run_matmul(*f.linked->micro_kernels, *f.workers, call.plan, call.product, f.memory->scratch.data());
  if (s.later >= 0 && !call.packed_later) f.linked->later->pack(s.later, *f.workers);
  return f.error[0] == 0 || fail_index(f);
}

bool run(const ConvStep& s, Frame& f) {
  if (const ConvChain* chain = chain_of(s, f)) {
    if (chain->head() != &s) return true;
    f.error[0] = 0;
    run_chain(*chain, f);
    return f.error[0] == 0 || fail_index(f);
  }
  Conv c = conv_of(s, f);
  TileCall tile(s.epilogue, f, f.pointers.data());
  c.epilogue = tile.epilogue(f, f.pointers.data());
  f.error[0] = 0;
  run_conv(*f.linked->micro_kernels, *f.workers, *f.convs[static_cast<size_t>(s.number)], c, f.memory->scratch.data());
  return f.error[0] == 0 || fail_index(f);
}

// Calls the kernels of an attention: the first buffers are the tile's rows.
struct AttentionTiles {
  const TileKernel &score, &finish;
  KernelFn score_function, finish_function;
  Arguments score_arguments, finish_arguments;

  AttentionTiles(const AttentionStep& s, Frame& f)
      : score(s.score), finish(s.finish), score_function(function_of(s.score, f)), finish_function(function_of(s.finish, f)),
        score_arguments(f, f.pointers.data(), s.score.buffers, s.score.scalars),
        finish_arguments(f, f.pointers.data(), s.finish.buffers, s.finish.scalars) {}

  static void call(KernelFn function, const TileKernel& kernel, const Arguments& arguments, const AttentionTile& t,
                   std::initializer_list<const void*> own) {
    call_tile(function, kernel, arguments, own, {t.batch, t.m0, t.m1, t.n0, t.n1, 0, 1}); // its strides are known to the kernels
  }
  static void call_score(void* self, const AttentionTile& t) {
    auto& a = *static_cast<AttentionTiles*>(self);
    call(a.score_function, a.score, a.score_arguments, t, {t.scores, t.top, t.sum, t.correction});
  }
  static void call_finish(void* self, const AttentionTile& t) {
    auto& a = *static_cast<AttentionTiles*>(self);
    call(a.finish_function, a.finish, a.finish_arguments, t, {t.out, t.sum});
  }
};

bool run(const AttentionStep& s, Frame& f) {
  AttentionCall c = attention_of(s, f);
  AttentionTiles tiles(s, f);
  c.context = &tiles;
  c.score = AttentionTiles::call_score, c.finish = AttentionTiles::call_finish;
  f.error[0] = 0;
  run_attention(*f.linked->micro_kernels, f.plan->caches, *f.workers, c, f.memory->scratch.data());
  return f.error[0] == 0 || fail_index(f);
}

struct DynamicOutputs {
  Frame& frame;
  const LibraryStepCall& step;
  static void* allocate(void* ctx, int index, std::span<const int64_t> sizes) {
    auto& d = *static_cast<DynamicOutputs*>(ctx);
    size_t buffer = static_cast<size_t>(d.step.outputs[static_cast<size_t>(index)]);
    size_t bytes = size_of(d.frame.plan->buffers[buffer].dtype);
    for (int64_t s : sizes)
      if (s < 0 || __builtin_mul_overflow(bytes, static_cast<size_t>(s), &bytes)) return nullptr;
    auto block = d.frame.pool->take(bytes);
    if (!block) return nullptr;
    d.frame.pointers[buffer] = block.get();
    d.frame.held.push_back(block);
    // Sizes that are slots of their own are bound by what the step found.
    auto& slots = d.frame.plan->buffers[buffer].sizes;
    for (size_t k = 0; k < slots.size() && k < sizes.size(); k++) d.frame.slots[static_cast<size_t>(slots[k])] = sizes[k];
    return block.get();
  }
};

// The operands, then the results, of a library step or delegate: f.library_tensors.
void gather_tensors(const std::vector<int>& inputs, const std::vector<int>& outputs, Frame& f) {
  size_t rank = 0;
  for (auto* list : {&inputs, &outputs})
    for (int b : *list) rank += f.plan->buffers[static_cast<size_t>(b)].sizes.size();
  f.library_sizes.resize(rank); // its memory stays where it is while spans are made
  f.library_tensors.clear();
  int64_t* sizes = f.library_sizes.data();
  for (auto* list : {&inputs, &outputs})
    for (int b : *list) {
      const PlanBuffer& p = f.plan->buffers[static_cast<size_t>(b)];
      for (size_t d = 0; d < p.sizes.size(); d++) sizes[d] = slot(f, p.sizes[d]);
      f.library_tensors.push_back({f.pointers[static_cast<size_t>(b)], p.dtype, {sizes, p.sizes.size()}});
      sizes += p.sizes.size();
    }
}

bool run(const LibraryStepCall& s, Frame& f) {
  gather_tensors(s.inputs, s.outputs, f);
  f.library_ints.clear();
  for (Slot i : s.ints) f.library_ints.push_back(slot(f, i));
  DynamicOutputs dynamic{f, s};
  std::span<LibraryTensor> tensors(f.library_tensors);
  LibraryCall call{tensors.first(s.inputs.size()),
                   tensors.subspan(s.inputs.size()),
                   f.library_ints,
                   s.numbers,
                   s.is_random ? library::step_seed(f.plan->seed, ++f.random_steps) : 0,
                   DynamicOutputs::allocate,
                   &dynamic,
                   f.workers,
                   s.texts,
                   f.linked->micro_kernels,
                   &f.plan->caches};
  const char* error = f.linked->library[static_cast<size_t>(s.function)](call);
  if (error) f.message = error;
  return error == nullptr;
}

LibraryTensor tensor_of(int buffer, std::vector<int64_t>& sizes, Frame& f) {
  const PlanBuffer& b = f.plan->buffers[static_cast<size_t>(buffer)];
  sizes = sizes_of(b, f);
  return {f.pointers[static_cast<size_t>(buffer)], b.dtype, sizes};
}

bool run(const CollectiveStep& s, Frame& f) {
  if (!f.collectives) return f.message = "the program communicates, and there is no communicator", false;
  std::vector<int64_t> in, out, ints = sizes_of(s.ints, f);
  LibraryTensor input = tensor_of(s.input, in, f), output = tensor_of(s.output, out, f);
  CollectiveKind what = collective_of(f.linked->library[static_cast<size_t>(s.function)], s.texts, ints);
  void*& request = f.requests[static_cast<size_t>(s.request)];
  f.message = f.collectives->start(what, input, output, ints, request);
  if (!f.message.empty()) return false;
  f.in_flight++;
  if (!s.waits) return true;
  f.message = f.collectives->wait(what.group, request);
  return f.message.empty() && (f.in_flight--, true);
}

bool run(const WaitStep& s, Frame& f) {
  f.message = f.collectives->wait(s.group, f.requests[static_cast<size_t>(s.request)]);
  return f.message.empty() && (f.in_flight--, true);
}

// The step's tensors in the form of the C interface, row-major.
void give_tensors(Frame& f) {
  f.delegate_tensors.clear(), f.delegate_strides.clear();
  for (const LibraryTensor& t : f.library_tensors) {
    auto strides = contiguous_strides(t.sizes);
    f.delegate_strides.insert(f.delegate_strides.end(), strides.begin(), strides.end());
  }
  const int64_t* strides = f.delegate_strides.data();
  for (const LibraryTensor& t : f.library_tensors) {
    f.delegate_tensors.push_back({t.data, t.sizes.data(), strides, static_cast<int32_t>(t.rank()), static_cast<int32_t>(t.dtype)});
    strides += t.rank();
  }
}

bool run(const DelegateStep& s, Frame& f) {
  gather_tensors(s.inputs, s.outputs, f);
  std::span<const LibraryTensor> results = std::span(f.library_tensors).subspan(s.inputs.size());
  if (std::ranges::all_of(results, [](const LibraryTensor& t) { return t.numel() == 0; })) return true;
  give_tensors(f);
  f.library_ints.clear();
  for (Slot i : s.sizes) f.library_ints.push_back(slot(f, i));
  std::string error =
      f.linked->delegates[static_cast<size_t>(s.number)]->execute(f.delegate_tensors, s.inputs.size(), f.library_ints, *f.workers);
  if (error.empty()) return true;
  f.message = fmt::format("backend {}: {}: {}", s.backend, s.operators, error);
  return false;
}

bool run(const FallbackStep& s, Frame& f) {
  f.message = f.linked->fallbacks[static_cast<size_t>(s.number)](f);
  return f.message.empty();
}

bool truth(int buffer, Slot s, const Frame& f) {
  return buffer >= 0 ? *static_cast<const bool*>(f.pointers[static_cast<size_t>(buffer)]) : slot(f, s) != 0;
}

bool run(const IfStep& s, Frame& f) { return run_steps(s.branches[truth(s.condition, s.condition_slot, f) ? 0 : 1], f); }

bool run(const CopyStep& s, Frame& f) {
  const PlanBuffer &to = f.plan->buffers[static_cast<size_t>(s.to)], &from = f.plan->buffers[static_cast<size_t>(s.from)];
  size_t bytes, have;
  if (!bytes_of(to, f, bytes) || !bytes_of(from, f, have) || have != bytes) // a branch or a loop whose sizes differ only now
    return f.message = "a result of control flow has other sizes than the program says", false;
  std::memmove(f.pointers[static_cast<size_t>(s.to)], f.pointers[static_cast<size_t>(s.from)], bytes);
  return true;
}

bool run(const WhileStep& s, Frame& f) {
  while (true) {
    if (!run_steps(s.condition, f)) return false;
    if (!truth(s.flag, s.flag_slot, f)) return true;
    if (!run_steps(s.body, f)) return false;
  }
}

bool run(const ScanStep& s, Frame& f) { return run_scan(s, f); }

bool run(const ItemStep& s, Frame& f) {
  const PlanBuffer& b = f.plan->buffers[static_cast<size_t>(s.buffer)];
  const void* p = f.pointers[static_cast<size_t>(s.buffer)];
  int64_t& to = f.slots[static_cast<size_t>(s.slot)];
  dispatch(b.dtype, [&]<class T>(T) {
    T v = *static_cast<const T*>(p);
    to = s.is_float ? std::bit_cast<int64_t>(convert<double>(v)) : convert<int64_t>(v);
  });
  return true;
}

bool run(const ScalarStep& s, Frame& f) {
  std::memcpy(f.pointers[static_cast<size_t>(s.buffer)], &f.slots[static_cast<size_t>(s.slot)],
              size_of(f.plan->buffers[static_cast<size_t>(s.buffer)].dtype));
  return true;
}

bool run(const AssertStep& s, Frame& f) {
  if (int64_t holds = slot(f, s.condition); holds != 0 && holds != no_size) return true;
  f.message = s.message;
  for (auto& [name, value] : s.values)
    f.message += fmt::format("{}{} = {}", &name == &s.values[0].first ? " (" : ", ", name, slot(f, value));
  if (!s.values.empty()) f.message += ")";
  return false;
}

bool run(const PrintStep& s, Frame& f) {
  for (size_t i = 0; i < s.texts.size(); i++) {
    std::fputs(s.texts[i].c_str(), stdout);
    if (i == s.numbers.size()) break;
    int64_t v = slot(f, s.numbers[i].slot);
    if (s.numbers[i].is_float) fmt::print("{}", std::bit_cast<double>(v));
    else fmt::print("{}", v);
  }
  return true;
}

bool allocate_dynamic(const Step& step, Frame& f) {
  for (int b : step.dynamic) {
    const PlanBuffer& p = f.plan->buffers[static_cast<size_t>(b)];
    size_t bytes = size_of(p.dtype);
    for (int64_t s : sizes_of(p, f))
      if (s < 0 || __builtin_mul_overflow(bytes, static_cast<size_t>(s), &bytes)) return f.message = "a size overflows", false;
    auto block = f.pool->take(bytes);
    if (!block) return f.message = "out of memory", false;
    f.pointers[static_cast<size_t>(b)] = block.get();
    f.held.push_back(std::move(block));
  }
  return true;
}

} // namespace

Matmul matmul_of(const MatmulStep& s, const Frame& f, void* const* pointers, const void* packed_later) {
  auto at = [&](int buffer, Slot offset, DType t) -> const void* {
    auto* start = static_cast<const char*>(pointers[static_cast<size_t>(buffer)]);
    return offset < 0 ? start : start + slot(f, offset) * static_cast<int64_t>(size_of(t));
  };
  Matmul m{.batch = {slot(f, s.batch[0]), slot(f, s.batch[1])}, .m = slot(f, s.m), .n = slot(f, s.n), .k = slot(f, s.k)};
  m.a_type = s.a_type, m.b_type = s.b_type;
  m.a = at(s.a, s.a_offset, s.a_type);
  m.a_row = slot(f, s.a_row), m.a_k = slot(f, s.a_k);
  m.packed = s.packed >= 0 || packed_later;
  m.family = packed_later ? s.later_family : s.family, m.panel_vectors = s.panel_vectors;
  m.repeated = s.repeated;
  if (packed_later) m.b = packed_later;
  else if (m.packed) m.b = f.linked->packed[static_cast<size_t>(s.packed)].data();
  else m.b = at(s.b, s.b_offset, s.b_type);
  m.b_k = slot(f, s.b_k), m.b_n = slot(f, s.b_n);
  if (s.c >= 0) m.c = pointers[static_cast<size_t>(s.c)];
  m.c_row = slot(f, s.c_row);
  for (int i : {0, 1}) m.a_batch[i] = slot(f, s.a_batch[i]), m.b_batch[i] = slot(f, s.b_batch[i]), m.c_batch[i] = slot(f, s.c_batch[i]);
  return m;
}

Conv conv_of(const ConvStep& s, const Frame& f) {
  Conv c = s.shape;
  c.batch = slot(f, s.batch);
  for (int i = 0; i < 3; i++) c.window.in[i] = slot(f, s.in[i]), c.window.out[i] = slot(f, s.out[i]);
  c.in_pixel = slot(f, s.in_pixel), c.in_batch = slot(f, s.in_batch);
  c.out_pixel = slot(f, s.out_pixel), c.out_batch = slot(f, s.out_batch);
  c.input = f.pointers[static_cast<size_t>(s.input)];
  if (s.weight >= 0) c.weights = f.pointers[static_cast<size_t>(s.weight)];
  else c.weights = f.linked->packed[static_cast<size_t>(s.packed)].data();
  if (s.packed_windows >= 0) c.window_weights = f.linked->packed[static_cast<size_t>(s.packed_windows)].data();
  if (s.output >= 0) c.output = f.pointers[static_cast<size_t>(s.output)];
  return c;
}

const ConvChain* chain_of(const ConvStep& s, const Frame& f) {
  auto has = [&](const ConvChain& c) { return c.before == &s || c.depthwise == &s || c.after == &s; };
  auto found = std::find_if(f.bound->chains.begin(), f.bound->chains.end(), has);
  return found == f.bound->chains.end() ? nullptr : &*found;
}

AttentionCall attention_of(const AttentionStep& s, const Frame& f) {
  AttentionCall c;
  for (int d = 0; d < AttentionCall::most_digits; d++) c.digits[d] = slot(f, s.digits[d]);
  c.rows = slot(f, s.rows), c.keys = slot(f, s.keys), c.depth = slot(f, s.depth), c.columns = slot(f, s.columns);
  auto operand = [&](const AttentionStep::Operand& o) {
    AttentionOperandView v{.data = f.pointers[static_cast<size_t>(o.buffer)], .type = f.plan->buffers[static_cast<size_t>(o.buffer)].dtype};
    if (v.data && o.offset >= 0) v.data = v.at(slot(f, o.offset));
    for (int d = 0; d < AttentionCall::most_digits; d++) v.batch[d] = slot(f, o.batch[d]);
    v.row = slot(f, o.row), v.column = slot(f, o.column);
    return v;
  };
  c.q = operand(s.q), c.k = operand(s.k), c.v = operand(s.v);
  c.has_upper = s.upper >= 0, c.has_lower = s.lower >= 0;
  if (c.has_upper) c.upper = slot(f, s.upper);
  if (c.has_lower) c.lower = slot(f, s.lower);
  c.block_keys = s.block_keys, c.score_stride = attention_score_stride(s.block_keys);
  return c;
}

std::vector<int64_t> sizes_of(std::span<const Slot> sizes, const Frame& f) {
  std::vector<int64_t> out;
  for (Slot s : sizes) out.push_back(slot(f, s));
  return out;
}
std::vector<int64_t> sizes_of(const PlanBuffer& b, const Frame& f) { return sizes_of(b.sizes, f); }

static void note_cost(const Step& step, Frame& f, int64_t ns) {
  StepProfile cost = cost_of(step, f), &total = f.profile.at(static_cast<size_t>(step.number));
  total.calls++;
  total.ns += ns;
  total.bytes += cost.bytes;
  total.flops += cost.flops;
  total.detail = std::move(cost.detail);
  total.family = cost.family;
}

static bool run_observed(const Step& step, Frame& f) {
  size_t number = static_cast<size_t>(step.number);
  Recording* recording = f.recording.get();
  std::optional<Recording::Scope> scope;
  if (recording) scope.emplace(recording, f.step_names.at(number));
  int64_t start = Recording::now();
  bool ok = std::visit([&](auto& s) { return run(s, f); }, step.run);
  int64_t end = Recording::now();
  if (f.profiled) note_cost(step, f, end - start);
  if (recording) recording->span(scope->name, start, end), recording->memory(start, f.alive.at(number));
  return ok;
}

static bool run_step(const Step& step, Frame& f) {
  if (f.observed) [[unlikely]]
    return run_observed(step, f);
  return std::visit([&](auto& s) { return run(s, f); }, step.run);
}

bool run_steps(const std::vector<Step>& steps, Frame& f) {
  for (const Step& step : steps) {
    if (!step.dynamic.empty() && !allocate_dynamic(step, f)) return false;
    if (!run_step(step, f)) {
      if (auto* l = std::get_if<LibraryStepCall>(&step.run); l && f.plan->library[static_cast<size_t>(l->function)].empty())
        f.message = step.what + ": " + f.message; // a function of the user's own: which
      if (!step.source.empty()) f.message += " (" + step.source + ")";
      return false;
    }
    if (f.in_flight > 0) [[unlikely]]
      f.collectives->progress();
    if (!step.binds) continue;
    if (auto* r = run_stage(f.plan->sizes, static_cast<size_t>(step.binds), f.slots.data())) {
      f.message = outside_message(r->range, slot(f, r->slot));
      if (!step.source.empty()) f.message += " (" + step.source + ")";
      return false;
    }
    if (!bind_stage(f, step.binds)) return false;
  }
  return true;
}

} // namespace tenon
