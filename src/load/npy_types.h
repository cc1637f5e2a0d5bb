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
    {"|b1", DType::Bool},
    {"|u1", DType::U8},
    {"|i1", DType::I8},
    {"<i2", DType::I16},
    {"<i4", DType::I32},
    {"<i8", DType::I64},
    {"<f2", DType::F16},
    {"<u2", DType::BF16},
    {"<f4", DType::F32},
    {"<f8", DType::F64},
    {"<c8", DType::C64},
    {"<c16", DType::C128},
    {"<u8", DType::U64},
    // NumPy has none of 8 bits: their bytes
    {"|u1", DType::F8E4M3FN},
    {"|u1", DType::F8E5M2},
    {"|u1", DType::F8E4M3FNUZ},
    {"|u1", DType::F8E5M2FNUZ},
};
static_assert(std::size(npy_types) == num_dtypes);

} // namespace tenon
