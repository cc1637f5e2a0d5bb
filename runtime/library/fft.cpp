// The transform of one length, and the step that applies it along dims of a tensor.
#include "runtime/library/fft.h"

#include <cmath>
#include <numbers>

#include "runtime/library/common.h"

namespace tenon::library {

namespace {

constexpr int64_t largest_radix = 31; // beyond, radix^2 work per element is more than a convolution's

} // namespace

template <class T> Fft<T>::Fft(int64_t n) : n_(n) {
  int64_t rest = n;
  for (int64_t p : {4, 2, 3, 5})
    for (; rest > 1 && rest % p == 0; rest /= p) radices_.push_back(p);
  for (int64_t p = 7; p <= largest_radix; p += 2)
    for (; rest % p == 0; rest /= p) radices_.push_back(p);
  bool direct = rest == 1;
  cos_.resize(static_cast<size_t>(n)), sin_.resize(static_cast<size_t>(n));
  for (int64_t k = 0; k < n; k++) {
    // k^2 modulo 2n: the angle stays small, and so exact
    int64_t turn = direct ? 2 * k : k * k % (2 * n);
    double angle = -std::numbers::pi * static_cast<double>(turn) / static_cast<double>(n);
    cos_[static_cast<size_t>(k)] = static_cast<T>(std::cos(angle)),
    sin_[static_cast<size_t>(k)] = static_cast<T>(std::sin(angle));
  }
  if (direct) return;
  int64_t m = 1;
  while (m < 2 * n - 1) m *= 2;
  convolution_ = std::make_unique<Fft>(m);
  kernel_re_.assign(static_cast<size_t>(m), 0), kernel_im_.assign(static_cast<size_t>(m), 0);
  for (int64_t k = 0; k < n; k++)
    for (int64_t at : {k, (m - k) % m}) {
      kernel_re_[static_cast<size_t>(at)] = cos_[static_cast<size_t>(k)] / static_cast<T>(m);
      kernel_im_[static_cast<size_t>(at)] = -sin_[static_cast<size_t>(k)] / static_cast<T>(m);
    }
  std::vector<T> scratch(static_cast<size_t>(convolution_->scratch_size(1)));
  convolution_->run(kernel_re_.data(), kernel_im_.data(), 1, scratch.data());
}

template <class T> void Fft<T>::stage2(Line from, Line to, int64_t done, int64_t block) const {
  int64_t rest = n_ / (2 * done);
  for (int64_t j = 0; j < done; j++) {
    T c = cos_[static_cast<size_t>(j * rest)], s = sin_[static_cast<size_t>(j * rest)];
    const T *ar = from.re + 2 * j * block, *ai = from.im + 2 * j * block, *br = ar + block, *bi = ai + block;
    T *pr = to.re + j * block, *pi = to.im + j * block, *qr = pr + done * block, *qi = pi + done * block;
    for (int64_t r = 0; r < block; r++) {
      T tr = br[r] * c - bi[r] * s, ti = br[r] * s + bi[r] * c;
      pr[r] = ar[r] + tr, pi[r] = ai[r] + ti;
      qr[r] = ar[r] - tr, qi[r] = ai[r] - ti;
    }
  }
}

template <class T> void Fft<T>::stage4(Line from, Line to, int64_t done, int64_t block) const {
  int64_t rest = n_ / (4 * done);
  for (int64_t j = 0; j < done; j++) {
    T c[4], s[4];
    for (int64_t k = 1; k < 4; k++)
      c[k] = cos_[static_cast<size_t>(j * k * rest)], s[k] = sin_[static_cast<size_t>(j * k * rest)];
    const T *xr = from.re + 4 * j * block, *xi = from.im + 4 * j * block;
    T *yr = to.re + j * block, *yi = to.im + j * block;
    int64_t step = done * block;
    for (int64_t r = 0; r < block; r++) {
      T r0 = xr[r], i0 = xi[r];
      T r1 = xr[r + block] * c[1] - xi[r + block] * s[1], i1 = xr[r + block] * s[1] + xi[r + block] * c[1];
      T r2 = xr[r + 2 * block] * c[2] - xi[r + 2 * block] * s[2],
        i2 = xr[r + 2 * block] * s[2] + xi[r + 2 * block] * c[2];
      T r3 = xr[r + 3 * block] * c[3] - xi[r + 3 * block] * s[3],
        i3 = xr[r + 3 * block] * s[3] + xi[r + 3 * block] * c[3];
      T er = r0 + r2, ei = i0 + i2, fr = r0 - r2, fi = i0 - i2, gr = r1 + r3, gi = i1 + i3, hr = i1 - i3, hi = r3 - r1;
      yr[r] = er + gr, yi[r] = ei + gi;
      yr[r + step] = fr + hr, yi[r + step] = fi + hi;
      yr[r + 2 * step] = er - gr, yi[r + 2 * step] = ei - gi;
      yr[r + 3 * step] = fr - hr, yi[r + 3 * step] = fi - hi;
    }
  }
}

// `done` factors of n are transformed: [j][r] holds frequency j of the lines' elements r, r + n/done, ... The next
// radix p joins the p subsequences r + s*rest of each.
template <class T> void Fft<T>::stage(Line from, Line to, int64_t done, int64_t radix, int64_t width) const {
  int64_t rest = n_ / (radix * done), block = rest * width;
  if (radix == 2) return stage2(from, to, done, block);
  if (radix == 4) return stage4(from, to, done, block);
  for (int64_t j = 0; j < done; j++)
    for (int64_t q = 0; q < radix; q++) {
      T *yr = to.re + (j + done * q) * block, *yi = to.im + (j + done * q) * block;
      const T *xr = from.re + j * radix * block, *xi = from.im + j * radix * block;
      std::copy_n(xr, block, yr), std::copy_n(xi, block, yi);
      for (int64_t k = 1; k < radix; k++) {
        auto turn = static_cast<size_t>(k * (j + done * q) * rest % n_);
        T c = cos_[turn], s = sin_[turn];
        const T *ar = xr + k * block, *ai = xi + k * block;
        for (int64_t r = 0; r < block; r++) yr[r] += ar[r] * c - ai[r] * s, yi[r] += ar[r] * s + ai[r] * c;
      }
    }
}

template <class T> void Fft<T>::run_as_convolution(T* re, T* im, int64_t width, T* scratch) const {
  int64_t m = convolution_->n_;
  T *a = scratch, *b = a + m * width;
  std::fill(a, a + 2 * m * width, T(0));
  for (int64_t k = 0; k < n_; k++) {
    T c = cos_[static_cast<size_t>(k)], s = sin_[static_cast<size_t>(k)];
    for (int64_t i = k * width; i < (k + 1) * width; i++) a[i] = re[i] * c - im[i] * s, b[i] = re[i] * s + im[i] * c;
  }
  convolution_->run(a, b, width, b + m * width);
  for (int64_t k = 0; k < m; k++) {
    T c = kernel_re_[static_cast<size_t>(k)], s = kernel_im_[static_cast<size_t>(k)];
    for (int64_t i = k * width; i < (k + 1) * width; i++) {
      T x = a[i] * c - b[i] * s;
      b[i] = a[i] * s + b[i] * c, a[i] = x;
    }
  }
  convolution_->run(b, a, width, b + m * width);
  for (int64_t k = 0; k < n_; k++) {
    T c = cos_[static_cast<size_t>(k)], s = sin_[static_cast<size_t>(k)];
    for (int64_t i = k * width; i < (k + 1) * width; i++) re[i] = a[i] * c - b[i] * s, im[i] = a[i] * s + b[i] * c;
  }
}

template <class T> void Fft<T>::run(T* re, T* im, int64_t width, T* scratch) const {
  if (convolution_) return run_as_convolution(re, im, width, scratch);
  Line here{re, im}, there{scratch, scratch + n_ * width};
  int64_t done = 1;
  for (int64_t p : radices_) {
    stage(here, there, done, p, width);
    std::swap(here, there);
    done *= p;
  }
  if (here.re == re) return;
  std::copy_n(here.re, n_ * width, re), std::copy_n(here.im, n_ * width, im);
}

template class Fft<float>;
template class Fft<double>;

namespace {

// One dim of a transform. Of half a spectrum the other half is its mirrored conjugate.
template <class T> struct DimTransform {
  const T* from; // complex, or real
  T* to;
  std::span<const int64_t> from_sizes, to_sizes;
  int64_t dim, length;
  bool real_input, real_output, forward;
  T scale;

  void lines(int64_t begin, int64_t end, const Fft<T>& fft) const {
    Lanes in(from_sizes, dim), out(to_sizes, dim);
    int64_t width = std::min<int64_t>(end - begin, max_width);
    std::vector<T> memory(static_cast<size_t>(2 * length * width + fft.scratch_size(width)));
    T *re = memory.data(), *im = re + length * width, *scratch = im + length * width;
    for (; begin < end; begin += width) {
      width = std::min(width, end - begin);
      for (int64_t w = 0; w < width; w++) load(in, begin + w, re + w, im + w, width);
      forward ? fft.run(re, im, width, scratch) : fft.run(im, re, width, scratch);
      for (int64_t w = 0; w < width; w++) store(out, begin + w, re + w, im + w, width);
    }
  }

private:
  static constexpr int64_t max_width = 16;

  void load(const Lanes& in, int64_t line, T* re, T* im, int64_t width) const {
    int64_t start = in.start(line);
    if (real_input) {
      for (int64_t j = 0; j < length; j++) re[j * width] = from[start + j * in.inner], im[j * width] = 0;
      return;
    }
    for (int64_t j = 0; j < std::min(in.n, length); j++) {
      const T* z = from + 2 * (start + j * in.inner);
      re[j * width] = z[0], im[j * width] = z[1];
    }
    for (int64_t j = in.n; j < length; j++)
      re[j * width] = re[(length - j) * width], im[j * width] = -im[(length - j) * width];
  }
  void store(const Lanes& out, int64_t line, const T* re, const T* im, int64_t width) const {
    int64_t start = out.start(line);
    for (int64_t j = 0; j < out.n; j++) {
      int64_t at = start + j * out.inner;
      if (real_output)
        to[at] = re[j * width] * scale;
      else
        to[2 * at] = re[j * width] * scale, to[2 * at + 1] = im[j * width] * scale;
    }
  }
};

template <class T> void transform(const LibraryCall& c, const DimTransform<T>& d) {
  if (d.length == 0) return;
  Lanes lanes(d.to_sizes, d.dim);
  Fft<T> fft(d.length);
  parallel(c, lanes.count(), std::max<int64_t>(16, (1 << 14) / d.length),
           [&](int64_t begin, int64_t end) { d.lines(begin, end, fft); });
}

double scale_of(const LibraryCall& c, std::span<const int64_t> sizes, std::span<const int64_t> dims) {
  double n = 1;
  for (int64_t d : dims) n *= static_cast<double>(sizes[static_cast<size_t>(d)]);
  auto kind = static_cast<FftScale>(c.ints[1]);
  return kind == FftScale::None ? 1 : kind == FftScale::Root ? 1 / std::sqrt(n) : 1 / n;
}

template <class T> void fft_of(const LibraryCall& c) {
  const LibraryTensor &in = c.inputs[0], &out = c.outputs[0];
  bool forward = c.ints[0] != 0, from_real = !is_complex(in.dtype), to_real = !is_complex(out.dtype);
  std::span<const int64_t> dims = c.ints.subspan(2), full = to_real ? out.sizes : in.sizes;
  auto scale = static_cast<T>(scale_of(c, full, dims));
  std::vector<T> copy; // of complex values, transformed along all dims but the last
  const T* from = in.as<const T>();
  if (to_real && dims.size() > 1) copy.assign(from, from + 2 * in.numel()), from = copy.data();
  auto along = [&](size_t k, const T* source, std::span<const int64_t> source_sizes, T* target,
                   std::span<const int64_t> target_sizes, bool real_in, bool real_out, bool scaled) {
    transform<T>(c, {source, target, source_sizes, target_sizes, dims[k], full[static_cast<size_t>(dims[k])], real_in,
                     real_out, forward, scaled ? scale : T(1)});
  };
  size_t last = dims.size() - 1;
  if (to_real) {
    for (size_t k = 0; k < last; k++) along(k, copy.data(), in.sizes, copy.data(), in.sizes, false, false, false);
    return along(last, from, in.sizes, out.as<T>(), out.sizes, false, true, true);
  }
  along(last, from, in.sizes, out.as<T>(), out.sizes, from_real, false, true);
  for (size_t k = 0; k < last; k++) along(k, out.as<T>(), out.sizes, out.as<T>(), out.sizes, false, false, false);
}

} // namespace

const char* fft(const LibraryCall& c) {
  return guarded([&]() -> const char* {
    const LibraryTensor &in = c.inputs[0], &out = c.outputs[0];
    if (out.numel() == 0) return nullptr;
    int64_t last = c.ints.back(), needed = is_complex(out.dtype) ? in.size(last) : out.size(last) / 2 + 1;
    if (in.size(last) < std::max<int64_t>(needed, 1)) return message("a dim of size {} is too short for a transform of length {}", in.size(last), out.size(last));
    part_type(c.outputs[0].dtype) == DType::F64 ? fft_of<double>(c) : fft_of<float>(c);
    return nullptr;
  });
}

} // namespace tenon::library
