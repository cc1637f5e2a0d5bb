// Images of elements that the kernels do not read: they are converted once, where windows would convert each element for every position.
#include <algorithm>

#include "base/rounding.h"
#include "runtime/conv.h"
#include "runtime/depthwise.h"
#include "runtime/gemm_pack.h"
#include "runtime/parallel.h"

namespace tenon {
namespace {

std::optional<Conversion> image_conversion(const KernelTable& kernels, const Conv& c) {
  if (c.in_type == DType::F32 || c.in_type == DType::F64 || c.by_lines || c.window.positions() == 1 || has_depthwise_kernels(kernels, c))
    return std::nullopt;
  const GemmFamily& f = kernels.family(c.family >= 0 ? c.family : conv_family(kernels, c));
  return f.is_tiled() ? std::nullopt : conversion_of(c.in_type, f.a);
}

int64_t in_pixels(const ConvWindow& w) {
  bool known = true;
  for (int64_t n : w.in) known = known && n != any_size;
  return known ? w.in_pixels() : 0;
}

} // namespace

Conv as_read(const KernelTable& kernels, Conv c) {
  if (!image_conversion(kernels, c)) return c;
  if (is_byte(c.in_type)) c.padding = c.in_type == DType::U8 ? static_cast<uint8_t>(c.padding) : static_cast<int8_t>(c.padding);
  c.in_type = kernels.family(c.family >= 0 ? c.family : conv_family(kernels, c)).a;
  c.in_pixel = c.in_channels, c.in_batch = in_pixels(c.window) * c.in_channels;
  return c;
}

int64_t image_bytes(const KernelTable& kernels, const Conv& c) {
  if (!image_conversion(kernels, c)) return 0;
  return up64(std::max<int64_t>(c.batch * in_pixels(c.window) * c.in_channels * as_read(kernels, c).in_bytes(), 1));
}

void prepare_images(const KernelTable& kernels, const Conv& c) {
  if (auto conversion = image_conversion(kernels, c)) kernels.convert(*conversion);
}

void convert_images(const KernelTable& kernels, const Workers& workers, const Conv& c, char* to) noexcept {
  constexpr int64_t item_elements = 8192;
  auto* convert = kernels.convert(*image_conversion(kernels, c));
  const int64_t pixels = c.window.in_pixels(), item_pixels = std::max<int64_t>(item_elements / std::max<int64_t>(c.in_channels, 1), 1),
                items = ceil_div(pixels, item_pixels), row = c.in_channels * as_read(kernels, c).in_bytes();
  bool dense = c.in_pixel == c.in_channels;
  workers.run(c.batch * items, item_grain(item_elements / converted_per_cycle), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; i++) {
      int64_t image = i / items, p0 = i % items * item_pixels, count = std::min(item_pixels, pixels - p0);
      const char* from = static_cast<const char*>(c.input) + (image * c.in_batch + p0 * c.in_pixel) * c.in_bytes();
      MoveArgs args{from,
                    to + (image * pixels + p0) * row,
                    c.in_pixel * c.in_bytes(),
                    row,
                    dense ? 1 : count,
                    dense ? count * c.in_channels : c.in_channels};
      convert(&args);
    }
  });
}

} // namespace tenon
