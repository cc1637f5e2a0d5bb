// Tensors that are computed when something reads them: another one, times a number for each index of its first dim.
#pragma once
#include <vector>

#include "tenon/tensor.h"

namespace tenon {

struct Scaled {
  Tensor from; // f32, contiguous
  std::vector<float> by;
};

/// A tensor of the sizes of `s.from`, whose elements come to `memory` with the first call of `settle`.
Tensor scaled_tensor(Scaled s, std::shared_ptr<void> memory);
/// What the tensor is to be made of; null where its elements are there.
const Scaled* scaled_of(const Tensor& t);
/// Has the elements computed, if they are not there. For any number of threads.
void settle(const Tensor& t);

} // namespace tenon
