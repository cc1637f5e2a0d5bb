// Writes at indices: scatter and index_add, index_copy, index_fill, index_reduce along one dim; index_put at several.
// Elements that go to one place are taken in order, so that sums do not depend on the threads and of several assigned
// the last one stays: threads share the planes and the columns beside each other, which never meet.
#include <limits>

#include "runtime/library/scatter_loops.h"

namespace tenon::library {

namespace {

// Where elements go: a plane is out[index[j]][k] for j < n, k < columns. The index is the same for all columns, or has
// as many. The planes are numbered by the dims `sizes`, with their strides in out, index and source.
struct Planes {
  int64_t n = 1, columns = 1, out_step = 1, index_step = 1, source_step = 1, limit = 1;
  bool index_by_column = false;
  std::vector<int64_t> sizes, to, at, from;

  int64_t count() const { return product(sizes); }
  void add_dim(int64_t size, int64_t out, int64_t index, int64_t source) {
    sizes.push_back(size), to.push_back(out), at.push_back(index), from.push_back(source);
  }
  void find(int64_t plane, int64_t& out, int64_t& index, int64_t& source) const {
    out = index = source = 0;
    for (size_t d = sizes.size(); d-- > 0; plane /= sizes[d]) {
      int64_t i = plane % sizes[d];
      out += i * to[d], index += i * at[d], source += i * from[d];
    }
  }
  /// One row of elements takes the place of the source.
  void repeat_source() { source_step = 0, std::fill(from.begin(), from.end(), int64_t{0}); }
};

// Columns that a thread takes at once: enough pieces for all threads, and where columns have indices of their own, few
// enough that what they are scattered to stays in the cache, but some lines of indices.
int64_t column_block(const LibraryCall& c, const Planes& p, int64_t size) {
  constexpr int64_t cache = 2 << 20, few = 32;
  int64_t line = 64 / size, block = p.columns, planes = p.count();
  auto halve = [&] { block = (block / 2 + line - 1) / line * line; };
  while (block > line && planes * ((p.columns + block - 1) / block) < threads_of(c)) halve();
  while (p.index_by_column && block > few && p.limit * block * size > cache) halve();
  return std::max<int64_t>(1, block);
}

// What elements are written to, by which loops.
struct Writes {
  const LibraryCall& c;
  const Planes& p;
  const Loops& loops;
  void* out;
  const int64_t* index;
  const void* source;

  Lane lane(int64_t to, int64_t at, int64_t from) const {
    return {static_cast<char*>(out) + to * loops.out_size,
            p.out_step,
            index + at,
            p.index_step,
            static_cast<const char*>(source) + from * loops.source_size,
            p.source_step,
            p.n,
            p.limit};
  }
};

bool scatter_pieces(const Writes& w) {
  const Planes& p = w.p;
  std::atomic<bool> within = true;
  int64_t block = column_block(w.c, p, w.loops.out_size), blocks = (p.columns + block - 1) / block;
  parallel(w.c, p.count() * blocks, std::max<int64_t>(1, 8192 / std::max<int64_t>(1, p.n * block)), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; t++) {
      int64_t to, at, from, k = t % blocks * block, width = std::min(block, p.columns - k);
      p.find(t / blocks, to, at, from);
      Lane lane = w.lane(to + k, at + (p.index_by_column ? k : 0), from + k);
      bool good = true;
      if (p.columns == 1) good = w.loops.elements(lane);
      else if (p.index_by_column) good = w.loops.columns(lane, width);
      else w.loops.rows(lane, width, nullptr, p.n);
      if (!good) within = false;
    }
  });
  return within;
}

// One long column to few places: each thread has places of its own, which are joined in the end, always in the same
// order.
bool scatter_parts(const Writes& w) {
  int64_t parts = threads_of(w.c), bytes = w.p.limit * w.loops.out_size, first_place = 0;
  std::atomic<bool> within = true;
  std::vector<std::unique_ptr<char[]>> own(static_cast<size_t>(parts));
  parallel(w.c, parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; t++) {
      int64_t first = w.p.n * t / parts, last = w.p.n * (t + 1) / parts;
      Lane lane = w.lane(0, first, first * w.p.source_step);
      lane.n = last - first;
      if (t > 0) {
        own[static_cast<size_t>(t)] = scratch<char>(bytes);
        lane.out = std::memset(own[static_cast<size_t>(t)].get(), 0, static_cast<size_t>(bytes));
      }
      if (!w.loops.elements(lane)) within = false;
    }
  });
  for (size_t t = 1; t < own.size(); t++) w.loops.sums({w.out, 0, &first_place, 0, own[t].get(), 0, 1, 1}, w.p.limit, nullptr, 1);
  return within;
}

// One long column to many places: each thread has a share of the places.
bool scatter_shares(const Writes& w) {
  int64_t parts = threads_of(w.c);
  std::atomic<bool> within = true;
  parallel(w.c, parts, 1, [&](int64_t begin, int64_t end) {
    int64_t first = w.p.limit * begin / parts, last = w.p.limit * end / parts;
    if (!w.loops.places(w.lane(0, 0, 0), first, last)) within = false;
  });
  return within;
}

// Ends of the places of each of so many threads, by which all write nearly as many rows; empty where a few places take most of them.
std::vector<int64_t> share_places(const Planes& p, const int64_t* index, int64_t parts) {
  constexpr int most_buckets = 1024;
  int shift = 0;
  while (p.limit >> shift >= most_buckets) shift++;
  int32_t counts[most_buckets] = {};
  for (int64_t j = 0; j < p.n; j++) counts[index[j * p.index_step] >> shift]++;
  std::vector<int64_t> ends;
  int64_t rows = 0, before = 0;
  for (int64_t b = 0; b < most_buckets && std::ssize(ends) + 1 < parts; b++) {
    rows += counts[b];
    if (rows * parts < p.n * (std::ssize(ends) + 1)) continue;
    if ((rows - before) * parts * 4 > p.n * 5) return {};
    ends.push_back((b + 1) << shift), before = rows;
  }
  ends.push_back(p.limit);
  return std::ssize(ends) == parts ? ends : std::vector<int64_t>{};
}

// Rows to places far apart: each thread has its own, whose lines no other one writes.
bool scatter_whole_rows(const Writes& w) {
  const Planes& p = w.p;
  std::vector<int64_t> ends = share_places(p, w.index, threads_of(w.c));
  if (ends.empty()) return scatter_pieces(w);
  parallel(w.c, std::ssize(ends), 1, [&](int64_t begin, int64_t end) {
    int64_t first = begin > 0 ? ends[static_cast<size_t>(begin - 1)] : 0, last = ends[static_cast<size_t>(end - 1)], found = 0;
    auto chosen = scratch<int64_t>(p.n + 1);
    for (int64_t j = 0; j < p.n; j++) {
      chosen[static_cast<size_t>(found)] = j;
      found += (w.index[j * p.index_step] >= first) & (w.index[j * p.index_step] < last);
    }
    w.loops.rows(w.lane(0, 0, 0), p.columns, chosen.get(), found);
  });
  return true;
}

// False where an index is outside: then some elements are not written.
bool scatter_by(const Writes& w) {
  const Planes& p = w.p;
  constexpr int64_t near = 1 << 20; // bytes that need not be fetched ahead
  int64_t threads = threads_of(w.c);
  bool whole_rows = p.columns > 1 && !p.index_by_column && p.count() == 1 && p.n >= 64 * threads && p.n < INT32_MAX;
  if (whole_rows && threads > 1) return scatter_whole_rows(w);
  bool one_column = p.columns == 1 && p.count() == 1 && p.out_step == 1 && p.index_step == 1;
  if (!one_column || p.n < 65536) return scatter_pieces(w);
  if (w.loops.sums && threads > 1 && p.limit * threads <= p.n) return scatter_parts(w);
  return p.limit * w.loops.out_size < near && threads == 1 ? scatter_pieces(w) : scatter_shares(w);
}

// The same value for every element.
template <class B> bool scatter_value(const Writes& w, B value) {
  auto row = scratch<B>(w.p.columns);
  std::fill_n(row.get(), w.p.columns, value);
  Planes p = w.p;
  p.repeat_source();
  return scatter_by({w.c, p, w.loops, w.out, w.index, row.get()});
}

struct Scatter {
  const LibraryTensor& self;
  const LibraryTensor& index;
  int64_t dim;
  bool vector_index;
  const LibraryTensor* source; // null: one value
};

// An index of self's rank stays within self and the source, but for `dim`.
const char* check_scatter(const Scatter& s) {
  if (s.vector_index) {
    if (!s.source) return nullptr;
    Lanes l(s.self.sizes, s.dim);
    return s.source->numel() == l.count() * s.index.numel() ? nullptr : "the source does not have the sizes of what it is written to";
  }
  for (size_t d = 0; d < s.index.sizes.size(); d++) {
    if (s.source && d < s.source->sizes.size() && s.index.sizes[d] > s.source->sizes[d])
      return message("index has size {} at dim {}, the source only {}", s.index.sizes[d], d, s.source->sizes[d]);
    if (static_cast<int64_t>(d) != s.dim && d < s.self.sizes.size() && s.index.sizes[d] > s.self.sizes[d])
      return message("index has size {} at dim {}, self only {}", s.index.sizes[d], d, s.self.sizes[d]);
  }
  return nullptr;
}

Planes planes_of_vector(const Scatter& s) {
  Lanes l(s.self.sizes, s.dim);
  Planes p{.n = s.index.numel(),
           .columns = l.inner,
           .out_step = l.inner,
           .index_step = 1,
           .source_step = l.inner,
           .limit = l.n,
           .index_by_column = false,
           .sizes = {},
           .to = {},
           .at = {},
           .from = {}};
  p.add_dim(l.outer, l.n * l.inner, 0, p.n * l.inner);
  return p;
}

// Columns are all dims after `dim` where these have the same sizes everywhere, else the last one.
Planes planes_of_index(const Scatter& s) {
  size_t rank = std::min(s.index.sizes.size(), s.self.sizes.size()), dim = static_cast<size_t>(s.dim);
  Planes p;
  p.index_by_column = true;
  if (rank == 0) {
    p.n = s.index.numel(), p.limit = s.self.sizes.empty() ? 1 : s.self.sizes[dim];
    return p;
  }
  std::span<const int64_t> source = s.source && s.source->sizes.size() == rank ? s.source->sizes : s.index.sizes;
  std::vector<int64_t> to(rank), at(rank), from(rank); // row-major strides
  int64_t to_step = 1, at_step = 1, from_step = 1;
  bool whole = true;
  for (size_t d = rank; d-- > 0;) {
    to[d] = to_step, at[d] = at_step, from[d] = from_step;
    to_step *= s.self.sizes[d], at_step *= s.index.sizes[d], from_step *= source[d];
    whole &= d <= dim || (s.self.sizes[d] == s.index.sizes[d] && source[d] == s.index.sizes[d]);
  }
  p.n = s.index.sizes[dim], p.limit = s.self.sizes[dim];
  p.out_step = to[dim], p.index_step = at[dim], p.source_step = from[dim];
  size_t columns_from = whole ? dim + 1 : std::max(dim + 1, rank - 1);
  for (size_t d = 0; d < rank; d++) {
    if (d == dim) continue;
    if (d < columns_from) p.add_dim(s.index.sizes[d], to[d], at[d], from[d]);
    else p.columns *= s.index.sizes[d];
  }
  return p;
}

// Indices as they are, or widened, negative ones wrapped if they may be; a message where one is out of range. Not `checked`, they may be
// found out of range by who uses them.
const char* read_indices(const LibraryCall& c, const LibraryTensor& t, int64_t size, bool may_wrap, const int64_t*& indices,
                         std::unique_ptr<int64_t[]>& memory, bool checked = true) {
  int64_t n = t.numel();
  if (t.dtype == DType::I64) indices = t.as<const int64_t>();
  else {
    memory = scratch<int64_t>(n);
    for (int64_t i = 0; i < n; i++) memory[static_cast<size_t>(i)] = integer_at(t, i);
    indices = memory.get();
  }
  if (!checked || all_within(c, indices, n, size)) return nullptr;
  if (!memory) memory = scratch<int64_t>(n);
  for (int64_t k = 0; k < n; k++) {
    int64_t i = indices[k];
    if (may_wrap ? !wrap(i, size) : i < 0 || i >= size) return out_of_range(indices[k], size);
    memory[static_cast<size_t>(k)] = i;
  }
  indices = memory.get();
  return nullptr;
}

// What leaves any element as it is when joined with it.
template <class A> A neutral(Update u) {
  using L = std::numeric_limits<A>;
  switch (u) {
  case Update::Mul: return static_cast<A>(1);
  case Update::Max: return L::has_infinity ? static_cast<A>(-L::infinity()) : L::lowest();
  case Update::Min: return L::has_infinity ? L::infinity() : L::max();
  default: return static_cast<A>(0);
  }
}
template <class A> A divide(A sum, int64_t count) {
  if constexpr (std::is_floating_point_v<A>) return sum / static_cast<A>(count);
  else {
    auto a = static_cast<int64_t>(sum);
    return static_cast<A>(a / count - (a % count < 0));
  }
}

// Joins elements in the wide type; `out` starts as self. Without self, what is written to starts anew.
template <class A, class T>
bool reduce_into(const LibraryCall& c, const Planes& p, Update u, A* out, const int64_t* index, const T* source, T value) {
  bool include_self = c.ints[2] != 0;
  if (!include_self && !scatter_value({c, p, loops<Update::Assign, A, A>(), out, index, nullptr}, neutral<A>(u))) return false;
  Loops join = joining_loops<A, T>(u);
  Writes w{c, p, join, out, index, source};
  if (!(source ? scatter_by(w) : scatter_value(w, value))) return false;
  if (u != Update::Mean) return true;
  auto average = [&](auto one) {
    std::vector<decltype(one)> count(static_cast<size_t>(c.outputs[0].numel()), include_self ? one : 0);
    scatter_value({c, p, loops<Update::Add, decltype(one), decltype(one)>(), count.data(), index, nullptr}, one);
    parallel(c, std::ssize(count), 8192, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++)
        if (int64_t n = count[static_cast<size_t>(i)]; n > 1) out[i] = divide(out[i], n);
    });
  };
  if (p.n < INT32_MAX) average(int32_t{1});
  else average(int64_t{1});
  return true;
}

template <class T> T value_of(const LibraryCall& c) { return std::is_integral_v<T> ? narrow<T>(c.ints[4]) : narrow<T>(c.numbers[0]); }
// The same, its bits.
template <class U> U value_bits(const LibraryCall& c, DType t) {
  U bits{};
  for_real(t, [&](auto zero) -> const char* {
    if constexpr (sizeof zero == sizeof bits) bits = std::bit_cast<U>(value_of<decltype(zero)>(c));
    return nullptr;
  });
  return bits;
}

// Elements of type T joined with what is there.
template <class T> bool scatter_reduced(const LibraryCall& c, const Scatter& s, Update u, const Planes& p, const int64_t* index) {
  T* out = c.outputs[0].as<T>();
  T value = value_of<T>(c);
  const T* source = s.source ? s.source->as<const T>() : nullptr;
  if constexpr (std::is_same_v<Wide<T>, T>) return reduce_into(c, p, u, out, index, source, value);
  else { // halves are summed up in f32
    auto wide = scratch<float>(s.self.numel());
    parallel(c, s.self.numel(), 8192, [&](int64_t begin, int64_t end) { widen_row(out + begin, wide.get() + begin, end - begin); });
    bool within = reduce_into(c, p, u, wide.get(), index, source, value);
    parallel(c, s.self.numel(), 8192, [&](int64_t begin, int64_t end) { narrow_row(wide.get() + begin, out + begin, end - begin); });
    return within;
  }
}

// Elements of U's size take the place of what is there.
template <class U> bool scatter_assigned(const LibraryCall& c, const Scatter& s, const Planes& p, const int64_t* index) {
  Loops assign = loops<Update::Assign, U, U>();
  Writes w{c, p, assign, c.outputs[0].as<U>(), index, s.source ? s.source->as<const U>() : nullptr};
  return s.source ? scatter_by(w) : scatter_value(w, value_bits<U>(c, s.self.dtype));
}

// Offsets in a tensor of the elements of a sub-box: sizes with their strides.
std::vector<int64_t> box_offsets(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
  std::vector<int64_t> out{0};
  for (size_t d = 0; d < sizes.size(); d++) {
    std::vector<int64_t> next;
    next.reserve(out.size() * static_cast<size_t>(sizes[d]));
    for (int64_t o : out)
      for (int64_t i = 0; i < sizes[d]; i++) next.push_back(o + i * strides[d]);
    out.swap(next);
  }
  return out;
}

// Where index_put writes: the offsets that the index tensors give together, and the planes of the dims without an
// index, which stand left of the indices in the result where these are adjacent, else right of them.
struct Places {
  std::vector<int64_t> picked, result_sizes;
  Planes planes;
};

const char* pick(const LibraryCall& c, std::span<const int64_t> slots, const std::vector<int64_t>& strides,
                 const std::vector<int64_t>& common, std::vector<int64_t>& picked) {
  picked.assign(static_cast<size_t>(product(common)), 0);
  size_t next = 2;
  for (size_t d = 0; d < slots.size(); d++) {
    if (!slots[d]) continue;
    const LibraryTensor& index = c.inputs[next++];
    std::unique_ptr<int64_t[]> memory;
    const int64_t* indices = nullptr;
    if (picked.empty()) continue;
    if (const char* error = read_indices(c, index, c.inputs[0].sizes[d], true, indices, memory)) return error;
    std::vector<int64_t> at;
    if (index.numel() != std::ssize(picked)) at = box_offsets(common, broadcast_strides(index.sizes, common.size()));
    parallel(c, std::ssize(picked), 16384, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; k++)
        picked[static_cast<size_t>(k)] += indices[at.empty() ? k : at[static_cast<size_t>(k)]] * strides[d];
    });
  }
  return nullptr;
}

const char* find_places(const LibraryCall& c, Places& places) {
  const LibraryTensor& self = c.inputs[0];
  size_t rank = self.sizes.size(), first = rank, last = 0, indexed = 0;
  std::span<const int64_t> slots = c.ints.subspan(1);
  std::vector<int64_t> strides(rank), common;
  int64_t step = 1;
  for (size_t d = rank; d-- > 0;) strides[d] = step, step *= self.sizes[d];
  for (size_t d = 0; d < rank; d++)
    if (slots[d]) first = std::min(first, d), last = d, indexed++;
  for (size_t k = 2; k < c.inputs.size(); k++)
    if (!broadcast_into(common, c.inputs[k].sizes)) return "the indices do not broadcast together";
  bool adjacent = indexed > 0 && last - first + 1 == indexed;
  Planes& p = places.planes;
  std::vector<int64_t> inner_sizes, plane_sizes;
  for (size_t d = 0; d < rank; d++) {
    if (slots[d]) continue;
    if (indexed > 0 && d > last) inner_sizes.push_back(self.sizes[d]);
    else p.add_dim(self.sizes[d], strides[d], 0, 0), plane_sizes.push_back(self.sizes[d]);
  }
  p.n = product(common), p.columns = product(inner_sizes), p.limit = step;
  step = adjacent ? p.n * p.columns : p.columns;
  for (size_t d = p.sizes.size(); d-- > 0;) p.from[d] = step, step *= p.sizes[d];
  p.source_step = adjacent ? p.columns : step;
  for (auto* part : {adjacent ? &plane_sizes : &common, adjacent ? &common : &plane_sizes, &inner_sizes})
    places.result_sizes.insert(places.result_sizes.end(), part->begin(), part->end());
  return pick(c, slots, strides, common, places.picked);
}

std::string listed(std::span<const int64_t> sizes) {
  std::string text;
  for (int64_t s : sizes) text += (text.empty() ? "" : ", ") + std::to_string(s);
  return text;
}

} // namespace

const char* scatter(const LibraryCall& c) {
  Scatter s{c.inputs[0], c.inputs[1], c.ints[0], c.ints[3] != 0, c.inputs.size() > 2 ? &c.inputs[2] : nullptr};
  auto u = static_cast<Update>(c.ints[1]);
  copy_input(c, 0, 0);
  if (s.index.numel() == 0) return nullptr; // of whatever rank
  if (const char* error = check_scatter(s)) return error;
  Planes p = s.vector_index ? planes_of_vector(s) : planes_of_index(s);
  std::unique_ptr<int64_t[]> memory;
  const int64_t* index = nullptr;
  if (const char* error = read_indices(c, s.index, p.limit, s.vector_index && u == Update::Assign, index, memory, s.vector_index))
    return error;
  if (p.n == 0 || p.columns == 0 || p.count() == 0) return nullptr;
  bool within = true;
  const char* error =
      u == Update::Assign
          ? for_size(s.self.dtype, [&](auto zero) { return within = scatter_assigned<decltype(zero)>(c, s, p, index), nullptr; })
          : for_real(s.self.dtype, [&](auto zero) { return within = scatter_reduced<decltype(zero)>(c, s, u, p, index), nullptr; });
  return error || within ? error : read_indices(c, s.index, p.limit, false, index, memory);
}

namespace {

// The values that index_put writes, one for each element of the result, or one in all; `memory` holds them where they are
// repeated.
const char* put_values(const LibraryCall& c, std::span<const int64_t> result_sizes, const void*& data, std::unique_ptr<char[]>& memory) {
  const LibraryTensor& values = c.inputs[1];
  std::vector<int64_t> fit(result_sizes.begin(), result_sizes.end());
  int64_t total = product(fit);
  if (!broadcast_into(fit, values.sizes) || product(fit) != total)
    return message("shape mismatch: value tensor of shape [{}] cannot be broadcast to indexing result of shape [{}]", listed(values.sizes),
                   listed(result_sizes));
  data = values.data;
  if (values.numel() == 1 || values.numel() == total) return nullptr;
  std::vector<int64_t> order = box_offsets(fit, broadcast_strides(values.sizes, fit.size()));
  memory = scratch<char>(total * static_cast<int64_t>(size_of(values.dtype)));
  data = memory.get();
  return for_size(values.dtype, [&](auto zero) -> const char* {
    const char* from = static_cast<const char*>(values.data);
    for (size_t k = 0, size = sizeof zero; k < order.size(); k++)
      std::memcpy(memory.get() + k * size, from + static_cast<size_t>(order[k]) * size, size);
    return nullptr;
  });
}

} // namespace

const char* index_put(const LibraryCall& c) {
  copy_input(c, 0, 0);
  return guarded([&]() -> const char* {
    Places places;
    const void* data = nullptr;
    std::unique_ptr<char[]> memory;
    if (const char* error = find_places(c, places)) return error;
    if (const char* error = put_values(c, places.result_sizes, data, memory)) return error;
    if (product(places.result_sizes) == 0) return nullptr;
    Planes& p = places.planes;
    auto put = [&](const Loops& loops, auto zero) {
      auto* out = c.outputs[0].as<decltype(zero)>();
      Writes w{c, p, loops, out, places.picked.data(), data};
      if (c.inputs[1].numel() == 1) scatter_value(w, *static_cast<const decltype(zero)*>(data));
      else scatter_by(w);
      return nullptr;
    };
    DType t = c.inputs[0].dtype;
    return c.ints[0] ? for_real(t, [&](auto zero) { return put(loops<Update::Add, decltype(zero), decltype(zero)>(), zero); })
                     : for_size(t, [&](auto zero) { return put(loops<Update::Assign, decltype(zero), decltype(zero)>(), zero); });
  });
}

bool writes_over(LibraryFn step) { return step == scatter || step == index_put || step == masked_scatter || step == embedding_renorm; }

} // namespace tenon::library
