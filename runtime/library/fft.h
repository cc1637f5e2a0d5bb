// A discrete Fourier transform of one length, over many lines at once: the elements of the lines lie side by side, real
// and imaginary parts apart, so that every loop runs over contiguous memory. Mixed radix without reordering (Stockham);
// lengths with a large prime factor become a convolution of a length that has none (Bluestein).
#pragma once
#include <memory>
#include <vector>

#include "base/check.h"

namespace tenon::library {

template <class T> class Fft {
public:
  explicit Fft(int64_t n);
  int64_t length() const { return n_; }
  /// The forward transform of `width` lines, in place: element j of line w at [j*width + w]. Exchanging re and im
  /// inverts it, up to the factor n. `scratch` is of scratch_size(width).
  void run(T* re, T* im, int64_t width, T* scratch) const;
  int64_t scratch_size(int64_t width) const { return 2 * (convolution_ ? 2 * convolution_->n_ : n_) * width; }

private:
  struct Line {
    T *re, *im;
  };
  void stage(Line from, Line to, int64_t done, int64_t radix, int64_t width) const;
  void stage2(Line from, Line to, int64_t done, int64_t block) const;
  void stage4(Line from, Line to, int64_t done, int64_t block) const;
  void run_as_convolution(T* re, T* im, int64_t width, T* scratch) const;

  int64_t n_;
  std::vector<int64_t> radices_;
  std::vector<T> cos_, sin_;             // of -2 pi k / n; for a convolution of -pi k^2 / n
  std::unique_ptr<Fft> convolution_;     // of a power of two, at least 2n - 1
  std::vector<T> kernel_re_, kernel_im_; // what it multiplies by, transformed and divided by its length
};

extern template class Fft<float>;
extern template class Fft<double>;

} // namespace tenon::library
