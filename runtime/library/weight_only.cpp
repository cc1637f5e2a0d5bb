// Packing of weights of 4 and 8 bits with a scale by group, and products with them.
#include <algorithm>
#include <cstring>
#include <vector>

#include "runtime/library/common.h"
#include "runtime/library/vector_level.h"
#include "runtime/library/weight_only.h"

namespace tenon::library {

namespace {

constexpr int64_t columns = WeightOnlyLayout::columns, together = WeightOnlyLayout::most_sixteens,
                  width = together * columns; // of a panel
constexpr int64_t split_grain = 1 << 15;      // elements of x

int64_t sixteens_of(int64_t n) { return (n + columns - 1) / columns; }

/// Where a column lies: its panel, and its dword of a row of the panel.
template <class Byte> struct PackedColumn {
  Byte* panel;
  int64_t dword, row, group; // row and group: in bytes
  PackedColumn(const WeightOnlyLayout& l, Byte* packed, int64_t n, int64_t column) {
    int64_t first = column / width * width, sixteens = sixteens_of(std::min(width, n - first));
    panel = packed + first / columns * l.bytes(), dword = column - first, row = sixteens * columns * 4, group = sixteens * l.group_bytes();
  }
  Byte* at(int64_t g, int64_t line) const { return panel + g * group + line * row + dword * 4; }
};

template <class T> void pack_group(const WeightOnlyLayout& l, int64_t low, const T* codes, uint8_t* to, int64_t row) {
  int64_t deep = 32 / l.bits, mask = (1 << l.bits) - 1;
  for (int64_t k = 0; k < l.group; k += deep, to += row) {
    uint32_t dword = 0;
    for (int64_t i = 0; i < deep; i++) dword |= static_cast<uint32_t>((codes[k + i] - low) & mask) << i * l.bits;
    std::memcpy(to, &dword, 4);
  }
}

template <class T>
void pack_panel(const WeightOnlyLayout& l, int64_t low, const LibraryCall& c, int64_t begin, int64_t end, uint8_t* packed) {
  for (int64_t g = 0; g < l.groups; g++)
    for (int64_t column = begin; column < end; column++) {
      PackedColumn place(l, packed, c.inputs[0].size(0), column);
      int64_t from = column * l.groups + g;
      std::memcpy(place.at(g, 0), c.inputs[1].as<float>() + from, 4);
      if (l.shifted) std::memcpy(place.at(g, 1), c.inputs[2].as<float>() + from, 4);
      pack_group(l, low, c.inputs[0].as<T>() + from * l.group, place.at(g, l.shifted ? 2 : 1), place.row);
    }
}

/// Columns [begin, end) of a row that is not finite: each product as it is defined.
void plain_row(const WeightOnlyLayout& l, int64_t low, const float* x, const uint8_t* packed, float* y, int64_t n, int64_t begin,
               int64_t end) {
  for (int64_t column = begin; column < end; column++) {
    PackedColumn place(l, packed, n, column);
    float sum = 0;
    for (int64_t g = 0; g < l.groups; g++) {
      float scale, shift = 0;
      std::memcpy(&scale, place.at(g, 0), 4);
      if (l.shifted) std::memcpy(&shift, place.at(g, 1), 4);
      for (int64_t k = 0; k < l.group; k++) {
        uint32_t dword;
        std::memcpy(&dword, place.at(g, (l.shifted ? 2 : 1) + k * l.bits / 32), 4);
        int64_t code = dword >> k * l.bits % 32 & ((1u << l.bits) - 1);
        sum += x[g * l.group + k] * (static_cast<float>(code + low) * scale + shift);
      }
    }
    y[column] = sum;
  }
}

const WeightOnlyKernels* best_kernels() {
  static const WeightOnlyKernels* best = weight_only_kernels().front();
  return best;
}

} // namespace

const char* pack_quantized_weight(const LibraryCall& c) {
  const LibraryTensor& codes = c.inputs[0];
  WeightOnlyLayout l{codes.size(1), codes.size(2), c.ints[0], c.inputs.size() > 2};
  int64_t low = c.ints[1], n = codes.size(0), sixteens = sixteens_of(n);
  if (c.outputs[0].numel() != sixteens * l.bytes()) return "the packed weights have another size";
  uint8_t* to = c.outputs[0].as<uint8_t>();
  parallel(c, (sixteens + together - 1) / together, 1, [&](int64_t begin, int64_t end) {
    std::memset(to + begin * together * l.bytes(), 0,
                static_cast<size_t>((std::min(end * together, sixteens) - begin * together) * l.bytes()));
    for (int64_t first = begin * width; first < std::min(end * width, n); first += width) {
      if (codes.dtype == DType::U8) pack_panel<uint8_t>(l, low, c, first, std::min(first + width, n), to);
      else pack_panel<int8_t>(l, low, c, first, std::min(first + width, n), to);
    }
  });
  return nullptr;
}

std::vector<const WeightOnlyKernels*> weight_only_kernels() {
  bool avx512 = takes_avx512(), narrow = env_flag("TENON_AVX2");
  std::vector<const WeightOnlyKernels*> out;
  if (avx512 && __builtin_cpu_supports("avx512vnni")) out.push_back(&avx512_vnni::weight_only_kernels);
  if (avx512) out.push_back(&avx512::weight_only_kernels);
  if (!narrow && __builtin_cpu_supports("avxvnni")) out.push_back(&avx2_vnni::weight_only_kernels);
  out.push_back(&avx2::weight_only_kernels);
  return out;
}

void weight_only_product(const WeightOnlyKernels& f, const Workers* workers, const WeightOnlyLayout& l, int64_t low, const float* x,
                         int64_t m, const uint8_t* packed, float* y, int64_t n) {
  if (m == 0 || n == 0) return;
  int64_t k = l.groups * l.group, sixteens = sixteens_of(n);
  Memory<int32_t> digits(m * k);
  Memory<WeightOnlyBlock> blocks(m * l.row_blocks());
  Memory<float> back(m);
  WeightOnlyRows rows{digits.data(), blocks.data(), back.data()};
  std::vector<uint8_t> finite(static_cast<size_t>(m));
  parallel(workers, m, std::max<int64_t>(1, split_grain / k), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; r++) {
      finite[static_cast<size_t>(r)] = f.split(l, static_cast<int32_t>(low), x + r * k, rows.from(r, l));
      if (!finite[static_cast<size_t>(r)]) f.split(l, 0, std::vector<float>(static_cast<size_t>(k)).data(), rows.from(r, l));
    }
  });
  int64_t tiles = (m + f.most_rows - 1) / f.most_rows, tall = (m + tiles - 1) / tiles;
  parallel(workers, (sixteens + together - 1) / together, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin * together; p < std::min(end * together, sixteens); p += together) {
      int64_t first = p * columns, count = std::min(together, sixteens - p);
      for (int64_t r = 0; r < m; r += tall)
        f.product(l, rows.from(r, l), std::min(tall, m - r), packed + p * l.bytes(), count, y + r * n + first, n, n - first);
      for (int64_t r = 0; r < m; r++)
        if (!finite[static_cast<size_t>(r)])
          plain_row(l, low, x + r * k, packed, y + r * n, n, first, std::min(n, first + count * columns));
    }
  });
}

const char* quantized_weight_mm(const LibraryCall& c) {
  const LibraryTensor &x = c.inputs[0], &packed = c.inputs[1];
  LibraryTensor& y = c.outputs[0];
  WeightOnlyLayout l{c.ints[0], c.ints[1], c.ints[2], c.ints[4] != 0};
  int64_t n = y.size(1);
  if (x.size(1) != l.groups * l.group || packed.numel() != sixteens_of(n) * l.bytes()) return "the packed weights are not of this product";
  return guarded([&]() -> const char* {
    weight_only_product(*best_kernels(), c.workers, l, c.ints[3], x.as<float>(), x.size(0), packed.as<uint8_t>(), y.as<float>(), n);
    return nullptr;
  });
}

} // namespace tenon::library
