// Fractional max pooling: windows at places that random numbers choose.
#include <limits>

#include "runtime/library/common.h"

namespace tenon::library {

namespace {

// Where the windows start along one dim, for one random number; computed in the tensor's dtype, as torch does.
template <class W> std::vector<int64_t> window_starts(W sample, int64_t in, int64_t out, int64_t window) {
  std::vector<int64_t> starts(static_cast<size_t>(out));
  W step = out > 1 ? static_cast<W>(in - window) / static_cast<W>(out - 1) : W(0);
  for (int64_t i = 0; i < out; i++)
    starts[static_cast<size_t>(i)] = i == out - 1 ? in - window : static_cast<int64_t>((static_cast<W>(i) + sample) * step) - static_cast<int64_t>(sample * step);
  return starts;
}

} // namespace

const char* fractional_max_pool(const LibraryCall& c) {
  const LibraryTensor &in = c.inputs[0], &samples = c.inputs[1], &out = c.outputs[0];
  auto dims = static_cast<size_t>(c.ints[0]);
  // Two spatial dims are three with one of size 1.
  int64_t size[3] = {1, 1, 1}, to[3] = {1, 1, 1}, window[3] = {1, 1, 1};
  for (size_t k = 0; k < dims; k++) {
    size_t at = 3 - dims + k, from = in.sizes.size() - dims + k;
    size[at] = in.sizes[from], to[at] = out.sizes[from], window[at] = c.ints[k + 1];
    if (to[at] + window[at] - 1 > size[at]) return message("pooling to {} with windows of {} does not fit into {}", to[at], window[at], size[at]);
  }
  int64_t in_plane = size[0] * size[1] * size[2], out_plane = to[0] * to[1] * to[2], planes = in_plane ? in.numel() / in_plane : 0;
  if (samples.numel() < planes * static_cast<int64_t>(dims)) return "there are fewer random samples than planes";
  return for_float(in.dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    using W = Wide<T>;
    parallel(c, planes, 1, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; p++) {
        std::vector<int64_t> starts[3] = {{0}, {0}, {0}};
        for (size_t k = 0; k < dims; k++) { // in two dims the first number is for the columns
          size_t at = 3 - dims + k, sample = dims == 2 ? 1 - k : k;
          starts[at] = window_starts<W>(widen(samples.as<const T>()[p * static_cast<int64_t>(dims) + static_cast<int64_t>(sample)]), size[at], to[at], window[at]);
        }
        const T* data = in.as<const T>() + p * in_plane;
        int64_t next = p * out_plane;
        for (int64_t t : starts[0])
          for (int64_t h : starts[1])
            for (int64_t w : starts[2]) {
              W best = -std::numeric_limits<W>::infinity();
              int64_t found = (t * size[1] + h) * size[2] + w;
              for (int64_t i = t; i < t + window[0]; i++)
                for (int64_t j = h; j < h + window[1]; j++)
                  for (int64_t k = w; k < w + window[2]; k++) {
                    int64_t at = (i * size[1] + j) * size[2] + k;
                    if (W x = widen(data[at]); x > best || nan(x)) best = x, found = at;
                  }
              out.as<T>()[next] = narrow<T>(best);
              c.outputs[1].as<int64_t>()[next++] = found;
            }
      }
    });
    return nullptr;
  });
}

} // namespace tenon::library
