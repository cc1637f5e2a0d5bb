// How small programs are made, run and compared.
#include "tests/unit/graph_harness.h"

#include <fmt/format.h>

#include <cmath>

#include "api/impl.h"
#include "base/numeric.h"

namespace tenon::test {

Expr TestGraph::symbol(const std::string& name, int64_t lo) { return b.pool().symbol(name, DType::I64, lo, 1 << 20); }
V TestGraph::input(std::vector<Expr> sizes, DType t) {
  std::string name = "x" + std::to_string(p.inputs.size());
  ValueId v = p.graph.add_param(p.graph.top(), Type::tensor(t, std::move(sizes)), name);
  p.inputs.push_back({.kind = InputKind::User, .name = name, .target = {}, .value = v});
  return b.wrap(v);
}
V TestGraph::input(std::initializer_list<int64_t> sizes, DType t) {
  std::vector<Expr> e;
  for (int64_t s : sizes) e.push_back(b.integer(s));
  return input(e, t);
}
V TestGraph::buffer(const std::string& name, Tensor value) {
  std::vector<Expr> sizes;
  for (int64_t s : value.sizes()) sizes.push_back(b.integer(s));
  ValueId v = p.graph.add_param(p.graph.top(), Type::tensor(value.dtype(), sizes), name);
  p.inputs.push_back({.kind = InputKind::Buffer, .name = name, .target = name, .value = v});
  p.weights[name] = std::move(value);
  return b.wrap(v);
}
void TestGraph::mutates(const std::string& name, V now) {
  p.graph.block(p.graph.top()).returns.push_back(now);
  p.outputs.push_back({OutputKind::BufferMutation, name});
}
void TestGraph::returns(const Arg& a) {
  p.graph.block(p.graph.top()).returns.push_back(a);
  p.outputs.push_back({OutputKind::User, {}});
}
Program TestGraph::program() const { return Program(std::make_shared<Program::Impl>(Program::Impl{p, {}})); }

std::vector<V> add_blocks(TestGraph& g, std::string_view op, ArgList args, const std::vector<Type>& types, int blocks,
                          const std::vector<Type>& params, const std::function<std::vector<V>(int, const std::vector<V>&)>& body) {
  NodeId n = g.p.graph.append(g.b.block(), Node{.op = op, .def = find_op(op), .args = std::move(args)}, types);
  for (int k = 0; k < blocks; k++) {
    BlockId inner = g.p.graph.add_block(n), outer = g.b.block();
    std::vector<V> values;
    for (const Type& t : params) values.push_back(g.b.wrap(g.p.graph.add_param(inner, t)));
    g.b.set_block(inner);
    auto out = body(k, values);
    g.p.graph.block(inner).returns = ArgList(out.begin(), out.end());
    g.b.set_block(outer);
  }
  std::vector<V> out;
  for (ValueId v : g.p.graph.node(n).outputs) out.push_back(g.b.wrap(v));
  return out;
}

V if_(TestGraph& g, V condition, const std::function<V()>& then, const std::function<V()>& otherwise, const Type& type) {
  return add_blocks(g, "prim::If", {condition}, {type}, 2, {}, [&](int k, auto&) { return std::vector{k == 0 ? then() : otherwise()}; })[0];
}
std::vector<V> while_(TestGraph& g, const std::vector<V>& carried, const std::function<V(const std::vector<V>&)>& condition,
                      const std::function<std::vector<V>(const std::vector<V>&)>& body) {
  std::vector<Type> types;
  for (V v : carried) types.push_back(v.type());
  return add_blocks(g, "prim::While", {Arg(ArgList(carried.begin(), carried.end()))}, types, 2, types,
                    [&](int k, const std::vector<V>& p) { return k == 0 ? std::vector{condition(p)} : body(p); });
}

Tensor filled(DType t, std::vector<int64_t> sizes, const std::function<double(int64_t)>& value) {
  Tensor x(t, std::move(sizes));
  dispatch(t, [&]<class T>(T) {
    for (int64_t i = 0; i < x.numel(); i++) x.data_as<T>()[i] = convert<T>(value(i));
  });
  return x;
}
Tensor counting(DType t, std::vector<int64_t> sizes, double start) {
  return filled(t, std::move(sizes), [&](int64_t i) { return start + static_cast<double>(i); });
}
std::vector<double> numbers(const Tensor& t) {
  std::vector<double> out;
  Tensor c = t.contiguous();
  dispatch(c.dtype(), [&]<class T>(T) {
    for (int64_t i = 0; i < c.numel(); i++) {
      T x = c.data_as<T>()[i];
      out.push_back(convert<double>(x));
      if constexpr (is_complex_v<T>) out.push_back(x.im);
    }
  });
  return out;
}

std::string difference(const Tensor& got, const Tensor& want, double tolerance) {
  if (got.dtype() != want.dtype()) return fmt::format("dtype {} instead of {}", name_of(got.dtype()), name_of(want.dtype()));
  if (got.sizes() != want.sizes()) return "other sizes";
  std::vector<double> a = numbers(got), e = numbers(want);
  double t = is_float(want.dtype()) || is_complex(want.dtype()) ? want.dtype() == DType::BF16  ? 2e-2
                                                                  : want.dtype() == DType::F16 ? 3e-3
                                                                                               : tolerance
                                                                : 0;
  for (size_t i = 0; i < a.size(); i++) {
    bool finite = std::isfinite(a[i]) && std::isfinite(e[i]);
    bool same =
        a[i] == e[i] || (std::isnan(a[i]) && std::isnan(e[i])) || (finite && std::abs(a[i] - e[i]) <= t * std::max(1., std::abs(e[i])));
    if (!same) return fmt::format("element {} of {}: {} instead of {}", i, a.size(), a[i], e[i]);
  }
  return {};
}

std::vector<Tensor> run(const Executable& exe, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> out;
  exe.run(inputs, out).check();
  return out;
}

Outcome outcome_of(Result<Executable>& exe, const std::vector<Tensor>& inputs) {
  Outcome out;
  if (!exe) out.error = exe.error();
  else if (Status s = exe.value().run(inputs, out.outputs); !s.ok()) out.error = s.error();
  return out;
}

} // namespace tenon::test
