// Packing: the work is cut into pieces of some hundred kilobytes over all requests.
#include "compile/pack_weights.h"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <unordered_set>
#include <utility>

#include "base/check.h"
#include "base/stage.h"
#include "base/stop_point.h"
#include "base/strided.h"
#include "edge/match.h"
#include "ir/op.h"
#include "ops/names.h"
#include "runtime/gemm_pack.h"

namespace tenon {

namespace {

constexpr int64_t most_cached = 32 << 20;                        // bytes that caches may still hold when all is packed
constexpr int64_t least_piece = 256 << 10, most_piece = 4 << 20; // bytes, packed

const char* start_of(const Tensor& w, const ProductWeights& p) {
  return static_cast<const char*>(w.data()) + p.offset * static_cast<int64_t>(size_of(w.dtype()));
}

void pack_sliced(const KernelTable& kernels, const Tensor& w, const ProductWeights& p, int64_t panel, void* to) {
  const GemmFamily& f = kernels.family(p.family);
  int64_t bytes = static_cast<int64_t>(size_of(w.dtype())), k = p.panels.k;
  const char* start = start_of(w, p);
  Panels one = p.panels;
  one.n = p.panels.columns(panel);
  std::vector<char> rows(static_cast<size_t>(one.n * k * bytes)); // transposed
  for (int64_t c = 0; c < one.n; c++) {
    int64_t vector = panel * p.panels.vectors + c / f.lanes, column = vector / p.slices * f.lanes + c % f.lanes;
    char* at = const_cast<char*>(start) + (vector % p.slices * p.width + column) * p.n_stride * bytes;
    if (column < p.width) copy_strided({w.dtype(), at, std::span(&k, 1), std::span(&p.k_stride, 1)}, rows.data() + c * k * bytes);
  }
  pack_panels(kernels, f, one, {rows.data(), w.dtype(), 1, k}, 0, k, 0, 1, static_cast<char*>(to) + p.panels.offset(panel));
}

void pack_product(const KernelTable& kernels, const Tensor& w, const ProductWeights& p, int64_t begin, int64_t end, void* to,
                  bool streamed) {
  const GemmFamily& f = kernels.family(p.family);
  if (p.slices > 1) {
    for (int64_t panel = begin; panel < end; panel++) pack_sliced(kernels, w, p, panel, to);
    return;
  }
  int64_t count = p.panels.count(), step = p.matrix_stride * static_cast<int64_t>(size_of(w.dtype()));
  for (int64_t done = begin; done < end;) {
    int64_t matrix = done / count, first = done % count, last = std::min(count, first + end - done);
    pack_panels(kernels, f, p.panels, {start_of(w, p) + matrix * step, w.dtype(), p.k_stride, p.n_stride}, 0, p.panels.k, first, last,
                static_cast<char*>(to) + matrix * p.panels.bytes() + p.panels.offset(first), streamed);
    done += last - first;
  }
}

int64_t bytes_of(const KernelTable& kernels, const PackRequest& r) {
  if (auto* p = std::get_if<ProductWeights>(&r.form)) return p->panels.bytes() * p->matrices;
  return packed_conv_bytes(kernels, std::get<Conv>(r.form));
}

int64_t items_of(const KernelTable& kernels, const PackRequest& r) {
  if (auto* p = std::get_if<ProductWeights>(&r.form)) return p->panels.count() * p->matrices;
  return conv_pack_items(kernels, std::get<Conv>(r.form));
}

void pack_items(const KernelTable& kernels, const PackRequest& r, int64_t begin, int64_t end, bool streamed) {
  if (auto* p = std::get_if<ProductWeights>(&r.form)) pack_product(kernels, r.weights, *p, begin, end, r.to, streamed);
  else pack_conv_items(kernels, std::get<Conv>(r.form), begin, end, r.to);
}

/// Each drop of pages interrupts all cores: small weights are dropped at once, large ones by large pieces.
int64_t piece_of(int64_t bytes) { return std::clamp(bytes / 64, least_piece, most_piece); }

/// The memory that these items alone read, where it is known: rows of a product's operand that are columns of panels.
std::span<const std::byte> read_by(const PackRequest& r, int64_t begin, int64_t end) {
  auto* p = std::get_if<ProductWeights>(&r.form);
  if (!p || p->slices > 1 || p->matrices > 1 || p->k_stride != 1 || p->n_stride < p->panels.k) return {};
  int64_t row = p->n_stride * static_cast<int64_t>(size_of(r.weights.dtype())), first = begin * p->panels.width(),
          last = std::min(end * p->panels.width(), p->panels.n);
  return {reinterpret_cast<const std::byte*>(start_of(r.weights, *p)) + first * row, static_cast<size_t>((last - first) * row)};
}

constexpr size_t worth_a_thread = 4 << 20; // bytes

} // namespace

LargeMemory expect_packed_weights(const LoadedProgram& program, const Workers& workers) {
  const Graph& g = program.graph;
  if (has_call(g, prim::Delegate)) return {}; // which may have taken any of them
  std::unordered_set<ValueId> others;         // read by what is no product, nor made of products
  for (NodeId id : g.block(g.top()).nodes) {
    const Node& n = g.node(id);
    if (!n.def || (n.def->kind != Kind::Composite && n.def->kind != Kind::Matmul))
      for_each_use(g, id, [&](ValueId v) { others.insert(v); });
  }
  size_t bytes = 0;
  for (const ProgramInput& in : program.inputs) {
    auto w = program.weights.find(in.target);
    if (in.kind == InputKind::User || w == program.weights.end() || w->second.rank() != 2 || others.contains(in.value)) continue;
    bytes += memory_of(w->second).size();
  }
  bytes = std::min(bytes, program.file.size()); // weights may share memory
  if (bytes < worth_a_thread || workers.threads() == 1) return {};
  return LargeMemory(bytes, [&](std::function<void()> work) { workers.start(std::move(work)); });
}

int PackRequests::add(Key key, PackRequest request, int64_t bytes) {
  auto [at, fresh] = known_.emplace(std::move(key), static_cast<int>(requests_.size()));
  if (!fresh) return at->second;
  request.bytes = bytes;
  requests_.push_back(std::move(request));
  return at->second;
}

int PackRequests::add(const KernelTable& kernels, const Tensor& w, const ProductWeights& p) {
  std::vector<int64_t> form{p.family,   p.panels.k, p.panels.n, p.panels.vectors, p.k_stride,
                            p.n_stride, p.slices,   p.width,    p.matrices,       p.matrix_stride};
  PackRequest r{w, p};
  return add({start_of(w, p), std::move(form)}, r, bytes_of(kernels, r));
}

int PackRequests::add(const KernelTable& kernels, const Tensor& w, const Conv& c) {
  std::vector<int64_t> form{c.family, c.transposed, c.winograd, c.by_lines, c.groups, c.in_channels, c.out_channels, c.padding};
  form.insert(form.end(), c.weight_strides, c.weight_strides + 5);
  form.push_back(reinterpret_cast<intptr_t>(c.scales));
  for (auto* list : {c.window.kernel, c.window.stride, c.window.pad, c.window.dilation}) form.insert(form.end(), list, list + 3);
  PackRequest r{w, c};
  return add({c.weights, std::move(form)}, r, bytes_of(kernels, r));
}

void PackRequests::pack_some(const KernelTable& kernels, const LargeMemory& place, const Together& together,
                             std::span<const std::byte> file, std::span<const size_t> numbers) {
  struct Piece {
    size_t request;
    int64_t begin, end;           // items
    int64_t first_byte, end_byte; // somewhere there they go
  };
  int64_t total = 0;
  std::vector<Piece> pieces;
  std::vector<std::atomic<int>> left(requests_.size());
  for (size_t i : numbers) {
    int64_t items = items_of(kernels, requests_[i]), bytes = requests_[i].bytes;
    total += bytes;
    int64_t count = std::clamp<int64_t>(bytes / piece_of(bytes), 1, std::max<int64_t>(items, 1));
    for (int64_t p = 0; p < count; p++)
      pieces.push_back({i, items * p / count, items * (p + 1) / count, bytes * p / count, bytes * (p + 1) / count});
    left[i] = static_cast<int>(count);
  }
  std::atomic<size_t> next = 0;
  Stage stage("weights", numbers.size());
  together([&] {
    for (size_t i; (i = next++) < pieces.size();) {
      const Piece& p = pieces[i];
      place.fetch(static_cast<char*>(requests_[p.request].to) + p.first_byte, static_cast<size_t>(p.end_byte - p.first_byte));
      pack_items(kernels, requests_[p.request], p.begin, p.end, total > most_cached);
      if (piece_of(requests_[p.request].bytes) > least_piece) drop_pages(read_by(requests_[p.request], p.begin, p.end), file);
      if (left[p.request].fetch_sub(1) > 1) continue;
      Tensor done = std::exchange(requests_[p.request].weights, {});
      const Scaled* scaled = scaled_of(done);
      drop_pages(memory_of(scaled ? scaled->from : done), file);
      stage.part_done();
    }
  });
}

// Weights that are read where the file has them stay there.
void PackRequests::note_sources(LinkedPlan& plan, std::span<const std::byte> file) const {
  plan.packed_from.resize(requests_.size());
  for (auto& [key, number] : known_) {
    auto* conv = std::get_if<Conv>(&requests_[static_cast<size_t>(number)].form);
    auto* from = static_cast<const std::byte*>(key.first);
    bool stays = from >= file.data() && from < file.data() + file.size() && (!conv || !conv->scales);
    if (stays) plan.packed_from[static_cast<size_t>(number)] = {key.first, key.second};
  }
}

// A plan of the same program packs nearly the same: only what was not packed from the same place is packed to be compared.
void PackRequests::pack_unshared(LinkedPlan& plan, const LargeMemory& place, const Together& together, std::span<const std::byte> file,
                                 const LinkedPlan& shared) {
  std::map<Key, size_t> sources;
  for (size_t i = 0; i < shared.packed_from.size(); i++)
    if (const PackedFrom& f = shared.packed_from[i]; f.weights) sources.emplace(Key{f.weights, f.form}, i);
  std::multimap<size_t, std::span<const std::byte>> by_size;
  for (auto& p : shared.packed) by_size.emplace(p.size(), p);
  for (size_t i = 0; i < requests_.size(); i++) {
    const PackedFrom& from = plan.packed_from[i];
    if (auto at = from.weights ? sources.find({from.weights, from.form}) : sources.end(); at != sources.end()) {
      plan.packed[i] = shared.packed[at->second];
    } else {
      stop_point();
      pack_some(*plan.micro_kernels, place, together, file, std::span(&i, 1));
      auto [begin, end] = by_size.equal_range(plan.packed[i].size());
      auto same = std::find_if(begin, end, [&](auto& p) { return std::ranges::equal(p.second, plan.packed[i]); });
      if (same == end) continue;
      plan.packed[i] = same->second;
    }
    memory_[i] = nullptr;
  }
}

void PackRequests::allocate(LargeMemory& place) {
  for (PackRequest& r : requests_) {
    memory_.push_back(place.allocate(static_cast<size_t>(r.bytes)));
    r.to = memory_.back().get();
    require_input(r.to != nullptr, "out of memory: {} bytes of packed weights", r.bytes);
  }
  place.settle();
}

void PackRequests::pack_later(LinkedPlan& plan, std::span<const std::byte> file) const {
  if (requests_.empty()) return;
  std::vector<LaterWeights::Form> forms;
  for (const PackRequest& r : requests_) {
    auto& p = std::get<ProductWeights>(r.form);
    forms.push_back({p.family, p.panels, {start_of(r.weights, p), r.weights.dtype(), p.k_stride, p.n_stride}});
  }
  plan.later = std::make_unique<LaterWeights>(*plan.micro_kernels, forms, file);
}

size_t PackRequests::pack(LinkedPlan& plan, LargeMemory& place, const Together& together, std::span<const std::byte> file,
                          const LinkedPlan* shared) {
  allocate(place);
  note_sources(plan, file);
  for (const PackRequest& r : requests_) plan.packed.emplace_back(static_cast<const std::byte*>(r.to), static_cast<size_t>(r.bytes));
  if (shared) pack_unshared(plan, place, together, file, *shared);
  else {
    std::vector<size_t> all(requests_.size());
    std::iota(all.begin(), all.end(), 0);
    pack_some(*plan.micro_kernels, place, together, file, all);
  }
  drop_pages(file, file); // what was read around the weights, and of others while they were folded
  size_t kept = 0;
  for (size_t i = 0; i < memory_.size(); i++) {
    if (!memory_[i]) continue;
    kept += plan.packed[i].size();
    plan.owned.push_back(memory_[i]);
  }
  return kept;
}

} // namespace tenon
