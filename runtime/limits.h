// What the machine can do at best, measured: the yardstick of reports.
#pragma once
#include <cstddef>
#include <vector>

#include "runtime/micro_kernels.h"
#include "runtime/parallel.h"

namespace tenon {

/// Of all threads together.
struct Limits {
  std::vector<double> flops_per_ns; // of each family of matrix kernels, by its number: a register tile over operands in L1
  double bytes_per_ns = 0;          // read and written by a copy of more than the caches hold
};
/// Takes some milliseconds for each of `families`; the others' flops_per_ns are 0.
Limits measure_limits(const KernelTable& kernels, const Workers& workers, const std::vector<int>& families);

/// Nanoseconds until a thread sees what another one wrote, of two of the workers; 0: no two ran side by side. Takes a millisecond.
double handover_ns(const Workers& workers);

/// Numbers that are ordinary ones of any type, for peaks: where power bounds the clock, products of zeros run faster than any others do
/// (bf16 tiles by a quarter).
void fill_ordinary(char* to, size_t bytes);

} // namespace tenon
