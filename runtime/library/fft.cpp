// Passes over the lines of a tensor.
#include "runtime/library/fft.h"

#include "runtime/library/vector_level.h"

namespace tenon::library {

// Of fft_kernels.cpp, compiled for each instruction set.
namespace avx2 {
extern const FftKernels<float> fft_kernels_f32;
extern const FftKernels<double> fft_kernels_f64;
} // namespace avx2
namespace avx512 {
extern const FftKernels<float> fft_kernels_f32;
extern const FftKernels<double> fft_kernels_f64;
} // namespace avx512

namespace {

enum class Kind { Complex, ToHalf, ToReal };
template <class T> Kind kind_of(const FftPass<T>& p) {
  return !p.in.complex ? Kind::ToHalf : !p.out.complex ? Kind::ToReal : Kind::Complex;
}
// Complex elements of the transform itself: of an even number of real ones, pairs.
template <class T> int64_t length_of(const FftPass<T>& p) { return kind_of(p) != Kind::Complex && p.n % 2 == 0 ? p.n / 2 : p.n; }

// ---- blocks of lines

// The lines of one block; of odd real transforms two blocks, which are the parts of one complex block.
struct Group {
  int64_t first, used;
  bool neighbours; // they have one outer index
};

template <class T> class Blocks {
public:
  explicit Blocks(const FftPass<T>& p)
      : p_(p), k_(fft_kernels<T>()), kind_(kind_of(p)), length_(length_of(p)), half_(p.n / 2 + 1), plan_(fft_cached<FftPlan<T>>(length_)) {
    paired_ = kind_ != Kind::Complex && length_ == p.n;
    if (kind_ != Kind::Complex && !paired_) roots_ = fft_cached<FftRealRoots<T>>(length_);
    per_ = k_.lanes * (paired_ ? 2 : 1);
    by_inner_ = p.inner >= k_.lanes / 2 && !(p.in.contiguous() && p.out.contiguous());
    room_ = 2 * k_.lanes * std::max(plan_->room(), p.n + 1);
  }

  int64_t groups() const { return by_inner_ ? p_.outer * ((p_.inner + per_ - 1) / per_) : (p_.outer * p_.inner + per_ - 1) / per_; }

  void run(int64_t begin, int64_t end) const {
    Memory<T> memory((paired_ ? 3 : 2) * room_);
    T *here = memory.data(), *there = here + room_;
    for (int64_t i = begin; i < end; i++) {
      Group g = group(i);
      if (kind_ == Kind::Complex) complex(g, here, there);
      else if (kind_ == Kind::ToHalf) paired_ ? two_to_half(g, here, there, there + room_) : to_half(g, here, there);
      else paired_ ? two_to_real(g, here, there, there + room_) : to_real(g, here, there);
    }
  }

private:
  const FftPass<T>& p_;
  const FftKernels<T>& k_;
  Kind kind_;
  int64_t length_, half_, per_, room_;
  bool paired_, by_inner_;
  std::shared_ptr<const FftPlan<T>> plan_;
  std::shared_ptr<const FftRealRoots<T>> roots_;

  Group group(int64_t i) const {
    if (!by_inner_) return {i * per_, std::min(per_, p_.outer * p_.inner - i * per_), p_.outer == 1};
    int64_t each = (p_.inner + per_ - 1) / per_, at = i % each * per_;
    return {i / each * p_.inner + at, std::min(per_, p_.inner - at), true};
  }
  // The first or second block of a group.
  Group block(const Group& g, int64_t i) const {
    return {g.first + i * k_.lanes, std::clamp<int64_t>(g.used - i * k_.lanes, 0, k_.lanes), g.neighbours};
  }

  // From the lines of a block to those of the next, where all are as far apart.
  template <class P> int64_t ahead(P* const* rows) const { return (rows[1] - rows[0]) * per_; }

  void load(const Group& g, int64_t count, T* z, int64_t step) const {
    const auto& s = p_.in;
    int64_t w = k_.lanes, unit = 1 + s.complex;
    const T* rows[16];
    s.lines(g.first, g.used, p_.inner, rows);
    std::fill(rows + g.used, rows + w, g.used > 0 ? rows[0] : nullptr);
    if (g.used > 0 && s.stride == unit) return k_.load_rows(rows, count * unit, z, step, ahead(rows));
    if (g.used > 0 && g.neighbours && s.inner_stride == unit) return k_.load_columns(rows[0], s.stride, g.used, count, s.complex, z, step);
    for (int64_t j = 0; j < count; j++)
      for (int64_t part = 0; part < unit; part++) {
        T* to = z + (j * unit + part) * step * w;
        for (int64_t l = 0; l < g.used; l++) to[l] = rows[l][j * s.stride + part];
        std::fill(to + g.used, to + w, T(0));
      }
  }
  void store(const Group& g, int64_t count, const T* z, int64_t step) const {
    const auto& s = p_.out;
    int64_t w = k_.lanes, unit = 1 + s.complex;
    T* rows[16];
    if (g.used == 0) return;
    s.lines(g.first, g.used, p_.inner, rows);
    if (s.stride == unit) return k_.store_rows(rows, g.used, count * unit, z, step, p_.scale, g.used == w ? ahead(rows) : 0);
    if (g.neighbours && s.inner_stride == unit) return k_.store_columns(rows[0], s.stride, g.used, count, s.complex, z, step, p_.scale);
    for (int64_t j = 0; j < count; j++)
      for (int64_t part = 0; part < unit; part++)
        for (int64_t l = 0; l < g.used; l++) rows[l][j * s.stride + part] = z[(j * unit + part) * step * w + l] * p_.scale;
  }
  void weigh(T* z, int64_t repeat) const {
    if (p_.window) k_.multiply_real(z, p_.window, p_.n, repeat);
  }
  // Half a spectrum, and its mirrored conjugate where all of it is asked for.
  void store_spectrum(const Group& g, T* z) const {
    if (!p_.whole) return store(g, half_, z, 1);
    int64_t w = k_.lanes;
    for (int64_t j = half_; j < p_.n; j++)
      for (int64_t l = 0; l < w; l++) {
        z[2 * j * w + l] = z[2 * (p_.n - j) * w + l];
        z[(2 * j + 1) * w + l] = -z[(2 * (p_.n - j) + 1) * w + l];
      }
    store(g, p_.n, z, 1);
  }

  void complex(const Group& g, T* here, T* there) const {
    load(g, length_, here, 1);
    weigh(here, 2);
    store(g, length_, plan_->run(here, there, p_.inverse), 1);
  }
  void to_half(const Group& g, T* here, T* there) const {
    load(g, p_.n, here, 1);
    weigh(here, 1);
    T* z = plan_->run(here, there, p_.inverse);
    k_.unpack_real(z, length_, roots_->each.data());
    store_spectrum(g, z);
  }
  void to_real(const Group& g, T* here, T* there) const {
    load(g, half_, here, 1);
    k_.pack_real(here, length_, roots_->each.data());
    T* z = plan_->run(here, there, p_.inverse);
    weigh(z, 1);
    store(g, p_.n, z, 1);
  }
  void two_to_half(const Group& g, T* here, T* there, T* third) const {
    for (int64_t i = 0; i < 2; i++) load(block(g, i), p_.n, here + i * k_.lanes, 2);
    weigh(here, 2);
    T *z = plan_->run(here, there, p_.inverse), *x = z == here ? there : here;
    k_.separate(z, p_.n, x, third);
    store_spectrum(block(g, 0), x), store_spectrum(block(g, 1), third);
  }
  void two_to_real(const Group& g, T* here, T* there, T* third) const {
    load(block(g, 0), half_, there, 1), load(block(g, 1), half_, third, 1);
    k_.combine(there, third, p_.n, here);
    T* z = plan_->run(here, there, p_.inverse);
    weigh(z, 2);
    for (int64_t i = 0; i < 2; i++) store(block(g, i), p_.n, z + i * k_.lanes, 2);
  }
};

// ---- line by line

template <class T> class SingleLines {
public:
  explicit SingleLines(const FftPass<T>& p)
      : p_(p), k_(fft_kernels<T>()), kind_(kind_of(p)), length_(length_of(p)), plan_(fft_cached<FftLinePlan<T>>(length_)) {
    paired_ = kind_ != Kind::Complex && length_ != p.n;
    if (paired_) roots_ = fft_cached<FftRealRoots<T>>(length_);
  }

  int64_t room() const { return lines_room() + fft_line_room(*plan_); }
  /// `memory`: of room() numbers; or of none, where the call's workers are to share one line.
  void run(int64_t line, T* memory, const LibraryCall* c) const {
    if (paired_ && plan_->matrix && p_.in.contiguous() && p_.out.contiguous() && !p_.whole) {
      Memory<T> own(memory ? 0 : room());
      return real(line, memory ? memory : own.data());
    }
    Memory<T> own(memory ? 0 : lines_room());
    T *first = memory ? memory : own.data(), *second = first + lines_room() / 2;
    const T* from = source(line, first);
    bool direct = p_.out.contiguous() && !p_.whole && (kind_ == Kind::Complex || paired_) && p_.out.data != p_.in.data;
    T* to = direct ? p_.out.line(line, p_.inner) : second;
    fft_line(*plan_, from, to, p_.inverse, p_.scale, memory ? memory + lines_room() : nullptr, c);
    if (kind_ == Kind::ToHalf && paired_) k_.unpack_line(to, length_, roots_->vectors.data(), roots_->lanes.data());
    if (kind_ == Kind::ToReal) weigh(to, paired_ ? 1 : 2);
    if (!direct) store(to, line);
  }

private:
  const FftPass<T>& p_;
  const FftKernels<T>& k_;
  Kind kind_;
  int64_t length_;
  bool paired_; // real numbers as the parts of complex ones
  std::shared_ptr<const FftLinePlan<T>> plan_;
  std::shared_ptr<const FftRealRoots<T>> roots_;

  int64_t lines_room() const { return (4 * (p_.n + 1) + 31) / 32 * 32; }

  void weigh(T* to, int64_t unit) const {
    for (int64_t j = 0; p_.window && j < p_.n; j++) to[j * unit] *= p_.window[j];
  }
  // An even number of real ones, by the kernel of matrices.
  void real(int64_t line, T* room) const {
    const T *from = p_.in.line(line, p_.inner), *a = roots_->vectors.data(), *b = roots_->lanes.data();
    T* to = p_.out.line(line, p_.inner);
    if (kind_ == Kind::ToHalf) return k_.real_line(*plan_->matrix, from, p_.window, p_.scale, a, b, to, room);
    k_.to_real_line(*plan_->matrix, from, p_.scale, a, b, to, room);
    weigh(to, 1);
  }

  // What is transformed, of length_ complex elements: in place or in `room`.
  const T* source(int64_t line, T* room) const {
    const T* in = p_.in.line(line, p_.inner);
    int64_t step = p_.in.stride;
    auto weight = [&](int64_t j) { return p_.window ? p_.window[j] : T(1); };
    if (kind_ == Kind::ToReal) {
      if (paired_ && p_.in.contiguous()) {
        k_.pack_line(in, room, length_, roots_->vectors.data(), roots_->lanes.data());
        return room;
      }
      for (int64_t j = 0; j <= p_.n / 2; j++) {
        T re = in[j * step], im = j == 0 ? T(0) : in[j * step + 1];
        room[2 * j] = re, room[2 * j + 1] = im;
        if (!paired_ && j > 0) room[2 * (p_.n - j)] = re, room[2 * (p_.n - j) + 1] = -im;
      }
      if (!paired_) return room;
      T* packed = room + lines_room() / 2;
      k_.pack_line(room, packed, length_, roots_->vectors.data(), roots_->lanes.data());
      std::copy_n(packed, 2 * length_, room);
      return room;
    }
    bool whole = kind_ == Kind::Complex || paired_;
    if (whole && p_.in.contiguous() && !p_.window) return in;
    for (int64_t j = 0; j < p_.n; j++) {
      T x = weight(j);
      if (kind_ == Kind::Complex) room[2 * j] = in[j * step] * x, room[2 * j + 1] = in[j * step + 1] * x;
      else if (paired_) room[j] = in[j * step] * x;
      else room[2 * j] = in[j * step] * x, room[2 * j + 1] = 0;
    }
    return room;
  }
  void store(const T* z, int64_t line) const {
    T* out = p_.out.line(line, p_.inner);
    int64_t step = p_.out.stride, half = p_.n / 2 + 1;
    if (kind_ == Kind::ToReal) {
      for (int64_t j = 0; j < p_.n; j++) out[j * step] = z[paired_ ? j : 2 * j];
      return;
    }
    int64_t known = kind_ == Kind::ToHalf ? half : p_.n;
    for (int64_t j = 0; j < known; j++) out[j * step] = z[2 * j], out[j * step + 1] = z[2 * j + 1];
    if (p_.whole)
      for (int64_t j = half; j < p_.n; j++) out[j * step] = z[2 * (p_.n - j)], out[j * step + 1] = -z[2 * (p_.n - j) + 1];
  }
};

// Whether line by line is the faster way: by costs, what of the lanes stands empty, cache, and what threads can share.
template <class T> bool prefers_lines(const LibraryCall& c, const FftPass<T>& p) {
  int64_t length = length_of(p), lanes = fft_kernels<T>().lanes, lines = p.outer * p.inner;
  if (p.in.contiguous() && p.out.contiguous() && !p.whole && (kind_of(p) == Kind::Complex || length != p.n) && fft_has_matrix<T>(length))
    return true;
  auto costs = fft_cached<FftCosts<T>>(length);
  int64_t groups = (lines + lanes - 1) / lanes;
  auto threads = static_cast<double>(c.workers ? c.workers->threads() : 1);
  double bytes = 4.0 * static_cast<double>(length * lanes) * sizeof(T);
  double block = costs->block + 10 * static_cast<double>(length);
  if (bytes > 256 << 10) block *= 1.3; // of the first and second cache
  if (bytes > 4 << 20) block *= 3;
  double line = 1.35 * costs->line;
  if (!p.in.contiguous() || !p.out.contiguous()) line += 4 * static_cast<double>(length);
  double large = 100000; // a loop worth sharing
  double by_blocks = block * static_cast<double>(groups), by_lines = line * static_cast<double>(lines);
  by_blocks /= std::min(threads, static_cast<double>(groups));
  by_lines /= line > large ? threads : std::min(threads, static_cast<double>(lines));
  return by_lines < by_blocks;
}

} // namespace

template <class T> const FftKernels<T>& fft_kernels() {
  const bool wide = takes_avx512();
  if constexpr (std::is_same_v<T, float>) return wide ? avx512::fft_kernels_f32 : avx2::fft_kernels_f32;
  else return wide ? avx512::fft_kernels_f64 : avx2::fft_kernels_f64;
}
template const FftKernels<float>& fft_kernels();
template const FftKernels<double>& fft_kernels();

template <class T> void run_fft(const LibraryCall& c, const FftPass<T>& p) {
  int64_t lines = p.outer * p.inner;
  if (p.n == 0 || lines == 0) return;
  if (!prefers_lines(c, p)) {
    Blocks<T> blocks(p);
    return parallel(c, blocks.groups(), std::max<int64_t>(1, 512 / p.n), [&](int64_t begin, int64_t end) { blocks.run(begin, end); });
  }
  SingleLines<T> single(p);
  if (lines == 1 || (p.n >= 1 << 16 && c.workers && lines < 4 * c.workers->threads())) {
    for (int64_t l = 0; l < lines; l++) single.run(l, nullptr, &c);
    return;
  }
  parallel(c, lines, std::max<int64_t>(1, 8192 / p.n), [&](int64_t begin, int64_t end) {
    Memory<T> memory(single.room());
    for (int64_t l = begin; l < end; l++) single.run(l, memory.data(), nullptr);
  });
}
template void run_fft(const LibraryCall&, const FftPass<float>&);
template void run_fft(const LibraryCall&, const FftPass<double>&);

} // namespace tenon::library
