// The micro-kernels that a plan's steps may need, whatever sizes will be bound.
#include "runtime/linked_plan.h"

namespace tenon {

namespace {

class Preparer {
public:
  Preparer(const Plan& plan, const KernelTable& kernels) : plan_(plan), kernels_(kernels), written_(written_slots(plan)) {}

  void run() {
    for_each_step(plan_.steps, [&](const Step& s) { std::visit([&](auto& step) { prepare(step); }, s.run); });
  }

private:
  int64_t constant_or(Slot s, int64_t unknown) const {
    auto i = static_cast<size_t>(s);
    return written_[i] ? unknown : plan_.sizes.initial[i];
  }
  int64_t size(Slot s) const { return constant_or(s, any_size); }
  DType type(int buffer) const { return plan_.buffers[static_cast<size_t>(buffer)].dtype; }

  void prepare(const MatmulStep& s) {
    Matmul m{.m = size(s.m), .n = size(s.n), .k = size(s.k), .a_type = s.a_type, .b_type = s.b_type};
    m.a_row = constant_or(s.a_row, 0), m.a_k = constant_or(s.a_k, 0), m.b_k = constant_or(s.b_k, 0), m.b_n = constant_or(s.b_n, 0);
    m.family = s.family, m.panel_vectors = s.panel_vectors, m.packed = s.packed >= 0;
    if (s.c >= 0) m.c = this; // it is given
    prepare_matmul(kernels_, m);
    if (s.later < 0) return;
    m.family = s.later_family, m.packed = true;
    prepare_matmul(kernels_, m);
  }
  void prepare(const ConvStep& s) {
    Conv c = s.shape;
    for (int d = 0; d < 3; d++) c.window.in[d] = size(s.in[d]), c.window.out[d] = size(s.out[d]);
    c.in_pixel = constant_or(s.in_pixel, c.in_channels);
    if (s.packed_windows >= 0) c.window_weights = this;
    if (s.output >= 0) c.output = this;
    prepare_conv(kernels_, c);
  }
  void prepare(const AttentionStep& s) {
    bool same = type(s.q.buffer) == type(s.k.buffer) && type(s.k.buffer) == type(s.v.buffer);
    prepare_attention(kernels_, attention_family(kernels_, same ? type(s.q.buffer) : DType::F32), s.block_keys, size(s.columns));
    if (int64_t rows = size(s.rows); rows == any_size || rows <= few_attention_rows) prepare_few_rows(kernels_, size(s.columns));
  }
  template <class T> void prepare(const T&) {}

  const Plan& plan_;
  const KernelTable& kernels_;
  std::vector<bool> written_;
};

} // namespace

void prepare_micro_kernels(const Plan& plan, const KernelTable& kernels) { Preparer(plan, kernels).run(); }

} // namespace tenon
