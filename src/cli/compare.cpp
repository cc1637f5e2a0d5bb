// compare: element by element, in double.
#include "cli/compare.h"

#include <algorithm>
#include <cmath>

#include "expr/eval.h"

namespace tenon::cli {

namespace {

Tolerance default_of(DType t) {
  switch (t) {
  case DType::F32:
  case DType::C64: return {1e-4, 5e-5};
  case DType::F64:
  case DType::C128: return {1e-7, 1e-8};
  case DType::F16: return {2e-3, 2e-3};
  case DType::BF16: return {1.6e-2, 1.6e-2};
  default: return {0, 0};
  }
}

std::string sizes_text(const Tensor& t) {
  std::string s;
  for (int64_t d : t.sizes()) s += (s.empty() ? "" : ",") + std::to_string(d);
  return "(" + s + ")";
}

// Beyond this, as masks are, an element says nothing of the others' scale.
constexpr double huge = 1e30;

template <class T> std::string compare_floats(const T* a, const T* b, int64_t n, const Tolerance& tol) {
  double largest = 0.01;
  for (int64_t i = 0; i < n; i++)
    if (double v = std::fabs(convert<double>(b[i])); v <= huge) largest = std::max(largest, v);
  double slack = tol.atol * largest, worst = -1;
  int64_t bad = 0, at = 0;
  for (int64_t i = 0; i < n; i++) {
    double x = convert<double>(a[i]), y = convert<double>(b[i]), size = std::fabs(y);
    double allowed = size > huge ? (tol.rtol + tol.atol) * size : tol.rtol * size + slack;
    bool ok = std::isnan(y) ? std::isnan(x) : std::isinf(y) ? x == y : std::isfinite(x) && std::fabs(x - y) <= allowed;
    if (ok) continue;
    bad++;
    double error = std::isfinite(x) && std::isfinite(y) ? std::fabs(x - y) : INFINITY;
    if (error > worst) worst = error, at = i;
  }
  if (bad == 0) return {};
  return fmt::format("{} of {} elements differ, worst at {}: {} instead of {}", bad, n, at, convert<double>(a[at]), convert<double>(b[at]));
}

template <class T> std::string compare_exact(const T* a, const T* b, int64_t n) {
  int64_t bad = 0, at = -1;
  for (int64_t i = 0; i < n; i++)
    if (a[i] != b[i]) {
      bad++;
      if (at < 0) at = i;
    }
  if (bad == 0) return {};
  return fmt::format("{} of {} elements differ, first at {}: {} instead of {}", bad, n, at, static_cast<int64_t>(a[at]),
                     static_cast<int64_t>(b[at]));
}

Tensor from_float8(const Tensor& t) {
  Tensor bytes = t.contiguous(), out(DType::F32, t.sizes());
  for (int64_t i = 0; i < t.numel(); i++) out.data_as<float>()[i] = tenon::from_float8(bytes.data_as<uint8_t>()[i], t.dtype());
  return out;
}

std::string compare_float8(const Tensor& got, const Tensor& expected, const Tolerance& tolerance) {
  if (got.dtype() != expected.dtype()) return fmt::format("dtype {} instead of {}", name_of(got.dtype()), name_of(expected.dtype()));
  return compare(from_float8(got), from_float8(expected), {std::max(tolerance.rtol, 0.0), std::max(tolerance.atol, 0.0)});
}

} // namespace

Tensor as_float8(const Tensor& t, DType type) {
  return t.dtype() == DType::U8 ? Tensor(type, t.sizes(), t.strides(), t.storage(), t.data()) : t;
}

std::string compare(const Tensor& got, const Tensor& expected, const Tolerance& tolerance) {
  if (is_float8(got.dtype())) return compare_float8(got, as_float8(expected, got.dtype()), tolerance);
  if (got.dtype() != expected.dtype()) return fmt::format("dtype {} instead of {}", name_of(got.dtype()), name_of(expected.dtype()));
  if (got.sizes() != expected.sizes()) return fmt::format("shape {} instead of {}", sizes_text(got), sizes_text(expected));
  Tensor a = got.contiguous(), b = expected.contiguous();
  Tolerance tol = default_of(got.dtype());
  if (tolerance.rtol >= 0) tol.rtol = tolerance.rtol;
  if (tolerance.atol >= 0) tol.atol = tolerance.atol;
  return dispatch(got.dtype(), [&]<class T>(T) -> std::string {
    if constexpr (std::is_integral_v<T>) return compare_exact(a.data_as<T>(), b.data_as<T>(), a.numel());
    else if constexpr (is_complex_v<T>)
      return compare_floats(a.data_as<decltype(T::re)>(), b.data_as<decltype(T::re)>(), 2 * a.numel(), tol);
    else return compare_floats(a.data_as<T>(), b.data_as<T>(), a.numel(), tol);
  });
}

} // namespace tenon::cli
