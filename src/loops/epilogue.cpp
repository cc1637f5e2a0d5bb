// What follows a contraction, over the tile of its result that is ready.
#include "backend/affine.h"
#include "backend/contract.h"
#include "loops/region_draft.h"

namespace tenon {

NodeId contraction_of(const Graph& g, NodeId region) {
  for (NodeId n : g.block(g.node(region).blocks.at(0)).nodes)
    if (!is_marked_inline(g.node(n))) return n;
  internal_error("a region without members");
}

namespace {

// Batch, channel and pixels of a convolution's result in terms of its tile: pixels are rows, channels are columns.
void tile_conv_axes(RegionDraft& r, Expr batch, Expr m, Expr n) {
  std::vector<Expr> axes = r.d.axes; // n, c, spatial...
  Expr channels = axes[1];
  std::vector<Expr> pixels(axes.begin() + 2, axes.end());
  substitute(r.d, {{axes[0], batch}});
  std::erase(r.d.axes, axes[0]);
  order_axes(r.d); // drops axes of extent 1
  while (pixels.size() > 1) {
    size_t k = pixels.size() - 1;
    bool gone_inner = is_const_int(pixels[k]->args[0], 1), gone_outer = is_const_int(pixels[k - 1]->args[0], 1);
    if (gone_inner) pixels.pop_back();
    else if (gone_outer) pixels.erase(pixels.begin() + static_cast<ptrdiff_t>(k) - 1);
    else if (merge_pair(r.d, pixels[k - 1], pixels[k])) {
      pixels.pop_back();
      pixels.back() = *std::max_element(r.d.axes.begin(), r.d.axes.end(), [](Expr a, Expr b) { return a->bits < b->bits; });
    } else break;
  }
  Expr radix = r.pool.integer(1);
  std::vector<std::pair<Expr, Expr>> digits{{channels, n}};
  for (size_t k = pixels.size(); k-- > 0;) {
    Expr digit = floor_div(m, radix);
    if (k > 0) digit = mod(digit, pixels[k]->args[0]);
    digits.emplace_back(pixels[k], digit);
    radix = radix * pixels[k]->args[0];
  }
  substitute(r.d, digits);
}

// The rows and columns of a tile as loops.
struct TileLoops {
  Expr outer, rows, block, inner, columns; // block: none, or blocks of columns
  int lanes;
  std::vector<Expr> sums; // the elements of the tile, by slices of columns
};

// Turned: a column's rows lie together.
TileLoops plain_tile(RegionDraft& r, const Expr* tile, DType sum, bool strided, bool turned) {
  Expr i = r.pool.axis(5004, tile[2] - tile[1]), j = r.pool.axis(5005, tile[4] - tile[3]);
  Expr outer = turned ? j : i, inner = turned ? i : j;
  return {.outer = outer,
          .rows = tile[1] + (strided ? i * tile[6] : i),
          .block = {},
          .inner = inner,
          .columns = tile[3] + j,
          .lanes = lanes(r, 2),
          .sums = {r.pool.load(0, sum, {outer * tile[5] + inner})}};
}

// The columns of a tile are blocks of a vector of each slice.
TileLoops sliced_tile(RegionDraft& r, const Expr* tile, DType sum, int64_t slices) {
  int64_t lanes = slice_lanes(r.vector_bytes, sum);
  auto number = [&](int64_t n) { return r.pool.integer(n); };
  Expr i = r.pool.axis(5004, tile[2] - tile[1]), block = r.pool.axis(5006, floor_div(tile[4] - tile[3], number(slices * lanes)));
  Expr width = r.d.axes.back()->args[0], first = floor_div(tile[3], number(slices)) + block * number(lanes);
  bool whole = *const_int(width) % lanes == 0;
  Expr j = r.pool.axis(5005, whole ? number(lanes) : min(number(lanes), width - first));
  TileLoops t{
      .outer = i, .rows = tile[1] + i, .block = block, .inner = j, .columns = first + j, .lanes = static_cast<int>(lanes), .sums = {}};
  for (int64_t s = 0; s < slices; s++)
    t.sums.push_back(r.pool.load(0, sum, {i * tile[5] + (block * number(slices) + number(s)) * number(lanes) + j}));
  return t;
}

// Rows m and columns n of the tile that is ready, from the axes of the contraction's result.
void tile_axes(RegionDraft& r) {
  Expr tile[std::size(tile_symbols)];
  for (size_t k = 0; k < std::size(tile); k++) tile[k] = r.pool.symbol(tile_symbols[k], DType::I64, 0, INT64_MAX);
  const Node& contraction = r.g.node(contraction_of(r.g, r.region));
  bool conv = contraction.def->kind == Kind::Conv,
       strided = conv && ::tenon::Call(r.g, *contraction.def, contraction.args).flag("transposed");
  DType sum = sum_type(r.g, contraction);
  int64_t slices = slices_of(contraction);
  bool turned = conv && is_row_major(without_gaps(r.pool, r.g.type(contraction.outputs[0])));
  TileLoops t = slices > 1 ? sliced_tile(r, tile, sum, slices) : plain_tile(r, tile, sum, strided, turned);
  std::vector<Expr> axes = r.d.axes; // batch?, m, n of a matmul
  if (!conv) {
    if (axes.size() == 3) substitute(r.d, {{axes[0], tile[0]}});
    substitute(r.d, {{axes[axes.size() - 2], t.rows}, {axes.back(), t.columns}});
  } else tile_conv_axes(r, tile[0], t.rows, t.columns);
  r.kernel().parallel = r.pool.axis(5000, r.pool.integer(1));
  r.out.iterations = r.pool.integer(1);
  r.d.axes.clear();
  r.out.buffers.push_back({});
  r.kernel().buffers.push_back({BufferKind::Input, sum});
  r.sums = t.sums;
  assign_levels(r);
  Stmt columns{Loop{t.inner, t.lanes, inner(r, 0)}};
  if (t.block) columns = {Loop{t.block, 1, {std::move(columns)}}};
  r.kernel().body = {{Loop{t.outer, 1, {std::move(columns)}}}};
}

bool multiplies_bf16(const Graph& g, const Node& contraction) {
  std::vector<ValueId> operands = tensor_operands(contraction.args, g);
  return g.type(operands.at(0)).dtype == DType::BF16 && g.type(operands.at(1)).dtype == DType::BF16;
}

} // namespace

std::optional<RegionKernel> kernel_of_epilogue(const Graph& graph, NodeId region, int vector_bytes) {
  RegionDraft r(graph, region, vector_bytes);
  start(r, true);
  const DomainMember& first = r.d.members[0];
  if (r.d.members.size() == 1 && first.type == sum_type(graph, graph.node(contraction_of(graph, region)))) return std::nullopt;
  tile_axes(r);
  r.kernel().flushes_denormals = multiplies_bf16(graph, graph.node(contraction_of(graph, region)));
  measure(r);
  assign_levels(r);
  return finish(r);
}

} // namespace tenon
