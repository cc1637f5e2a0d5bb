// Writes at indices: scatter and index_add, index_copy, index_fill, index_reduce along one dim; index_put at several.
// Elements that go to one place are taken in order, so that sums do not depend on the threads and of several assigned
// the last one stays: threads share the planes and the columns beside each other, which never meet.
#include <limits>

#include "runtime/library/scatter_loops.h"

namespace tenon::library {

namespace {

// The same value for every element.
template <class A, class B> bool scatter_value(const LibraryCall& c, Update u, Planes p, A* out, const int64_t* index, B value) {
  auto row = scratch<B>(p.columns);
  std::fill_n(row.get(), p.columns, value);
  p.repeat_source();
  return scatter_all(c, u, p, out, index, static_cast<const B*>(row.get()));
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
  if (!include_self && !scatter_value(c, Update::Assign, p, out, index, neutral<A>(u))) return false;
  if (!(source ? scatter_all(c, u, p, out, index, source) : scatter_value(c, u, p, out, index, value))) return false;
  if (u != Update::Mean) return true;
  auto average = [&](auto one) {
    std::vector<decltype(one)> count(static_cast<size_t>(c.outputs[0].numel()), include_self ? one : 0);
    scatter_value(c, Update::Add, p, count.data(), index, one);
    parallel(c, std::ssize(count), 8192, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++)
        if (int64_t n = count[static_cast<size_t>(i)]; n > 1) out[i] = divide(out[i], n);
    });
  };
  if (p.n < INT32_MAX) average(int32_t{1});
  else average(int64_t{1});
  return true;
}

template <class T> const char* scatter_as(const LibraryCall& c, const Scatter& s, Update u) {
  Planes p = s.vector_index ? planes_of_vector(s) : planes_of_index(s);
  std::unique_ptr<int64_t[]> memory;
  const int64_t* index = nullptr;
  if (const char* error = read_indices(c, s.index, p.limit, s.vector_index && u == Update::Assign, index, memory, s.vector_index))
    return error;
  if (p.n == 0 || p.columns == 0 || p.count() == 0) return nullptr;
  T* out = c.outputs[0].as<T>();
  T value = std::is_integral_v<T> ? narrow<T>(c.ints[4]) : narrow<T>(c.numbers[0]);
  const T* source = s.source ? s.source->as<const T>() : nullptr;
  bool within = true;
  if (u == Update::Assign && source) within = scatter_all(c, u, p, out, index, source);
  else if (u == Update::Assign) within = scatter_value(c, u, p, out, index, value);
  else if constexpr (std::is_same_v<Wide<T>, T>) within = reduce_into(c, p, u, out, index, source, value);
  else { // halves are summed up in f32
    auto wide = scratch<float>(s.self.numel());
    parallel(c, s.self.numel(), 8192, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++) wide[static_cast<size_t>(i)] = widen(out[i]);
    });
    within = reduce_into(c, p, u, wide.get(), index, source, value);
    parallel(c, s.self.numel(), 8192, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++) out[i] = narrow<T>(wide[static_cast<size_t>(i)]);
    });
  }
  return within ? nullptr : read_indices(c, s.index, p.limit, false, index, memory);
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
  copy_input(c, 0, 0);
  if (s.index.numel() == 0) return nullptr; // of whatever rank
  if (const char* error = check_scatter(s)) return error;
  return for_real(s.self.dtype, [&](auto zero) { return scatter_as<decltype(zero)>(c, s, static_cast<Update>(c.ints[1])); });
}

const char* index_put(const LibraryCall& c) {
  copy_input(c, 0, 0);
  Update u = c.ints[0] ? Update::Add : Update::Assign;
  const LibraryTensor& values = c.inputs[1];
  return for_real(c.inputs[0].dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    Places places;
    if (const char* error = find_places(c, places)) return error;
    std::vector<int64_t> fit = places.result_sizes;
    int64_t total = product(fit);
    if (!broadcast_into(fit, values.sizes) || product(fit) != total)
      return message("shape mismatch: value tensor of shape [{}] cannot be broadcast to indexing result of shape [{}]",
                     listed(values.sizes), listed(places.result_sizes));
    if (total == 0) return nullptr;
    T* out = c.outputs[0].as<T>();
    const T* data = values.as<const T>();
    if (values.numel() == 1) return scatter_value(c, u, places.planes, out, places.picked.data(), *data), nullptr;
    std::unique_ptr<T[]> expanded;
    if (values.numel() != total) {
      std::vector<int64_t> order = box_offsets(fit, broadcast_strides(values.sizes, fit.size()));
      expanded = scratch<T>(total);
      for (int64_t k = 0; k < total; k++) expanded[static_cast<size_t>(k)] = data[order[static_cast<size_t>(k)]];
      data = expanded.get();
    }
    scatter_all(c, u, places.planes, out, places.picked.data(), data);
    return nullptr;
  });
}

bool writes_over(LibraryFn step) { return step == scatter || step == index_put || step == masked_scatter || step == embedding_renorm; }

} // namespace tenon::library
