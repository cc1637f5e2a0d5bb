// narrow_products: f32 products in fewer bits, where the caller allows it (Options::precision).
#include <cmath>

#include "edge/match.h"
#include "edge/passes.h"
#include "ops/names.h"

namespace tenon {

namespace {

constexpr int64_t least_weights = 4096; // elements: less is not worth a change of results

bool is_f32_product(const Graph& g, const Node& n) {
  if (!n.def || n.outputs.size() != 1 || g.type(n.outputs[0]).dtype != DType::F32) return false;
  for (auto op : {edge::mm, edge::bmm, edge::convolution})
    if (n.op == op) return true;
  return false;
}

bool is_depthwise(Builder& b, const Node& n) {
  return n.def->kind == Kind::Conv && n.args[8] != Arg(int64_t{1}) && is_const_int(b.wrap(n.args[1].get<ValueId>()).size(1), 1);
}

V bf16_product(Builder& b, const Node& n, ArgList args) {
  for (size_t i : {size_t{0}, size_t{1}}) args[i] = b.to(b.wrap(args[i].get<ValueId>()), DType::BF16);
  args.push_back(DType::F32);
  return b.call1(fmt::format("aten::{}.dtype", n.op.base()), args);
}

// Weights [k, n], or a permuted [n, k], in a byte each and a scale for each n.
V int8_product(Builder& b, V x, V w) {
  const Node* view = made_by(b.graph(), w, edge::permute);
  const Tensor* stored = b.graph().constant(view ? view->args[0].get<ValueId>() : w.id);
  if (!stored || stored->dtype() != DType::F32 || stored->numel() < least_weights) return {};
  Tensor from = stored->contiguous();
  int64_t rows = from.sizes()[0], columns = from.sizes()[1], n = view ? rows : columns;
  Tensor bytes(DType::I8, {rows, columns}), scale(DType::F32, {n});
  auto *f = from.data_as<float>(), *s = scale.data_as<float>();
  auto* q = bytes.data_as<int8_t>();
  std::fill_n(s, n, 0.f);
  auto of = [&](int64_t i) { return view ? i / columns : i % columns; };
  for (int64_t i = 0; i < from.numel(); i++) {
    if (!std::isfinite(f[i])) return {};
    s[of(i)] = std::max(s[of(i)], std::abs(f[i]) / 127);
  }
  for (int64_t i = 0; i < from.numel(); i++) q[i] = s[of(i)] > 0 ? static_cast<int8_t>(std::lrint(f[i] / s[of(i)])) : int8_t{0};
  V narrow = b.constant(std::move(bytes));
  if (view) narrow = b.permute(narrow, {1, 0});
  return b.call1(aten::mm_dtype, {x, narrow, DType::F32}) * b.constant(std::move(scale));
}

} // namespace

bool narrow_products(LoadedProgram& program, Precision precision) {
  if (precision == Precision::Strict) return false;
  bool any = rewrite_nodes(program, is_f32_product, [&](Rewriter& r, const Node& n) -> std::vector<ValueId> {
    Builder& b = r.builder;
    ArgList args = r(n.args);
    if (precision == Precision::BF16) {
      Node now{.op = n.op, .def = n.def, .args = args};
      if (is_depthwise(b, now)) return {};
      return {bf16_product(b, n, std::move(args)).id};
    }
    V y = n.op == edge::mm ? int8_product(b, b.wrap(args[0].get<ValueId>()), b.wrap(args[1].get<ValueId>())) : V();
    return y ? std::vector{y.id} : std::vector<ValueId>();
  });
  if (any) cse(program), remove_dead_code(program);
  return any;
}

} // namespace tenon
