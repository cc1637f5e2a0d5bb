// weight_only_products: weights that are stored as codes of 4 or 8 bits, with a scale (and a shift) for each group of neighbours along
// the sum, whatever operators unpack and dequantize them.
#include <algorithm>
#include <unordered_map>

#include "edge/match.h"
#include "edge/passes.h"
#include "ops/names.h"

namespace tenon {

namespace {

constexpr int64_t most_rows = 32; // of a product of reduced floats: more are better multiplied as those

// codes * scale + shift, with scale and shift constant within a group.
struct Grouped {
  V codes, scale, shift; // shift: may be missing
};

struct Range {
  int64_t low, high;
};

// What codes a constant has: those of 4 bits are often stored as bytes.
template <class T> Range range_of(const T* codes, int64_t count) {
  T low = count ? codes[0] : T{0}, high = low;
  for (int64_t i = 0; i < count; i++) low = std::min(low, codes[i]), high = std::max(high, codes[i]);
  return {low, high};
}

class GroupMatcher {
public:
  GroupMatcher(Builder& b) : b_(b), g_(b.graph()) {}

  // `v` [n, groups, group], or [groups, group, n]: `axis` is the group's.
  std::optional<Grouped> grouped(V v, size_t axis) {
    if (is_int(v.dtype())) {
      if (auto d = affine(v, axis)) return d;
      return Grouped{v, b_.scalar(1, DType::F32), {}};
    }
    if (const Node* cast = made_by(g_, v.id, edge::_to_copy)) return grouped(operand(*cast, 0), axis);
    return affine(v, axis);
  }

  bool is_fixed(ValueId v) {
    if (g_.stored_constant(v)) return true;
    NodeId id = g_.value(v).node;
    if (!id.valid()) return false;
    auto [at, fresh] = fixed_.try_emplace(id, false);
    if (!fresh) return at->second;
    const Node& n = g_.node(id);
    std::vector<ValueId> operands = tensor_operands(n.args, g_);
    bool fixed =
        n.outputs.size() == 1 && n.blocks.empty() && std::all_of(operands.begin(), operands.end(), [&](ValueId o) { return is_fixed(o); });
    return fixed_[id] = fixed;
  }

  // What integers may be in `v`.
  std::optional<Range> range(V v) {
    NodeId id = g_.value(v.id).node;
    if (auto f = filled_with(g_, v.id)) return Range{static_cast<int64_t>(*f), static_cast<int64_t>(*f)};
    const Tensor* t = g_.stored_constant(v.id);
    if (t && t->is_contiguous() && t->dtype() == DType::U8) return range_of(static_cast<const uint8_t*>(t->data()), t->numel());
    if (t && t->is_contiguous() && t->dtype() == DType::I8) return range_of(static_cast<const int8_t*>(t->data()), t->numel());
    if (id.valid() && !t)
      if (auto known = range_of_result(g_.node(id)); known && fits(*known, v.dtype())) return known;
    if (v.dtype() == DType::U8) return Range{0, 255};
    if (v.dtype() == DType::I8) return Range{-128, 127};
    return std::nullopt;
  }

private:
  V operand(const Node& n, size_t i) { return b_.wrap(n.args[i].get<ValueId>()); }

  static bool fits(Range r, DType t) {
    if (t == DType::U8) return r.low >= 0 && r.high <= 255;
    if (t == DType::I8) return r.low >= -128 && r.high <= 127;
    return true;
  }

  std::optional<Range> range_of_result(const Node& n) {
    auto number = [&](size_t i) { return filled_with(g_, n.args[i].get<ValueId>()); };
    if (n.op == edge::bitwise_and_Tensor) {
      auto mask = number(1);
      if (mask && *mask >= 0) return Range{0, static_cast<int64_t>(*mask)};
    } else if (n.op == edge::bitwise_right_shift_Tensor) {
      auto from = range(operand(n, 0));
      auto by = number(1);
      if (from && from->low >= 0 && by && *by >= 0 && *by < 8)
        return Range{from->low >> static_cast<int>(*by), from->high >> static_cast<int>(*by)};
    } else if (n.op == edge::sub_Tensor || n.op == edge::add_Tensor) {
      auto from = range(operand(n, 0));
      auto other = number(1), alpha = number(2);
      if (!from || !other || alpha != 1.0) return std::nullopt;
      int64_t by = static_cast<int64_t>(*other) * (n.op == edge::sub_Tensor ? -1 : 1);
      return Range{from->low + by, from->high + by};
    } else if (n.op == edge::cat) {
      std::optional<Range> all;
      for (ValueId v : tensor_operands(n.args, g_)) {
        auto one = range(b_.wrap(v));
        if (!one) return std::nullopt;
        all = all ? Range{std::min(all->low, one->low), std::max(all->high, one->high)} : *one;
      }
      return all;
    } else if (n.op == edge::view || n.op == edge::unsqueeze || n.op == edge::permute || n.op == edge::_to_copy) {
      return is_int(operand(n, 0).dtype()) ? range(operand(n, 0)) : std::nullopt;
    }
    return std::nullopt;
  }

  // Constant within a group: made of constants, with 1 along `axis`.
  bool is_per_group(V v, V whole, size_t axis) {
    if (!is_fixed(v.id) || v.rank() > whole.rank()) return false;
    size_t missing = whole.rank() - v.rank();
    return axis < missing || is_const_int(v.size(axis - missing), 1);
  }

  // One step of scaling or shifting around `inner`; not in integers of a byte, which may wrap: those are codes.
  std::optional<Grouped> affine(V v, size_t axis) {
    if (size_of(v.dtype()) == 1) return std::nullopt;
    for (auto op : {edge::mul_Tensor, edge::add_Tensor, edge::sub_Tensor}) {
      const Node* n = made_by(g_, v.id, op);
      if (!n) continue;
      bool mul = n->op == edge::mul_Tensor, sub = n->op == edge::sub_Tensor;
      if (!mul && filled_with(g_, n->args[2].get<ValueId>()) != 1.0) return std::nullopt;
      V left = operand(*n, 0), right = operand(*n, 1);
      if (!sub && is_per_group(left, v, axis)) std::swap(left, right);
      if (!is_per_group(right, v, axis) || left.sizes() != v.sizes()) return std::nullopt;
      if (is_int(v.dtype()) && filled_with(g_, right.id)) return std::nullopt; // the codes' own offset
      auto inner = grouped(left, axis);
      if (!inner) return std::nullopt;
      V by = b_.to(right, DType::F32);
      if (mul) {
        inner->scale = inner->scale * by;
        if (inner->shift) inner->shift = inner->shift * by;
      } else {
        V more = sub ? b_.call1(aten::neg, {by}) : by;
        inner->shift = inner->shift ? inner->shift + more : more;
      }
      return inner;
    }
    return std::nullopt;
  }

  Builder& b_;
  const Graph& g_;
  std::unordered_map<NodeId, bool> fixed_;
};

// The codes and scales of a matrix [k, n] as [n, groups, group] and [n, groups].
struct Weights {
  V codes, scale, shift;
  Range range;
};

std::optional<Weights> weights_of(Builder& b, V w) {
  const Graph& g = b.graph();
  const Node* permute = made_by(g, w.id, edge::permute);
  V matrix = permute ? b.wrap(permute->args[0].get<ValueId>()) : w;
  const Node* view = made_by(g, matrix.id, edge::view);
  if (w.rank() != 2 || !view) return std::nullopt;
  V whole = b.wrap(view->args[0].get<ValueId>());
  size_t axis = permute ? 2 : 1;
  if (whole.rank() != 3 || whole.size(permute ? 0 : 2) != w.size(1)) return std::nullopt;
  auto group = const_int(whole.size(axis)), groups = const_int(whole.size(axis - 1)), n = const_int(w.size(1));
  if (!group || !groups || !n || *group < 16 || *group % 8 != 0 || *groups < 1 || *n < 1) return std::nullopt;
  GroupMatcher m(b);
  auto found = m.grouped(whole, axis);
  if (!found || !m.is_fixed(found->codes.id) || found->codes.sizes() != whole.sizes()) return std::nullopt;
  auto range = m.range(found->codes);
  if (!range || range->high - range->low > 255) return std::nullopt;
  auto rows_first = [&](V v) { return permute ? v : b.permute(v, {2, 0, 1}); };
  auto per_group = [&](V v) {
    std::vector<Expr> sizes = whole.sizes();
    sizes[axis] = b.integer(1);
    return b.reshape(rows_first(b.expand(b.to(v, DType::F32), sizes)), {b.integer(*n), b.integer(*groups)});
  };
  Weights out{rows_first(found->codes), per_group(found->scale), found->shift ? per_group(found->shift) : V{}, *range};
  if (!is_byte(out.codes.dtype())) {
    if (range->low < -128 || range->high > 127) return std::nullopt;
    out.codes = b.to(out.codes, DType::I8);
  }
  return out;
}

} // namespace

bool weight_only_products(LoadedProgram& program) {
  auto concerns = [](const Graph& from, const Node& n) {
    if (n.op != edge::mm || !is_float(from.type(n.outputs[0]).dtype) || from.type(n.outputs[0]).dtype == DType::F64) return false;
    ValueId w = n.args[1].get<ValueId>();
    if (const Node* permute = made_by(from, w, edge::permute)) w = permute->args[0].get<ValueId>();
    return made_by(from, w, edge::view) != nullptr;
  };
  bool any = rewrite_nodes(program, concerns, [](Rewriter& r, const Node& n) -> std::vector<ValueId> {
    ArgList args = r(n.args);
    Builder& b = r.builder;
    V x = b.wrap(args[0].get<ValueId>()), w = b.wrap(args[1].get<ValueId>());
    auto rows = const_int(x.size(0));
    if (x.dtype() != DType::F32 && rows && *rows > most_rows) return {};
    auto found = weights_of(b, w);
    if (!found) return {};
    bool nibbles = found->range.high - found->range.low < 16;
    int64_t low = nibbles ? found->range.low : found->codes.dtype() == DType::U8 ? 0 : -128, bits = nibbles ? 4 : 8;
    Expr group = found->codes.size(2), groups = found->codes.size(1);
    V packed = b.call1(own::pack_quantized_weight, {found->codes, found->scale, found->shift ? Arg(found->shift) : Arg(), bits, low});
    V y = b.call1(own::quantized_weight_mm, {b.to(x, DType::F32), packed, *const_int(w.size(1)), *const_int(groups), *const_int(group),
                                             bits, low, bool(found->shift)});
    return {b.to(y, x.dtype()).id};
  });
  if (any) remove_dead_code(program);
  return any;
}

} // namespace tenon
