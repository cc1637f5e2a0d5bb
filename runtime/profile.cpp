// Costs of steps: from the sizes of their buffers and of their contraction.
#include "runtime/profile.h"

#include <algorithm>

#include <fmt/core.h>

#include "runtime/conv_gradient.h"
#include "runtime/frame.h"
#include "runtime/library_steps.h"

namespace tenon {

namespace {

struct Cost {
  const Frame& f;
  StepProfile cost = {};

  int64_t slot(Slot s) const { return f.slots[static_cast<size_t>(s)]; }
  double number(Slot s) const { return static_cast<double>(slot(s)); }
  // Each buffer counts once: a step reads what it needs again from cache.
  void move(std::vector<int> buffers) {
    std::sort(buffers.begin(), buffers.end());
    buffers.erase(std::unique(buffers.begin(), buffers.end()), buffers.end());
    for (int b : buffers) {
      if (b < 0) continue;
      const PlanBuffer& p = f.plan->buffers[static_cast<size_t>(b)];
      double bytes = static_cast<double>(size_of(p.dtype));
      for (Slot s : p.sizes) bytes *= std::max(number(s), 0.0);
      cost.bytes += bytes;
    }
  }
  static std::vector<int> with(std::vector<int> buffers, std::initializer_list<int> more) {
    buffers.insert(buffers.end(), more);
    return buffers;
  }

  void both(std::vector<int> inputs, const std::vector<int>& outputs) {
    inputs.insert(inputs.end(), outputs.begin(), outputs.end());
    move(std::move(inputs));
  }

  void operator()(const KernelStep& s) {
    double elements = number(s.iterations) * number(s.iteration_elements);
    move(s.buffers);
    cost.flops = elements * s.operations;
    cost.detail = fmt::format("{} iterations of {} elements", slot(s.iterations), slot(s.iteration_elements));
  }
  void operator()(const MatmulStep& s) {
    move(with(s.epilogue.buffers, {s.a, s.b, s.c}));
    if (s.packed >= 0) cost.bytes += static_cast<double>(f.linked->packed[static_cast<size_t>(s.packed)].size());
    const void* later = packed_later(s, f);
    Matmul m = matmul_of(s, f, f.pointers.data(), later);
    const MatmulPlan& plan = plan_of(s, f, later);
    cost.family = plan.family;
    cost.flops = 2 * number(s.batch[0]) * number(s.batch[1]) * number(s.m) * number(s.n) * number(s.k);
    cost.detail =
        fmt::format("{}x{}x{}x{}, {}", m.batch[0] * m.batch[1], m.m, m.n, m.k, describe_matmul(*f.linked->micro_kernels, plan, m));
  }
  // A chain's time is its first step's, and so is what all of them compute; what lies between them stays in cache.
  void operator()(const ConvStep& s) {
    const ConvChain* chain = chain_of(s, f);
    if (!chain) return move(with(s.epilogue.buffers, {s.input, s.output})), compute(s), describe(s);
    if (chain->head() == &s) {
      std::vector<int> buffers;
      for (const ConvStep* link : {chain->before, chain->depthwise, chain->after}) {
        if (!link) continue;
        compute(*link);
        buffers.insert(buffers.end(), {link->input, link->output});
        buffers.insert(buffers.end(), link->epilogue.buffers.begin(), link->epilogue.buffers.end());
      }
      for (int passing : chain->between) std::erase(buffers, passing);
      move(std::move(buffers));
    }
    describe(s);
    cost.detail += chain->head() == &s ? ", by rows with what follows" : ", by rows with what is before";
  }
  void compute(const ConvStep& s) {
    Conv c = conv_of(s, f);
    const ConvPlan& plan = *f.convs[static_cast<size_t>(s.number)];
    int family = plan.kind == ConvPlan::Kind::Product ? plan.product.family : conv_family(*f.linked->micro_kernels, c);
    if (family >= 0) cost.family = family;
    double positions = static_cast<double>(c.window.positions()), inputs = static_cast<double>(c.group_inputs()),
           outputs = static_cast<double>(c.out_channels);
    cost.bytes += static_cast<double>(size_of(c.weight_type)) * positions * inputs * outputs;
    cost.flops +=
        2 * static_cast<double>(c.batch * (c.transposed ? c.window.in_pixels() : c.window.out_pixels())) * positions * inputs * outputs;
  }
  void describe(const ConvStep& s) {
    Conv c = conv_of(s, f);
    cost.detail = fmt::format("{}x{}x{}x{} to {} channels, window {}x{}x{}, {}", c.batch, c.window.in[1], c.window.in[2], c.in_channels,
                              c.out_channels, c.window.kernel[0], c.window.kernel[1], c.window.kernel[2],
                              describe_conv(*f.linked->micro_kernels, *f.convs[static_cast<size_t>(s.number)]));
  }
  void operator()(const AttentionStep& s) {
    move(with(s.score.buffers, {s.q.buffer, s.k.buffer, s.v.buffer}));
    move(s.finish.buffers);
    AttentionCall c = attention_of(s, f);
    cost.family = choose_family(*f.linked->micro_kernels, DType::F32, DType::F32, any_size, any_size, any_size);
    int64_t batch = c.digits[0] * c.digits[1] * c.digits[2] * c.digits[3];
    cost.flops = 2 * static_cast<double>(batch) * static_cast<double>(c.rows) * static_cast<double>(c.keys) *
                 static_cast<double>(c.depth + c.columns);
    cost.detail = fmt::format("{} times {} rows by {} keys, {} and {} columns, {}", batch, c.rows, c.keys, c.depth, c.columns,
                              describe_attention(*f.linked->micro_kernels, f.plan->caches, *f.workers, c));
  }
  void operator()(const LibraryStepCall& s) {
    both(s.inputs, s.outputs);
    if (f.linked->library[static_cast<size_t>(s.function)] != library::conv_weight_gradient) return;
    const PlanBuffer &grad = f.plan->buffers[static_cast<size_t>(s.inputs[1])], &out = f.plan->buffers[static_cast<size_t>(s.outputs[0])];
    cost.flops = 2;
    for (int64_t n : sizes_of(grad, f)) cost.flops *= static_cast<double>(n);
    std::vector<int64_t> weights = sizes_of(out, f);
    for (size_t d = 1; d < weights.size(); d++) cost.flops *= static_cast<double>(weights[d]);
    if (int family = conv_gradient_family(*f.linked->micro_kernels, out.dtype); family >= 0) cost.family = family;
  }
  void operator()(const DelegateStep& s) { both(s.inputs, s.outputs); }
  void operator()(const CollectiveStep& s) { move({s.input, s.output}); }
  void operator()(const CopyStep& s) { move({s.from, s.to}); }
  template <class T> void operator()(const T&) {}
};

} // namespace

StepProfile cost_of(const Step& step, const Frame& f) {
  Cost c{f};
  std::visit(c, step.run);
  return c.cost;
}

bool add(Profile& to, const Profile& from) {
  bool any = false;
  to.resize(std::max(to.size(), from.size()));
  for (size_t i = 0; i < from.size(); i++) {
    if (from[i].calls == 0) continue;
    any = true;
    to[i].calls += from[i].calls;
    to[i].ns += from[i].ns;
    to[i].bytes += from[i].bytes;
    to[i].flops += from[i].flops;
    to[i].detail = from[i].detail;
    to[i].family = from[i].family;
  }
  return any;
}

} // namespace tenon
