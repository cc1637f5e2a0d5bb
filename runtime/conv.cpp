// The convolution driver. A convolution is a matrix product whose rows are windows: the micro-kernels sum over kernel
// positions through row pointers, so the input is not copied where they can read it. Few channels make short rows; then
// the kernel's width is folded into them. 1x1 convolution without stride is a plain matrix product.
#include "runtime/conv.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/numeric.h"
#include "runtime/conv_rows.h"
#include "runtime/depthwise.h"

namespace tenon {

namespace {

struct ConvCall {
  const KernelTable& kernels;
  const GemmFamily& family;
  const Conv& c;
  const ConvPlan& plan;
  const char* weights;
  char* scratch;

  int64_t sum_bytes() const { return static_cast<int64_t>(size_of(family.sum)); }
  const char* padding() const { return weights + plan.layout.padding; }
};

/// A range of units and panels of one part of one image.
struct ConvItem {
  const ConvLayout::Part& part;
  const ConvPlan::Part& plan;
  int64_t batch, u0, u1, p0, p1;
  const void** rows;
  char *edges, *copies, *sums, *turned;
};

/// Where the sums of a block go: its first pixel, column 0 of group 0's panel p0.
struct ConvTarget {
  char* c;
  int64_t stride; // elements
};

struct ConvBlock {
  int64_t u0, u1, q0, q1;
  RowTile tiles[max_block_pixels];
  int64_t count;
};

/// The rows of a block that were copied, as register tiles that share their pointers.
struct CopiedRows {
  const void* rows[GemmFamily::max_rows];
  RowTile tiles[max_block_pixels];
  int64_t count;
};

struct TileSpan {
  const RowTile* tiles;
  int64_t count;
};

/// What the epilogue, or the stores of sums, will touch: column 0 of a group's panel p0, the block's first pixel.
void want(const ConvCall& call, const ConvItem& item, const ConvBlock& block, int64_t group, int64_t p0, GemmBlock::Wanted* wanted) {
  const Conv& c = call.c;
  if (!call.plan.looks_ahead || block.q1 != item.part.positions) return;
  int64_t pixel = item.batch * c.window.out_pixels() + item.plan.cut.begin(block.u0),
          first = pixel * c.out_channels + group * c.group_outputs() + p0 * call.plan.layout.panels.width();
  if (call.plan.direct && !c.epilogue.fn)
    wanted[0] = {static_cast<const char*>(c.output) + first * call.sum_bytes(), c.out_channels * call.sum_bytes(), call.sum_bytes()};
  for (int i = 0; i < 2; i++)
    if (const Epilogue::Beside& b = c.epilogue.beside[i]; b.data)
      wanted[i] = {b.data + first * b.element_bytes, c.out_channels * b.element_bytes, b.element_bytes};
}

const char* image_of(const ConvCall& call, const ConvItem& item) {
  return static_cast<const char*>(call.c.input) + item.batch * call.c.in_batch * call.c.in_bytes();
}

/// A group's part of the pixels that the next block reads, while panel p0 of an item is computed.
ReadNext read_next(const ConvCall& call, const ConvItem& item, const ConvBlock& block, int64_t group, int64_t p0) {
  if (!call.plan.reads_ahead || p0 > item.p0) return {};
  const PixelCut& cut = item.plan.cut;
  int64_t next = std::min(block.u1 + cut.block_units, item.u1);
  return first_met(item.part.window, image_of(call, item), call.c.in_pixel * call.c.in_bytes(), cut.begin(block.u1), cut.begin(next))
      .part(group, call.c.groups);
}

/// Adds up `depth` steps of k from the block's first ones on, as many at a time as L1 holds of a tile's rows. None make zeros.
void multiply_depth(const ConvCall& call, GemmBlock g, int64_t depth) {
  int64_t first = g.first, first_depth = g.first_depth, k = 0;
  do {
    g.depth = std::min(call.plan.block_k, depth - k);
    g.first = first + k * static_cast<int64_t>(size_of(call.family.a)), g.first_depth = first_depth + k;
    multiply_block(g);
    k += g.depth, g.mode = GemmInit::C;
  } while (k < depth);
}

/// One group's product of a block's tiles with panels [p0, p1).
void multiply_group(const ConvCall& call, const ConvItem& item, const ConvBlock& block, TileSpan tiles, int64_t group, int64_t p0,
                    int64_t p1, ConvTarget to) {
  const ConvLayout& l = call.plan.layout;
  const ConvLayout::Part& part = item.part;
  int64_t depth = (block.q1 - block.q0) * part.depth, rows = l.panel_rows(part);
  bool windows = !l.copied;
  GemmBlock g{.panels = l.panels,
              .kernels = call.plan.kernels,
              .p0 = p0,
              .p1 = p1,
              .b = call.weights + part.weights + group * l.group_bytes(part) + p0 * l.panels.width() * rows * l.panels.element_bytes,
              .panel_depth = rows,
              .first_depth = block.q0 * part.depth,
              .tiles = tiles.tiles,
              .tile_count = tiles.count,
              .positions = windows ? block.q1 - block.q0 : 1,
              .depth = windows ? part.depth : depth,
              .zeros = windows && call.c.padding == 0 ? call.padding() : nullptr,
              .a_stride = call.plan.row_stride,
              .c = to.c + group * call.plan.c_group * call.sum_bytes(),
              .c_stride = to.stride * call.sum_bytes(),
              .sum_bytes = static_cast<int>(call.sum_bytes()),
              .mode = block.q0 > 0 ? GemmInit::C : GemmInit::Zero,
              .rows_first = call.family.is_tiled()};
  want(call, item, block, group, p0, g.wanted);
  g.read_next = read_next(call, item, block, group, p0);
  g.next_panel = call.c.packed && (!call.family.is_tiled() || block.u0 == item.u0);
  if (!call.family.is_tiled()) return multiply_block(g);
  if (!call.plan.strip.used()) return multiply_depth(call, g, depth);
  if (call.plan.block_k >= depth) {
    g.positions = part.positions, g.depth = part.depth;
    return multiply_block(g);
  }
  for (int64_t q = 0; q < part.positions; q++, g.first_depth += part.depth) {
    g.first = call.plan.strip.offset(part.window, q);
    multiply_depth(call, g, part.depth);
    g.mode = GemmInit::C;
  }
}

/// Pixels [a, b) of a part: of a strided one, row by row.
void finish_pixels(const ConvCall& call, const ConvItem& item, int64_t a, int64_t b, SumTile tile) {
  const ConvPart& part = item.part;
  tile.m0 = a, tile.m1 = b;
  auto finish = [&](const SumTile& t) { finish_sums(call.kernels, call.c, t, call.plan.direct, item.turned); };
  if (!part.is_strided()) return finish(tile);
  const int64_t *out = call.c.window.out, *in = part.window.out;
  int64_t bytes = call.sum_bytes();
  while (a < b) {
    int64_t x = a % in[2], y = a / in[2] % in[1], z = a / in[2] / in[1], count = std::min(b - a, in[2] - x);
    int64_t row = (part.first[0] + z * part.step[0]) * out[1] + part.first[1] + y * part.step[1];
    tile.m_step = part.step[2];
    tile.m0 = row * out[2] + part.first[2] + x * part.step[2];
    tile.m1 = tile.m0 + (count - 1) * tile.m_step + 1;
    finish(tile);
    tile.sums = static_cast<const char*>(tile.sums) + count * tile.stride * bytes;
    a += count;
  }
}

/// The channels of panels [p0, p1) in every group are finished; all of them at once where they adjoin.
void finish_block(const ConvCall& call, const ConvItem& item, const ConvBlock& block, int64_t p0, int64_t p1, ConvTarget from) {
  const Conv& c = call.c;
  const Panels& panels = call.plan.layout.panels;
  if (!c.epilogue.fn && call.plan.direct) return;
  int64_t a = item.plan.cut.begin(block.u0), b = item.plan.cut.begin(block.u1), outputs = c.group_outputs();
  bool whole = p0 == 0 && p1 == panels.count() && (c.groups == 1 || call.plan.c_group == outputs);
  SumTile tile{from.c, from.stride, item.batch, a, b, 0, c.out_channels};
  if (whole) return finish_pixels(call, item, a, b, tile);
  int64_t n0 = p0 * panels.width(), n1 = std::min(p1 * panels.width(), outputs);
  for (int64_t g = 0; g < c.groups; g++) {
    tile.n0 = g * outputs + n0, tile.n1 = g * outputs + n1;
    tile.sums = from.c + g * call.plan.c_group * call.sum_bytes();
    finish_pixels(call, item, a, b, tile);
  }
}

/// Points at the windows of the block's pixels.
void cut_block(const ConvCall& call, const ConvItem& item, ConvBlock& block) {
  const Conv& c = call.c;
  int64_t q0 = block.q0, q1 = block.q1;
  bool fold = item.part.folded && call.plan.folded;
  if (item.part.folded && !fold) q0 *= item.part.window.kernel[2], q1 *= item.part.window.kernel[2];
  WindowInput in{.image = image_of(call, item),
                 .pixel = c.in_pixel * c.in_bytes(),
                 .zeros = call.padding(),
                 .padding = c.padding,
                 .folded = fold,
                 .copies = item.edges};
  block.count = cut_windows(item.part.window, item.plan.cut, in, block.u0, block.u1, q0, q1, item.rows, block.tiles);
}

/// Copies the rows of one group's channels.
TileSpan copy_rows(const ConvCall& call, const ConvItem& item, const ConvBlock& block, int64_t group, CopiedRows& to) {
  const ConvPlan& plan = call.plan;
  WindowRows from{.part = item.part,
                  .pieces = item.part.folded && !plan.folded ? item.part.window.kernel[2] : 1,
                  .type = call.c.in_type,
                  .first = group * call.c.group_inputs() * call.c.in_bytes(),
                  .padding = call.padding()};
  copy_windows(call.kernels, call.family, from, {block.tiles, static_cast<size_t>(block.count)}, block.q1 - block.q0, item.copies,
               plan.row_stride);
  int64_t rows = item.plan.cut.begin(block.u1) - item.plan.cut.begin(block.u0), step = call.family.row_step;
  for (int64_t i = 0; i * step < plan.tile_rows; i++) to.rows[i] = item.copies + i * step * plan.row_stride;
  to.count = 0;
  if (call.family.is_tiled()) {
    for (int64_t row = 0; row < rows; row += plan.tile_rows) {
      int64_t whole = (std::min<int64_t>(plan.tile_rows, rows - row) + step - 1) / step * step;
      to.tiles[to.count++] = {to.rows, row * plan.row_stride, static_cast<int>(whole)};
    }
    return {to.tiles, to.count};
  }
  Tiles tiles(rows, plan.tile_rows);
  for (int64_t row = 0; to.count < tiles.count; row += to.tiles[to.count++].count)
    to.tiles[to.count] = {to.rows, row * plan.row_stride, tiles.rows(to.count)};
  return {to.tiles, to.count};
}

/// Copies the block's rows of the image, and points at them: for each row of the window two groups of rows, or one for a last, small tile.
TileSpan copy_strip(const ConvCall& call, const ConvItem& item, const ConvBlock& block, CopiedRows& to) {
  const ConvStrip& strip = call.plan.strip;
  const Conv& c = call.c;
  int64_t m0 = item.plan.cut.begin(block.u0), m1 = item.plan.cut.begin(block.u1), step = call.family.row_step;
  const char* first = item.copies + fill_strip(strip, item.part, c, image_of(call, item), m0, m1, item.copies);
  const void **two = item.rows, **one = two + 2 * item.part.positions;
  for (int64_t q = 0; q < item.part.positions; q++) {
    one[q] = two[2 * q] = first + strip.offset(item.part.window, q);
    two[2 * q + 1] = static_cast<const char*>(one[q]) + step * strip.stride;
  }
  to.count = 0;
  for (int64_t row = 0; row < m1 - m0; row += 2 * step) {
    bool small = m1 - m0 - row <= step;
    to.tiles[to.count++] = {small ? one : two, row * strip.stride, static_cast<int>(small ? step : 2 * step)};
  }
  return {to.tiles, to.count};
}

/// Column 0 of the item's panel p, first pixel of the block.
ConvTarget target_of(const ConvCall& call, const ConvItem& item, const ConvBlock& block, int64_t p) {
  const ConvPlan& plan = call.plan;
  const Conv& c = call.c;
  int64_t first = item.plan.cut.begin(block.u0), bytes = call.sum_bytes();
  if (plan.direct)
    return {static_cast<char*>(c.output) + (item.batch * c.out_batch + first * c.out_pixel + p * plan.layout.panels.width()) * bytes,
            c.out_pixel};
  bool wait = item.plan.block_positions < item.part.positions;
  return {item.sums + (wait ? (first - item.plan.cut.begin(item.u0)) * plan.c_stride * bytes : 0), plan.c_stride};
}

/// The block's panels in all groups: they share pointers.
void run_block(const ConvCall& call, const ConvItem& item, ConvBlock& block) {
  const Conv& c = call.c;
  const ConvPlan& plan = call.plan;
  bool copied = plan.layout.copied, strip = plan.strip.used();
  if (!strip) cut_block(call, item, block);
  TileSpan tiles{block.tiles, block.count};
  CopiedRows rows;
  if (strip) tiles = copy_strip(call, item, block, rows);
  else if (copied && c.groups == 1) tiles = copy_rows(call, item, block, 0, rows);
  for (int64_t p = item.p0; p < item.p1; p += plan.group_panels) {
    int64_t p1 = std::min(p + plan.group_panels, item.p1);
    ConvTarget to = target_of(call, item, block, p);
    for (int64_t g = 0; g < c.groups; g++) {
      if (copied && c.groups > 1) tiles = copy_rows(call, item, block, g, rows);
      multiply_group(call, item, block, tiles, g, p, p1, to);
      for (int64_t t = 0; t < block.count && !copied; t++) block.tiles[t].first += c.group_inputs() * call.c.in_bytes();
    }
    for (int64_t t = 0; t < block.count && !copied; t++) block.tiles[t].first -= c.in_channels * call.c.in_bytes();
    if (block.q1 == item.part.positions) finish_block(call, item, block, p, p1, to);
  }
}

void run_item(const ConvCall& call, const ConvItem& item) {
  ConvBlock block;
  int64_t positions = item.part.positions, step = item.plan.block_positions;
  for (block.q0 = 0; block.q0 == 0 || block.q0 < positions; block.q0 += step) {
    block.q1 = std::min(block.q0 + step, positions);
    for (block.u0 = item.u0; block.u0 < item.u1; block.u0 = block.u1) {
      block.u1 = std::min(block.u0 + item.plan.cut.block_units, item.u1);
      run_block(call, item, block);
    }
  }
}

void run_items(const ConvCall& call, int64_t begin, int64_t end, int worker) {
  const ConvPlan& plan = call.plan;
  char* scratch = call.scratch + worker * plan.worker_bytes();
  char *edges = scratch + plan.pointer_bytes, *copies = edges + plan.edge_bytes, *sums = copies + plan.copy_bytes;
  int64_t panels = plan.layout.panels.count();
  if (call.family.is_tiled()) call.kernels.begin_tiles();
  size_t part = 0;
  for (int64_t i = begin; i < end; i++) {
    while (part + 1 < plan.parts.size() && plan.parts[part + 1].first_item <= i) part++;
    const ConvPlan::Part& p = plan.parts[part];
    const Splits& s = p.splits;
    int64_t local = i - p.first_item, im = s.row_range(local), in = s.panel_range(local), units = p.cut.units();
    run_item(call, {.part = plan.layout.parts[part],
                    .plan = p,
                    .batch = local / s.items(),
                    .u0 = units * im / s.rows,
                    .u1 = units * (im + 1) / s.rows,
                    .p0 = panels * in / s.panels,
                    .p1 = panels * (in + 1) / s.panels,
                    .rows = reinterpret_cast<const void**>(scratch),
                    .edges = edges,
                    .copies = copies,
                    .sums = sums,
                    .turned = sums + plan.sum_bytes});
  }
  if (call.family.is_tiled()) call.kernels.end_tiles();
}

void run_windows(const KernelTable& kernels, const Workers& workers, const ConvPlan& plan, const Conv& c, char* scratch) {
  const GemmFamily& f = kernels.family(plan.layout.family);
  ConvCall call{kernels, f, c, plan, static_cast<const char*>(c.weights), scratch};
  double work = static_cast<double>(c.batch * c.window.out_pixels() * c.window.positions()) *
                static_cast<double>(c.group_inputs() * c.out_channels) / f.speed;
  workers.run(plan.items, item_grain(work / static_cast<double>(std::max<int64_t>(plan.items, 1))),
              [&](int64_t begin, int64_t end, int worker) { run_items(call, begin, end, worker); });
}

/// Row-major results: the tile is turned, some channels at a time.
void finish_turned(const KernelTable& kernels, const Conv& c, const SumTile& t, char* room) {
  int64_t pixels = t.m1 - t.m0, together = std::max<int64_t>(turned_room / 4 / pixels, 1);
  for (int64_t n0 = t.n0; n0 < t.n1; n0 += together) {
    SumTile now{room, pixels, t.batch, t.m0, t.m1, n0, std::min(n0 + together, t.n1)};
    if (c.output) {
      now.stride = c.window.out_pixels();
      now.sums = static_cast<char*>(c.output) + (t.batch * c.out_batch + n0 * now.stride + t.m0) * 4;
    }
    MoveArgs args{
        static_cast<const char*>(t.sums) + (n0 - t.n0) * 4, const_cast<void*>(now.sums), t.stride * 4, now.stride * 4, pixels, now.n1 - n0};
    kernels.transpose()(&args);
    if (c.epilogue.fn) c.epilogue.fn(c.epilogue.ctx, now);
  }
}

} // namespace

void finish_sums(const KernelTable& kernels, const Conv& c, const SumTile& t, bool direct, char* room) {
  if (c.row_major) return finish_turned(kernels, c, t, room);
  if (c.output && !direct) {
    int64_t bytes = static_cast<int64_t>(size_of(c.in_type == DType::F64 ? DType::F64 : DType::F32));
    const char* from = static_cast<const char*>(t.sums);
    char* to = static_cast<char*>(c.output) + (t.batch * c.out_batch + t.m0 * c.out_pixel + t.n0) * bytes;
    for (int64_t m = t.m0; m < t.m1; m += t.m_step, from += t.stride * bytes, to += t.m_step * c.out_pixel * bytes)
      std::memcpy(to, from, static_cast<size_t>((t.n1 - t.n0) * bytes));
  }
  if (c.epilogue.fn) c.epilogue.fn(c.epilogue.ctx, t);
}

int64_t packed_conv_bytes(const KernelTable& kernels, const Conv& given) {
  const Conv c = as_read(kernels, given);
  if (c.winograd) return winograd_weight_bytes(kernels, c);
  if (c.by_lines) return packed_line_bytes(kernels, c);
  if (has_depthwise_kernels(kernels, c)) return packed_depthwise_bytes(kernels, c);
  return conv_layout(kernels, c).bytes;
}

int64_t conv_pack_items(const KernelTable& kernels, const Conv& given) {
  const Conv c = as_read(kernels, given);
  if (c.winograd) return winograd_items(kernels, c);
  return c.by_lines || has_depthwise_kernels(kernels, c) ? 1 : num_panels(conv_layout(kernels, c), c);
}

bool packs_scaled(const KernelTable& kernels, const Conv& given) {
  const Conv c = as_read(kernels, given);
  if (c.winograd) return true;
  return !c.by_lines && !has_depthwise_kernels(kernels, c) && windows_pack_scaled(kernels, conv_layout(kernels, c), c);
}

bool pack_conv_items(const KernelTable& kernels, const Conv& given, int64_t begin, int64_t end, void* to) noexcept {
  const Conv c = as_read(kernels, given);
  if (c.winograd) return pack_winograd(kernels, c, begin, end, to);
  if (c.by_lines) pack_line_weights(kernels, c, to);
  else if (has_depthwise_kernels(kernels, c)) pack_depthwise_weights(kernels, c, static_cast<float*>(to));
  else pack_windows(kernels, conv_layout(kernels, c), c, begin, end, to);
  return true;
}

bool pack_conv(const KernelTable& kernels, const Workers& workers, const Conv& c, void* to) noexcept {
  int64_t items = conv_pack_items(kernels, c), bytes = packed_conv_bytes(kernels, c);
  std::atomic<bool> fits = true;
  workers.run(items, item_grain(static_cast<double>(bytes / std::max<int64_t>(items, 1))), [&](int64_t begin, int64_t end, int) {
    if (!pack_conv_items(kernels, c, begin, end, to)) fits = false;
  });
  return fits;
}

void run_conv(const KernelTable& kernels, const Workers& workers, const ConvPlan& plan, const Conv& conv, void* scratch) noexcept {
  if (conv.window.out_pixels() <= 0 || conv.out_channels <= 0 || conv.batch <= 0) return;
  if (plan.kind == ConvPlan::Kind::Product) return run_matmul(kernels, workers, plan.product, as_matmul(kernels, conv), scratch);
  Conv c = plan.image_bytes > 0 ? as_read(kernels, conv) : conv;
  char* next = static_cast<char*>(scratch);
  if (plan.image_bytes > 0) {
    convert_images(kernels, workers, conv, next);
    c.input = next;
    next += plan.image_bytes;
  }
  if (!c.packed) {
    c.winograd = c.winograd && pack_conv(kernels, workers, c, next);
    if (!c.winograd) pack_conv(kernels, workers, c, next);
    c.weights = next, c.packed = true;
    next += plan.packed_bytes;
  }
  if (plan.kind == ConvPlan::Kind::Depthwise) return run_depthwise(kernels, workers, c, plan.reads_ahead, next);
  if (plan.kind == ConvPlan::Kind::Winograd && c.winograd) return run_winograd(kernels, workers, plan.winograd, c, next);
  if (c.window_weights) c.weights = c.window_weights;
  if (plan.kind == ConvPlan::Kind::Lines) return run_lines(workers, plan.lines, c, next);
  run_windows(kernels, workers, plan, c, next);
}

} // namespace tenon
