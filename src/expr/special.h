// Special functions that Op::Call names: C functions of doubles. Generated code calls lane by lane those that it has no vector code for.
#pragma once
#include <span>
#include <string_view>

namespace tenon {

struct SpecialEntry {
  std::string_view name;
  int arity;
  double (*function)(const double* args);
};

/// All of them; expr/special.cpp defines the numerics.
extern const std::span<const SpecialEntry> special_functions;

} // namespace tenon
