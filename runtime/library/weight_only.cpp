// Packing of weights of 4 and 8 bits with a scale by group, and products with them.
#include <algorithm>
#include <cstring>
#include <vector>

#include "runtime/library/common.h"
#include "runtime/library/vector_level.h"
#include "runtime/library/weight_only_kernels.h"

namespace tenon::library {

namespace {

constexpr int64_t columns = WeightOnlyLayout::columns;

const WeightOnlyKernels& kernels() { return takes_avx512() ? avx512::weight_only_kernels : avx2::weight_only_kernels; }

int64_t panels_of(int64_t n) { return (n + columns - 1) / columns; }

/// Column j of a panel, group g.
template <class T> void pack_group(const WeightOnlyLayout& l, int64_t low, const T* codes, int64_t j, uint8_t* to) {
  for (int64_t k = 0; k < l.group; k++) {
    auto code = static_cast<uint8_t>(static_cast<int64_t>(codes[k]) - low);
    if (l.bits == 8) to[k * columns + j] = code;
    else to[k / 8 * columns * 4 + j * 4 + k % 8 / 2] |= static_cast<uint8_t>((code & 15) << k % 2 * 4);
  }
}

template <class T> void pack_panel(const WeightOnlyLayout& l, int64_t low, const LibraryCall& c, int64_t panel, uint8_t* to) {
  int64_t n = c.inputs[0].size(0);
  std::memset(to, 0, static_cast<size_t>(l.panel_bytes()));
  for (int64_t j = 0; j < std::min(columns, n - panel * columns); j++) {
    int64_t column = panel * columns + j;
    for (int64_t g = 0; g < l.groups; g++) {
      uint8_t* at = to + g * l.group_bytes();
      reinterpret_cast<float*>(at)[j] = c.inputs[1].as<float>()[column * l.groups + g];
      if (l.shifted) reinterpret_cast<float*>(at)[columns + j] = c.inputs[2].as<float>()[column * l.groups + g];
      pack_group(l, low, c.inputs[0].as<T>() + (column * l.groups + g) * l.group, j, at + l.header());
    }
  }
}

} // namespace

const char* pack_quantized_weight(const LibraryCall& c) {
  const LibraryTensor& codes = c.inputs[0];
  WeightOnlyLayout l{codes.size(1), codes.size(2), c.ints[0], c.inputs.size() > 2};
  int64_t low = c.ints[1], panels = panels_of(codes.size(0));
  if (c.outputs[0].numel() != panels * l.panel_bytes()) return "the packed weights have another size";
  uint8_t* to = c.outputs[0].as<uint8_t>();
  parallel(c, panels, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; p++) {
      if (codes.dtype == DType::U8) pack_panel<uint8_t>(l, low, c, p, to + p * l.panel_bytes());
      else pack_panel<int8_t>(l, low, c, p, to + p * l.panel_bytes());
    }
  });
  return nullptr;
}

const char* quantized_weight_mm(const LibraryCall& c) {
  const LibraryTensor &x = c.inputs[0], &packed = c.inputs[1];
  LibraryTensor& y = c.outputs[0];
  WeightOnlyLayout l{c.ints[0], c.ints[1], c.ints[2], c.ints[4] != 0};
  int64_t m = x.size(0), k = x.size(1), n = y.size(1), panels = panels_of(n);
  if (k != l.groups * l.group || packed.numel() != panels * l.panel_bytes()) return "the packed weights are not of this product";
  const WeightOnlyKernels& f = kernels();
  const float* from = x.as<float>();
  std::vector<float> sums(static_cast<size_t>(m * l.groups));
  for (size_t i = 0; i < sums.size() && (l.shifted || c.ints[3] != 0); i++) {
    const float* group = from + static_cast<int64_t>(i) * l.group;
    for (int64_t j = 0; j < l.group; j++) sums[i] += group[j];
  }
  int64_t together = f.panels, items = (panels + together - 1) / together;
  parallel(c, items, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      int64_t p = i * together, count = std::min(together, panels - p);
      for (int64_t row = 0; row < m; row += f.most_rows)
        f.product(l, static_cast<float>(c.ints[3]), from + row * k, k, sums.data() + row * l.groups, std::min(f.most_rows, m - row), packed.as<uint8_t>() + p * l.panel_bytes(), count,
                  y.as<float>() + row * n + p * columns, n, n - p * columns);
    }
  });
  return nullptr;
}

} // namespace tenon::library
