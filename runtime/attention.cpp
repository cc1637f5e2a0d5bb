// The attention driver. An item is a range of query rows of one batch, or of all batches that share keys and values
// (grouped heads), stacked. Per block of keys it packs these once for all its rows, and goes through the rows in blocks
// whose scores stay in cache. Where there are few items and many keys, the keys are cut into parts, whose sums are
// merged in the end.
#include "runtime/attention.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/rounding.h"
#include "runtime/gemm_block.h"
#include "runtime/wide.h"

namespace tenon {
namespace {

constexpr int64_t most_item_rows = 576; // packing a block of keys costs as much as some 10 rows of products
constexpr int64_t least_part_keys = 512;

/// All decisions for one call; a function of sizes, strides and caches alone.
struct AttentionPlan {
  int group = -1;             // the digit whose batches share keys and values
  int64_t heads = 1, shared;  // batches that share, and those that do not
  int64_t chunk_rows, chunks; // rows of each head in an item
  int64_t stacked;            // rows of an item, all heads
  int64_t block_rows, block_keys;
  int family;            // of the kernels that multiply packed blocks
  bool narrow;           // they read bf16, as queries, keys and values are
  Panels panels, values; // of a block of keys, and of its values
  int64_t part_keys, parts;
  bool few;           // keys and values in place
  bool pack_q, widen; // copy rows of Q; keys or values are widened to f32
  int64_t row_step, out_rows, out_stride;
  int64_t q_stride, weight_stride; // bytes from row to row of copied queries, and of weights as bf16
  int64_t q_bytes, wide_bytes, keys_bytes, values_bytes, scores_bytes, weights_bytes, rows_bytes, pointers_bytes,
      started_bytes;     // of one worker
  int64_t partial_bytes; // of an item's part

  int64_t items() const { return shared * chunks; }
  int64_t worker_bytes() const {
    return q_bytes + wide_bytes + keys_bytes + values_bytes + scores_bytes + weights_bytes + rows_bytes + pointers_bytes + started_bytes;
  }
};

int64_t floats(int64_t n) { return round_up(n * 4, 64); }

void find_group(const AttentionCall& c, AttentionPlan& p) {
  p.shared = 1;
  for (int d = 0; d < AttentionCall::most_digits; d++) {
    bool shares = c.k.batch[d] == 0 && c.v.batch[d] == 0 && c.digits[d] > 1;
    if (shares && p.group < 0) p.group = d, p.heads = c.digits[d];
    else p.shared *= c.digits[d];
  }
}

void choose_items(const AttentionCall& c, const Caches& caches, int threads, AttentionPlan& p) {
  int64_t most = std::clamp<int64_t>(caches.l2 / 4 / (4 * p.out_stride), most_tile_rows, most_item_rows);
  int64_t rows = std::clamp<int64_t>(most / p.heads, 1, c.rows);
  int64_t wanted = threads > 1 ? ceil_div(threads * items_per_thread, std::max<int64_t>(p.shared, 1)) : 1;
  int64_t chunks = std::max(ceil_div(c.rows, rows), std::min(wanted, ceil_div(c.rows * p.heads, most_tile_rows)));
  p.chunk_rows = ceil_div(c.rows, std::min(chunks, c.rows));
  p.chunks = ceil_div(c.rows, p.chunk_rows);
  p.stacked = p.chunk_rows * p.heads;
  p.block_rows = ceil_div(p.stacked, ceil_div(p.stacked, most_tile_rows));
  if (p.row_step > 1) p.block_rows = std::min(round_up(p.block_rows, 2 * p.row_step), round_down(most_tile_rows, p.row_step));
  p.out_rows = round_up(p.stacked, p.row_step);
}

void choose_keys(const KernelTable& kernels, const AttentionCall& c, int threads, AttentionPlan& p) {
  p.parts = 1;
  p.part_keys = c.keys;
  if (threads > 1 && p.items() < 2 * threads && p.few) {
    p.parts = std::clamp<int64_t>(c.keys / least_part_keys, 1, ceil_div(2 * threads, std::max<int64_t>(p.items(), 1)));
    p.part_keys = round_up(ceil_div(c.keys, p.parts), 64);
    p.parts = ceil_div(c.keys, std::max<int64_t>(p.part_keys, 1));
  }
  p.panels = key_panels(kernels, p.family, c.block_keys, c.depth);
  int64_t blocks = ceil_div(p.part_keys, c.block_keys), width = p.panels.width();
  p.block_keys = blocks <= 1 ? std::max<int64_t>(p.part_keys, 1) : std::min(c.block_keys, round_up(ceil_div(p.part_keys, blocks), width));
}

AttentionPlan make_plan(const KernelTable& kernels, const Caches& caches, int threads, const AttentionCall& c) {
  AttentionPlan p{};
  p.out_stride = round_up(std::max<int64_t>(c.columns, 1), 16);
  bool same = c.q.type == c.k.type && c.k.type == c.v.type;
  p.family = attention_family(kernels, same ? c.q.type : DType::F32);
  const GemmFamily& f = kernels.family(p.family);
  p.row_step = f.row_step;
  find_group(c, p);
  choose_items(c, caches, threads, p);
  auto in_place = [](const AttentionOperandView& o, int64_t columns) { return o.type != DType::F32 || o.column == 1 || columns == 1; };
  p.few = p.stacked <= few_attention_rows && in_place(c.k, c.depth) && in_place(c.v, c.columns);
  choose_keys(kernels, c, threads, p);
  p.narrow = f.a == DType::BF16 && !p.few;
  p.values = value_panels(kernels, p.family, c.columns, p.block_keys);
  p.pack_q = c.q.type != DType::F32 || (c.q.column != 1 && c.depth > 1);
  p.widen = !p.narrow && (c.k.type != DType::F32 || c.v.type != DType::F32);
  p.wide_bytes = p.widen ? floats(p.block_keys * std::max(c.depth, c.columns)) : 0;
  p.q_stride = p.narrow ? 2 * p.panels.depth() : 4 * c.depth;
  p.q_bytes = p.pack_q ? round_up(p.out_rows * p.q_stride, 64) : 0;
  p.keys_bytes = p.few ? 0 : round_up(p.panels.bytes(), 64);
  p.values_bytes = p.few ? 0 : round_up(p.values.bytes(), 64);
  int64_t block_rows = round_up(p.block_rows, p.row_step);
  p.scores_bytes = floats(block_rows * c.score_stride);
  p.weight_stride = 2 * p.values.depth() + 64;
  p.weights_bytes = p.narrow ? round_up(block_rows * p.weight_stride, 64) : 0;
  p.rows_bytes = floats(p.out_rows * p.out_stride + p.stacked * 3);
  p.pointers_bytes = round_up(p.stacked * 8, 64);
  p.started_bytes = round_up(ceil_div(p.stacked, p.block_rows), 64);
  p.partial_bytes = p.parts > 1 ? p.rows_bytes : 0;
  return p;
}

struct Run {
  const KernelTable& kernels;
  const AttentionCall& c;
  AttentionPlan p;
  char* scratch;  // of the workers
  char* partials; // of all items and parts
};

/// What the rows of an item have come to: sums of weighted values, maxima, sums of weights, corrections.
struct Rows {
  float *out, *top, *sum, *correction;
  Rows(void* at, const AttentionPlan& p)
      : out(static_cast<float*>(at)), top(out + p.out_rows * p.out_stride), sum(top + p.stacked), correction(sum + p.stacked) {}
};

struct AttentionItem {
  int64_t digits[AttentionCall::most_digits];
  int64_t m0, m1, rows; // of each head; all heads together
  int64_t offset(const AttentionOperandView& o) const {
    int64_t at = 0;
    for (int d = 0; d < AttentionCall::most_digits; d++) at += digits[d] * o.batch[d];
    return at;
  }
};

AttentionItem item_of(const Run& r, int64_t index) {
  AttentionItem i{};
  int64_t chunk = index % r.p.chunks, batch = index / r.p.chunks;
  for (int d = AttentionCall::most_digits; d-- > 0;) {
    if (d == r.p.group) continue;
    i.digits[d] = batch % r.c.digits[d];
    batch /= r.c.digits[d];
  }
  i.m0 = chunk * r.p.chunk_rows;
  i.m1 = std::min(i.m0 + r.p.chunk_rows, r.c.rows);
  i.rows = (i.m1 - i.m0) * r.p.heads;
  return i;
}

int64_t batch_of(const Run& r, const AttentionItem& item, int64_t head) {
  int64_t b = 0;
  for (int d = 0; d < AttentionCall::most_digits; d++) b = b * r.c.digits[d] + (d == r.p.group ? head : item.digits[d]);
  return b;
}

/// Calls f(tile) for each head's part of the stacked rows [s0, s1); f fills in the keys.
template <class F> void for_each_head(const Run& r, const AttentionItem& item, const Rows& rows, int64_t s0, int64_t s1, const F& f) {
  int64_t of_head = item.m1 - item.m0;
  for (int64_t s = s0; s < s1;) {
    int64_t head = s / of_head, end = std::min((head + 1) * of_head, s1), m = item.m0 + s % of_head;
    f(AttentionTile{batch_of(r, item, head), m, m + end - s, 0, 0, nullptr, rows.top + s, rows.sum + s, rows.correction + s,
                    rows.out + s * r.p.out_stride},
      s - s0);
    s = end;
  }
}

/// Asks for rows that are read soon, one behind the other: they are too short for the processor to see a stream.
void prefetch_rows(const AttentionOperandView& o, int64_t first, int64_t rows, int64_t columns) {
  if (o.column != 1) return;
  int64_t bytes = columns * static_cast<int64_t>(size_of(o.type));
  for (int64_t i = 0; i < rows; i++) {
    const char* row = static_cast<const char*>(o.at(first + i * o.row));
    for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(row + at, 0, 3);
    __builtin_prefetch(row + bytes - 1, 0, 3);
  }
}

/// A row of Q as bf16, with zeros behind the depth.
void copy_row(const AttentionOperandView& q, const void* from, int64_t depth, int64_t padded, char* to) {
  auto* row = reinterpret_cast<uint16_t*>(to);
  for (int64_t k = 0; k < depth; k++) row[k] = static_cast<const uint16_t*>(from)[k * q.column];
  std::fill(row + depth, row + padded, uint16_t{0});
}

/// Pointers to the item's rows of Q, copied where their elements lie apart.
void point_to_rows(const Run& r, const AttentionItem& item, const void** pointers, char* copy) {
  const AttentionOperandView& q = r.c.q;
  int64_t of_head = item.m1 - item.m0, first = item.offset(q);
  for (int64_t s = 0; s < item.rows; s++) {
    int64_t head = s / of_head;
    const void* row = q.at(first + (r.p.group < 0 ? 0 : head * q.batch[r.p.group]) + (item.m0 + s % of_head) * q.row);
    char* to = copy + s * r.p.q_stride;
    pointers[s] = r.p.pack_q ? to : row;
    if (r.p.narrow) copy_row(q, row, r.c.depth, r.p.panels.depth(), to);
    else if (r.p.pack_q) widen_rows(q.type, row, q.row, q.column, 1, r.c.depth, reinterpret_cast<float*>(to));
  }
}

/// All queries of the item, that its first block of keys meets while they come.
void prefetch_queries(const Run& r, const AttentionItem& item) {
  const AttentionOperandView& q = r.c.q;
  for (int64_t head = 0; head < r.p.heads; head++)
    prefetch_rows(q, item.offset(q) + (r.p.group < 0 ? 0 : head * q.batch[r.p.group]) + item.m0 * q.row, item.m1 - item.m0, r.c.depth);
}

/// Packs keys or values [n0, n0 + count).
void pack_block(const Run& r, const AttentionItem& item, const AttentionOperandView& o, int64_t n0, int64_t count, bool are_keys,
                float* wide, void* to) {
  int64_t columns = are_keys ? r.c.depth : r.c.columns;
  PackSource rows{o.at(item.offset(o) + n0 * o.row), o.type, o.row, o.column};
  if (o.type != DType::F32 && !r.p.narrow) {
    widen_rows(o.type, rows.data, o.row, o.column, count, columns, wide);
    rows = {wide, DType::F32, columns, 1};
  }
  if (are_keys) std::swap(rows.k_stride, rows.other_stride);
  Panels panels = are_keys ? r.p.panels : r.p.values;
  (are_keys ? panels.n : panels.k) = count;
  pack_panels(r.kernels, r.kernels.family(r.p.family), panels, rows, 0, panels.k, 0, panels.count(), to);
}

/// Keys or values from n0 on, as f32.
RowsSource rows_from(const AttentionItem& item, const AttentionOperandView& o, int64_t n0, int64_t count, int64_t columns, float* wide) {
  const void* data = o.at(item.offset(o) + n0 * o.row);
  if (o.type == DType::F32) return {static_cast<const float*>(data), o.row, o.column};
  widen_rows(o.type, data, o.row, o.column, count, columns, wide);
  return {wide, columns, 1};
}

TENON_WIDE void scale_row(float* row, int64_t n, float by) {
  for (int64_t k = 0; k < n; k++) row[k] *= by;
}

/// One worker's memory, cut up.
struct Memory {
  char *q, *keys, *values;
  float *wide, *scores;
  uint16_t* weights;
  char* rows;
  const void** pointers;
  bool* started; // per block of rows: whether it has met keys
  Memory(char* at, const AttentionPlan& p) {
    auto take = [&](int64_t bytes) { return std::exchange(at, at + bytes); };
    q = take(p.q_bytes), wide = reinterpret_cast<float*>(take(p.wide_bytes)), keys = take(p.keys_bytes);
    values = take(p.values_bytes), scores = reinterpret_cast<float*>(take(p.scores_bytes));
    weights = reinterpret_cast<uint16_t*>(take(p.weights_bytes));
    rows = take(p.rows_bytes);
    pointers = reinterpret_cast<const void**>(take(p.pointers_bytes));
    started = reinterpret_cast<bool*>(take(p.started_bytes));
  }
};

Panels panels_of(const Run& r, int64_t keys) {
  Panels p = r.p.panels;
  p.n = keys;
  return p;
}

/// Adds the first `some` of the block's values, by the weights in `scores`.
void accumulate_block(const Run& r, const Memory& memory, int64_t rows, int64_t keys, int64_t some, bool fresh, float* out) {
  Panels values = r.p.values;
  values.k = keys;
  const void* weights = memory.scores;
  int64_t stride = r.c.score_stride * 4;
  if (r.p.narrow) {
    stride = r.p.weight_stride;
    narrow_rows(memory.scores, r.c.score_stride, rows, some, values.depth(some), memory.weights, stride / 2);
    weights = memory.weights;
  }
  accumulate_product(r.kernels, r.p.family, weights, stride, rows, values, memory.values, some, fresh, out, r.p.out_stride);
}

/// Keys [n0, n1) against the stacked rows [s0, s1).
void run_block(const Run& r, const AttentionItem& item, const Memory& memory, const Rows& rows, int64_t s0, int64_t s1, int64_t n0,
               int64_t n1) {
  const AttentionCall& c = r.c;
  int64_t of_head = item.m1 - item.m0, keys = n1 - n0;
  bool one_head = s0 / of_head == (s1 - 1) / of_head;
  int64_t least = one_head ? item.m0 + s0 % of_head : item.m0, most = one_head ? item.m0 + (s1 - 1) % of_head : item.m1 - 1;
  if (c.has_lower && n1 <= least + c.lower) return;
  int64_t some = keys;
  if (c.has_upper) {
    some = std::min(keys, most + c.upper + 1 - n0);
    if (some <= 0) return;
    if (!r.p.few) some = std::min(keys, round_up(some, r.p.panels.width()));
  }
  if (r.p.few)
    few_rows_product(memory.pointers + s0, s1 - s0, rows_from(item, c.k, n0, some, c.depth, memory.wide), some, c.depth, memory.scores,
                     c.score_stride);
  else
    tile_product(r.kernels, r.p.family, memory.pointers + s0, r.p.q_stride, s1 - s0, panels_of(r, keys), memory.keys, some, memory.scores,
                 c.score_stride);
  for_each_head(r, item, rows, s0, s1, [&](AttentionTile t, int64_t at) {
    t.n0 = n0, t.n1 = n0 + some;
    t.scores = memory.scores + at * c.score_stride;
    c.score(c.context, t);
  });
  bool& started = memory.started[s0 / r.p.block_rows];
  if (started)
    for (int64_t s = s0; s < s1; s++)
      if (rows.correction[s] != 1) scale_row(rows.out + s * r.p.out_stride, c.columns, rows.correction[s]);
  float* out = rows.out + s0 * r.p.out_stride;
  if (r.p.few)
    few_rows_accumulate(r.kernels, memory.scores, c.score_stride, s1 - s0, rows_from(item, c.v, n0, some, c.columns, memory.wide), some,
                        c.columns, !started, out, r.p.out_stride);
  else accumulate_block(r, memory, s1 - s0, keys, some, !started, out);
  started = true;
}

void run_keys(const Run& r, const AttentionItem& item, const Memory& memory, const Rows& rows, int64_t k0, int64_t k1) {
  const AttentionCall& c = r.c;
  if (c.has_lower) k0 = std::max(k0, item.m0 + c.lower);
  if (c.has_upper) k1 = std::min(k1, item.m1 + c.upper);
  std::fill_n(rows.top, item.rows, -INFINITY);
  std::fill_n(rows.sum, item.rows, c.keys == 0 ? 1.0f : 0.0f); // nothing is summed, and nothing divided
  int64_t blocks = ceil_div(item.rows, r.p.block_rows);
  std::fill_n(memory.started, blocks, false);
  prefetch_queries(r, item);
  point_to_rows(r, item, memory.pointers, memory.q);
  for (int64_t n0 = k0; n0 < k1; n0 += r.p.block_keys) {
    int64_t n1 = std::min(n0 + r.p.block_keys, k1);
    if (!r.p.few) {
      prefetch_rows(c.v, item.offset(c.v) + n0 * c.v.row, n1 - n0, c.columns);
      pack_block(r, item, c.k, n0, n1 - n0, true, memory.wide, memory.keys);
      pack_block(r, item, c.v, n0, n1 - n0, false, memory.wide, memory.values);
    }
    for (int64_t s = 0; s < item.rows; s += r.p.block_rows)
      run_block(r, item, memory, rows, s, std::min(s + r.p.block_rows, item.rows), n0, n1);
  }
  for (int64_t b = 0; b < blocks; b++)
    if (!memory.started[b]) {
      int64_t s = b * r.p.block_rows;
      std::fill_n(rows.out + s * r.p.out_stride, (std::min(s + r.p.block_rows, item.rows) - s) * r.p.out_stride, 0.0f);
    }
}

void finish_item(const Run& r, const AttentionItem& item, const Rows& rows) {
  for_each_head(r, item, rows, 0, item.rows, [&](AttentionTile t, int64_t) {
    t.n1 = r.c.columns;
    r.c.finish(r.c.context, t);
  });
}

/// Adds what part `from` of the keys gave to `to`. NaN stays: it wins every maximum.
void merge(const Run& r, const AttentionItem& item, const Rows& to, const Rows& from) {
  for (int64_t s = 0; s < item.rows; s++) {
    float a = to.top[s], b = from.top[s], top = a > b || a != a ? a : b;
    float shift = top == -INFINITY ? 0 : top, fa = std::exp(a - shift), fb = std::exp(b - shift);
    to.top[s] = top;
    to.sum[s] = to.sum[s] * fa + from.sum[s] * fb;
    float *x = to.out + s * r.p.out_stride, *y = from.out + s * r.p.out_stride;
    for (int64_t n = 0; n < r.c.columns; n++) x[n] = x[n] * fa + y[n] * fb;
  }
}

Run make_run(const KernelTable& kernels, const Caches& caches, const Workers& workers, const AttentionCall& c, void* scratch) {
  Run r{kernels, c, make_plan(kernels, caches, workers.threads(), c), static_cast<char*>(scratch), nullptr};
  r.partials = r.scratch + r.p.worker_bytes() * workers.threads();
  return r;
}

bool is_empty(const AttentionCall& c) {
  return c.rows <= 0 || c.columns <= 0 || std::any_of(std::begin(c.digits), std::end(c.digits), [](int64_t d) { return d <= 0; });
}

} // namespace

int64_t attention_block_keys(int64_t keys) {
  constexpr int64_t most = 384, whole = 512; // a multiple of all widths of panels; few keys are one block
  return keys > 0 && keys <= whole ? keys : most;
}

int64_t attention_scratch(const KernelTable& kernels, const Caches& caches, const Workers& workers, const AttentionCall& c) noexcept {
  if (is_empty(c)) return 0;
  AttentionPlan p = make_plan(kernels, caches, workers.threads(), c);
  return p.worker_bytes() * workers.threads() + p.partial_bytes * p.parts * p.items();
}

void run_attention(const KernelTable& kernels, const Caches& caches, const Workers& workers, const AttentionCall& c,
                   void* scratch) noexcept {
  if (is_empty(c)) return;
  Run r = make_run(kernels, caches, workers, c, scratch);
  const AttentionPlan& p = r.p;
  double work = static_cast<double>(p.stacked) * static_cast<double>(p.part_keys) * static_cast<double>(c.depth + c.columns + 32) / 32;
  bool tiled = p.row_step > 1 && p.narrow;
  workers.run(p.items() * p.parts, item_grain(work), [&](int64_t begin, int64_t end, int worker) {
    if (tiled) kernels.begin_tiles();
    Memory memory(r.scratch + worker * p.worker_bytes(), p);
    for (int64_t i = begin; i < end; i++) {
      AttentionItem item = item_of(r, i / p.parts);
      int64_t k0 = i % p.parts * p.part_keys;
      Rows rows(p.parts > 1 ? r.partials + i * p.partial_bytes : memory.rows, p);
      run_keys(r, item, memory, rows, k0, std::min(k0 + p.part_keys, c.keys));
      if (p.parts == 1) finish_item(r, item, rows);
    }
    if (tiled) kernels.end_tiles();
  });
  if (p.parts == 1) return;
  workers.run(p.items(), item_grain(static_cast<double>(p.stacked * p.out_stride * p.parts) / 32), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; i++) {
      AttentionItem item = item_of(r, i);
      Rows rows(r.partials + i * p.parts * p.partial_bytes, p);
      for (int64_t k = 1; k < p.parts; k++) merge(r, item, rows, Rows(r.partials + (i * p.parts + k) * p.partial_bytes, p));
      finish_item(r, item, rows);
    }
  });
}

std::string describe_attention(const KernelTable& kernels, const Caches& caches, const Workers& workers, const AttentionCall& c) {
  if (is_empty(c)) return "empty";
  AttentionPlan p = make_plan(kernels, caches, workers.threads(), c);
  std::string s = std::to_string(p.items() * p.parts) + " items of " + std::to_string(p.stacked) + " rows";
  if (p.heads > 1) s += " (" + std::to_string(p.heads) + " heads share keys)";
  s += ", blocks of " + std::to_string(p.block_rows) + "x" + std::to_string(p.block_keys);
  if (p.few) s += ", keys in place";
  if (p.narrow) s += ", " + std::string(kernels.family(p.family).name);
  if (p.parts > 1) s += ", keys in " + std::to_string(p.parts) + " parts";
  if (c.has_upper || c.has_lower) s += ", blocks without weight skipped";
  return s;
}

} // namespace tenon
