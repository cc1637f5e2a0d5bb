// The decisions of a convolution: parts, register tiles of pixels, blocks by the caches, items for the workers.
#include <algorithm>

#include "base/numeric.h"
#include "base/rounding.h"
#include "runtime/conv.h"
#include "runtime/depthwise.h"
#include "runtime/gemm_pack.h"

namespace tenon {
namespace {

constexpr int64_t tiled_bytes = 256 << 10; // of sums that an epilogue takes on tile registers, whose rows are read anew for each of them
constexpr int64_t most_waiting_bytes = 512 << 10; // of sums that wait for more positions of the kernel

int64_t bytes_of(DType t) { return static_cast<int64_t>(size_of(t)); }

bool is_matmul(const Conv& c) {
  bool plain = !c.row_major && c.groups == 1 && c.window.positions() == 1;
  for (int d = 0; d < 3; d++) plain = plain && c.window.stride[d] == 1 && c.window.pad[d] == 0 && c.window.in[d] == c.window.out[d];
  return plain;
}

/// Cycles of one image.
double work_of(const ConvPart& p, const Conv& c, double speed) {
  return static_cast<double>(p.window.out_pixels() * (p.is_empty ? 1 : p.window.positions())) *
         static_cast<double>(c.group_inputs() * c.out_channels) / speed;
}

/// Most pixels of an item.
int64_t item_pixels(const ConvPlan::Part& p) {
  int64_t most = 0, units = p.cut.units(), rows = p.splits.rows;
  for (int64_t i = 0; i < rows; i++) most = std::max(most, p.cut.begin(units * (i + 1) / rows) - p.cut.begin(units * i / rows));
  return most;
}

int64_t block_rows(const ConvWindow& w, const GemmFamily& f) { return round_up(std::min(max_block_pixels, w.out_pixels()), f.row_step); }

/// As in matmul, the part of a panel in use takes about a quarter of L2, and so do copies of rows; it is a number of whole
/// positions.
int64_t choose_positions(const ConvLayout& l, const ConvLayout::Part& p, const GemmFamily& f, const Caches& caches) {
  int64_t most_k = std::max<int64_t>(caches.l2 / 4 / (l.panels.width() * l.panels.element_bytes), 1);
  int64_t parts = std::max<int64_t>(ceil_div(l.panel_rows(p), most_k * 5 / 4), 1);
  int64_t positions = std::max<int64_t>(ceil_div(p.positions, parts), 1);
  if (!l.copied) return positions;
  int64_t position_bytes = block_rows(p.window, f) * p.depth * bytes_of(f.a);
  return std::clamp<int64_t>(caches.l2 / 2 / std::max<int64_t>(position_bytes, 1), 1, positions);
}

void plan_parts(ConvPlan& plan, const KernelTable& kernels, const Caches& caches, int threads, const Conv& c) {
  const ConvLayout& l = plan.layout;
  const GemmFamily& f = kernels.family(l.family);
  for (const ConvLayout::Part& part : l.parts) {
    const ConvWindow& w = part.window;
    ConvPlan::Part p{};
    p.first_item = plan.items;
    plan.parts.push_back(p);
    if (w.out_pixels() <= 0) continue;
    ConvPlan::Part& to = plan.parts.back();
    to.cut = l.copied ? cut_freely(w, plan.tile_rows) : cut_pixels(w, plan.tile_rows, l.panels.vectors);
    to.block_positions = choose_positions(l, part, f, caches);
    if (plan.strip.used()) to.cut.block_units = plan.strip.pixels / plan.tile_rows, to.block_positions = part.positions;
    to.splits = choose_splits({.tiles = to.cut.units(),
                               .panels = l.panels.count(),
                               .batch = c.batch * static_cast<int64_t>(l.parts.size()),
                               .work = work_of(part, c, f.speed),
                               .threads = threads,
                               .per_thread = plan.strip.used() ? 1 : items_per_thread, // each item copies what it reads
                               .panels_first = c.out_channels * w.positions() > w.in_pixels(),
                               .kept_ranges = f.is_tiled() ? 0 : kept_ranges(w.out_pixels(), threads)});
    plan.items += c.batch * to.splits.items();
  }
}

/// Sums of a block, or of a whole item while positions of the kernel are still to come.
void choose_sums(ConvPlan& plan, const GemmFamily& f, const Conv& c) {
  const ConvLayout& l = plan.layout;
  int64_t sum = bytes_of(f.sum), width = l.panels.width();
  plan.group_panels = l.panels.count();
  plan.c_group = f.is_tiled() ? l.panels.padded() : c.group_outputs();
  if (plan.direct) return;
  bool wait = false;
  int64_t rows = 0, most_panels = 0;
  for (size_t i = 0; i < l.parts.size(); i++) {
    ConvPlan::Part& p = plan.parts[i];
    const ConvLayout::Part& part = l.parts[i];
    if (part.window.out_pixels() <= 0) continue;
    int64_t panels = ceil_div(l.panels.count(), p.splits.panels), item_rows = round_up(item_pixels(p), f.row_step);
    bool waits = p.block_positions < part.positions;
    if (waits && !l.copied && item_rows * panels * width * sum > most_waiting_bytes) p.block_positions = part.positions, waits = false;
    rows = std::max(rows, waits ? item_rows : plan.strip.used() ? plan.strip.pixels : block_rows(part.window, f));
    most_panels = std::max(most_panels, panels);
    wait = wait || waits;
  }
  if (c.groups == 1 && !wait)
    plan.group_panels = std::clamp<int64_t>((f.is_tiled() ? tiled_bytes : tile_bytes) / std::max<int64_t>(rows * width * sum, 1), 1,
                                            std::max<int64_t>(most_panels, 1));
  int64_t columns = c.groups > 1 ? c.groups * plan.c_group : std::min(plan.group_panels, most_panels) * width;
  plan.c_stride = columns + (columns % 256 == 0 ? l.panels.lanes : 0); // rows not all in the same sets of L1
  plan.sum_bytes = up64(rows * plan.c_stride * sum);
}

void measure_scratch(ConvPlan& plan, const GemmFamily& f, const Conv& c) {
  const ConvLayout& l = plan.layout;
  int64_t copied_k = 0;
  for (size_t i = 0; i < l.parts.size(); i++) {
    const ConvLayout::Part& part = l.parts[i];
    int64_t positions = plan.parts[i].block_positions, pointers = positions * (part.folded && !plan.folded ? part.window.kernel[2] : 1);
    int64_t rows = block_rows(part.window, f);
    plan.pointer_bytes = std::max(plan.pointer_bytes, up64(rows * pointers * static_cast<int64_t>(sizeof(void*))));
    if (plan.folded && part.folded) plan.edge_bytes = std::max(plan.edge_bytes, up64(rows * positions * part.run * bytes_of(c.in_type)));
    copied_k = std::max(copied_k, positions * part.depth);
    if (l.copied) plan.copy_bytes = std::max(plan.copy_bytes, rows);
  }
  plan.row_stride = copied_k * bytes_of(f.a);
  if (f.is_tiled()) plan.row_stride = spread_rows(plan.row_stride);
  else if (plan.row_stride % 1024 == 0) plan.row_stride += 64;
  if (c.row_major) plan.turned_bytes = turned_room;
  plan.copy_bytes = up64(plan.copy_bytes * plan.row_stride);
}

void measure_strip(ConvPlan& plan, const GemmFamily& f, const Caches& caches) {
  const ConvLayout::Part& part = plan.layout.parts[0];
  int64_t all = plan.layout.panel_rows(part);
  plan.row_stride = plan.strip.stride;
  plan.pointer_bytes = up64(part.positions * 3 * static_cast<int64_t>(sizeof(void*)));
  plan.edge_bytes = 0;
  plan.copy_bytes = up64(plan.strip.bytes(part.window));
  plan.block_k = tiled_depth(f, caches, all) >= all ? all : tiled_depth(f, caches, part.depth);
}

uint64_t heights(const ConvLayout& l, const GemmFamily& f, int tile_rows) {
  if (f.is_tiled()) return uint64_t{1} << f.row_step | uint64_t{1} << tile_rows;
  uint64_t all = 0;
  for (const ConvLayout::Part& p : l.parts)
    all |= l.copied ? tile_heights(known_pixels(p.window), tile_rows) : window_heights(p.window, tile_rows, l.panels.vectors);
  return all;
}

TileKernels window_kernels(const KernelTable& kernels, const ConvLayout& l, const Conv& c, bool direct) {
  const GemmFamily& f = kernels.family(l.family);
  int tile_rows = f.rows[static_cast<size_t>(l.panels.vectors)];
  GemmKind kind = l.copied ? GemmKind::Packed : GemmKind::Windows;
  return tile_kernels(kernels, l.family, l.panels, kind, heights(l, f, tile_rows), (direct || c.groups > 1) && !f.is_tiled());
}

bool is_direct(const KernelTable& kernels, const ConvLayout& l, const Conv& c) {
  return c.output && !c.transposed && !c.row_major && !kernels.family(l.family).is_tiled();
}

bool is_folded(const ConvLayout& l) {
  return std::any_of(l.parts.begin(), l.parts.end(), [](auto& p) { return p.folded; });
}

void plan_windows(ConvPlan& plan, const KernelTable& kernels, const Caches& caches, int threads, const Conv& c) {
  plan.layout = conv_layout(kernels, c);
  ConvLayout& l = plan.layout;
  const GemmFamily& f = kernels.family(l.family);
  plan.folded = c.in_pixel == c.in_channels;
  l.copied = l.copied || (is_folded(l) && !plan.folded);
  plan.tile_rows = f.rows[static_cast<size_t>(l.panels.vectors)];
  plan.direct = is_direct(kernels, l, c);
  bool dense = !c.row_major && l.parts.size() == 1 && !l.parts[0].is_strided() && c.out_pixel == c.out_channels && !f.is_tiled();
  plan.looks_ahead = dense && c.batch * c.window.out_pixels() * c.out_channels * bytes_of(f.sum) > caches.l2 / 2;
  plan.reads_ahead = plan.reads_ahead && !l.copied && !f.is_tiled();
  plan.strip = choose_strip(f, caches, l, c);
  plan_parts(plan, kernels, caches, threads, c);
  choose_sums(plan, f, c);
  measure_scratch(plan, f, c);
  if (f.is_tiled()) plan.block_k = tiled_depth(f, caches, plan.row_stride / bytes_of(f.a));
  if (plan.strip.used()) measure_strip(plan, f, caches);
  plan.kernels = window_kernels(kernels, l, c, plan.direct);
}

/// As chains run it (conv_chain.h): some rows at a time.
Conv by_any_rows(Conv c) {
  c.window.in[1] = c.window.out[1] = any_size;
  return c;
}

} // namespace

Matmul as_matmul(const KernelTable& kernels, const Conv& c) {
  int64_t pixels = known_pixels(c.window);
  Matmul m{.batch = {1, c.batch},
           .m = pixels,
           .n = c.out_channels,
           .k = c.in_channels,
           .a_type = c.in_type,
           .b_type = c.weight_type,
           .a = c.input,
           .a_row = c.in_pixel,
           .a_batch = {0, c.in_batch},
           .b = c.weights,
           .packed = c.packed,
           .family = c.family < 0 && c.packed ? conv_family(kernels, c) : c.family,
           .b_k = c.weight_strides[c.transposed ? 0 : 1],
           .b_n = c.weight_strides[c.transposed ? 1 : 0],
           .c = c.output,
           .c_row = c.out_pixel,
           .c_batch = {0, c.out_batch},
           .epilogue = c.epilogue};
  return m;
}

void prepare_conv(const KernelTable& kernels, const Conv& given) {
  const Conv c = as_read(kernels, given);
  prepare_images(kernels, given);
  if (c.by_lines) {
    if (known_pixels(c.window) != any_size) plan_lines(kernels, 1, c);
    return;
  }
  if (has_depthwise_kernels(kernels, c)) {
    plan_depthwise(kernels, 1, c);
    if (fits_plane(c)) prepare_planes(kernels, by_any_rows(c));
    return;
  }
  if (is_matmul(c)) return prepare_matmul(kernels, as_matmul(kernels, c.packed && depthwise_reads(c.in_type) ? by_any_rows(c) : c));
  if (c.winograd) {
    kernels.transpose();
    prepare_winograd(kernels, c);
    if (c.packed && !c.window_weights) return;
  }
  ConvLayout l = conv_layout(kernels, c);
  const GemmFamily& f = kernels.family(l.family);
  if (l.copied) prepare_packing(kernels, f, c.in_type);
  if (c.row_major || !c.packed) kernels.transpose();
  window_kernels(kernels, l, c, is_direct(kernels, l, c));
}

ConvPlan plan_conv(const KernelTable& kernels, const Caches& caches, int threads, const Conv& given) {
  const Conv c = as_read(kernels, given);
  ConvPlan p{.reads_ahead = c.batch * c.window.in_pixels() * c.in_pixel * c.in_bytes() > caches.l2,
             .image_bytes = image_bytes(kernels, given)};
  if (c.by_lines) {
    p.kind = ConvPlan::Kind::Lines;
    p.lines = plan_lines(kernels, threads, c);
  } else if (has_depthwise_kernels(kernels, c)) {
    p.kind = ConvPlan::Kind::Depthwise;
    p.depthwise_bytes = plan_depthwise(kernels, threads, c);
  } else if (is_matmul(c)) {
    p.kind = ConvPlan::Kind::Product;
    p.product = plan_matmul(kernels, caches, threads, as_matmul(kernels, c));
  } else if (c.winograd && (!c.window_weights || suits_winograd(kernels, caches, c))) {
    if (!c.packed) plan_windows(p, kernels, caches, threads, c);
    p.kind = ConvPlan::Kind::Winograd;
    p.winograd = plan_winograd(kernels, caches, threads, c);
  } else {
    plan_windows(p, kernels, caches, threads, c);
  }
  if (c.packed || p.kind == ConvPlan::Kind::Product) return p;
  p.packed_bytes = up64(std::max(packed_conv_bytes(kernels, c), p.layout.bytes));
  return p;
}

std::string describe_conv(const KernelTable& kernels, const ConvPlan& p) {
  if (p.kind == ConvPlan::Kind::Depthwise) return "depthwise kernels";
  if (p.kind == ConvPlan::Kind::Lines) return "kernels along row-major lines";
  if (p.kind == ConvPlan::Kind::Product) return std::string(kernels.family(p.product.family).name) + ", a product";
  const char* converted = p.image_bytes > 0 ? ", images converted" : "";
  if (p.kind == ConvPlan::Kind::Winograd)
    return std::string(kernels.family(p.winograd.family).name) + " tiles of " + std::to_string(p.winograd.tile_rows) + "x" +
           std::to_string(p.winograd.panels.width()) + converted + ", Winograd's F(2x2, 3x3), " + std::to_string(p.winograd.blocks) +
           " items an image";
  const ConvLayout& l = p.layout;
  std::string text =
      std::string(kernels.family(l.family).name) + " tiles of " + std::to_string(p.tile_rows) + "x" + std::to_string(l.panels.width());
  text += converted;
  text += p.strip.used() ? ", windows copied by rows" : l.copied ? ", windows copied" : ", windows in place";
  if (l.parts.size() > 1) text += ", " + std::to_string(l.parts.size()) + " parts";
  return text + ", " + std::to_string(p.items) + " items";
}

} // namespace tenon
