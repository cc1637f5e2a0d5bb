// The transform of one line: columns of a matrix, factors, rows; or a convolution.
#include "runtime/library/fft.h"

namespace tenon::library {

namespace {

template <class F> void maybe_parallel(const LibraryCall* c, int64_t n, int64_t grain, F&& f) {
  if (c) parallel(*c, n, grain, f);
  else f(int64_t{0}, n);
}

// Blocks that are worth a thread's while.
int64_t grain_of(int64_t length) { return std::max<int64_t>(1, 512 / length); }

// Of the matrix between columns and rows: no power of two.
template <class T> int64_t pitch_of(const FftLinePlan<T>& plan) { return plan.columns + 64 / static_cast<int64_t>(sizeof(T)); }
template <class T> int64_t between_room(const FftLinePlan<T>& plan) { return 2 * plan.rows * pitch_of(plan); }
template <class T> int64_t block_room(const FftPlan<T>& plan) { return 4 * plan.room() * fft_kernels<T>().lanes; }

template <class T>
void by_columns_and_rows(const FftLinePlan<T>& plan, const T* from, T* to, bool inverse, T scale, T* room, const LibraryCall* c) {
  const auto& k = fft_kernels<T>();
  int64_t w = k.lanes, pitch = pitch_of(plan);
  Memory<T> own(room ? 0 : between_room(plan));
  T *between = room ? room : own.data(), *shared = room ? room + between_room(plan) : nullptr;
  maybe_parallel(c, (plan.columns + w - 1) / w, grain_of(plan.rows), [&](int64_t begin, int64_t end) {
    Memory<T> blocks(shared ? 0 : block_room(*plan.down));
    T *here = shared ? shared : blocks.data(), *there = here + 2 * plan.down->room() * w;
    for (int64_t b = begin; b < end; b++) {
      int64_t used = std::min(w, plan.columns - b * w);
      k.load_columns(from + 2 * b * w, 2 * plan.columns, used, plan.rows, true, here, 1);
      T* z = plan.down->run(here, there, inverse);
      k.multiply_lanes(z, plan.lane_turns.data(), plan.block_turns.data() + 2 * b * plan.rows, plan.rows, inverse);
      k.store_columns(between + 2 * b * w, 2 * pitch, used, plan.rows, true, z, 1, T(1));
    }
  });
  maybe_parallel(c, (plan.rows + w - 1) / w, grain_of(plan.columns), [&](int64_t begin, int64_t end) {
    Memory<T> blocks(shared ? 0 : block_room(*plan.across));
    T *here = shared ? shared : blocks.data(), *there = here + 2 * plan.across->room() * w;
    for (int64_t b = begin; b < end; b++) {
      int64_t used = std::min(w, plan.rows - b * w);
      const T* rows[16];
      for (int64_t l = 0; l < w; l++) rows[l] = between + 2 * pitch * (b * w + (l < used ? l : 0));
      k.load_rows(rows, 2 * plan.columns, here, 1, 0);
      T* z = plan.across->run(here, there, inverse);
      k.store_columns(to + 2 * b * w, 2 * plan.rows, used, plan.columns, true, z, 1, scale);
    }
  });
}

// out[k] = in[k] * w[k]; the parts of what goes in or comes out exchanged.
template <class T> void times(const T* in, const T* w, T* out, int64_t n, T scale, bool swap_in, bool swap_out) {
  for (int64_t k = 0; k < 2 * n; k += 2) {
    T re = in[k + swap_in], im = in[k + 1 - swap_in], c = w[k] * scale, s = w[k + 1] * scale;
    out[k + swap_out] = re * c - im * s, out[k + 1 - swap_out] = re * s + im * c;
  }
}

template <class T>
void by_convolution(const FftLinePlan<T>& plan, const T* from, T* to, bool inverse, T scale, T* room, const LibraryCall* c) {
  int64_t n = plan.n, m = plan.convolution->n, grain = 1 << 14;
  Memory<T> own(room ? 0 : 4 * m);
  T *a = room ? room : own.data(), *b = a + 2 * m;
  if (room) room += 4 * m;
  auto product = [&](const T* in, const T* w, T* out, int64_t count, T by, bool swap_in, bool swap_out) {
    maybe_parallel(c, count, grain, [&](int64_t begin, int64_t end) {
      times(in + 2 * begin, w + 2 * begin, out + 2 * begin, end - begin, by, swap_in, swap_out);
    });
  };
  product(from, plan.chirp.data(), a, n, T(1), inverse, false);
  std::fill(a + 2 * n, a + 2 * m, T(0));
  fft_line(*plan.convolution, a, b, false, T(1), room, c);
  product(b, plan.kernel.data(), b, m, T(1), false, false);
  fft_line(*plan.convolution, b, a, true, T(1), room, c);
  product(a, plan.chirp.data(), to, n, scale, false, inverse);
}

} // namespace

template <class T> int64_t fft_line_room(const FftLinePlan<T>& plan) {
  if (plan.matrix) return 4 * plan.n + (2 + 6 * std::max(plan.matrix->rows, plan.matrix->columns)) * fft_kernels<T>().lanes;
  if (plan.convolution) return 4 * plan.convolution->n + fft_line_room(*plan.convolution);
  return between_room(plan) + std::max(block_room(*plan.down), block_room(*plan.across));
}

template <class T> void fft_line(const FftLinePlan<T>& plan, const T* from, T* to, bool inverse, T scale, T* room, const LibraryCall* c) {
  if (plan.matrix) {
    Memory<T> own(room ? 0 : fft_line_room(plan));
    return fft_kernels<T>().line(*plan.matrix, from, inverse, scale, to, room ? room : own.data());
  }
  plan.convolution ? by_convolution(plan, from, to, inverse, scale, room, c) : by_columns_and_rows(plan, from, to, inverse, scale, room, c);
}

#define TENON_FFT(T)                                                                                                                       \
  template int64_t fft_line_room(const FftLinePlan<T>&);                                                                                   \
  template void fft_line(const FftLinePlan<T>&, const T*, T*, bool, T, T*, const LibraryCall*);
TENON_FFT(float)
TENON_FFT(double)
#undef TENON_FFT

} // namespace tenon::library
