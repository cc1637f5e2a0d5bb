#include "executor/views.h"

#include "expr/eval.h"
#include "ir/define.h"

namespace tenon::executor {

namespace {

class Places {
public:
  Places(const Graph& g, std::span<const int64_t> strides) : g_(g), strides_(strides) {}

  /// Where element `index` of `v` lies; none where it is no element of the parameter.
  std::optional<int64_t> operator()(ValueId v, const std::vector<int64_t>& index) {
    const std::vector<Expr>& sizes = g_.type(v).sizes;
    for (size_t d = 0; d < index.size(); d++)
      if (auto size = const_int(sizes.at(d)); !size || index[d] < 0 || index[d] >= *size) return std::nullopt;
    if (!g_.value(v).node.valid()) {
      int64_t at = 0;
      for (size_t d = 0; d < index.size(); d++) at += index[d] * strides_[d];
      return at;
    }
    const Node& n = g_.node(g_.value(v).node);
    if (!n.def || n.outputs.size() != 1 || !has_definition(n)) return std::nullopt;
    auto [it, is_new] = definitions_.try_emplace(v.index);
    if (is_new) it->second = definition_of(g_, n);
    const Compute& c = it->second;
    if (c.reduction != Reduction::None || c.body->op != Op::Load || c.body->type != g_.type(v).dtype) return std::nullopt;
    ValueId operand = tensor_operands(n.args, g_).at(static_cast<size_t>(c.body->bits));
    std::vector<int64_t> at;
    for (Expr e : c.body->args) at.push_back(eval_int(e, [&](const ExprNode& leaf) { return index.at(static_cast<size_t>(leaf.bits)); }));
    return (*this)(operand, at);
  }

private:
  const Graph& g_;
  std::span<const int64_t> strides_;
  std::unordered_map<uint32_t, Compute> definitions_;
};

// Every element of small tensors; of others those that a fixed sequence of numbers picks.
bool is_regular(Places& places, ValueId v, const StridedView& view) {
  int64_t elements = 1;
  for (int64_t s : view.sizes) elements *= s;
  constexpr int64_t most = 1024;
  std::vector<int64_t> index(view.sizes.size());
  for (int64_t k = 0; k < std::min(elements, most); k++) {
    int64_t rest = elements <= most ? k
                   : k == 0
                       ? elements - 1
                       : static_cast<int64_t>((static_cast<__uint128_t>(k) * 0x9E3779B97F4A7C15u) % static_cast<__uint128_t>(elements));
    int64_t at = view.offset;
    for (size_t d = index.size(); d-- > 0;) index[d] = rest % view.sizes[d], rest /= view.sizes[d], at += index[d] * view.strides[d];
    auto place = places(v, index);
    if (!place || *place != at) return false;
  }
  return true;
}

} // namespace

std::optional<StridedView> strided_view(const Graph& graph, ValueId v, std::span<const int64_t> strides) {
  StridedView view;
  bool is_empty = false;
  for (Expr s : graph.type(v).sizes) {
    if (!const_int(s)) return std::nullopt;
    view.sizes.push_back(*const_int(s)), is_empty |= *const_int(s) == 0;
  }
  view.strides = contiguous_strides(view.sizes);
  if (is_empty) return view;
  Places places(graph, strides);
  std::vector<int64_t> index(view.sizes.size());
  auto first = places(v, index);
  if (!first) return std::nullopt;
  view.offset = *first;
  for (size_t d = 0; d < index.size(); d++) {
    if (view.sizes[d] == 1) continue;
    index[d] = 1;
    auto next = places(v, index);
    if (!next) return std::nullopt;
    view.strides[d] = *next - *first;
    index[d] = 0;
  }
  return is_regular(places, v, view) ? std::optional(view) : std::nullopt;
}

} // namespace tenon::executor
