// Matrix micro-kernels and movers, one by one, against plain loops in double precision.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <set>
#include <string>

#include "codegen/x86/gemm.h"
#include "kernel_test.h"

namespace tenon::gemm_kernel_test {

namespace {

constexpr float untouched = 12345.f;

struct TileCase {
  GemmKey key;
  int64_t depth, positions; // depth: of k
  GemmInit mode;
  int64_t part = 128;
};

std::vector<const void*> row_pointers(const GemmFamily& f, const TileCase& c, const char* a, const void* zeros) {
  int64_t rows = c.key.rows, row_bytes = c.depth * static_cast<int64_t>(size_of(f.a));
  std::vector<const void*> pointers;
  for (int64_t p = 0; p < c.positions; p++)
    for (int64_t g = 0; g < rows / f.row_step; g++) pointers.push_back(a + (p * rows + g * f.row_step) * row_bytes);
  size_t r = pointers.size() / static_cast<size_t>(c.positions);
  if (c.key.kind == GemmKind::Windows && c.positions == 3) { // padding: a whole position, the first row, the last row
    pointers[0] = nullptr;
    if (!f.is_tiled() && rows > 1) pointers[r] = zeros, pointers[3 * r - 1] = zeros;
  }
  return pointers;
}

/// Kernels of packed B with registers to spare have asked for what lies behind `ahead`: each round for the same number of lines.
void run_kernel(const KernelTable& table, const GemmFamily& f, const TileCase& c, GemmArgs& args) {
  int64_t lines = c.depth % (GemmFamily::most_ahead + 1);
  if (!f.is_tiled()) args.ahead = args.b, args.ahead_lines = lines;
  const char* from = static_cast<const char*>(args.ahead);
  if (f.is_tiled()) table.begin_tiles();
  table.gemm(c.key)(&args);
  if (f.is_tiled()) table.end_tiles();
  bool packed = c.key.kind == GemmKind::Packed, asks = c.key.rows > 1 && c.key.rows < 12 && c.key.vectors > 1;
  if (packed && !f.is_tiled() && c.positions == 1)
    CHECK(static_cast<const char*>(args.ahead) - from == (asks ? lines * 64 * (c.depth / f.ahead_k) : 0));
}

/// Elements of a panel; those of a compensated family are bytes, and the last row's have four.
int64_t packed_size(const GemmFamily& f, int64_t depth, int64_t width) {
  return ((depth + f.group - 1) / f.group * f.group + (f.compensated ? 4 : 0)) * width;
}

/// Elements of a packed B that are not those of the row-major one, or not zero behind its columns and k; and what takes away 128 times each
/// column.
int wrong_in_packed(const GemmFamily& f, TypedBuffer& packed, int64_t depth, int64_t width, TypedBuffer& b, int64_t columns) {
  int wrong = 0;
  int64_t padded = (depth + f.group - 1) / f.group * f.group;
  const char* tails = packed.data() + padded * width * static_cast<int64_t>(size_of(f.b));
  for (int64_t j = 0; j < width; j++) {
    int32_t tail = 0, got = 0;
    for (int64_t k = 0; k < padded; k++) {
      double expected = j < columns && k < depth ? b.get(k * columns + j) : 0;
      wrong += packed.get((k / f.group * width + j) * f.group + k % f.group) != expected;
      tail -= static_cast<int32_t>(128 * expected);
    }
    if (f.compensated) std::memcpy(&got, tails + j * 4, 4), wrong += got != tail;
  }
  return wrong;
}

/// One tile: operands in guarded memory, A's rows behind pointers, some of them padding where the kernel takes windows.
void check_tile(const KernelTable& table, const TileCase& c) {
  const GemmFamily& f = table.family(c.key.family);
  bool dot = is_dot(c.key.kind), packs = c.key.kind == GemmKind::Packing, in_place = packs || c.key.kind == GemmKind::InPlace;
  double offset = f.compensated && !dot && !in_place ? 128 : 0; // of A; the panels' last row takes it away
  int64_t rows = c.key.rows, width = c.key.vectors * (dot ? 1 : f.lanes), columns = c.key.masked ? width - 1 - c.depth % f.lanes : width;
  if (!dot && columns <= width - f.lanes) columns = width - f.lanes + 1;
  int64_t a_size = static_cast<int64_t>(size_of(f.a)), first = c.depth % 2 * f.group;
  int64_t b_row = in_place ? columns : width; // of one k
  int64_t rest = dot ? 0 : c.depth % f.group, b_depth = in_place || rest == 0 ? c.depth : c.depth + f.group - rest;
  TypedBuffer a(f.a, rows * c.positions * c.depth + first), b(f.b, c.positions * b_depth * b_row), out(f.sum, rows * columns),
      init(f.sum, columns);
  TypedBuffer zeros(f.a, c.depth + first), packed(f.b, packs ? packed_size(f, c.depth, width) : 0);
  a.fill_random(5), b.fill_random(6), out.fill_random(7), init.fill_random(8);
  for (int64_t j = 0; j < width; j++)
    for (int64_t k = c.depth; k < b_depth; k++) b.set((k / f.group * width + j) * f.group + k % f.group, 0);
  std::vector<double> before;
  for (int64_t i = 0; i < out.count; i++) before.push_back(out.get(i));
  std::vector<const void*> pointers = row_pointers(f, c, a.data(), zeros.data());
  size_t r = pointers.size() / static_cast<size_t>(c.positions);
  GemmArgs args{pointers.data(),
                first * a_size,
                zeros.data(),
                b.data(),
                out.data(),
                init.data(),
                columns * static_cast<int64_t>(size_of(f.sum)),
                (dot ? c.depth : b_row) * static_cast<int64_t>(size_of(f.b)),
                c.depth * a_size,
                dot ? c.depth : c.depth / f.group,
                c.positions,
                columns,
                c.mode,
                rest,
                c.part};
  args.packed = packed.data(), args.b_ahead = packs ? args.b_stride : 0;
  run_kernel(table, f, c, args);
  int wrong = 0;
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < columns; j++) {
      double sum = c.mode == GemmInit::C     ? before[static_cast<size_t>(i * columns + j)]
                   : c.mode == GemmInit::Row ? init.get(j)
                                             : 0,
             size = std::abs(sum);
      for (int64_t p = 0; p < c.positions; p++) {
        size_t at = static_cast<size_t>(p) * r;
        bool whole_padding = !pointers[at], zero_row = !f.is_tiled() && pointers[at + static_cast<size_t>(i)] == zeros.data();
        for (int64_t k = 0; k < c.depth && !whole_padding && !zero_row; k++) {
          int64_t in_panel = dot ? j * c.depth + k : in_place ? k * columns + j : (k / f.group * width + j) * f.group + k % f.group;
          double product = (a.get(first + (p * rows + i) * c.depth + k) + offset) * b.get(p * c.depth * b_row + in_panel);
          sum += product;
          size += std::abs(product);
        }
      }
      double got = out.get(i * columns + j), off = std::abs(got - sum);
      wrong += f.sum == DType::I32 ? got != sum : !(off <= (f.sum == DType::F64 ? 1e-15 : 1e-6) * size);
    }
  if (packs) wrong += wrong_in_packed(f, packed, c.depth, width, b, columns);
  CHECK_MESSAGE(wrong == 0, std::string(f.name), " ", rows, "x", width, ", depth ", c.depth, ", masked ", c.key.masked, ", kind ",
                static_cast<int>(c.key.kind), ", mode ", static_cast<int>(c.mode));
}

/// The tiles of one family and width.
void check_width(const KernelTable& table, int family, int vectors) {
  const GemmFamily& f = table.family(family);
  for (GemmKind kind : {GemmKind::Packed, GemmKind::InPlace, GemmKind::Windows, GemmKind::Packing, GemmKind::PackedRows}) {
    if (kind == GemmKind::PackedRows && !f.is_tiled()) continue;
    bool in_place = kind == GemmKind::InPlace || kind == GemmKind::Packing;
    int most = (in_place ? f.in_place_rows : f.rows)[static_cast<size_t>(vectors)];
    if (kind == GemmKind::Packing) most = std::min<int>(most, f.packing_rows[static_cast<size_t>(vectors)]);
    for (int rows = f.row_step; rows <= most; rows += f.row_step)
      for (bool masked : {false, true})
        for (int64_t steps : {0, 1, 2, 3, 4, 5, 7, 8, 17})
          for (GemmInit mode : {GemmInit::Zero, GemmInit::C, GemmInit::Row}) {
            if (f.is_tiled() && (masked || mode == GemmInit::Row)) continue;
            int64_t positions = in_place ? 1 : 1 + steps % 3;
            check_tile(table, {{family, rows, vectors, masked, kind}, steps * f.k_step, positions, mode});
            for (int rest = 1; f.reads_rest && rest < f.group && kind != GemmKind::Windows; rest++)
              check_tile(table, {{family, rows, vectors, masked, kind}, steps * f.k_step + rest, 1, mode});
          }
  }
}

void check_dots(const KernelTable& table, int family) {
  const GemmFamily& f = table.family(family);
  for (int columns = 1; columns <= GemmFamily::row_dot_columns; columns++)
    for (int rows = 1; rows <= f.dot_rows[static_cast<size_t>(columns)]; rows++)
      for (int64_t depth : {0, 1, 2, 3, 7, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 257})
        for (GemmInit mode : {GemmInit::Zero, GemmInit::C, GemmInit::Row})
          for (GemmKind kind : {GemmKind::Dot, GemmKind::DotRows})
            check_tile(table, {{family, rows, columns, false, kind}, depth, 1, mode});
}

} // namespace

TEST_CASE("every register tile of every family, with every form of B, init and mask") {
  std::set<std::string> seen;
  for (const Target& target : available_targets()) {
    MicroKernels mk(target);
    for (size_t i = 0; i < mk.table().families().size(); i++)
      if (seen.insert(mk.table().families()[i].name).second)
        for (int vectors = 1; vectors <= GemmFamily::max_vectors; vectors++) check_width(mk.table(), static_cast<int>(i), vectors);
  }
}

TEST_CASE("sums of f32 in parts of several sizes") {
  for (const Target& target : available_targets()) {
    MicroKernels mk(target);
    for (size_t i = 0; i < mk.table().families().size(); i++) {
      const GemmFamily& f = mk.table().families()[i];
      if (f.a != DType::F32 || f.sum != DType::F32 || f.b != DType::F32) continue;
      for (GemmKind kind : {GemmKind::Packed, GemmKind::InPlace, GemmKind::Windows})
        for (int vectors : {1, 2})
          for (int rows : {1, 4})
            for (int64_t part : {16, 32, 128})
              for (int64_t depth : {15, 16, 17, 32, 33, 64, 127, 131, 257})
                for (GemmInit mode : {GemmInit::Zero, GemmInit::C})
                  check_tile(mk.table(),
                             {{static_cast<int>(i), rows, vectors, false, kind}, depth, kind == GemmKind::InPlace ? 1 : 2, mode, part});
    }
  }
}

/// A series of three tiles, which asks for what it may, makes what three calls make that ask for nothing.
static void check_series(const KernelTable& table, const GemmKey& key, int64_t k) {
  const GemmFamily& f = table.family(key.family);
  bool dot = is_dot(key.kind), in_place = key.kind == GemmKind::InPlace;
  constexpr int64_t tiles = 3;
  int64_t rows = key.rows, width = key.vectors * (dot ? 1 : f.lanes), columns = key.masked ? width - 1 : width,
          depth = dot || in_place ? k : (k + f.k_step - 1) / f.k_step * f.k_step;
  int64_t a_bytes = static_cast<int64_t>(size_of(f.a)), b_bytes = static_cast<int64_t>(size_of(f.b)),
          c_bytes = static_cast<int64_t>(size_of(f.sum)), group = dot ? 1 : f.group;
  TypedBuffer a(f.a, tiles * rows * depth), b(f.b, tiles * depth * width), out(f.sum, tiles * rows * columns),
      single(f.sum, tiles * rows * columns), init(f.sum, tiles * width);
  a.fill_random(1), b.fill_random(2), init.fill_random(3), out.fill_random(4), single.fill_random(4);
  std::vector<const void*> pointers;
  for (int64_t i = 0; i < rows; i++) pointers.push_back(a.data() + i * depth * a_bytes);
  auto args = [&](TypedBuffer& to) {
    return GemmArgs{.rows = pointers.data(),
                    .first = 0,
                    .zeros = nullptr,
                    .b = b.data(),
                    .c = to.data(),
                    .init = init.data(),
                    .c_stride = columns * c_bytes,
                    .b_stride = (dot ? depth : width) * b_bytes,
                    .a_stride = (key.a_by_k ? tiles * rows : depth) * a_bytes,
                    .depth = depth / group,
                    .positions = 1,
                    .columns = columns,
                    .mode = GemmInit::Row,
                    .rest = depth % group};
  };
  GemmArgs series = args(out);
  series.tiles = tiles;
  series.next_a = rows * (key.a_by_k ? 1 : depth) * a_bytes, series.next_b = depth * width * b_bytes,
  series.next_c = rows * columns * c_bytes, series.next_init = width * c_bytes;
  series.b_ahead = series.b_stride;
  table.gemm(key)(&series);
  for (int64_t t = 0; t < tiles; t++) {
    GemmArgs one = args(single);
    if (!key.a_by_k) one.a_stride = 0;
    one.first = t * series.next_a, one.b = b.data() + t * series.next_b, one.c = single.data() + t * series.next_c,
    one.init = init.data() + t * series.next_init;
    table.gemm(key)(&one);
  }
  CHECK_MESSAGE(std::memcmp(out.data(), single.data(), static_cast<size_t>(out.count * c_bytes)) == 0, std::string(f.name), " ", rows, "x",
                width, ", depth ", depth, ", masked ", key.masked, ", kind ", static_cast<int>(key.kind), ", by k ", key.a_by_k);
}

TEST_CASE("series of tiles of every family, as so many calls") {
  std::set<std::string> seen;
  for (const Target& target : available_targets()) {
    MicroKernels mk(target);
    for (int i = 0; i < static_cast<int>(mk.table().families().size()); i++) {
      const GemmFamily& f = mk.table().family(i);
      if (f.is_tiled() || !seen.insert(f.name).second) continue;
      for (int64_t k : {0, 1, 7, 16, 33, 130, 257}) {
        for (int columns = 1; columns <= GemmFamily::row_dot_columns; columns++)
          for (int rows = 1; rows <= f.dot_rows[static_cast<size_t>(columns)]; rows++)
            for (GemmKind kind : {GemmKind::Dot, GemmKind::DotRows}) check_series(mk.table(), {i, rows, columns, false, kind}, k);
        for (int vectors = 1; vectors <= GemmFamily::max_vectors; vectors++)
          for (GemmKind kind : {GemmKind::Packed, GemmKind::InPlace})
            for (int rows = 1; rows <= (kind == GemmKind::InPlace ? f.in_place_rows : f.rows)[static_cast<size_t>(vectors)]; rows++)
              for (bool masked : {false, true})
                for (bool by_k : {false, true})
                  if (!by_k || f.group == 1) check_series(mk.table(), {i, rows, vectors, masked, kind, by_k}, k);
      }
    }
  }
}

/// A series on tile registers makes what single calls make: from 0 or from what C holds, with padding at its first or second position,
/// with packed B or rows of A asked for meanwhile. Tiles lie beside each other, of PackedRows below each other.
static void check_tile_series(const KernelTable& table, const GemmKey& key, int64_t steps, GemmInit mode, int padding, int asks) {
  const GemmFamily& f = table.family(key.family);
  constexpr int64_t tiles = 4, positions = 2;
  bool below = key.kind == GemmKind::PackedRows;
  int64_t rows = key.rows, width = key.vectors * f.lanes, k = steps * f.k_step, row_bytes = k * static_cast<int64_t>(size_of(f.a)),
          panel = positions * k * width, c_bytes = static_cast<int64_t>(size_of(f.sum));
  TypedBuffer a(f.a, (positions + tiles) * rows * k), b(f.b, tiles * panel), out(f.sum, tiles * rows * width),
      single(f.sum, tiles * rows * width);
  a.fill_random(1), b.fill_random(2), out.fill_random(3), single.fill_random(3);
  std::vector<const void*> pointers;
  for (int64_t i = 0; i < positions * rows / f.row_step; i++) pointers.push_back(a.data() + i * f.row_step * row_bytes);
  if (padding >= 0) pointers[static_cast<size_t>(padding * rows / f.row_step)] = nullptr;
  GemmArgs one{.rows = pointers.data(),
               .first = 0,
               .zeros = nullptr,
               .b = b.data(),
               .c = single.data(),
               .init = nullptr,
               .c_stride = (below ? 1 : tiles) * width * c_bytes,
               .b_stride = 0,
               .a_stride = row_bytes,
               .depth = k / f.group,
               .positions = positions,
               .columns = width,
               .mode = mode};
  GemmArgs series = one;
  series.c = out.data(), series.tiles = tiles;
  series.next_a = below ? rows * row_bytes : 0, series.next_b = below ? 0 : panel * static_cast<int64_t>(size_of(f.b)),
  series.next_c = width * c_bytes * (below ? rows : 1);
  if (asks & 1) series.ahead = b.data(), series.ahead_lines = key.vectors * 16 / (below ? 4 : 1);
  if (asks & 2) series.rows_ahead = a.data(), series.rows_ahead_stride = row_bytes;
  table.begin_tiles();
  table.gemm(key)(&series);
  for (int64_t t = 0; t < tiles; t++) {
    one.first = t * series.next_a, one.b = b.data() + t * series.next_b, one.c = single.data() + t * series.next_c, one.tiles = 1;
    table.gemm(key)(&one);
  }
  table.end_tiles();
  CHECK_MESSAGE(std::memcmp(out.data(), single.data(), static_cast<size_t>(out.count * c_bytes)) == 0, std::string(f.name), " ", rows, "x",
                width, ", kind ", static_cast<int>(key.kind), ", steps ", steps, ", mode ", static_cast<int>(mode), ", padding ", padding,
                ", asks ", asks);
  if (!below && asks & 2)
    CHECK(static_cast<const char*>(series.rows_ahead) == a.data() + (tiles - 1) * GemmArgs::rows_ahead_of_tile * row_bytes);
  if (below && asks & 1 && steps > 0) {
    int64_t read = tiles * (padding < 0 ? positions : positions - 1) * steps;
    CHECK(static_cast<const char*>(series.ahead) == b.data() + read * series.ahead_lines * 64);
  }
}

TEST_CASE("series on tile registers, as so many calls") {
  MicroKernels mk;
  for (int i = 0; i < static_cast<int>(mk.table().families().size()); i++) {
    const GemmFamily& f = mk.table().family(i);
    if (!f.is_tiled()) continue;
    for (int vectors = 1; vectors <= GemmFamily::max_vectors; vectors++)
      for (int rows = f.row_step; rows <= f.rows[static_cast<size_t>(vectors)]; rows += f.row_step)
        for (GemmKind kind : {GemmKind::Packed, GemmKind::PackedRows})
          for (int64_t steps : {0, 1, 2, 5})
            for (GemmInit mode : {GemmInit::Zero, GemmInit::C})
              for (int padding : {-1, 0, 1})
                for (int asks : {0, 1, 2, 3}) check_tile_series(mk.table(), {i, rows, vectors, false, kind}, steps, mode, padding, asks);
  }
}

TEST_CASE("tiles of dot products of every family, with every init") {
  std::set<std::string> seen;
  for (const Target& target : available_targets()) {
    MicroKernels mk(target);
    for (size_t i = 0; i < mk.table().families().size(); i++)
      if (seen.insert(mk.table().families()[i].name).second) check_dots(mk.table(), static_cast<int>(i));
  }
}

namespace {

/// Two batches of rows of A, with a gap between them, by a B that stays in registers: every row and valid column, and nothing else. Of a
/// last group of k `missing` are not there.
void check_held(const KernelTable& table, const GemmKey& key, int64_t rows, GemmInit mode, int missing) {
  const GemmFamily& f = table.family(key.family);
  int64_t depth = int64_t{key.rows} * f.group, k = depth - missing, a_row = k + 3,
          columns = key.vectors * f.lanes - (key.masked ? 1 + rows % (f.lanes - 1) : 0), bytes = static_cast<int64_t>(size_of(f.sum)),
          a_bytes = static_cast<int64_t>(size_of(f.a)), b_bytes = static_cast<int64_t>(size_of(f.b));
  constexpr int64_t batches = 2;
  TypedBuffer a(f.a, (batches * rows - 1) * a_row + k), b(f.b, batches * depth * columns), out(f.sum, batches * rows * columns),
      before(f.sum, batches * rows * columns), init(f.sum, columns);
  a.fill_random(1), b.fill_random(2), out.fill_random(3), before.fill_random(3), init.fill_random(4);
  auto in_panel = [&](int64_t batch, int64_t p, int64_t j) {
    return batch * depth * columns + (p / f.group * columns + j) * f.group + p % f.group;
  };
  for (int64_t j = 0; j < batches * columns; j++)
    for (int64_t p = k; p < depth; p++) b.set(in_panel(j / columns, p, j % columns), 0);
  const void* pointers[] = {a.data()};
  GemmArgs args{.rows = pointers,
                .first = 0,
                .zeros = nullptr,
                .b = b.data(),
                .c = out.data(),
                .init = init.data(),
                .c_stride = columns * bytes,
                .b_stride = columns * f.group * b_bytes,
                .a_stride = a_row * a_bytes,
                .depth = 0,
                .positions = batches,
                .columns = columns,
                .mode = mode,
                .rest = k % f.group,
                .tiles = rows,
                .next_a = rows * a_row * a_bytes,
                .next_b = depth * columns * b_bytes,
                .next_c = rows * columns * bytes};
  table.gemm(key)(&args);
  int wrong = 0;
  double offset = f.compensated ? 128 : 0; // of A
  for (int64_t i = 0; i < batches * rows; i++)
    for (int64_t j = 0; j < columns; j++) {
      double sum = mode == GemmInit::C ? before.get(i * columns + j) : mode == GemmInit::Row ? init.get(j) : 0, size = std::abs(sum);
      for (int64_t p = 0; p < k; p++) {
        double product = (a.get(i * a_row + p) + offset) * b.get(in_panel(i / rows, p, j));
        sum += product, size += std::abs(product);
      }
      double got = out.get(i * columns + j);
      wrong += f.sum == DType::I32 ? got != sum : !(std::abs(got - sum) <= (f.sum == DType::F64 ? 1e-15 : 1e-6) * size);
    }
  CHECK_MESSAGE(wrong == 0, std::string(f.name), " ", rows, " rows, k ", k, ", ", columns, " columns, mode ", static_cast<int>(mode));
}

} // namespace

TEST_CASE("a B that stays in registers, of every k and width, with every init and mask") {
  std::set<std::string> seen;
  for (const Target& target : available_targets()) {
    MicroKernels mk(target);
    for (int i = 0; i < static_cast<int>(mk.table().families().size()); i++) {
      const GemmFamily& f = mk.table().family(i);
      if (!seen.insert(f.name).second) continue;
      for (int k = 1; k <= f.held; k++)
        for (int vectors = 1; vectors <= std::min(f.held / k, GemmFamily::most_held_together); vectors++)
          for (bool masked : {false, true})
            for (int64_t rows : {1, 2, 3, 7, 8, 9, 16, 31})
              for (GemmInit mode : {GemmInit::Zero, GemmInit::C, GemmInit::Row})
                for (int missing = 0; missing < f.group; missing++)
                  check_held(mk.table(), {i, k, vectors, masked, GemmKind::Held}, rows, mode, missing);
    }
  }
  CHECK(!seen.empty());
}

TEST_CASE("kernels of families that this machine lacks can be emitted") {
  CodeMemory memory;
  for (const GemmFamilyRow& row : gemm_families())
    for (int vectors = 1; vectors <= GemmFamily::max_vectors; vectors++)
      if (int rows = row.family.rows[static_cast<size_t>(vectors)]) CHECK(emit_gemm(memory, row, {0, rows, vectors}) != nullptr);
}

TEST_CASE("movers copy, pad and transpose blocks of any size without touching anything else") {
  for (Isa isa : available_isas()) {
    MicroKernels mk(isa);
    int lanes = mk.table().lanes();
    for (int64_t rows : {0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 48})
      for (int64_t columns : {1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65}) {
        GuardedBuffer from(rows * columns), to(rows * columns);
        from.fill_random(9);
        MoveArgs t{from.data(), to.data(), columns * 4, rows * 4, rows, columns};
        mk.table().transpose()(&t);
        int wrong = 0;
        for (int64_t i = 0; i < rows; i++)
          for (int64_t j = 0; j < columns; j++) wrong += to.data()[j * rows + i] != from.data()[i * columns + j];
        CHECK_MESSAGE(wrong == 0, "transpose " << rows << "x" << columns);

        int64_t row = (rows + 15) / 16 * 16; // whole lines
        GuardedBuffer lines(columns * row);
        std::fill(lines.values.begin(), lines.values.end(), untouched);
        MoveArgs s{from.data(), lines.data(), columns * 4, row * 4, rows, columns, true};
        mk.table().transpose()(&s);
        for (int64_t j = 0; j < columns; j++)
          for (int64_t i = 0; i < row; i++) wrong += lines.data()[j * row + i] != (i < rows ? from.data()[i * columns + j] : untouched);
        CHECK_MESSAGE(wrong == 0, "streamed transpose " << rows << "x" << columns);

        int vectors = static_cast<int>((columns + lanes - 1) / lanes);
        int64_t width = vectors * lanes;
        GuardedBuffer wide(rows * width);
        std::fill(wide.values.begin(), wide.values.end(), untouched);
        MoveArgs c{from.data(), wide.data(), columns * 4, width * 4, rows, columns};
        mk.table().copy(vectors)(&c);
        for (int64_t i = 0; i < rows; i++)
          for (int64_t j = 0; j < width; j++) wrong += wide.data()[i * width + j] != (j < columns ? from.data()[i * columns + j] : 0.f);
        CHECK_MESSAGE(wrong == 0, "copy " << rows << "x" << columns);
      }
  }
}

TEST_CASE("conversions of rows, element by element") {
  struct {
    Conversion c;
    DType from, to;
    double plus;
  } all[] = {{Conversion::F16ToF32, DType::F16, DType::F32, 0}, {Conversion::BF16ToF32, DType::BF16, DType::F32, 0},
             {Conversion::I8ToI16, DType::I8, DType::I16, 0},   {Conversion::U8ToI16, DType::U8, DType::I16, 0},
             {Conversion::I8ToU8, DType::I8, DType::U8, 128},   {Conversion::I8ToF32, DType::I8, DType::F32, 0}};
  for (Isa isa : available_isas()) {
    MicroKernels mk(isa);
    for (auto& x : all)
      for (int64_t rows : {0, 1, 3})
        for (int64_t columns : {1, 2, 15, 16, 17, 31, 33, 64, 100, 131}) {
          TypedBuffer from(x.from, rows * columns), to(x.to, rows * columns);
          from.fill_random(3);
          MoveArgs args{
              from.data(), to.data(), columns * static_cast<int64_t>(size_of(x.from)), columns * static_cast<int64_t>(size_of(x.to)),
              rows,        columns};
          mk.table().convert(x.c)(&args);
          int wrong = 0;
          for (int64_t i = 0; i < rows * columns; i++) wrong += to.get(i) != from.get(i) + x.plus;
          CHECK_MESSAGE(wrong == 0, "conversion ", static_cast<int>(x.c), " of ", rows, "x", columns);
        }
  }
}

} // namespace tenon::gemm_kernel_test
