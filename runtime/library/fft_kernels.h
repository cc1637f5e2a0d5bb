// The vector code of Fourier transforms, compiled for each instruction set. It works on blocks: as many lines as a
// vector has lanes, side by side. Element j of a block is two vectors, [j][real, imaginary][lane]; `z` below points to
// one.
#pragma once
#include <cstdint>

namespace tenon::library {

/// One radix of a transform: `done` frequencies of done*radix*rest = n elements are known, and become done*radix.
template <class T> struct FftStage {
  int radix;
  int64_t done, rest;
  const T* turns; ///< [done][radix - 1] complex: what multiplies the inputs 1 .. radix-1; null for the first stage
  const T* roots; ///< for radices that have no code of their own: [radix] complex roots of 1
};

/// The largest prime factor that a stage takes.
constexpr int max_radix = 61;

/// A line of rows * columns elements, both whole vectors, as a matrix.
template <class T> struct FftMatrix {
  int64_t rows, columns;
  const FftStage<T>*down, *across; ///< the stages of a column, of a row
  const T* turns;                  ///< [vector of rows][column][re, im][lane]: what multiplies between them
};
constexpr bool is_matrix_side(int64_t n) { return n == 16 || n == 32 || n == 48 || n == 64 || n == 96 || n == 128; }

template <class T> struct FftKernels {
  int64_t lanes;

  /// Element i of `count` (numbers) of each row becomes vector z[i*step]; back, times scale. `rows` has `lanes`
  /// pointers; only the first `used` rows are written. What lies `ahead` numbers behind the rows is fetched, where that is not 0.
  void (*load_rows)(const T* const* rows, int64_t count, T* z, int64_t step, int64_t ahead);
  void (*store_rows)(T* const* rows, int64_t used, int64_t count, const T* z, int64_t step, T scale, int64_t ahead);
  /// `count` vectors of real numbers, or pairs of them from complex ones: `used` neighbours at base, base + stride, ...
  void (*load_columns)(const T* base, int64_t stride, int64_t used, int64_t count, bool complex, T* z, int64_t step);
  void (*store_columns)(T* base, int64_t stride, int64_t used, int64_t count, bool complex, const T* z, int64_t step, T scale);

  /// The transform, ping-pong between two blocks; returns the one with the result. `inverse`, here and below: real and
  /// imaginary vectors have their roles exchanged, which inverts everything up to the factor n.
  T* (*transform)(const FftStage<T>* stages, int64_t count, T* here, T* there, bool inverse);
  /// z[j] *= w[j], complex w.
  void (*multiply)(T* z, const T* w, int64_t count, bool inverse);
  /// z[i] *= w[i / repeat] for real vectors.
  void (*multiply_real)(T* z, const T* w, int64_t count, int64_t repeat);
  /// z[j] *= a[j] b[j], where a has a factor for every lane.
  void (*multiply_lanes)(T* z, const T* a, const T* b, int64_t count, bool inverse);

  /// The transform of 2n real numbers from that of n complex ones that they make in pairs, and back: n + 1 elements. w:
  /// the first n/2 + 1 roots of order 2n.
  void (*unpack_real)(T* z, int64_t n, const T* w);
  void (*pack_real)(T* z, int64_t n, const T* w);
  /// The same in one line of interleaved numbers: the root of k is a[k / lanes] times entry k % lanes of b
  /// ([2][lanes]).
  void (*unpack_line)(T* line, int64_t n, const T* a, const T* b);
  void (*pack_line)(const T* from, T* to, int64_t n, const T* a, const T* b);
  /// A line of complex elements, times scale; of 2n real numbers, each first multiplied by one of the window, where there is one, to
  /// n + 1 elements; and back, inverse, times 2. `room` has fft_line_room() numbers, a and b are as above.
  void (*line)(const FftMatrix<T>& m, const T* from, bool inverse, T scale, T* to, T* room);
  void (*real_line)(const FftMatrix<T>& m, const T* from, const T* window, T scale, const T* a, const T* b, T* to, T* room);
  void (*to_real_line)(const FftMatrix<T>& m, const T* from, T scale, const T* a, const T* b, T* to, T* room);
  /// Two lines of n real numbers as one complex one: (n/2 + 1) elements each from the transform of n, and back.
  void (*separate)(const T* z, int64_t n, T* x, T* y);
  void (*combine)(const T* x, const T* y, int64_t n, T* z);
};

/// Those of the CPU.
template <class T> const FftKernels<T>& fft_kernels();

} // namespace tenon::library
