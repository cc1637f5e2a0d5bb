#include "runtime/conv_chain.h"

#include <algorithm>
#include <optional>

#include "base/rounding.h"
#include "runtime/depthwise.h"
#include "runtime/step_call.h"

namespace tenon {
namespace {

constexpr int64_t most_chain_rows = 16; // at a time
constexpr int64_t items_wanted = 3;     // of a thread
constexpr int64_t least_halos = 4;      // rows of an item, counted in those it shares with its neighbour

/// Of a row of the depthwise convolution's input, and of its result as the product behind it reads it.
int64_t in_row_bytes(const Conv& c) { return c.window.in[2] * c.in_channels * c.in_bytes(); }
int64_t out_row_bytes(const ConvChain& chain, const Conv& c) {
  return chain.after ? c.window.out[2] * c.out_channels * chain.after->shape.in_bytes() : 0;
}

bool contains(const std::vector<int>& all, int buffer) { return std::find(all.begin(), all.end(), buffer) != all.end(); }

// ---- which steps are chains

/// The convolution of a step that may be part of a chain; null otherwise.
const ConvStep* link_of(const Step& step) {
  auto* s = std::get_if<ConvStep>(&step.run);
  if (!s || !step.dynamic.empty() || s->weight >= 0) return nullptr;
  const Conv& c = s->shape;
  bool plain = depthwise_reads(c.in_type) && depthwise_reads(c.weight_type) && c.packed && !c.transposed && !c.row_major && !c.by_lines &&
               !c.winograd;
  return plain ? s : nullptr;
}

/// The step's only result, as dense as the convolution's; -1 otherwise.
int result_of(const ConvStep& s) {
  const TileKernel& e = s.epilogue;
  if (e.kernel < 0) return s.output;
  if (s.output >= 0 || e.written.size() != 1 || !contains(e.beside, e.written[0])) return -1;
  return std::count(e.buffers.begin(), e.buffers.end(), e.written[0]) == 1 ? e.written[0] : -1;
}

/// What `a` makes for `b` alone; -1: nothing.
int between(const Plan& plan, const Step& a, const Step& b) {
  const ConvStep &from = std::get<ConvStep>(a.run), &to = std::get<ConvStep>(b.run);
  int buffer = result_of(from);
  if (buffer < 0 || to.input != buffer || contains(to.epilogue.buffers, buffer)) return -1;
  const PlanBuffer& p = plan.buffers[static_cast<size_t>(buffer)];
  bool own = p.place == BufferPlace::Arena && p.dtype == to.shape.in_type && p.first == a.number && p.last == b.number;
  return own ? buffer : -1;
}

/// The same, where it is just what `b` reads.
int between(const Frame& f, const Step& a, const Step& b) {
  int buffer = between(*f.plan, a, b);
  if (buffer < 0) return -1;
  Conv x = conv_of(std::get<ConvStep>(a.run), f), y = conv_of(std::get<ConvStep>(b.run), f);
  bool same = x.batch == y.batch && x.out_channels == y.in_channels && std::equal(x.window.out, x.window.out + 3, y.window.in);
  return same ? buffer : -1;
}

/// What the chain's last step writes must not be read by those that run beside it.
bool is_safe(const ConvChain& c) {
  const ConvStep *last = c.after ? c.after : c.depthwise, *others[] = {c.before, c.after ? c.depthwise : nullptr};
  std::vector<int> written = last->epilogue.written;
  if (last->output >= 0) written.push_back(last->output);
  for (const ConvStep* s : others)
    for (int b : written)
      if (s && (s->input == b || contains(s->epilogue.buffers, b))) return false;
  return std::find(written.begin(), written.end(), last->input) == written.end();
}

// ---- how they are run

bool is_product(const KernelTable& kernels, const Conv& c) {
  const ConvWindow& w = c.window;
  bool plain = c.groups == 1 && w.positions() == 1 && conv_family(kernels, c) >= 0;
  for (int d = 0; d < 3; d++) plain = plain && w.stride[d] == 1 && w.pad[d] == 0 && w.in[d] == w.out[d];
  if (!plain) return false;
  const GemmFamily& f = kernels.family(conv_family(kernels, c));
  return f.sum == DType::F32 && !f.is_tiled();
}

Conv given_conv(const ConvStep& s, const Frame& f) {
  Conv c = conv_of(s, f);
  c.output = s.output >= 0 ? const_cast<Frame*>(&f) : nullptr; // whether memory is there yet or not
  return c;
}

/// The product for `rows` rows of pixels and any fewer.
std::optional<MatmulPlan> plan_rows(const Frame& f, const Conv& c, int64_t rows) {
  const KernelTable& kernels = *f.linked->micro_kernels;
  Matmul m = as_matmul(kernels, c);
  m.batch[1] = 1, m.m = rows * c.window.out[2];
  MatmulPlan p = plan_matmul(kernels, f.plan->caches, 1, m);
  if (p.use != BUse::Packed || p.exchanged || p.pack_a || p.splits.items() * p.splits_k != 1) return std::nullopt;
  p.looks_ahead = c.batch * c.window.out_pixels() * c.out_channels * 4 > f.plan->caches.l2 / 2;
  p.one_block = false;
  if (!p.held) p.kernels = tile_kernels(kernels, p.family, p.panels, GemmKind::Packed, tile_heights(any_size, p.tile_rows), p.direct);
  return p;
}

/// Rows at a time, so that they and the weights stay in L2. False: they do not.
bool choose_rows(ConvChain& c, const Frame& f, const Conv& conv, int64_t weight_bytes) {
  const ConvWindow& w = conv.window;
  int64_t in = in_row_bytes(conv), out = out_row_bytes(c, conv), room = f.plan->caches.l2 / 2;
  if (weight_bytes > room / 2) return false;
  int64_t stride = w.stride[1], shared = w.kernel[1] - 1;
  if (!c.before) {
    c.done_rows = std::min({room / out, most_chain_rows, w.out[1]});
    return c.done_rows >= std::min<int64_t>(2, w.out[1]);
  }
  c.made_rows = std::min(room / (2 * in + out / stride), most_chain_rows) / stride * stride;
  c.done_rows = std::max<int64_t>(c.made_rows / stride, 1);
  return c.made_rows >= std::max(shared, stride);
}

/// False: too few rows for all threads.
bool choose_strips(ConvChain& c, const Frame& f, const Conv& conv) {
  const ConvWindow& w = conv.window;
  int64_t threads = f.workers->threads(), halo = c.before ? w.kernel[1] - w.stride[1] : 0;
  int64_t least = std::max<int64_t>(halo > 0 ? ceil_div(least_halos * halo, w.stride[1]) : 0, 2),
          most = std::max<int64_t>(w.out[1] / least, 1);
  c.strips = threads == 1 ? 1 : std::min(ceil_div(threads * items_wanted, conv.batch), most);
  return conv.batch * c.strips >= threads;
}

bool plan_chain(ConvChain& c, const Frame& f) {
  const KernelTable& kernels = *f.linked->micro_kernels;
  Conv conv = given_conv(*c.depthwise, f);
  const ConvWindow& w = conv.window;
  if (!fits_plane(conv) || w.out_pixels() <= 0 || w.in_pixels() <= 0 || conv.batch <= 0 || conv.in_channels <= 0) return false;
  int64_t made = c.before ? w.in[1] * in_row_bytes(conv) : 0, done = w.out[1] * out_row_bytes(c, conv), weights = 0;
  if (conv.batch * std::max(made, done) <= f.plan->caches.l2 / 2 * f.workers->threads()) return false;
  for (const ConvStep* s : {c.before, c.after})
    if (s) weights += s->shape.in_channels * s->shape.out_channels * s->shape.weight_bytes();
  if (!choose_rows(c, f, conv, weights) || !choose_strips(c, f, conv)) return false;
  for (const ConvStep* s : {c.before, c.after}) {
    if (!s) continue;
    Conv product = given_conv(*s, f);
    auto plan = is_product(kernels, product) ? plan_rows(f, product, s == c.before ? c.made_rows : c.done_rows) : std::nullopt;
    if (!plan) return false;
    if (s == c.before) plan->looks_ahead = false; // its result stays in L2
    (s == c.before ? c.before_plan : c.after_plan) = *plan;
    c.product_bytes = std::max(c.product_bytes, up64(plan->worker_bytes()));
  }
  if (c.before) c.ring_bytes = up64(2 * c.made_rows * in_row_bytes(conv));
  if (c.after) c.done_bytes = up64(c.done_rows * out_row_bytes(c, conv));
  c.sum_bytes = up64(plane_sum_bytes(kernels, conv));
  return true;
}

/// The longest chain that starts with step i, if any.
std::optional<ConvChain> chain_from(const Frame& f, size_t i) {
  const std::vector<Step>& steps = f.plan->steps;
  const ConvStep* links[3] = {};
  for (size_t k = 0; k < 3 && i + k < steps.size(); k++)
    if (!(links[k] = link_of(steps[i + k]))) break;
  auto joined = [&](size_t k) { return links[k] && links[k + 1] ? between(f, steps[i + k], steps[i + k + 1]) : -1; };
  auto make = [&](bool before, bool after) -> std::optional<ConvChain> {
    size_t middle = before ? 1 : 0, last = middle + (after ? 1 : 0);
    ConvChain c{.depthwise = links[middle], .first_step = steps[i].number, .last_step = steps[i + last].number};
    if (before) c.before = links[0], c.between[0] = joined(0);
    if (after) c.after = links[last], c.between[1] = joined(middle);
    if ((before && c.between[0] < 0) || (after && c.between[1] < 0)) return std::nullopt;
    return is_safe(c) && plan_chain(c, f) ? std::optional(c) : std::nullopt;
  };
  if (joined(0) < 0) return std::nullopt;
  if (links[0]->shape.depthwise()) return make(false, true);
  std::optional<ConvChain> whole = joined(1) >= 0 ? make(true, true) : std::nullopt;
  return whole ? whole : make(true, false);
}

// ---- running

/// Tells an epilogue about rows of pixels of a product as those of the whole.
struct Shifted {
  TileCall& tile;
  int64_t batch, first; // image, pixel

  static void call(void* ctx, const SumTile& t) {
    auto& s = *static_cast<Shifted*>(ctx);
    SumTile moved = t;
    moved.batch = s.batch, moved.m0 += s.first, moved.m1 += s.first;
    TileCall::call(&s.tile, moved);
  }
};

/// A chain in one worker.
class ChainCall {
public:
  ChainCall(const ConvChain& chain, Frame& f, char* scratch)
      : c_(chain), f_(f), kernels_(*f.linked->micro_kernels), depthwise_(conv_of(*chain.depthwise, f)),
        depthwise_tile_(chain.depthwise->epilogue, f, f.pointers.data()) {
    if (c_.before) before_ = conv_of(*c_.before, f), before_tile_.emplace(c_.before->epilogue, f, f.pointers.data());
    if (c_.after) after_ = conv_of(*c_.after, f), after_tile_.emplace(c_.after->epilogue, f, f.pointers.data());
    if (depthwise_tile_.kernel.kernel >= 0) depthwise_.epilogue = {.fn = TileCall::call, .ctx = &depthwise_tile_};
    ring_ = scratch, done_ = ring_ + c_.ring_bytes, product_ = done_ + c_.done_bytes, sums_ = product_ + c_.product_bytes;
  }

  /// Rows [y0, y1) of the depthwise convolution's result, and what follows of them.
  void run(int64_t batch, int64_t y0, int64_t y1) {
    const ConvWindow& w = depthwise_.window;
    int64_t k = w.kernel[1], s = w.stride[1], pad = w.pad[1];
    int64_t begin = c_.before ? std::clamp<int64_t>(y0 * s - pad, 0, w.in[1]) : 0,
            end = c_.before ? std::clamp<int64_t>((y1 - 1) * s - pad + k, 0, w.in[1]) : w.in[1];
    int64_t made = c_.before ? begin : end;
    RowRing rows{ring_, begin, 2 * c_.made_rows};
    if (!c_.before) rows = {input_of(depthwise_, batch, 0), 0, w.in[1]};
    for (int64_t y = y0; y < y1;) {
      int64_t more = std::min(c_.made_rows, end - made);
      if (more > 0) make(batch, begin, made, made + more), made += more;
      int64_t ready = made == end ? y1 : std::clamp((made + pad - k + s) / s, y, y1); // made > pad - k or nothing is ready
      for (int64_t next; y < ready; y = next) {
        next = std::min(y + c_.done_rows, ready);
        finish(batch, y, next, rows);
      }
    }
  }

private:
  static const char* input_of(const Conv& c, int64_t batch, int64_t row) {
    return static_cast<const char*>(c.input) + (batch * c.in_batch + row * c.window.in[2] * c.in_pixel) * c.in_bytes();
  }
  /// The place of a whole tensor, c's result as `reader` reads it, of which row `row` of an image lies at `at`.
  static void* whole(char* at, const Conv& c, const Conv& reader, int64_t batch, int64_t row) {
    int64_t elements = batch * c.out_batch + row * c.window.out[2] * c.out_pixel;
    return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(at) - static_cast<uintptr_t>(elements * reader.in_bytes()));
  }
  static void redirect(TileCall& tile, int buffer, void* to) {
    for (size_t i = 0; i < tile.kernel.buffers.size(); i++)
      if (tile.kernel.buffers[i] == buffer) tile.arguments.buffers[i] = to;
  }

  /// Rows [r0, r1) of the input of the depthwise convolution.
  void make(int64_t batch, int64_t begin, int64_t r0, int64_t r1) {
    char* at = ring_ + (r0 - begin) % (2 * c_.made_rows) * in_row_bytes(depthwise_);
    redirect(*before_tile_, c_.between[0], whole(at, before_, depthwise_, batch, r0));
    multiply(before_, c_.before_plan, *before_tile_, batch, r0, r1, input_of(before_, batch, r0), at);
  }
  /// Rows [y0, y1) of its output, and of the product behind it.
  void finish(int64_t batch, int64_t y0, int64_t y1, const RowRing& rows) {
    int64_t first = y0 * depthwise_.window.out[2];
    auto* to = reinterpret_cast<float*>(depthwise_.output ? done_ : sums_);
    if (depthwise_.output && !c_.after)
      to = static_cast<float*>(depthwise_.output) + batch * depthwise_.out_batch + first * depthwise_.out_pixel;
    if (c_.after) redirect(depthwise_tile_, c_.between[1], whole(done_, depthwise_, after_, batch, y0));
    run_depthwise_rows(kernels_, depthwise_, batch, y0, y1, rows, to);
    if (!c_.after) return;
    float* out = after_.output ? static_cast<float*>(after_.output) + batch * after_.out_batch + first * after_.out_pixel : nullptr;
    multiply(after_, c_.after_plan, *after_tile_, batch, y0, y1, done_, out);
  }
  void multiply(const Conv& c, const MatmulPlan& plan, TileCall& tile, int64_t batch, int64_t r0, int64_t r1, const void* from, void* to) {
    Matmul m = as_matmul(kernels_, c);
    Shifted shifted{tile, batch, r0 * c.window.out[2]};
    m.batch[1] = 1, m.m = (r1 - r0) * c.window.out[2];
    m.a = from, m.c = c.output ? to : nullptr;
    m.epilogue = tile.epilogue(f_, f_.pointers.data());
    if (m.epilogue.fn) m.epilogue.fn = Shifted::call, m.epilogue.ctx = &shifted;
    for (Epilogue::Beside& b : m.epilogue.beside)
      if (b.data) b.data += (batch * c.window.out_pixels() + shifted.first) * c.out_channels * b.element_bytes;
    run_matmul_items(kernels_, plan, m, product_, 0, 1, 0, false);
  }

  const ConvChain& c_;
  Frame& f_;
  const KernelTable& kernels_;
  Conv depthwise_, before_ = {}, after_ = {};
  TileCall depthwise_tile_;
  std::optional<TileCall> before_tile_, after_tile_;
  char *ring_, *done_, *product_, *sums_;
};

} // namespace

std::vector<size_t> possible_chains(const Plan& plan) {
  std::vector<size_t> out;
  const std::vector<Step>& steps = plan.steps;
  if (std::ranges::any_of(steps, [](const Step& s) { return s.binds != 0; })) return out;
  for (size_t i = 0; i + 1 < steps.size(); i++) {
    const ConvStep *a = link_of(steps[i]), *b = link_of(steps[i + 1]);
    if (a && b && a->shape.depthwise() != b->shape.depthwise() && between(plan, steps[i], steps[i + 1]) >= 0) out.push_back(i);
  }
  return out;
}

std::vector<ConvChain> find_chains(const Frame& f) {
  std::vector<ConvChain> out;
  for (size_t i : f.table->chain_starts) {
    if (!out.empty() && f.plan->steps[i].number <= out.back().last_step) continue;
    if (auto chain = chain_from(f, i)) out.push_back(std::move(*chain));
  }
  return out;
}

void run_chain(const ConvChain& c, Frame& f) {
  int64_t rows = slot(f, c.depthwise->out[1]), items = slot(f, c.depthwise->batch) * c.strips;
  f.workers->run(items, 1, [&](int64_t begin, int64_t end, int worker) {
    ChainCall call(c, f, f.memory->scratch.data() + worker * c.worker_bytes());
    for (int64_t i = begin; i < end; i++) {
      int64_t strip = i % c.strips;
      call.run(i / c.strips, rows * strip / c.strips, rows * (strip + 1) / c.strips);
    }
  });
}

} // namespace tenon
