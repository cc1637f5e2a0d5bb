// A shared library of operators, as a user would write one: tests open it by name.
#include <cmath>

#include "tenon/custom_op.h"

namespace {

const char* outer(const tenon_op_call* c) { // out[i, j] = x[i]*y[j]*scale
  auto *x = static_cast<const float*>(c->inputs[0].data), *y = static_cast<const float*>(c->inputs[1].data);
  auto* out = static_cast<float*>(c->outputs[0].data);
  int64_t n = c->inputs[0].sizes[0], m = c->inputs[1].sizes[0];
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < m; j++) out[i * m + j] = x[i] * y[j] * static_cast<float>(c->numbers[0]);
  return nullptr;
}

const char* bump(const tenon_op_call* c) { // x += by, in place; returns how many elements were positive
  auto* x = static_cast<const float*>(c->inputs[0].data);
  auto* count = static_cast<int64_t*>(c->outputs[0].data);
  auto* now = static_cast<float*>(c->outputs[1].data);
  int64_t n = 1, positive = 0;
  for (int32_t d = 0; d < c->inputs[0].rank; d++) n *= c->inputs[0].sizes[d];
  for (int64_t i = 0; i < n; i++) {
    if (!std::isfinite(x[i])) return "bump wants finite numbers";
    positive += x[i] > 0;
    now[i] = x[i] + static_cast<float>(c->ints[0]);
  }
  *count = positive;
  return nullptr;
}

const tenon_op ops[] = {
    {"tested::outer(Tensor x, Tensor y, float scale=1.0) -> Tensor", "x[x.size(0), y.size(0)]", outer, nullptr, nullptr},
    {"tested::bump(Tensor(a!) x, int by) -> Tensor", "i64[]", bump, nullptr, nullptr},
    {"tested::gate(Tensor x, Tensor y, float scale) -> Tensor", nullptr, nullptr, nullptr, "x * sigmoid(scale*y) + 0.5"},
};

} // namespace

extern "C" const tenon_op* tenon_ops(size_t* count) {
  *count = sizeof ops / sizeof *ops;
  return ops;
}
