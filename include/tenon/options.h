// Options of compiling and running.
#pragma once
#include <cstdint>
#include <string>

namespace tenon {

/// The vector instructions that generated code may use. Auto asks the CPU; the others mask features, for tests.
enum class Isa { Auto, Avx2, Avx512 };

/// What f32 matrix products and convolutions compute with. Strict: f32. BF16: both operands are rounded to bf16, sums stay f32.
/// Int8Weights: constant weights of linear layers become bytes with a scale for each output, everything else stays f32.
enum class Precision { Strict, BF16, Int8Weights };

struct Options {
  /// Threads of one run() call, the calling one included; 0 means all cores the process may use.
  int threads = 0;
  Isa isa = Isa::Auto;
  /// Anything but Strict changes results: Program::error_of measures by how much. The interpreter is always strict.
  Precision precision = Precision::Strict;
  /// Run everything in the reference interpreter: slow, for comparison.
  bool interpret = false;
  /// An operator that generated code does not cover is an Error(Unsupported) instead of an interpreted step.
  bool forbid_fallback = false;
  /// Every step is timed, for Executable::explain(); calls become slower.
  bool profile = false;
  /// Seed of the random operators.
  uint64_t seed = 0;
};

} // namespace tenon
