// The steps that transform along dims of a tensor.
#include <algorithm>
#include <cmath>

#include "runtime/library/fft.h"
#include "runtime/wide.h"

namespace tenon::library {

namespace {

double scale_of(int64_t code, double n) {
  auto kind = static_cast<FftScale>(code);
  return kind == FftScale::None ? 1 : kind == FftScale::Root ? 1 / std::sqrt(n) : 1 / n;
}

// An operand whose complex numbers may be pairs of real ones in a last dim.
struct Operand {
  bool complex;
  std::span<const int64_t> sizes;
  Operand(const LibraryTensor& t, bool parts) : complex(parts || is_complex(t.dtype)), sizes(t.sizes) {
    if (parts) sizes = sizes.first(sizes.size() - 1);
  }
  int64_t size(int64_t d) const { return sizes[static_cast<size_t>(d)]; }
};

// The lines of a contiguous tensor along a dim; a dim before those of size 1 is the last one as well.
template <class T> FftLines<T> lines_of(T* data, bool complex, std::span<const int64_t> sizes, int64_t dim) {
  Lanes lanes(sizes, dim);
  int64_t unit = 1 + complex;
  if (lanes.inner == 1) return {data, complex, 0, lanes.n * unit, unit};
  return {data, complex, lanes.n * lanes.inner * unit, unit, lanes.inner * unit};
}

// The second half of a row whose first half is known, from the row of the negative frequencies: conjugates, backwards.
template <class T> TENON_WIDE void conjugate_backwards(const T* from, int64_t count, T* end) {
  for (int64_t k = 1; k <= count; k++) end[-2 * k] = from[2 * k], end[1 - 2 * k] = -from[2 * k + 1];
}

// All of the spectrum of real numbers from its half along the last dim.
template <class T>
void store_whole(const LibraryCall& c, const T* half, std::span<const int64_t> sizes, std::span<const int64_t> dims, T* out) {
  int64_t n = sizes.back(), known = n / 2 + 1;
  auto opposite = [&](int64_t row) {
    int64_t at = 0, step = 1;
    for (auto d = static_cast<int64_t>(sizes.size()) - 2; d >= 0; d--) {
      int64_t size = sizes[static_cast<size_t>(d)], i = row % size;
      row /= size;
      if (i != 0 && std::find(dims.begin(), dims.end(), d) != dims.end()) i = size - i;
      at += i * step, step *= size;
    }
    return at;
  };
  parallel(c, product(sizes) / n, std::max<int64_t>(1, 8192 / n), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; row++) {
      T* to = out + 2 * row * n;
      std::copy_n(half + 2 * row * known, 2 * known, to);
      conjugate_backwards(half + 2 * opposite(row) * known, n - known, to + 2 * n);
    }
  });
}

template <class T>
void along_dims(const LibraryCall& c, const Operand& in, const Operand& out, std::span<const int64_t> dims, const T* from, T* to) {
  bool forward = c.ints[0] != 0, from_real = !in.complex, to_real = !out.complex;
  std::span<const int64_t> full = to_real ? out.sizes : in.sizes;
  double count = 1;
  for (int64_t d : dims) count *= static_cast<double>(full[static_cast<size_t>(d)]);
  auto scale = static_cast<T>(scale_of(c.ints[1], count));
  auto along = [&](size_t k, const T* source, std::span<const int64_t> source_sizes, bool complex_in, T* target,
                   std::span<const int64_t> target_sizes, bool complex_out, bool scaled) {
    int64_t n = full[static_cast<size_t>(dims[k])];
    Lanes lanes(target_sizes, dims[k]);
    FftPass<T> pass{n,
                    !forward,
                    scaled ? scale : T(1),
                    lanes.outer,
                    lanes.inner,
                    lines_of(source, complex_in, source_sizes, dims[k]),
                    lines_of(target, complex_out, target_sizes, dims[k])};
    if (lanes.inner == 1) pass.outer = 1, pass.inner = lanes.outer;
    pass.whole = !complex_in && target_sizes[static_cast<size_t>(dims[k])] == n && n > 2;
    run_fft(c, pass);
  };
  size_t last = dims.size() - 1;
  if (to_real) {
    Memory<T> copy(last > 0 ? 2 * product(in.sizes) : 0); // transformed along all dims but the last
    for (size_t k = 0; k < last; k++, from = copy.data()) along(k, from, in.sizes, true, copy.data(), in.sizes, true, false);
    return along(last, from, in.sizes, true, to, out.sizes, false, true);
  }
  if (int64_t n = out.sizes.back(); from_real && last > 0 && in.sizes.back() == n && n > 2 && dims[last] + 1 == std::ssize(out.sizes)) {
    std::vector<int64_t> sizes(out.sizes.begin(), out.sizes.end());
    sizes.back() = n / 2 + 1;
    Memory<T> half(2 * product(sizes));
    along(last, from, in.sizes, false, half.data(), sizes, true, true);
    for (size_t k = 0; k < last; k++) along(k, half.data(), sizes, true, half.data(), sizes, true, false);
    return store_whole(c, half.data(), out.sizes, dims, to);
  }
  along(last, from, in.sizes, !from_real, to, out.sizes, true, true);
  for (size_t k = 0; k < last; k++) along(k, to, out.sizes, true, to, out.sizes, true, false);
}

// Images that fit the second cache are transformed along all dims one after the other.
template <class T> void fft_of(const LibraryCall& c, Operand in, Operand out) {
  std::vector<int64_t> dims(c.ints.begin() + 4, c.ints.end());
  const T* from = c.inputs[0].as<const T>();
  T* to = c.outputs[0].as<T>();
  auto first = static_cast<size_t>(*std::min_element(dims.begin(), dims.end()));
  int64_t images = product(out.sizes.first(first)), threads = c.workers ? c.workers->threads() : 1;
  int64_t in_size = product(in.sizes) / images * (1 + in.complex), out_size = product(out.sizes) / images * (1 + out.complex);
  constexpr int64_t most_bytes = 512 << 10;
  if (dims.size() < 2 || images < threads || std::max(in_size, out_size) * static_cast<int64_t>(sizeof(T)) > most_bytes)
    return along_dims(c, in, out, dims, from, to);
  in.sizes = in.sizes.subspan(first), out.sizes = out.sizes.subspan(first);
  for (int64_t& d : dims) d -= static_cast<int64_t>(first);
  parallel(c, images, std::max<int64_t>(1, 16384 / out_size), [&](int64_t begin, int64_t end) {
    LibraryCall alone = c;
    alone.workers = nullptr;
    for (int64_t i = begin; i < end; i++) along_dims(alone, in, out, dims, from + i * in_size, to + i * out_size);
  });
}

} // namespace

const char* fft(const LibraryCall& c) {
  return guarded([&]() -> const char* {
    Operand in(c.inputs[0], c.ints[2] != 0), out(c.outputs[0], c.ints[3] != 0);
    if (c.outputs[0].numel() == 0) return nullptr;
    int64_t last = c.ints.back(), needed = out.complex ? in.size(last) : out.size(last) / 2 + 1;
    if (in.size(last) < std::max<int64_t>(needed, 1))
      return message("a dim of size {} is too short for a transform of length {}", in.size(last), out.size(last));
    part_type(c.outputs[0].dtype) == DType::F64 ? fft_of<double>(c, in, out) : fft_of<float>(c, in, out);
    return nullptr;
  });
}

// Frames are the lines: each `hop` after the one before it where they come from, side by side where they go.
template <class T> static void stft_of(const LibraryCall& c, const Operand& out) {
  int64_t n = c.ints[0], hop = c.ints[1], frames = out.size(2), time = c.inputs[0].size(1);
  FftPass<T> pass{n,
                  false,
                  static_cast<T>(scale_of(c.ints[3], static_cast<double>(n))),
                  out.size(0),
                  frames,
                  {c.inputs[0].as<const T>(), false, time, hop, 1},
                  {c.outputs[0].as<T>(), true, out.size(1) * frames * 2, 2, frames * 2}};
  pass.whole = c.ints[2] == 0 && n > 2;
  if (c.inputs.size() > 1) pass.window = c.inputs[1].as<const T>();
  run_fft(c, pass);
}

const char* stft(const LibraryCall& c) {
  return guarded([&]() -> const char* {
    Operand out(c.outputs[0], c.ints[4] != 0);
    if (c.outputs[0].numel() == 0) return nullptr;
    int64_t n = c.ints[0], time = c.inputs[0].size(1);
    if (n <= 0 || c.ints[1] <= 0 || (out.size(2) - 1) * c.ints[1] + n > time)
      return message("frames of {} do not fit a signal of {}", n, time);
    if (c.inputs.size() > 1 && c.inputs[1].numel() != n) return message("a window of {} for frames of {}", c.inputs[1].numel(), n);
    part_type(c.outputs[0].dtype) == DType::F64 ? stft_of<double>(c, out) : stft_of<float>(c, out);
    return nullptr;
  });
}

} // namespace tenon::library
