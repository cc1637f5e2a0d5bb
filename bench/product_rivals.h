// Libraries that compute the same matrix products. BLAS libraries are opened by name when the program runs, those that are
// not there are left out; oneDNN and libxsmm are there if the build found them.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tenon/tensor.h"

namespace tenon::bench {

/// C = A * B for each batch, all contiguous: A of m x k (k x m if a_transposed), B of k x n (n x k if b_transposed). C is of
/// F64 for F64, of I32 for 8-bit integers, else of F32.
struct Product {
  int64_t batch = 1, m = 1, n = 1, k = 1;
  bool a_transposed = false, b_transposed = false;
  bool constant = false; // B is known ahead of time, and may be kept in any form
  DType a_type = DType::F32, b_type = DType::F32;

  DType sum() const { return a_type == DType::F64 ? a_type : size_of(b_type) == 1 && size_of(a_type) == 1 ? DType::I32 : DType::F32; }
};
struct ProductData {
  const void *a, *b;
  void* c;
};

struct ProductRival {
  std::string name;
  /// Makes a call ready that computes the product with so many threads; none where the library does not.
  std::function<std::function<void()>(const Product&, const ProductData&, int threads)> prepare;
};
const std::vector<ProductRival>& product_rivals();

} // namespace tenon::bench
