// Comparison of results with what torch stored.
#pragma once
#include <string>

#include "tenon/tensor.h"

namespace tenon::cli {

/// Tolerances by dtype: an element passes where |a-b| <= rtol*|b| + atol*max(0.01, max|b|), the maximum over those up to 1e30,
/// and a larger one where |a-b| <= (rtol+atol)*|b|; NaN equals NaN, infinities must be equal, integers and bools exact.
/// Negative: the default of the dtype.
struct Tolerance {
  double rtol = -1, atol = -1;
};
/// The tensor, or bytes as floats of 8 bits.
Tensor as_float8(const Tensor& t, DType type);
/// Empty where `got` passes; else why not.
std::string compare(const Tensor& got, const Tensor& expected, const Tolerance& tolerance);

} // namespace tenon::cli
