// Object detection: non-maximum suppression, region pooling, deformable convolution.
#include "runtime/library/common.h"

namespace tenon::library {

namespace {

// Four corners around a point with their weights.
template <class W> struct Corners {
  int64_t at[4] = {0, 0, 0, 0};
  W weight[4] = {0, 0, 0, 0};
};

// roi_align's rule: outside by more than one pixel counts nothing, within that the border is repeated.
template <class W> Corners<W> clamped_corners(W y, W x, int64_t height, int64_t width) {
  if (y < -1 || y > static_cast<W>(height) || x < -1 || x > static_cast<W>(width)) return {};
  y = std::max(y, W(0)), x = std::max(x, W(0));
  auto y0 = static_cast<int64_t>(y), x0 = static_cast<int64_t>(x);
  int64_t y1 = y0 + 1, x1 = x0 + 1;
  if (y0 >= height - 1) y0 = y1 = height - 1, y = static_cast<W>(y0);
  if (x0 >= width - 1) x0 = x1 = width - 1, x = static_cast<W>(x0);
  W v = y - static_cast<W>(y0), u = x - static_cast<W>(x0);
  return {{y0 * width + x0, y0 * width + x1, y1 * width + x0, y1 * width + x1}, {(1 - v) * (1 - u), (1 - v) * u, v * (1 - u), v * u}};
}

// deform_conv2d's rule: corners outside are zero.
template <class T> Wide<T> sample_zero_padded(const T* image, Wide<T> y, Wide<T> x, int64_t height, int64_t width) {
  using W = Wide<T>;
  if (!(y > -1 && y < static_cast<W>(height) && x > -1 && x < static_cast<W>(width))) return 0;
  W fy = std::floor(y), fx = std::floor(x), v = y - fy, u = x - fx, sum = 0;
  auto y0 = static_cast<int64_t>(fy), x0 = static_cast<int64_t>(fx);
  for (int64_t dy = 0; dy < 2; dy++)
    for (int64_t dx = 0; dx < 2; dx++) {
      int64_t i = y0 + dy, j = x0 + dx;
      if (i >= 0 && i < height && j >= 0 && j < width) sum += (dy ? v : 1 - v) * (dx ? u : 1 - u) * widen(image[i * width + j]);
    }
  return sum;
}

// A region as a grid of sample points, for each pooled cell `per_cell` of them in a row; each with four corners.
template <class W> struct RegionGrid {
  int64_t per_cell = 0;
  std::vector<int32_t> at[4];
  std::vector<W> weight[4], sums;
  void add(const Corners<W>& c) {
    for (int q = 0; q < 4; q++) at[q].push_back(static_cast<int32_t>(c.at[q])), weight[q].push_back(c.weight[q]);
  }
};

template <class W>
RegionGrid<W> region_grid(const W* roi, double scale, int64_t ratio, bool aligned, int64_t height, int64_t width, int64_t pooled_h,
                          int64_t pooled_w) {
  auto s = static_cast<W>(scale), shift = static_cast<W>(aligned ? 0.5 : 0);
  W x = roi[1] * s - shift, y = roi[2] * s - shift, w = roi[3] * s - shift - x, h = roi[4] * s - shift - y;
  if (!aligned) w = std::max(w, W(1)), h = std::max(h, W(1));
  W cell_h = h / static_cast<W>(pooled_h), cell_w = w / static_cast<W>(pooled_w);
  int64_t rows = ratio > 0 ? ratio : std::max<int64_t>(0, static_cast<int64_t>(std::ceil(cell_h))),
          columns = ratio > 0 ? ratio : std::max<int64_t>(0, static_cast<int64_t>(std::ceil(cell_w)));
  RegionGrid<W> g{.per_cell = rows * columns, .at = {}, .weight = {}, .sums = {}};
  for (int64_t i = 0; i < pooled_h; i++)
    for (int64_t j = 0; j < pooled_w; j++)
      for (int64_t r = 0; r < rows; r++)
        for (int64_t k = 0; k < columns; k++)
          g.add(clamped_corners<W>(y + static_cast<W>(i) * cell_h + (static_cast<W>(r) + W(0.5)) * cell_h / static_cast<W>(rows),
                                   x + static_cast<W>(j) * cell_w + (static_cast<W>(k) + W(0.5)) * cell_w / static_cast<W>(columns), height,
                                   width));
  g.sums.resize(g.at[0].size());
  return g;
}

// The samples of one plane, by vectors that gather.
template <class T>
TENON_WIDE void sample_points(const T* plane, const int32_t* const* at, const Wide<T>* const* weight, int64_t n, Wide<T>* out) {
  for (int64_t p = 0; p < n; p++) {
    Wide<T> sum = 0;
    for (int q = 0; q < 4; q++) {
      Wide<T> w = weight[q][p], v = widen(plane[at[q][p]]);
      sum += w != 0 ? w * v : Wide<T>(0);
    }
    out[p] = sum;
  }
}

// Boxes by coordinate, and their areas.
template <class W> struct Boxes {
  std::vector<W> side[4], area;
  void add(const W* box) {
    for (int k = 0; k < 4; k++) side[k].push_back(box[k]);
    area.push_back((box[2] - box[0]) * (box[3] - box[1]));
  }
};

// Whether a box overlaps one of `n` others by more than `threshold` of their union.
template <class W>
TENON_WIDE bool overlaps(const W* x0, const W* y0, const W* x1, const W* y1, const W* areas, int64_t n, const W* box, W area, W threshold) {
  constexpr int64_t block = 64;
  auto above = [=](int64_t k) -> int {
    W right = box[2] < x1[k] ? box[2] : x1[k], left = x0[k] < box[0] ? box[0] : x0[k], w = right - left,
      bottom = box[3] < y1[k] ? box[3] : y1[k], top = y0[k] < box[1] ? box[1] : y0[k], h = bottom - top;
    W inter = (w > 0 ? w : 0) * (h > 0 ? h : 0);
    return inter / (area + areas[k] - inter) > threshold;
  };
  int64_t k = 0;
  for (int found = 0; k + block <= n; k += block) {
    for (int64_t j = 0; j < block; j++) found |= above(k + j);
    if (found) return true;
  }
  for (; k < n; k++)
    if (above(k)) return true;
  return false;
}

} // namespace

const char* nms(const LibraryCall& c) {
  const LibraryTensor &boxes = c.inputs[0], &scores = c.inputs[1];
  int64_t n = scores.numel();
  if (boxes.numel() != 4 * n) return message("{} scores for {} boxes", n, boxes.size(0));
  return for_float(boxes.dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    using W = Wide<T>;
    std::vector<int64_t> order(static_cast<size_t>(n)), kept;
    for (int64_t i = 0; i < n; i++) order[static_cast<size_t>(i)] = i;
    const T* score = scores.as<const T>();
    std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      auto x = order_key(score[a]), y = order_key(score[b]);
      return x != y ? x > y : a < b;
    });
    Boxes<W> b;
    auto threshold = static_cast<W>(c.numbers[0]);
    for (int64_t i : order) { // against those kept so far
      W box[4];
      for (int64_t k = 0; k < 4; k++) box[k] = widen(boxes.as<const T>()[i * 4 + k]);
      if (overlaps(b.side[0].data(), b.side[1].data(), b.side[2].data(), b.side[3].data(), b.area.data(), std::ssize(kept), box,
                   (box[2] - box[0]) * (box[3] - box[1]), threshold))
        continue;
      kept.push_back(i);
      b.add(box);
    }
    auto* out = allocate<int64_t>(c, 0, {std::ssize(kept)});
    if (!out) return no_memory;
    std::copy(kept.begin(), kept.end(), out);
    return nullptr;
  });
}

const char* roi_align(const LibraryCall& c) {
  const LibraryTensor &in = c.inputs[0], &rois = c.inputs[1], &out = c.outputs[0];
  int64_t images = in.size(0), channels = in.size(1), height = in.size(2), width = in.size(3), cells = out.size(2) * out.size(3);
  if (height * width > INT32_MAX) return "an image of more than 2^31 elements";
  return for_float(in.dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    using W = Wide<T>;
    for (int64_t r = 0; r < rois.size(0); r++)
      if (auto image = static_cast<int64_t>(widen(rois.as<const T>()[r * 5])); image < 0 || image >= images)
        return out_of_range(image, images);
    parallel(c, rois.size(0), 1, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; r++) {
        W roi[5];
        for (int64_t k = 0; k < 5; k++) roi[k] = widen(rois.as<const T>()[r * 5 + k]);
        auto g = region_grid<W>(roi, c.numbers[0], c.ints[0], c.ints[1] != 0, height, width, out.size(2), out.size(3));
        auto count = static_cast<W>(std::max<int64_t>(g.per_cell, 1));
        const int32_t* at[] = {g.at[0].data(), g.at[1].data(), g.at[2].data(), g.at[3].data()};
        const W* weight[] = {g.weight[0].data(), g.weight[1].data(), g.weight[2].data(), g.weight[3].data()};
        for (int64_t ch = 0; ch < channels; ch++) {
          const T* plane = in.as<const T>() + (static_cast<int64_t>(roi[0]) * channels + ch) * height * width;
          sample_points(plane, at, weight, std::ssize(g.sums), g.sums.data());
          const W* p = g.sums.data();
          for (int64_t cell = 0; cell < cells; cell++) {
            W sum = 0;
            for (int64_t k = 0; k < g.per_cell; k++) sum += *p++;
            out.as<T>()[(r * channels + ch) * cells + cell] = narrow<T>(sum / count);
          }
        }
      }
    });
    return nullptr;
  });
}

namespace {

// Sizes and parameters of a deformable convolution, by name.
struct Deform {
  int64_t channels, height, width, out_channels, group_channels, kernel_h, kernel_w, out_h, out_w;
  int64_t stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups, offset_groups;
  bool use_mask;
  int64_t taps() const { return kernel_h * kernel_w; }
};

// The sampled inputs of one output row: columns[channel * taps + tap][x].
template <class T> void sample_row(const LibraryCall& c, const Deform& d, int64_t image, int64_t row, Wide<T>* columns) {
  using W = Wide<T>;
  const T *in = c.inputs[0].as<const T>(), *offset = c.inputs[2].as<const T>(), *mask = c.inputs[3].as<const T>();
  int64_t cells = d.out_h * d.out_w;
  for (int64_t ch = 0; ch < d.channels; ch++) {
    int64_t group = ch / (d.channels / d.offset_groups);
    const T* plane = in + (image * d.channels + ch) * d.height * d.width;
    for (int64_t tap = 0; tap < d.taps(); tap++) {
      int64_t at = ((image * d.offset_groups + group) * d.taps() + tap) * cells + row * d.out_w;
      int64_t at_y = ((image * d.offset_groups + group) * d.taps() + tap) * 2 * cells + row * d.out_w;
      auto y0 = static_cast<W>(row * d.stride_h - d.pad_h + tap / d.kernel_w * d.dilation_h);
      for (int64_t x = 0; x < d.out_w; x++) {
        auto x0 = static_cast<W>(x * d.stride_w - d.pad_w + tap % d.kernel_w * d.dilation_w);
        W v = sample_zero_padded<T>(plane, y0 + widen(offset[at_y + x]), x0 + widen(offset[at_y + cells + x]), d.height, d.width);
        *columns++ = d.use_mask ? v * widen(mask[at + x]) : v;
      }
    }
  }
}

} // namespace

const char* deform_conv2d(const LibraryCall& c) {
  const LibraryTensor &in = c.inputs[0], &weight = c.inputs[1], &out = c.outputs[0];
  auto p = c.ints;
  Deform d{in.size(1), in.size(2), in.size(3), weight.size(0), weight.size(1), weight.size(2), weight.size(3), out.size(2), out.size(3),
           p[0],       p[1],       p[2],       p[3],           p[4],           p[5],           p[6],           p[7],        p[8] != 0};
  return for_float(in.dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    using W = Wide<T>;
    parallel(c, in.size(0) * d.out_h, 1, [&](int64_t begin, int64_t end) {
      std::vector<W> columns(static_cast<size_t>(d.channels * d.taps() * d.out_w)), sum(static_cast<size_t>(d.out_w));
      for (int64_t r = begin; r < end; r++) {
        int64_t image = r / d.out_h, row = r % d.out_h, terms = d.group_channels * d.taps();
        sample_row<T>(c, d, image, row, columns.data());
        for (int64_t o = 0; o < d.out_channels; o++) {
          std::fill(sum.begin(), sum.end(), widen(c.inputs[4].as<const T>()[o]));
          const W* column = columns.data() + o / (d.out_channels / d.groups) * terms * d.out_w;
          for (int64_t t = 0; t < terms; t++, column += d.out_w) {
            W w = widen(weight.as<const T>()[o * terms + t]);
            for (int64_t x = 0; x < d.out_w; x++) sum[static_cast<size_t>(x)] += w * column[x];
          }
          T* to = out.as<T>() + ((image * d.out_channels + o) * d.out_h + row) * d.out_w;
          for (int64_t x = 0; x < d.out_w; x++) to[x] = narrow<T>(sum[static_cast<size_t>(x)]);
        }
      }
    });
    return nullptr;
  });
}

} // namespace tenon::library
