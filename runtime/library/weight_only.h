// Products with packed weights of 4 and 8 bits, by given kernels.
#pragma once
#include <vector>

#include "runtime/library/weight_only_kernels.h"
#include "runtime/parallel.h"

namespace tenon::library {

/// Those that this CPU runs, the best one first.
std::vector<const WeightOnlyKernels*> weight_only_kernels();
/// y [m, n] = x [m, k] times what pack_quantized_weight made; `low` is what a code of 0 stands for. Rows of x that hold
/// infinities or NaN are multiplied as the definition says.
void weight_only_product(const WeightOnlyKernels& kernels, const Workers* workers, const WeightOnlyLayout& layout, int64_t low,
                         const float* x, int64_t m, const uint8_t* packed, float* y, int64_t n);

} // namespace tenon::library
