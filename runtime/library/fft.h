// Transforms of many lines of a tensor: in blocks of lines, one beside the other in the lanes of vectors, where there
// are many lines of moderate length; else line by line, each as a matrix whose columns are transformed, then its rows.
#pragma once
#include "runtime/library/common.h"
#include "runtime/library/fft_plan.h"

namespace tenon::library {

/// The lines of an operand: outer * inner of them; strides in numbers, of which a complex element is two.
template <class T> struct FftLines {
  T* data;
  bool complex;
  int64_t outer_stride, inner_stride, stride;
  T* line(int64_t l, int64_t inner) const { return data + l / inner * outer_stride + l % inner * inner_stride; }
  /// `count` lines from number l on, into `to`.
  void lines(int64_t l, int64_t count, int64_t inner, T** to) const {
    int64_t i = l % inner;
    T* row = data + l / inner * outer_stride;
    for (int64_t k = 0; k < count; k++) {
      to[k] = row + i * inner_stride;
      if (++i == inner) i = 0, row += outer_stride;
    }
  }
  bool contiguous() const { return stride == 1 + complex; }
};

/// Transforms of outer * inner lines. Complex to complex of length n; or real to complex, then of n real numbers and
/// n/2 + 1 complex ones, or all n (`whole`); or complex to real, from n/2 + 1 complex ones. Input and output may be the
/// same lines.
template <class T> struct FftPass {
  int64_t n;
  bool inverse;
  T scale;
  int64_t outer, inner;
  FftLines<const T> in;
  FftLines<T> out;
  bool whole = false;
  const T* window = nullptr; ///< of n numbers: multiplies what goes in, or comes out where that is real
};

template <class T> void run_fft(const LibraryCall& c, const FftPass<T>& pass);

/// One line of plan.n complex elements, not in place. `room` has fft_line_room() numbers; without it memory is taken as
/// needed, and the call's workers share the work.
template <class T> int64_t fft_line_room(const FftLinePlan<T>& plan);
template <class T>
void fft_line(const FftLinePlan<T>& plan, const T* from, T* to, bool inverse, T scale, T* room, const LibraryCall* c = nullptr);

} // namespace tenon::library
