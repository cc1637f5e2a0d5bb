// A shared library of operators, as a user would write one: tests open it by name.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "tenon/custom_op.h"
#include "tenon/tensor.h"

namespace {

const char* outer(const tenon_op_call* c) { // out[i, j] = x[i]*y[j]*scale
  const tenon_tensor *a = c->args[0].tensors, *b = c->args[1].tensors;
  auto *x = static_cast<const float*>(a->data), *y = static_cast<const float*>(b->data);
  auto* out = static_cast<float*>(c->outputs[0].data);
  int64_t n = a->sizes[0], m = b->sizes[0];
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < m; j++) out[i * m + j] = x[i] * y[j] * static_cast<float>(c->args[2].numbers[0]);
  return nullptr;
}

const char* bump(const tenon_op_call* c) { // x += by, in place; returns how many elements were positive
  const tenon_tensor& a = c->args[0].tensors[0];
  auto* x = static_cast<const float*>(a.data);
  auto* count = static_cast<int64_t*>(c->outputs[0].data);
  auto* now = static_cast<float*>(c->outputs[1].data);
  int64_t n = 1, positive = 0;
  for (int32_t d = 0; d < a.rank; d++) n *= a.sizes[d];
  for (int64_t i = 0; i < n; i++) {
    if (!std::isfinite(x[i])) return "bump wants finite numbers";
    positive += x[i] > 0;
    now[i] = x[i] + static_cast<float>(c->args[1].ints[0]);
  }
  *count = positive;
  return nullptr;
}

int64_t elements(const tenon_tensor& t) {
  int64_t n = 1;
  for (int32_t d = 0; d < t.rank; d++) n *= t.sizes[d];
  return n;
}
const float* floats(const tenon_value& v) { return static_cast<const float*>(v.tensors[0].data); }
int64_t count_positive(const tenon_value& v) {
  return std::count_if(floats(v), floats(v) + elements(v.tensors[0]), [](float x) { return x > 0; });
}

const char* named(const tenon_op_call* c) { // x.to(dtype)*len(mode) + len(tag) + sum(sizes)
  const tenon_value *mode = c->args + 1, *dtype = c->args + 2, *device = c->args + 3, *tag = c->args + 4, *sizes = c->args + 5;
  if (device->texts && std::strcmp(device->texts[0], "cpu") != 0) return "named runs on the CPU";
  if (dtype->ints[0] != c->outputs[0].dtype) return "another dtype than that of the result";
  double scale = static_cast<double>(std::strlen(mode->texts[0])), add = tag->texts ? static_cast<double>(std::strlen(tag->texts[0])) : 0;
  for (size_t i = 0; i < sizes->count; i++) add += static_cast<double>(sizes->ints[i]);
  for (int64_t i = 0; i < elements(c->outputs[0]); i++) {
    double v = static_cast<double>(floats(c->args[0])[i]) * scale + add;
    if (c->outputs[0].dtype == static_cast<int32_t>(tenon::DType::F64)) static_cast<double*>(c->outputs[0].data)[i] = v;
    else static_cast<float*>(c->outputs[0].data)[i] = static_cast<float>(v);
  }
  return nullptr;
}

const char* parts(const tenon_op_call* c) { // x.chunk(n)
  const float* x = floats(c->args[0]);
  for (size_t i = 0; i < c->num_outputs; i++) {
    int64_t n = elements(c->outputs[i]);
    std::copy(x, x + n, static_cast<float*>(c->outputs[i].data));
    x += n;
  }
  return nullptr;
}

const char* positive(const tenon_op_call* c) {
  *static_cast<int64_t*>(c->outputs[0].data) = count_positive(c->args[0]);
  return nullptr;
}

const char* half(const tenon_op_call* c) { // of the rows of x
  *static_cast<int64_t*>(c->outputs[0].data) = c->args[0].tensors[0].sizes[0] / 2;
  return nullptr;
}

const char* clear(const tenon_op_call* c) { // x = 0, in place; how many elements were positive
  *static_cast<int64_t*>(c->outputs[0].data) = count_positive(c->args[0]);
  std::fill_n(static_cast<float*>(c->outputs[1].data), elements(c->outputs[1]), 0.0f);
  return nullptr;
}

const char* gelu(const tenon_op_call* c) { // a kernel of aten::gelu
  if (std::strcmp(c->args[1].texts[0], "none") != 0) return "gelu without approximation only";
  const float* x = floats(c->args[0]);
  for (int64_t i = 0; i < elements(c->outputs[0]); i++)
    static_cast<float*>(c->outputs[0].data)[i] = 0.5f * x[i] * (1 + std::erf(x[i] * 0.70710678f));
  return nullptr;
}

const tenon_op ops[] = {
    {"tested::outer(Tensor x, Tensor y, float scale=1.0) -> Tensor", "x[x.size(0), y.size(0)]", outer, nullptr, nullptr},
    {"tested::bump(Tensor(a!) x, int by) -> Tensor", "i64[]", bump, nullptr, nullptr},
    {"tested::gate(Tensor x, Tensor y, float scale) -> Tensor", nullptr, nullptr, nullptr, "x * sigmoid(scale*y) + 0.5"},
    {"tested::named(Tensor x, str mode, ScalarType dtype, Device? device=None, str? tag=None, SymInt[]? sizes=None) -> Tensor", "dtype[x]",
     named, nullptr, nullptr},
    {"tested::parts(Tensor x, SymInt n) -> Tensor[]", "x[x.size(0) // n, x.size(1)] * n", parts, nullptr, nullptr},
    {"tested::positive(Tensor x) -> SymInt", "", positive, nullptr, nullptr},
    {"tested::half(Tensor x) -> SymInt", "", half, nullptr, nullptr},
    {"tested::clear(Tensor(a!) x) -> SymInt", "", clear, nullptr, nullptr},
};
const tenon_kernel kernels[] = {{"tested::gelu", "aten::gelu", "f32", TENON_ROW_MAJOR, gelu, nullptr}};

} // namespace

extern "C" const tenon_op* tenon_ops(size_t* count) {
  *count = sizeof ops / sizeof *ops;
  return ops;
}
extern "C" const tenon_kernel* tenon_kernels(size_t* count) {
  *count = sizeof kernels / sizeof *kernels;
  return kernels;
}
