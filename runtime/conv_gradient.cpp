// For a tap, the images' pixels that meet the gradient's lie as far apart as its own, but for steps along a line and for padding. So lines
// are copied once for each tap along them, as long as the gradient's; taps of the outermost dimension are then other places in the same
// copies, and all of them are rows of a matrix, by that of the gradient: [channel, tap] x [pixel] x [pixel, output].
#include "runtime/conv_gradient.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "base/numeric.h"
#include "base/rounding.h"
#include "runtime/gemm_pack.h"

namespace tenon {

namespace {

constexpr int64_t items_at_least = 8; // of all threads
constexpr int64_t line_bytes = 64;

/// The sizes along the outermost dimension, and of what lies within.
struct Extent {
  int outer;                          // of the window's dimensions
  int64_t lines, run;                 // of the gradient: along `outer`, and pixels of each
  int64_t taps, within;               // of the window: along `outer`, and of each of these
  std::vector<int64_t> phases = {};   // remainders of taps' places by the stride
  std::vector<int64_t> tap_line = {}; // of each tap along `outer`: the line of its phase that the first output meets
  std::vector<int> tap_phase = {};

  explicit Extent(const ConvWindow& w) {
    outer = 0;
    while (outer < 2 && w.in[outer] == 1 && w.out[outer] == 1 && w.kernel[outer] == 1) outer++;
    lines = w.out[outer], taps = w.kernel[outer], run = within = 1;
    for (int d = outer + 1; d < 3; d++) run *= w.out[d], within *= w.kernel[d];
    for (int64_t t = 0; t < taps; t++) {
      int64_t place = t * w.dilation[outer], phase = place % w.stride[outer];
      size_t at = static_cast<size_t>(std::find(phases.begin(), phases.end(), phase) - phases.begin());
      if (at == phases.size()) phases.push_back(phase);
      tap_phase.push_back(static_cast<int>(at)), tap_line.push_back(place / w.stride[outer]);
    }
  }
  /// Lines of a phase that so many of the gradient meet.
  int64_t phase_lines(int64_t of) const { return of + (tap_line.empty() ? 0 : tap_line.back()); }
  int64_t copied_lines(int64_t of) const { return within * static_cast<int64_t>(phases.size()) * phase_lines(of); }
};

/// Places first, first + step ... of a line: those from `begin` on to `end` are elements of it.
struct Reach {
  int64_t first, step, count, begin, end;

  Reach(int64_t size, int64_t first_place, int64_t each, int64_t places) : first(first_place), step(each), count(places) {
    begin = std::min(first < 0 ? ceil_div(-first, step) : 0, count);
    end = std::clamp(first < size ? (size - 1 - first) / step + 1 : 0, begin, count);
  }
};

/// Of short lines calls of memcpy and memset would take as long as what they do.
template <class T> [[gnu::always_inline]] inline void copy_elements(const T* from, T* to, int64_t count) {
  constexpr int64_t block = 32 / sizeof(T), many = 1024 / sizeof(T);
  if (count >= many) return void(std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T)));
  if (count < block) {
    for (int64_t i = 0; i < count; i++) to[i] = from[i];
    return;
  }
  for (int64_t i = 0; i + block < count; i += block) __builtin_memcpy(to + i, from + i, 32);
  __builtin_memcpy(to + count - block, from + count - block, 32);
}

/// to[i] = the line's element at place i, zero where there is none.
template <class From, class To> [[gnu::always_inline]] inline void copy_line(const From* line, const Reach& r, To* to) {
  constexpr int64_t block = 16 / sizeof(To);
  if (r.begin > block || r.count - r.end > block || r.count < block) {
    std::fill(to, to + r.begin, To(0.0f));
    std::fill(to + r.end, to + r.count, To(0.0f));
  } else { // what is copied comes over them
    __builtin_memset(static_cast<void*>(to), 0, 16);
    __builtin_memset(static_cast<void*>(to + r.count - block), 0, 16);
  }
  const From* from = line + r.first;
  if constexpr (std::is_same_v<From, To>) {
    if (r.step == 1) return copy_elements(from + r.begin, to + r.begin, r.end - r.begin);
  }
  if (r.step == 2)
    for (int64_t i = r.begin; i < r.end; i++) to[i] = static_cast<To>(from[i * 2]);
  else
    for (int64_t i = r.begin; i < r.end; i++) to[i] = static_cast<To>(from[i * r.step]);
}

/// Lines of an image as taps within a line meet them: [channel][tap within][phase][line][pixel].
template <class From, class To> class LineCopies {
public:
  LineCopies(const ConvWindow& w, const Extent& e) : w_(w), e_(e) {}

  /// Those that lines [y0, y1) of the gradient meet, of one channel.
  void copy(const From* plane, int64_t y0, int64_t y1, To* to) const {
    int64_t lines = e_.phase_lines(y1 - y0), stride = w_.stride[e_.outer];
    for (int64_t q = 0; q < e_.within; q++) {
      Reach reach(w_.in[2], q % w_.kernel[2] * w_.dilation[2] - w_.pad[2], w_.stride[2], w_.out[2]);
      bool shifts = e_.outer == 1 && stride == 1 && w_.stride[2] == 1 && w_.in[2] == w_.out[2];
      for (int64_t phase : e_.phases) {
        int64_t first = y0 * stride + phase - w_.pad[e_.outer];
        if (shifts && std::is_same_v<From, To>) shift_lines(plane, first, lines, reach, to);
        else if (e_.outer == 2) copy_line(plane, Reach(w_.in[2], first, stride, lines), to);
        else
          for (int64_t j = 0; j < lines; j++) copy_run(plane, first + j * stride, q, reach, to + j * e_.run);
        to += lines * e_.run;
      }
    }
  }

private:
  /// As long as those of the image, they are its own, moved: all in one, but for what went round the ends.
  void shift_lines(const From* plane, int64_t first, int64_t lines, const Reach& r, To* to) const {
    int64_t width = w_.in[2], top = std::clamp<int64_t>(-first, 0, lines), bottom = std::clamp(w_.in[1] - first, top, lines);
    std::fill(to, to + top * width, To(0.0f));
    std::fill(to + bottom * width, to + lines * width, To(0.0f));
    if (r.begin >= r.end) return std::fill(to + top * width, to + bottom * width, To(0.0f));
    int64_t begin = top * width + r.begin, end = (bottom - 1) * width + r.end;
    if (top == bottom) return;
    if constexpr (std::is_same_v<From, To>) copy_elements(plane + (first * width + begin + r.first), to + begin, end - begin);
    for (To *line = to + top * width, *last = to + bottom * width; line < last; line += width) {
      for (int64_t i = 0; i < r.begin; i++) line[i] = To(0.0f);
      for (int64_t i = r.end; i < width; i++) line[i] = To(0.0f);
    }
  }
  void copy_run(const From* plane, int64_t line, int64_t q, const Reach& reach, To* to) const {
    if (line < 0 || line >= w_.in[e_.outer]) return void(std::fill(to, to + e_.run, To(0.0f)));
    if (e_.outer == 1) return copy_line(plane + line * w_.in[2], reach, to);
    for (int64_t i = 0; i < w_.out[1]; i++, to += w_.out[2]) {
      int64_t row = i * w_.stride[1] + q / w_.kernel[2] * w_.dilation[1] - w_.pad[1];
      if (row < 0 || row >= w_.in[1]) std::fill(to, to + w_.out[2], To(0.0f));
      else copy_line(plane + (line * w_.in[1] + row) * w_.in[2], reach, to);
    }
  }

  const ConvWindow& w_;
  const Extent& e_;
};

/// f(From{}, To{}) for what images hold and kernels read.
template <class F> void for_types(DType from, DType to, const F& f) {
  if (from == DType::F64) f(double{}, double{});
  else if (from == DType::F32) f(float{}, float{});
  else if (from == DType::BF16 && to == DType::BF16) f(BF16{}, BF16{});
  else if (from == DType::BF16) f(BF16{}, float{});
  else if (to == DType::F16) f(F16{}, F16{});
  else f(F16{}, float{});
}

class Gradient {
public:
  Gradient(const KernelTable& kernels, const Caches& caches, const Workers& workers, int family, const ConvGradient& g)
      : kernels_(kernels), workers_(workers), family_(family), f_(kernels.family(family)), g_(g), e_(g.window),
        pixels_(g.window.out_pixels()), a_bytes_(static_cast<int64_t>(size_of(f_.a))), type_bytes_(static_cast<int64_t>(size_of(g.type))),
        sum_bytes_(static_cast<int64_t>(size_of(f_.sum))) {
    dots_ = g.outputs <= most_dots && f_.dot_rows[1] > 0;
    in_place_ = f_.a == g.type && reads_in_place(g.window, e_);
    choose_blocks(caches);
  }

  void run() {
    find_kernels();
    if (!dots_) pack();
    else if (f_.b != g_.type) convert_gradient();
    worker_bytes_ = round_up(copy_bytes_, line_bytes) + round_up(parts_ > 1 ? 0 : sums_bytes(), line_bytes) + pointer_bytes();
    rooms_ = std::make_unique_for_overwrite<char[]>(static_cast<size_t>(worker_bytes_ * workers_.threads() + line_bytes));
    if (parts_ > 1) sums_ = std::make_unique_for_overwrite<char[]>(static_cast<size_t>(parts_ * items_ * sums_bytes()));
    auto work = static_cast<double>(block_rows() * g_.outputs * pixels_ * g_.batch) / f_.speed / static_cast<double>(parts_);
    workers_.run(parts_ * items_, item_grain(work), [&](int64_t begin, int64_t end, int worker) {
      for (int64_t i = begin; i < end; i++) run_item(i % items_, i / items_, worker);
    });
    if (parts_ > 1)
      workers_.run(items_, 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; i++) add_parts(i);
      });
  }

private:
  static constexpr int64_t most_dots = 8, most_tile_rows = 14;

  /// Taps are other places of the images themselves.
  static bool reads_in_place(const ConvWindow& w, const Extent& e) {
    bool same = e.within == 1 && w.stride[e.outer] == 1 && w.pad[e.outer] == 0 &&
                w.out[e.outer] + w.dilation[e.outer] * (e.taps - 1) <= w.in[e.outer];
    for (int d = e.outer + 1; d < 3; d++) same &= w.stride[d] == 1 && w.pad[d] == 0 && w.in[d] == w.out[d];
    return same;
  }

  int64_t window_taps() const { return e_.taps * e_.within; }
  int64_t block_rows() const { return channels_ * window_taps(); }
  int64_t channel_bytes(int64_t lines) const { return e_.copied_lines(lines) * e_.run * a_bytes_; }
  int64_t columns() const { return dots_ ? g_.outputs : panels_.padded(); }
  int64_t sums_bytes() const { return block_rows() * columns() * sum_bytes_; }

  int64_t pointer_bytes() const { return round_up(block_rows() * static_cast<int64_t>(sizeof(void*)), line_bytes); }

  /// Columns of a tile that has kernels of its own.
  struct Columns {
    int tile_rows = 1;
    GemmFn kernels[GemmFamily::max_rows + 1] = {}; // by rows
  };

  /// For as many rows as items have.
  void find_kernels(Columns& columns, int vectors) {
    columns.tile_rows = dots_ ? f_.dot_rows[static_cast<size_t>(vectors)] : f_.rows[static_cast<size_t>(vectors)];
    uint64_t heights = 0;
    for (int64_t channels : {channels_, g_.inputs - (ceil_div(g_.inputs, channels_) - 1) * channels_}) {
      Tiles tiles(channels * window_taps(), columns.tile_rows);
      heights |= uint64_t{1} << tiles.rows(0) | uint64_t{1} << tiles.rows(tiles.count - 1);
    }
    kernels_.gemm({family_, 0, vectors, false, dots_ ? GemmKind::Dot : GemmKind::Packed}, heights, columns.kernels);
  }
  void find_kernels() {
    int64_t last = dots_ ? (g_.outputs - 1) / GemmFamily::dot_columns : panels_.count() - 1;
    if (last > 0) find_kernels(full_, dots_ ? GemmFamily::dot_columns : panels_.vectors);
    find_kernels(last_, dots_ ? static_cast<int>(g_.outputs - last * GemmFamily::dot_columns) : panels_.panel_vectors(last));
  }

  void choose_blocks(const Caches& caches) {
    panels_ = choose_panels(f_, g_.outputs, pixels_, 0, true);
    // Rows for two tiles at least, of as few channels as leave all threads something to do.
    int64_t few = ceil_div(2 * most_tile_rows, window_taps()), even = ceil_div(g_.inputs * g_.groups, 2 * items_at_least);
    channels_ = std::clamp<int64_t>(std::max(few, even), 1, g_.inputs);
    while (channels_ > few && sums_bytes() > caches.l2 / 4) channels_ = ceil_div(channels_, 2);
    // Lines: the rows of a block take half of a cache, those of a panel a quarter of L2.
    int64_t room = dots_ ? caches.l1 / 2 : caches.l2 / 2, most = dots_ ? e_.lines : caches.l2 / 4 / (panels_.width() * a_bytes_ * e_.run);
    lines_ = std::clamp<int64_t>(most, 1, e_.lines);
    while (lines_ > 1 && rows_in_cache() * channel_bytes(lines_) > room) lines_ = ceil_div(lines_, 2);
    items_ = g_.groups * ceil_div(g_.inputs, channels_);
    int64_t wanted = ceil_div(items_at_least, items_);
    if (items_ < items_at_least) lines_ = std::min(lines_, ceil_div(e_.lines * g_.batch, wanted));
    lines_ = std::min(round_up(lines_, e_.run % f_.group ? f_.group : 1), e_.lines);
    blocks_ = g_.batch * ceil_div(e_.lines, lines_);
    parts_ = items_ < items_at_least ? std::min(wanted, blocks_) : 1;
    copy_bytes_ = in_place_ ? 0 : channels_ * channel_bytes(lines_);
  }
  int64_t rows_in_cache() const { return dots_ ? 1 : channels_; }

  /// The gradient of every image and group as panels.
  void pack() {
    int64_t ks = round_up(std::max<int64_t>(512, pixels_ / 8), f_.k_step), cuts = ceil_div(pixels_, ks), each = panels_.count() * cuts;
    packed_ = std::make_unique_for_overwrite<char[]>(static_cast<size_t>(g_.batch * g_.groups * panels_.bytes() + line_bytes));
    double work = static_cast<double>(ks * panels_.width()) / 4;
    workers_.run(g_.batch * g_.groups * each, item_grain(work), [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; i++) {
        int64_t image = i / each, p = i % each / cuts, k0 = i % cuts * ks, k1 = std::min(k0 + ks, pixels_);
        PackSource source{static_cast<const char*>(g_.grad) + image * g_.outputs * pixels_ * type_bytes_, g_.type, 1, pixels_};
        pack_panels(kernels_, f_, panels_, source, k0, k1, p, p + 1, packed(image) + panels_.offset(p) + panels_.bytes(p, k0));
      }
    });
  }
  char* packed(int64_t image) const { return aligned(packed_.get()) + image * panels_.bytes(); }

  void convert_gradient() {
    int64_t planes = g_.batch * g_.groups * g_.outputs;
    packed_ = std::make_unique_for_overwrite<char[]>(static_cast<size_t>(planes * pixels_ * a_bytes_ + line_bytes));
    for_types(g_.type, f_.b, [&](auto from, auto to) {
      using From = decltype(from);
      using To = decltype(to);
      workers_.run(planes, item_grain(static_cast<double>(pixels_)), [&](int64_t begin, int64_t end, int) {
        copy_line(static_cast<const From*>(g_.grad), Reach(end * pixels_, begin * pixels_, 1, (end - begin) * pixels_),
                  reinterpret_cast<To*>(aligned(packed_.get())) + begin * pixels_);
      });
    });
  }

  static char* aligned(char* p) { return reinterpret_cast<char*>(round_up(reinterpret_cast<int64_t>(p), line_bytes)); }

  struct Item {
    int64_t group, c0, c1; // channels of the group
    int64_t rows;
    char* sums;
    const void** pointers = nullptr;
  };

  void run_item(int64_t number, int64_t part, int worker) {
    Item item = item_of(number);
    char* room = aligned(rooms_.get()) + worker * worker_bytes_;
    item.pointers = reinterpret_cast<const void**>(room + worker_bytes_ - pointer_bytes());
    item.sums = parts_ > 1 ? sums_.get() + (part * items_ + number) * sums_bytes() : room + round_up(copy_bytes_, line_bytes);
    int64_t first = blocks_ * part / parts_, last = blocks_ * (part + 1) / parts_, each = ceil_div(e_.lines, lines_);
    for (int64_t b = first; b < last; b++) {
      int64_t image = b / each, y0 = b % each * lines_, y1 = std::min(y0 + lines_, e_.lines);
      find_rows(item, image, y0, y1, room);
      GemmInit mode = b == first ? GemmInit::Zero : GemmInit::C;
      if (dots_) multiply_dots(item, image, y0, y1, mode);
      else multiply_panels(item, image, y0, y1, mode);
    }
    if (parts_ == 1) finish(item);
  }
  Item item_of(int64_t number) const {
    int64_t blocks = ceil_div(g_.inputs, channels_), c0 = number % blocks * channels_, c1 = std::min(c0 + channels_, g_.inputs);
    return {number / blocks, c0, c1, (c1 - c0) * window_taps(), nullptr, nullptr};
  }

  /// Pointers to the rows of all channels and taps, in the order of the weights.
  void find_rows(Item& item, int64_t image, int64_t y0, int64_t y1, char* room) const {
    const int64_t plane = g_.window.in_pixels();
    const void** to_row = item.pointers;
    for (int64_t c = item.c0; c < item.c1; c++) {
      const char* from = static_cast<const char*>(g_.input) + ((image * g_.groups + item.group) * g_.inputs + c) * plane * type_bytes_;
      int64_t lines = g_.window.in[e_.outer], within = 0;
      if (in_place_) from += y0 * e_.run * a_bytes_;
      else {
        char* to = room + (c - item.c0) * channel_bytes(lines_);
        for_types(g_.type, f_.a, [&](auto in, auto out) {
          LineCopies<decltype(in), decltype(out)>(g_.window, e_)
              .copy(reinterpret_cast<const decltype(in)*>(from), y0, y1, reinterpret_cast<decltype(out)*>(to));
        });
        from = to, lines = e_.phase_lines(y1 - y0), within = lines * static_cast<int64_t>(e_.phases.size());
      }
      for (int64_t t = 0; t < e_.taps; t++)
        for (int64_t q = 0; q < e_.within; q++) {
          auto tap = static_cast<size_t>(t);
          int64_t line = q * within + e_.tap_phase[tap] * lines + e_.tap_line[tap];
          *to_row++ = from + line * e_.run * a_bytes_;
        }
    }
  }

  /// All tiles of some columns, whose sums start at column n and whose gradient lies at b, `depth` pixels of it.
  void multiply(const Item& item, const Columns& columns, int64_t n, const char* b, int64_t depth, GemmInit mode) const {
    Tiles tiles(item.rows, columns.tile_rows);
    const int64_t stride = this->columns() * sum_bytes_;
    GemmArgs args{.rows = item.pointers,
                  .first = 0,
                  .zeros = nullptr,
                  .b = b,
                  .c = item.sums + n * sum_bytes_,
                  .init = nullptr,
                  .c_stride = stride,
                  .b_stride = pixels_ * a_bytes_,
                  .a_stride = 0,
                  .depth = dots_ ? depth : depth / f_.group,
                  .positions = 1,
                  .columns = 0,
                  .mode = mode,
                  .rest = dots_ ? 0 : depth % f_.group};
    for (int64_t t = 0; t < tiles.count; t++) {
      GemmArgs tile = args;
      columns.kernels[tiles.rows(t)](&tile);
      args.rows += tiles.rows(t);
      args.c = static_cast<char*>(args.c) + tiles.rows(t) * stride;
    }
  }

  void multiply_panels(const Item& item, int64_t image, int64_t y0, int64_t y1, GemmInit mode) const {
    const char* b = packed(image * g_.groups + item.group);
    for (int64_t p = 0; p < panels_.count(); p++)
      multiply(item, p + 1 < panels_.count() ? full_ : last_, p * panels_.width(), b + panels_.offset(p) + panels_.bytes(p, y0 * e_.run),
               (y1 - y0) * e_.run, mode);
  }

  void multiply_dots(const Item& item, int64_t image, int64_t y0, int64_t y1, GemmInit mode) const {
    constexpr int64_t width = GemmFamily::dot_columns;
    const char* grad = f_.b == g_.type ? static_cast<const char*>(g_.grad) : aligned(packed_.get());
    const char* b = grad + (((image * g_.groups + item.group) * g_.outputs) * pixels_ + y0 * e_.run) * a_bytes_;
    for (int64_t n = 0; n < g_.outputs; n += width)
      multiply(item, n + width < g_.outputs ? full_ : last_, n, b + n * pixels_ * a_bytes_, (y1 - y0) * e_.run, mode);
  }

  void add_parts(int64_t number) const {
    Item item = item_of(number);
    item.sums = sums_.get() + number * sums_bytes();
    int64_t count = item.rows * columns();
    for (int64_t part = 1; part < parts_; part++) {
      const char* more = sums_.get() + (part * items_ + number) * sums_bytes();
      if (f_.sum == DType::F64) add(reinterpret_cast<double*>(item.sums), reinterpret_cast<const double*>(more), count);
      else add(reinterpret_cast<float*>(item.sums), reinterpret_cast<const float*>(more), count);
    }
    finish(item);
  }
  template <class T> static void add(T* to, const T* more, int64_t count) {
    for (int64_t i = 0; i < count; i++) to[i] += more[i];
  }

  /// Sums lie by rows; outputs are to.
  void finish(const Item& item) const {
    int64_t first = item.group * g_.outputs * g_.inputs * window_taps() + item.c0 * window_taps(), stride = g_.inputs * window_taps();
    char* to = static_cast<char*>(g_.out) + first * type_bytes_;
    if (g_.type == DType::F32) {
      MoveArgs args{item.sums, to, columns() * sum_bytes_, stride * sum_bytes_, item.rows, g_.outputs};
      return kernels_.transpose()(&args);
    }
    if (g_.type == DType::F64) turn(reinterpret_cast<const double*>(item.sums), item.rows, reinterpret_cast<double*>(to), stride);
    else if (g_.type == DType::BF16) turn(reinterpret_cast<const float*>(item.sums), item.rows, reinterpret_cast<BF16*>(to), stride);
    else turn(reinterpret_cast<const float*>(item.sums), item.rows, reinterpret_cast<F16*>(to), stride);
  }
  template <class Sum, class To> void turn(const Sum* sums, int64_t rows, To* to, int64_t stride) const {
    for (int64_t o = 0; o < g_.outputs; o++)
      for (int64_t r = 0; r < rows; r++) to[o * stride + r] = static_cast<To>(sums[r * columns() + o]);
  }

  const KernelTable& kernels_;
  const Workers& workers_;
  int family_;
  const GemmFamily& f_;
  const ConvGradient& g_;
  Extent e_;
  int64_t pixels_, a_bytes_, type_bytes_, sum_bytes_;
  bool dots_ = false, in_place_ = false;
  Panels panels_ = {};
  Columns full_, last_;
  int64_t channels_ = 1, lines_ = 1;           // of an item, and of the gradient at a time
  int64_t items_ = 0, blocks_ = 0, parts_ = 1; // of channels; of lines of all images; in which these are summed apart
  int64_t copy_bytes_ = 0, worker_bytes_ = 0;
  std::unique_ptr<char[]> packed_, rooms_, sums_;
};

} // namespace

int conv_gradient_family(const KernelTable& kernels, DType type) {
  for (size_t i = 0; i < kernels.families().size(); i++) {
    const GemmFamily& f = kernels.families()[i];
    bool floats = f.sum == DType::F32 || f.sum == DType::F64, any_depth = f.group == 1 || f.reads_rest;
    if (floats && any_depth && f.a == f.b && !f.is_tiled() && !f.compensated && can_pack(f, type, type)) return static_cast<int>(i);
  }
  return -1;
}

bool may_be_products(const ConvGradient& g) {
  constexpr double most_elements = 1LL << 40;
  const ConvWindow& w = g.window;
  double elements = 1;
  for (int d = 0; d < 3; d++) {
    double reach = static_cast<double>(w.dilation[d]) * static_cast<double>(w.kernel[d]) / static_cast<double>(w.stride[d]);
    elements *= (static_cast<double>(w.out[d]) + reach) * static_cast<double>(w.kernel[d]);
  }
  return elements * static_cast<double>(g.inputs) <= most_elements;
}

void run_conv_gradient(const KernelTable& kernels, const Caches& caches, const Workers& workers, int family, const ConvGradient& gradient) {
  Gradient(kernels, caches, workers, family, gradient).run();
}

} // namespace tenon
