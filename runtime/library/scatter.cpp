// Writes at indices: scatter and index_add, index_copy, index_fill, index_reduce along one dim; index_put at several; masked_scatter.
// Elements are taken in order, so of several assigned to one place the last one stays.
#include "runtime/library/common.h"

namespace tenon::library {

namespace {

struct Scatter {
  const LibraryTensor& self;
  const LibraryTensor& index;
  int64_t dim;
  bool vector_index;
  const LibraryTensor* source; // null: one value
};

// f(place in self, place in source) for each element of a vector index: all of self but `dim` takes part.
template <class F> const char* each_of_vector(const Scatter& s, F&& f) {
  Lanes l(s.self.sizes, s.dim);
  int64_t n = s.index.numel();
  for (int64_t j = 0; j < n; j++) {
    int64_t i = integer_at(s.index, j);
    if (!wrap(i, l.n)) return out_of_range(i, l.n);
  }
  for (int64_t o = 0; o < l.outer; o++)
    for (int64_t j = 0; j < n; j++) {
      int64_t i = integer_at(s.index, j);
      wrap(i, l.n);
      int64_t to = (o * l.n + i) * l.inner, from = (o * n + j) * l.inner;
      for (int64_t k = 0; k < l.inner; k++) f(to + k, from + k);
    }
  return nullptr;
}

// The same for an index of self's rank: out[i][index[i][j][k]][k] for dim 1.
template <class F> const char* each_of_index(const Scatter& s, F&& f) {
  int64_t count = s.index.numel();
  if (count == 0) return nullptr;
  size_t rank = s.index.sizes.size();
  std::vector<int64_t> at(rank, 0), to(rank + 1, 0), from(rank + 1, 0); // row-major strides
  int64_t to_step = 1, from_step = 1;
  for (size_t d = std::min(rank, s.self.sizes.size()); d-- > 0;) {
    to[d] = to_step, from[d] = from_step;
    to_step *= s.self.sizes[d];
    from_step *= s.source ? s.source->sizes[d] : s.index.sizes[d];
  }
  auto dim = static_cast<size_t>(s.dim);
  int64_t size = s.self.sizes.empty() ? 1 : s.self.sizes[dim];
  int64_t base = 0, source = 0, inner = rank ? s.index.sizes[rank - 1] : 1;
  bool inner_is_dim = rank == 0 || dim == rank - 1;
  int64_t stride = rank ? to[dim] : 1;
  for (int64_t e = 0; e < count; e += inner) {
    for (int64_t k = 0; k < inner; k++) {
      int64_t i = integer_at(s.index, e + k);
      if (static_cast<uint64_t>(i) >= static_cast<uint64_t>(size)) return out_of_range(i, size);
      f(base + i * stride + (inner_is_dim ? 0 : k), source + k);
    }
    for (size_t d = rank; d-- > 0;) { // the next row
      if (d == rank - 1) continue;
      if (d != dim) base += to[d];
      source += from[d];
      if (++at[d] < s.index.sizes[d]) break;
      if (d != dim) base -= at[d] * to[d];
      source -= at[d] * from[d];
      at[d] = 0;
    }
  }
  return nullptr;
}
template <class F> const char* each(const Scatter& s, F&& f) { return s.vector_index ? each_of_vector(s, f) : each_of_index(s, f); }

template <class W> W join(Update u, W a, W b) {
  switch (u) {
  case Update::Mul: return static_cast<W>(a * b);
  case Update::Max: return nan(a) || a > b ? a : b;
  case Update::Min: return nan(a) || a < b ? a : b;
  default: return static_cast<W>(a + b);
  }
}
template <class W> W divide(W sum, int64_t count) {
  if constexpr (std::is_floating_point_v<W>) return sum / static_cast<W>(count);
  else {
    auto a = static_cast<int64_t>(sum);
    return static_cast<W>(a / count - (a % count < 0));
  }
}

// Joins elements in the wide type; `out` starts as self.
template <class W, class Source> const char* reduce_into(const Scatter& s, Update u, bool include_self, W* out, Source source) {
  const char* error = nullptr;
  if (!include_self) {
    // The first element that comes replaces what is there.
    std::vector<uint8_t> touched(static_cast<size_t>(s.self.numel()), 0);
    std::vector<int64_t> count(u == Update::Mean ? touched.size() : 0, 0);
    error = each(s, [&](int64_t to, int64_t from) {
      auto t = static_cast<size_t>(to);
      out[to] = touched[t] ? join(u, out[to], source(from)) : source(from);
      touched[t] = 1;
      if (u == Update::Mean) count[t]++;
    });
    for (size_t i = 0; i < count.size(); i++)
      if (count[i] > 1) out[i] = divide(out[i], count[i]);
    return error;
  }
  std::vector<int64_t> count(u == Update::Mean ? static_cast<size_t>(s.self.numel()) : 0, 1);
  error = each(s, [&](int64_t to, int64_t from) {
    out[to] = join(u, out[to], source(from));
    if (u == Update::Mean) count[static_cast<size_t>(to)]++;
  });
  for (size_t i = 0; i < count.size(); i++)
    if (count[i] > 1) out[i] = divide(out[i], count[i]);
  return error;
}

template <class T> const char* scatter_as(const LibraryCall& c, const Scatter& s, Update u) {
  bool include_self = c.ints[2] != 0;
  T* out = c.outputs[0].as<T>();
  T value = std::is_integral_v<T> ? narrow<T>(c.ints[4]) : narrow<T>(c.numbers[0]);
  const T* data = s.source ? s.source->as<const T>() : nullptr;
  if (u == Update::Assign) {
    if (!data) return each(s, [=](int64_t to, int64_t) { out[to] = value; });
    return each(s, [=](int64_t to, int64_t from) { out[to] = data[from]; });
  }
  using W = Wide<T>;
  auto source = [=](int64_t from) { return widen(data ? data[from] : value); };
  if constexpr (std::is_same_v<W, T>) return reduce_into<W>(s, u, include_self, out, source);
  else { // halves are summed up in f32
    std::vector<W> wide(static_cast<size_t>(s.self.numel()));
    for (size_t i = 0; i < wide.size(); i++) wide[i] = widen(out[i]);
    const char* error = reduce_into<W>(s, u, include_self, wide.data(), source);
    for (size_t i = 0; i < wide.size(); i++) out[i] = narrow<T>(wide[i]);
    return error;
  }
}

// An index of self's rank stays within self and the source, but for `dim`.
const char* check_scatter(const Scatter& s) {
  if (s.vector_index) {
    if (!s.source) return nullptr;
    Lanes l(s.self.sizes, s.dim);
    return s.source->numel() == l.count() * s.index.numel() ? nullptr : "the source does not have the sizes of what it is written to";
  }
  for (size_t d = 0; d < s.index.sizes.size(); d++) {
    if (s.source && d < s.source->sizes.size() && s.index.sizes[d] > s.source->sizes[d]) return message("index has size {} at dim {}, the source only {}", s.index.sizes[d], d, s.source->sizes[d]);
    if (static_cast<int64_t>(d) != s.dim && d < s.self.sizes.size() && s.index.sizes[d] > s.self.sizes[d]) return message("index has size {} at dim {}, self only {}", s.index.sizes[d], d, s.self.sizes[d]);
  }
  return nullptr;
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

// Where index_put writes: self[before[i] + picked[j] + after[k] + l], in the order of the result's elements, l < inner.
struct Places {
  std::vector<int64_t> before{0}, picked, after{0}, result_sizes;
  int64_t inner = 1;
};

// The offset that the index tensors give together, for each element of their common sizes.
const char* pick(const LibraryCall& c, std::span<const int64_t> slots, const std::vector<int64_t>& strides, const std::vector<int64_t>& common, Places& p) {
  p.picked.assign(static_cast<size_t>(product(common)), 0);
  size_t next = 2;
  for (size_t d = 0; d < slots.size(); d++) {
    if (!slots[d]) continue;
    const LibraryTensor& index = c.inputs[next++];
    std::vector<int64_t> at = box_offsets(common, broadcast_strides(index.sizes, common.size()));
    int64_t size = c.inputs[0].sizes[d];
    for (size_t k = 0; k < at.size(); k++) {
      int64_t i = integer_at(index, at[k]);
      if (!wrap(i, size)) return out_of_range(i, size);
      p.picked[k] += i * strides[d];
    }
  }
  return nullptr;
}

const char* find_places(const LibraryCall& c, Places& p) {
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
  std::vector<int64_t> sizes[2], steps[2]; // kept dims before the last index: left of all indices in the result, or right
  std::vector<int64_t> inner_sizes;
  for (size_t d = 0; d < rank; d++) {
    if (slots[d]) continue;
    if (indexed > 0 && d > last) inner_sizes.push_back(self.sizes[d]);
    else sizes[!adjacent].push_back(self.sizes[d]), steps[!adjacent].push_back(strides[d]);
  }
  p.inner = product(inner_sizes);
  p.before = box_offsets(sizes[0], steps[0]);
  p.after = box_offsets(sizes[1], steps[1]);
  p.result_sizes = sizes[0];
  for (auto* part : {&common, &sizes[1], &inner_sizes}) p.result_sizes.insert(p.result_sizes.end(), part->begin(), part->end());
  return pick(c, slots, strides, common, p);
}

template <class F> void each_place(const Places& p, F f) {
  int64_t from = 0;
  for (int64_t b : p.before)
    for (int64_t q : p.picked)
      for (int64_t a : p.after)
        for (int64_t l = 0; l < p.inner; l++) f(b + q + a + l, from++);
}

} // namespace

const char* scatter(const LibraryCall& c) {
  Scatter s{c.inputs[0], c.inputs[1], c.ints[0], c.ints[3] != 0, c.inputs.size() > 2 ? &c.inputs[2] : nullptr};
  if (const char* error = check_scatter(s)) return error;
  copy_input(c, 0, 0);
  return for_real(s.self.dtype, [&](auto zero) { return scatter_as<decltype(zero)>(c, s, static_cast<Update>(c.ints[1])); });
}

const char* index_put(const LibraryCall& c) {
  copy_input(c, 0, 0);
  bool accumulate = c.ints[0] != 0;
  const LibraryTensor& values = c.inputs[1];
  return for_real(c.inputs[0].dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    Places p;
    if (const char* error = find_places(c, p)) return error;
    std::vector<int64_t> fit = p.result_sizes;
    if (!broadcast_into(fit, values.sizes) || product(fit) != product(p.result_sizes)) return "the values do not have the sizes of what they are written to";
    T* out = c.outputs[0].as<T>();
    const T* data = values.as<const T>();
    std::vector<int64_t> order; // of broadcast values
    bool one = values.numel() == 1;
    if (!one && values.numel() != product(fit)) order = box_offsets(fit, broadcast_strides(values.sizes, fit.size()));
    auto value = [&](int64_t k) { return data[one ? 0 : order.empty() ? k : order[static_cast<size_t>(k)]]; };
    if (accumulate) each_place(p, [&](int64_t to, int64_t k) { out[to] = narrow<T>(widen(out[to]) + widen(value(k))); });
    else each_place(p, [&](int64_t to, int64_t k) { out[to] = value(k); });
    return nullptr;
  });
}

const char* masked_scatter(const LibraryCall& c) {
  copy_input(c, 0, 0);
  const LibraryTensor &mask = c.inputs[1], &source = c.inputs[2];
  int64_t n = c.outputs[0].numel(), have = source.numel();
  return for_size(c.outputs[0].dtype, [&](auto zero) -> const char* {
    using U = decltype(zero);
    int64_t next = 0;
    for (int64_t i = 0; i < n; i++)
      if (mask.as<const uint8_t>()[i]) {
        if (next == have) return message("the source has {} elements, fewer than the mask selects", have);
        c.outputs[0].as<U>()[i] = source.as<const U>()[next++];
      }
    return nullptr;
  });
}

} // namespace tenon::library
