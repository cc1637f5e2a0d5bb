// What transforms of one length need: factors and tables. Made once for each length and kept.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "runtime/library/fft_kernels.h"

namespace tenon::library {

/// The transform of n elements of a block. Mixed radix; lengths with a large prime factor become a convolution of a
/// length that has none (Bluestein).
template <class T> struct FftPlan {
  explicit FftPlan(int64_t n);
  FftPlan(const FftPlan&) = delete;
  FftPlan& operator=(const FftPlan&) = delete;

  int64_t n;
  std::vector<FftStage<T>> stages;
  std::vector<T> table;
  std::shared_ptr<const FftPlan> convolution; ///< of at least 2n - 1 elements; null: not needed
  std::vector<T> chirp, kernel;               ///< complex: exp(-i pi k^2 / n); what the convolution multiplies by, transformed

  /// Elements that the blocks need room for.
  int64_t room() const { return convolution ? convolution->n : n; }
  /// The transform of `here`, which ends in it or in `there`: the one that is returned.
  T* run(T* here, T* there, bool inverse) const;
  size_t bytes() const { return (table.size() + chirp.size() + kernel.size()) * sizeof(T); }
};

/// The transform of one line: n = rows * columns elements, as blocks of columns, then as blocks of rows; or as a
/// convolution.
template <class T> struct FftLinePlan {
  explicit FftLinePlan(int64_t n);
  FftLinePlan(const FftLinePlan&) = delete;
  FftLinePlan& operator=(const FftLinePlan&) = delete;

  int64_t n, rows = 0, columns = 0;
  std::shared_ptr<const FftPlan<T>> down, across; ///< of `rows` elements, of `columns`
  std::vector<T> lane_turns,
      block_turns; ///< [rows][re, im][lane], [block of columns][rows] complex: a factor each of what comes between
  std::shared_ptr<const FftLinePlan> convolution; ///< else null
  std::vector<T> chirp, kernel;
  std::optional<FftMatrix<T>> matrix; ///< where one kernel does all of it: sides of whole vectors, what the caches hold
  std::vector<T> matrix_turns;

  void make_matrix(int64_t lanes);
  size_t bytes() const { return (lane_turns.size() + block_turns.size() + chirp.size() + kernel.size() + matrix_turns.size()) * sizeof(T); }
};

/// Whether lines of n have a matrix.
template <class T> bool fft_has_matrix(int64_t n);

/// What makes the transform of 2n real numbers of one of n complex ones: the roots of order 2n, up to n/2, complex; and
/// as products of one of each vector's begin and one of the lane.
template <class T> struct FftRealRoots {
  explicit FftRealRoots(int64_t n);
  std::vector<T> each, vectors, lanes;
  size_t bytes() const { return (each.size() + vectors.size() + lanes.size()) * sizeof(T); }
};

/// The plan of length n, made or kept from before.
template <class P> std::shared_ptr<const P> fft_cached(int64_t n);

/// Vector operations that a transform takes, by rule of thumb: of a block, and of one line.
template <class T> struct FftCosts {
  explicit FftCosts(int64_t n);
  double block, line;
  size_t bytes() const { return sizeof *this; }
};

} // namespace tenon::library
