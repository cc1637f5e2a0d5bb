// NumPy's names of tenon's dtypes, for reading and writing .npy.
#pragma once
#include <string_view>

#include "tenon/tensor.h"

namespace tenon {

struct NpyType {
  std::string_view descr;
  DType type;
};
inline constexpr NpyType npy_types[] = {
    {"|b1", DType::Bool}, {"|u1", DType::U8},  {"|i1", DType::I8},  {"<i2", DType::I16},
    {"<i4", DType::I32},  {"<i8", DType::I64}, {"<f2", DType::F16}, {"<u2", DType::BF16},
    {"<f4", DType::F32},  {"<f8", DType::F64}, {"<c8", DType::C64}, {"<u8", DType::U64},
};
static_assert(std::size(npy_types) == num_dtypes);

} // namespace tenon
