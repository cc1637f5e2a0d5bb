#include "prebuilt/layer.h"

#include "ir/parse.h"

namespace tenon {

std::vector<Expr> Layer::exprs(std::span<const int64_t> sizes) {
  std::vector<Expr> out;
  for (int64_t s : sizes) out.push_back(b().integer(s));
  return out;
}

V Layer::param(InputKind kind, Type type) {
  std::string name = "x" + std::to_string(program_.inputs.size());
  ValueId v = program_.graph.add_param(program_.graph.top(), std::move(type), name);
  program_.inputs.push_back({.kind = kind, .name = name, .target = kind == InputKind::User ? "" : name, .value = v});
  return b().wrap(v);
}

V Layer::input(std::vector<Expr> sizes, DType dtype) { return param(InputKind::User, Type::tensor(dtype, std::move(sizes))); }

V Layer::weight(std::vector<int64_t> sizes) {
  V v = param(InputKind::Buffer, Type::tensor(DType::F32, exprs(sizes)));
  Tensor& t = program_.weights[program_.inputs.back().name];
  if (!trained_ || sizes.size() != 1) t = zeros_of(DType::F32, std::move(sizes));
  else {
    t = Tensor(DType::F32, std::move(sizes));
    for (int64_t i = 0; i < t.numel(); i++) t.data_as<float>()[i] = static_cast<float>(i + 1);
  }
  return v;
}

V Layer::linear(V x, int64_t to, bool bias) {
  V w = weight({to, *const_int(x.size(-1))});
  return bias ? call("aten::linear", {x, w, weight({to})}) : call("aten::linear", {x, w});
}

void Layer::gives(V v) {
  program_.graph.block(program_.graph.top()).returns.push_back(v);
  program_.outputs.push_back({OutputKind::User, {}});
}

Activation call_of(std::string_view op, ArgList more) {
  return [op, more](Layer& l, V x) {
    ArgList args{x};
    args.insert(args.end(), more.begin(), more.end());
    return l.call(op, std::move(args));
  };
}

const std::vector<Activation>& activations() {
  static const std::vector<Activation> all = {
      [](Layer&, V x) { return x; },
      call_of("aten::relu"),
      call_of("aten::silu"),
      call_of("aten::gelu"),
      call_of("aten::hardswish"),
      call_of("aten::hardtanh", {0.0, 6.0}),
      call_of("aten::leaky_relu", {0.01}),
      call_of("aten::leaky_relu", {0.1}),
      call_of("aten::mish"),
      [](Layer& l, V x) { return l.call("aten::gelu", {x}, {{"approximate", std::string("tanh")}}); },
      call_of("aten::tanh"),
      call_of("aten::sigmoid"),
      call_of("aten::hardsigmoid"),
      call_of("aten::leaky_relu", {0.2}),
      call_of("aten::elu"),
      call_of("aten::softplus"),
      [](Layer& l, V x) { return x * l.call("aten::sigmoid", {x * Arg(1.702)}); },
      [](Layer& l, V x) {
        V r = l.call("aten::relu", {x});
        return r * r;
      },
  };
  return all;
}

std::vector<std::vector<Expr>> rows_of(Layer& l) {
  Expr batch = l.symbol("batch"), length = l.symbol("length"), one = l.b().integer(1), some = l.b().integer(96);
  return {{some}, {one, some}, {l.b().integer(2), some}, {batch}, {batch, some}, {one, length}, {batch, length}};
}

V rms_norm(Layer& l, V x, V weight, double epsilon) {
  V mean = l.call("aten::mean.dim", {l.call("aten::pow.Tensor_Scalar", {x, int64_t{2}}), ArgList{int64_t{-1}}, true});
  return weight * (x * l.call("aten::rsqrt", {mean + Arg(epsilon)}));
}

} // namespace tenon
