// Random graphs of a few operators over odd sizes. Every value carries a bound of its magnitude and of the error that
// reordered sums and contracted products may leave in it, so that results can be compared without guessing; operators that
// jump (comparisons, rounding, argmax) are applied only to values without error.
#pragma once
#include "expr/eval.h"
#include "tests/unit/random_call.h"

namespace tenon::test {

class RandomGraph {
public:
  RandomGraph(uint32_t seed, int steps) : random_(seed), images_(seed % 4 == 1) {
    static constexpr int64_t sizes[] = {1, 2, 3, 7, 8, 16, 17, 31, 33, 64, 65};
    size_t choices = images_ ? 7 : std::size(sizes); // the interpreter takes its time for a convolution
    for (int k = 0; k < 3; k++) {
      int64_t size = below(40) == 0 ? 0 : sizes[below(choices)];
      bool dynamic = chance(2) && !(images_ && k == 1);
      dims_.push_back(
          {dynamic ? g.symbol("s" + std::to_string(k)) : g.b.integer(size), dynamic, size, dynamic ? sizes[below(choices)] : size});
    }
    if (images_) add_input({chance(2) ? 0 : -1, 1, 2, 0}, DType::F32);
    for (int k = 0; k < 3; k++) add_input();
    for (int k = 0; k < 3; k++) add_input({k}, DType::F32); // every symbol has a value
    for (int k = 0; k < steps; k++) {
      try {
        step();
      } catch (const Error& e) { // what torch refuses too: a maximum over nothing
        if (e.kind != ErrorKind::BadInput) throw;
        refused_steps++;
      }
    }
    for (size_t i = 0; i < values_.size(); i++)
      if (!values_[i].used || chance(6)) g.returns(values_[i].v), outputs_.push_back(i);
  }

  TestGraph g;
  uint32_t refused_steps = 0;

  /// Inputs for the first or second choice of the symbols' sizes.
  std::vector<Tensor> inputs(int choice) const {
    std::vector<Tensor> out;
    std::mt19937 random(static_cast<uint32_t>(choice) + 99);
    for (auto& [dims, dtype] : inputs_) {
      std::vector<int64_t> sizes;
      for (int d : dims) sizes.push_back(d < 0 ? 1 : choice ? dims_[static_cast<size_t>(d)].second : dims_[static_cast<size_t>(d)].first);
      bool real = is_float(dtype);
      out.push_back(filled(dtype, sizes, [&](int64_t) {
        int x = static_cast<int>(random() % 17) - 8;
        return dtype == DType::Bool ? static_cast<double>(x & 1) : dtype == DType::U8 ? static_cast<double>(x + 8) : real ? x / 2. : x;
      }));
    }
    return out;
  }
  bool is_dynamic() const {
    return std::any_of(dims_.begin(), dims_.end(), [](auto& d) { return d.dynamic; });
  }
  double tolerance(size_t output) const { return values_[outputs_.at(output)].error * 4; }

private:
  struct Dim {
    Expr size;
    bool dynamic;
    int64_t first, second;
  };
  struct Value {
    V v;
    double magnitude = 8, error = 0;
    bool used = false, last = false; // last: not an operand of further steps
  };

  uint32_t below(size_t n) { return static_cast<uint32_t>(random_() % n); }
  bool chance(size_t n) { return below(n) == 0; }
  // Any row, on operands without error. Its results have bounds that nobody knows: they are only returned.
  void any_row() {
    auto exact = [&]() -> V {
      for (int attempt = 0; attempt < 8; attempt++)
        if (Value& x = values_[below(values_.size())]; x.error == 0 && !x.last) return x.v;
      return {};
    };
    for (V v : RandomCall(random_, g.b, exact).make())
      if (v.type().is_tensor()) values_.push_back({.v = v, .error = 2.5e-5, .last = true});
  }
  // A choice by a value without error.
  void branch() {
    Value &px = pick(), x = px, &c = pick();
    if (!is_float(x.v.dtype()) || c.error > 0) return;
    px.used = c.used = true;
    V condition = call("aten::any.default", {call("aten::gt.Scalar", {c.v, 1})});
    V y = if_(
        g, condition, [&] { return call("aten::mul.Scalar", {x.v, 0.75}); },
        [&] { return call("aten::neg.default", {call("aten::abs.default", {x.v})}); }, x.v.type());
    push(y, x.magnitude, x.error + unit(x.v.dtype()) * x.magnitude);
  }
  // Three times round.
  void loop() {
    Value &px = pick(), x = px;
    if (!is_float(x.v.dtype())) return;
    px.used = true;
    V zero = g.b.scalar(int64_t{0}, DType::I64);
    auto more = [&](const std::vector<V>& p) { return call("aten::lt.Scalar", {p[0], 3}); };
    auto body = [&](const std::vector<V>& p) {
      return std::vector{call("aten::add.Scalar", {p[0], 1}), call("aten::mul.Scalar", {call("aten::sin.default", {p[1]}), 0.875})};
    };
    push(while_(g, {zero, x.v}, more, body)[1], x.magnitude, x.error + 24 * unit(x.v.dtype()));
  }
  static double unit(DType t) {
    return t == DType::F64 ? 1e-15 : t == DType::F32 ? 2.4e-7 : t == DType::F16 ? 1e-3 : t == DType::BF16 ? 8e-3 : 0;
  }

  void add_input() {
    static constexpr DType types[] = {DType::F32, DType::F32, DType::F32, DType::F64, DType::BF16, DType::F16,
                                      DType::I64, DType::I32, DType::I16, DType::I8,  DType::U8,   DType::Bool};
    std::vector<int> dims;
    for (size_t r = below(5); r-- > 0;) dims.push_back(dims.size() == 3 ? -1 : static_cast<int>(below(4)) - 1);
    add_input(dims, types[below(std::size(types))]);
  }
  void add_input(const std::vector<int>& dims, DType t) {
    std::vector<Expr> sizes;
    for (int d : dims) sizes.push_back(d < 0 ? g.b.integer(1) : dims_[static_cast<size_t>(d)].size);
    inputs_.emplace_back(dims, t);
    values_.push_back({.v = g.input(sizes, t)});
  }

  Value& pick() {
    while (true)
      if (Value& x = values_[values_.size() - 1 - std::min<size_t>(values_.size() - 1, below(2) ? below(3) : below(values_.size()))];
          !x.last)
        return x;
  }
  V call(std::string_view op, ArgList args) { return g.b.call1(op, std::move(args)); }
  void push(V v, double magnitude, double error) {
    // What would overflow, or is all error, is cut back to something tame.
    if (is_float(v.dtype())) error += unit(v.dtype()) * magnitude * (error > 0 || magnitude > 1e3);
    values_.push_back({.v = v, .magnitude = magnitude, .error = error});
    if (is_float(v.dtype()) && (magnitude > 3000 || error > 0.05)) tame();
  }
  void tame() {
    Value& x = values_.back();
    x.used = true;
    V y = call("aten::tanh.default", {call("aten::div.Scalar", {x.v, x.magnitude})});
    values_.push_back({.v = y, .magnitude = 1, .error = x.error / x.magnitude + 4 * unit(y.dtype())});
  }
  // Of float dtype, with one of a few magnitudes.
  Value as_float(Value& x) {
    x.used = true;
    if (is_float(x.v.dtype())) return x;
    return {.v = g.b.to(x.v, DType::F32), .magnitude = x.v.dtype() == DType::Bool ? 1. : 256., .error = 0};
  }
  // Integers without bounds of their own are reduced to -128 .. 127 before they meet floats.
  static bool is_whole(DType t) { return !is_float(t) && t != DType::Bool; }

  void step() {
    using F = void (RandomGraph::*)();
    static constexpr F kinds[] = {&RandomGraph::unary,   &RandomGraph::unary,  &RandomGraph::binary,  &RandomGraph::binary,
                                  &RandomGraph::binary,  &RandomGraph::whole,  &RandomGraph::convert, &RandomGraph::view,
                                  &RandomGraph::view,    &RandomGraph::view,   &RandomGraph::part,    &RandomGraph::part,
                                  &RandomGraph::join,    &RandomGraph::reduce, &RandomGraph::reduce,  &RandomGraph::normalize,
                                  &RandomGraph::product, &RandomGraph::window, &RandomGraph::any_row, &RandomGraph::any_row,
                                  &RandomGraph::branch,  &RandomGraph::loop};
    size_t before = values_.size();
    if (images_ && chance(2)) window();
    for (int attempt = 0; attempt < 8 && values_.size() == before; attempt++) (this->*kinds[below(std::size(kinds))])();
  }

  void unary() {
    Value x = as_float(pick());
    double m = x.magnitude, e = x.error, u = unit(x.v.dtype());
    switch (below(14)) {
    case 0: return push(call("aten::neg.default", {x.v}), m, e);
    case 1: return push(call("aten::abs.default", {x.v}), m, e);
    case 2: return push(call("aten::relu.default", {x.v}), m, e);
    case 3: return push(call("aten::tanh.default", {x.v}), 1, e + 4 * u);
    case 4: return push(call("aten::sigmoid.default", {x.v}), 1, e + 4 * u);
    case 5: return push(call("aten::sin.default", {x.v}), 1, e + 4 * u);
    case 6: return push(call("aten::exp.default", {call("aten::tanh.default", {x.v})}), 3, 3 * e + 16 * u);
    case 7: return push(call("aten::silu.default", {x.v}), m, 2 * e + 8 * u * m);
    case 8: return push(call("aten::gelu.default", {x.v}), m, 2 * e + 8 * u * m);
    case 9: return push(call("aten::log1p.default", {call("aten::abs.default", {x.v})}), std::log1p(m), e + 8 * u * std::log1p(m));
    case 10: return push(call("aten::rsqrt.default", {call("aten::add.Scalar", {call("aten::abs.default", {x.v}), 1})}), 1, e + 8 * u);
    case 11: return push(call("aten::clamp.default", {x.v, -2.5, 1.5}), 2.5, e);
    case 12:
      if (e == 0) return push(call(chance(2) ? "aten::floor.default" : "aten::round.default", {x.v}), m + 1, 0);
      return;
    default: return push(call("aten::mul.Scalar", {x.v, 0.75}), m, e + u * m);
    }
  }

  // Another value that broadcasts with x, or part of one.
  bool partner(const Value& x, Value& y) {
    for (int attempt = 0; attempt < 6; attempt++) {
      Value& other = pick();
      size_t common = std::min(x.v.rank(), other.v.rank());
      bool fits = true;
      for (size_t d = 1; d <= common; d++) {
        Expr a = x.v.sizes()[x.v.rank() - d], b = other.v.sizes()[other.v.rank() - d];
        fits &= a == b || is_const_int(a, 1) || is_const_int(b, 1);
      }
      if (!fits || std::max(x.v.rank(), other.v.rank()) > 5) continue;
      y = other;
      other.used = true;
      return true;
    }
    return false;
  }
  void binary() {
    Value &px = pick(), x = as_float(px), y;
    if (!partner(x, y)) return;
    y = as_float(y);
    DType t = promoted(x.v.dtype(), y.v.dtype());
    double m = x.magnitude, n = y.magnitude, e = x.error, f = y.error, u = unit(t);
    switch (below(9)) {
    case 0: return push(call("aten::add.Tensor", {x.v, y.v}), m + n, e + f + u * (m + n));
    case 1: return push(call("aten::sub.Tensor", {x.v, y.v}), m + n, e + f + u * (m + n));
    case 2: return push(call("aten::mul.Tensor", {x.v, y.v}), m * n, e * n + f * m + u * m * n);
    case 3: return push(call("aten::maximum.default", {x.v, y.v}), std::max(m, n), std::max(e, f));
    case 4: return push(call("aten::minimum.default", {x.v, y.v}), std::max(m, n), std::max(e, f));
    case 5:
      return push(call("aten::div.Tensor", {x.v, call("aten::add.Scalar", {call("aten::abs.default", {y.v}), 1})}), m,
                  e + m * f + 4 * u * m);
    case 6:
      if (e == 0 && f == 0) return push(call(chance(2) ? "aten::lt.Tensor" : "aten::eq.Tensor", {x.v, y.v}), 1, 0);
      return;
    case 7:
      if (e == 0) return push(g.b.where(call("aten::gt.Scalar", {x.v, 0.5}), y.v, x.v), std::max(m, n), f);
      return;
    default:
      return push(call("aten::atan2.default", {call("aten::add.Scalar", {call("aten::abs.default", {x.v}), 1}), y.v}), 3,
                  e + f + 8 * unit(t));
    }
  }
  static DType promoted(DType a, DType b) { return a == b ? a : size_of(a) > size_of(b) ? a : size_of(b) > size_of(a) ? b : DType::F32; }

  void whole() {
    Value &px = pick(), x = px, y;
    if (is_float(x.v.dtype()) || !partner(x, y) || is_float(y.v.dtype())) return;
    px.used = true;
    if (x.v.dtype() == DType::Bool || y.v.dtype() == DType::Bool)
      return push(call(chance(2) ? "aten::logical_and.default" : "aten::logical_xor.default", {x.v, y.v}), 1, 0);
    static constexpr std::string_view ops[] = {"aten::add.Tensor",         "aten::sub.Tensor",         "aten::mul.Tensor",
                                               "aten::maximum.default",    "aten::bitwise_and.Tensor", "aten::bitwise_or.Tensor",
                                               "aten::bitwise_xor.Tensor", "aten::lt.Tensor",          "aten::ne.Tensor"};
    if (chance(4)) { // a divisor that is not zero
      V d = call("aten::bitwise_or.Scalar", {y.v, 1});
      return chance(2) ? push(call("aten::remainder.Tensor", {x.v, d}), 256, 0)
                       : push(g.b.call1("aten::div.Tensor_mode", {x.v, d}, {{"rounding_mode", chance(2) ? "floor" : "trunc"}}), 256, 0);
    }
    push(call(ops[below(std::size(ops))], {x.v, y.v}), 256, 0);
  }

  void convert() {
    static constexpr DType types[] = {DType::F32, DType::F64, DType::BF16, DType::F16, DType::I64,
                                      DType::I32, DType::I16, DType::I8,   DType::U8,  DType::Bool};
    Value& px = pick();
    DType t = types[below(std::size(types))], from = px.v.dtype();
    if (t == from) return;
    Value x = px;
    if (!is_float(t) && (x.error > 0 || (is_float(from) && x.magnitude > 100))) return;
    px.used = true;
    if (t == DType::U8 && is_float(from)) x.v = call("aten::abs.default", {x.v});
    if (is_float(t) && is_whole(from) && size_of(from) > 1) x.v = call("aten::remainder.Scalar", {x.v, 97}), x.magnitude = 97;
    if (is_whole(from) && x.magnitude > 200) x.magnitude = 256;
    push(g.b.to(x.v, t), t == DType::Bool ? 1 : x.magnitude, is_float(t) && x.error > 0 ? x.error + unit(t) * x.magnitude : 0);
  }

  int64_t dim_of(V v) { return static_cast<int64_t>(below(v.rank())); }
  void view() {
    Value& px = pick();
    V x = px.v;
    if (x.rank() == 0 && !chance(3)) return;
    V y;
    switch (below(7)) {
    case 0:
      if (x.rank() >= 2) y = g.b.transpose(x, dim_of(x), dim_of(x));
      break;
    case 1:
      if (x.rank() < 5) y = g.b.unsqueeze(x, static_cast<int64_t>(below(x.rank() + 1)));
      break;
    case 2: y = g.b.reshape(x, {tenon::product(g.b.pool(), x.sizes())}); break;
    case 3:
      if (x.rank() >= 2) {
        std::vector<Expr> s = x.sizes();
        size_t d = below(x.rank() - 1);
        s[d] = s[d] * s[d + 1];
        s.erase(s.begin() + static_cast<int64_t>(d) + 1);
        y = g.b.reshape(x, s);
      }
      break;
    case 4:
      if (x.rank() < 4) {
        std::vector<Expr> s = x.sizes();
        s.insert(s.begin(), chance(2) ? dims_[below(3)].size : g.b.integer(3));
        y = g.b.expand(x, s);
      }
      break;
    case 5:
      if (x.rank() > 0) y = call("aten::flip.default", {x, ArgList{dim_of(x)}});
      break;
    default: {
      if (x.rank() < 2) break;
      std::vector<int64_t> order(x.rank());
      for (size_t i = 0; i < order.size(); i++) order[i] = static_cast<int64_t>(i);
      std::shuffle(order.begin(), order.end(), random_);
      y = g.b.permute(x, order);
    }
    }
    keep(px, y);
  }
  void keep(Value& x, V y) {
    if (!y || y.id == x.v.id) return;
    x.used = true;
    double m = x.magnitude, e = x.error;
    values_.push_back({.v = y, .magnitude = m, .error = e});
  }

  void part() {
    Value& px = pick();
    V x = px.v, y;
    if (x.rank() == 0) return;
    int64_t d = dim_of(x);
    auto size = const_int(x.size(d));
    switch (below(7)) {
    case 0: y = call("aten::slice.Tensor", {x, d, static_cast<int64_t>(below(3)), INT64_MAX, static_cast<int64_t>(below(3) + 1)}); break;
    case 1: y = call("aten::slice.Tensor", {x, d, 0, -static_cast<int64_t>(below(2) + 1)}); break;
    case 2:
      if (size && *size > 0) y = g.b.select(x, d, g.b.integer(below(static_cast<size_t>(*size))));
      break;
    case 3: y = call("aten::constant_pad_nd.default", {x, {static_cast<int64_t>(below(3)), static_cast<int64_t>(below(4))}, 1}); break;
    case 4:
      if (x.rank() >= 2) y = call(chance(2) ? "aten::tril.default" : "aten::triu.default", {x, static_cast<int64_t>(below(3)) - 1});
      break;
    case 5: y = call("aten::roll.default", {x, ArgList{static_cast<int64_t>(below(4))}, ArgList{d}}); break;
    default:
      if (x.rank() < 4 && size && *size >= 2) y = call("aten::unfold.default", {x, d, 2, 1});
    }
    keep(px, y);
  }

  void join() {
    Value& px = pick();
    Value x = px;
    if (x.v.rank() == 0) return;
    int64_t d = dim_of(x.v);
    for (size_t i = 0; i < values_.size(); i++) {
      Value& y = values_[i];
      bool fits = y.v.rank() == x.v.rank() && y.v.dtype() == x.v.dtype();
      for (size_t k = 0; fits && k < x.v.rank(); k++) fits = k == static_cast<size_t>(d) || x.v.sizes()[k] == y.v.sizes()[k];
      if (!fits || y.last || chance(3)) continue;
      px.used = y.used = true;
      double m = std::max(x.magnitude, y.magnitude), e = std::max(x.error, y.error);
      V out = call("aten::cat.default", {ArgList{x.v, y.v}, d});
      values_.push_back({.v = out, .magnitude = m, .error = e});
      return;
    }
  }

  double largest(Expr e) {
    double n = 1;
    for (int64_t Dim::* choose : {&Dim::first, &Dim::second})
      n = std::max(n, static_cast<double>(eval_int(e, [&](const ExprNode& s) -> int64_t {
                     for (auto& d : dims_)
                       if (d.size.get() == &s) return d.*choose;
                     return 1;
                   })));
    return n;
  }
  void reduce() {
    Value &px = pick(), x = px;
    if (x.v.rank() == 0) return;
    int64_t d = dim_of(x.v);
    double n = largest(x.v.size(d)), u = unit(x.v.dtype());
    bool keepdim = chance(2), real = is_float(x.v.dtype());
    ArgList dims{d};
    if (x.v.rank() >= 2 && chance(4)) {
      int64_t other = (d + 1) % static_cast<int64_t>(x.v.rank());
      n *= largest(x.v.size(other)), dims.push_back(other);
    }
    px.used = true;
    switch (below(8)) {
    case 0:
    case 1: return push(call("aten::sum.dim_IntList", {x.v, dims, keepdim}), x.magnitude * n, real ? n * x.error + u * n * x.magnitude : 0);
    case 2:
      if (real) return push(call("aten::mean.dim", {x.v, dims, keepdim}), x.magnitude, x.error + 4 * u * x.magnitude);
      break;
    case 3: return push(call("aten::amax.default", {x.v, dims, keepdim}), x.magnitude, x.error);
    case 4: return push(call("aten::amin.default", {x.v, dims, keepdim}), x.magnitude, x.error);
    case 5:
      if (x.error == 0) return push(call(chance(2) ? "aten::argmax.default" : "aten::argmin.default", {x.v, d, keepdim}), 256, 0);
      break;
    case 6:
      if (x.error == 0) return push(call(chance(2) ? "aten::any.dim" : "aten::all.dim", {x.v, d, keepdim}), 1, 0);
      break;
    default:
      if (real && size_of(x.v.dtype()) >= 4 && dims.size() == 1)
        return push(call("aten::cumsum.default", {x.v, d}), x.magnitude * n, n * x.error + u * n * x.magnitude);
    }
  }

  void normalize() {
    Value x = as_float(pick());
    if (x.v.rank() == 0 || x.error > 0.01) return;
    int64_t d = dim_of(x.v);
    double u = unit(x.v.dtype());
    switch (below(3)) {
    case 0: return push(call("aten::softmax.int", {x.v, d}), 1, 2 * x.error + 8 * u);
    case 1: return push(call("aten::log_softmax.int", {x.v, d}), 2 * x.magnitude + 8, 4 * x.error + 8 * u * (x.magnitude + 8));
    default: {
      double scale = std::sqrt(largest(x.v.size(-1)));
      return push(g.b.call1("aten::layer_norm.default", {x.v, ArgList{Arg(x.v.size(-1))}}, {{"eps", 1.0}}), scale,
                  4 * x.error * scale + 16 * u * (scale + x.magnitude * x.magnitude));
    }
    }
  }

  Tensor weights(std::vector<int64_t> sizes) {
    auto shift = static_cast<int64_t>(below(7));
    return filled(DType::F32, std::move(sizes), [&](int64_t i) { return static_cast<double>((i * 7 + shift) % 9 - 4) / 4; });
  }
  void product() {
    Value x = as_float(pick());
    if (x.v.rank() == 0 || x.v.dtype() != DType::F32) return;
    Expr last = x.v.size(-1);
    double k = largest(last), u = unit(DType::F32);
    auto known = const_int(last);
    if (known && chance(2)) {
      static constexpr int64_t columns[] = {1, 3, 16, 33, 65};
      int64_t n = columns[below(std::size(columns))];
      V w = g.b.constant(weights({n, *known}));
      V y = chance(2) ? call("aten::linear.default", {x.v, w, g.b.constant(weights({n}))}) : call("aten::linear.default", {x.v, w});
      return push(y, k * x.magnitude + 1, k * x.error + u * k * x.magnitude);
    }
    if (x.v.rank() < 2) return;
    V y = g.b.matmul(x.v, g.b.transpose(x.v, -1, -2));
    push(y, k * x.magnitude * x.magnitude, 2 * k * x.error * x.magnitude + u * k * x.magnitude * x.magnitude);
  }

  void window() {
    Value &px = pick(), x = as_float(px);
    bool exact = &px < values_.data() + inputs_.size(); // halves by quarters: sums without rounding
    if (x.v.rank() != 4 || x.v.dtype() != DType::F32) return;
    auto channels = const_int(x.v.size(1));
    double u = unit(DType::F32);
    if (chance(3)) return push(call("aten::max_pool2d.default", {x.v, {3, 3}, {2, 1}, {1, 1}}), x.magnitude, x.error);
    if (chance(3)) return push(call("aten::avg_pool2d.default", {x.v, {3, 3}, {2, 2}, {1, 1}}), x.magnitude, x.error + 9 * u * x.magnitude);
    if (!channels || *channels == 0 || *channels > 40) return;
    bool depthwise = chance(3);
    auto c = static_cast<double>(depthwise ? 1 : *channels);
    int64_t out = depthwise ? *channels : static_cast<int64_t>(below(20) + 1), kernel = chance(2) ? 3 : 1, stride = below(2) + 1;
    V w = g.b.constant(weights({out, depthwise ? 1 : *channels, kernel, kernel}));
    V y = call("aten::conv2d.default", {x.v,
                                        w,
                                        chance(2) ? Arg(g.b.constant(weights({out}))) : Arg(),
                                        {stride, stride},
                                        {kernel / 2, kernel / 2},
                                        {1, 1},
                                        depthwise ? *channels : 1});
    double n = c * static_cast<double>(kernel * kernel);
    push(y, n * x.magnitude + 1, exact ? 0 : n * x.error + u * n * x.magnitude);
  }

  std::mt19937 random_;
  bool images_; // a graph around convolutions: its first input has four dims, of them the second static
  std::vector<Dim> dims_;
  std::vector<std::pair<std::vector<int>, DType>> inputs_; // dims (-1: size 1), dtype
  std::vector<Value> values_;
  std::vector<size_t> outputs_;
};

} // namespace tenon::test
