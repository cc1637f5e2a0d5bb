// Builder: calls with defaults, promotion and decomposition.
#include "ir/builder.h"

#include <algorithm>

#include "ir/promote.h"
#include "ops/names.h"

namespace tenon {

const Type& V::type() const { return b_->graph().type(id); }
Expr V::size(int64_t dim) const {
  if (rank() == 0) return b_->integer(1);
  return sizes()[static_cast<size_t>(wrap_dim(dim, rank(), "size"))];
}

namespace {

V arithmetic(std::string_view op, V a, const Arg& b) { return a.builder().call1(op, {a, b}); }

// A Scalar operand in the Edge dialect is a 0-d tensor of the compute dtype.
V scalar_operand(Builder& b, const Arg& a, DType type) { return b.scalar(a, type); }

std::vector<Type> pointwise_types(const Graph& graph, const OpDef& def, const ArgList& args) {
  std::vector<Expr> sizes;
  for (const Arg& a : args)
    if (a.is<ValueId>()) sizes = broadcast(graph.pool(), sizes, graph.type(a.get<ValueId>()).sizes, def.signature.name);
  return {Type::tensor(promotion_of(graph, def, args).output, sizes)};
}

} // namespace

V operator+(V a, V b) { return arithmetic(aten::add_Tensor, a, b); }
V operator-(V a, V b) { return arithmetic(aten::sub_Tensor, a, b); }
V operator*(V a, V b) { return arithmetic(aten::mul_Tensor, a, b); }
V operator/(V a, V b) { return arithmetic(aten::div_Tensor, a, b); }
V operator+(V a, const Arg& b) { return arithmetic(aten::add_Tensor, a, b); }
V operator-(V a, const Arg& b) { return arithmetic(aten::sub_Tensor, a, b); }
V operator*(V a, const Arg& b) { return arithmetic(aten::mul_Tensor, a, b); }
V operator/(V a, const Arg& b) { return arithmetic(aten::div_Tensor, a, b); }
V operator-(V a) { return a.builder().call1(aten::neg, {a}); }

Values Builder::call(std::string_view op, ArgList args, std::vector<Attribute> keywords, const std::vector<Type>* hint) {
  const OpDef* def = find_op(op);
  if (!def) unsupported("{}", op);
  auto& schema = def->signature.args;
  require(args.size() <= schema.size(), "{}: too many arguments", op);
  std::vector<bool> given(schema.size(), false);
  for (size_t i = 0; i < args.size(); i++) given[i] = true;
  args.resize(schema.size());
  for (auto& k : keywords) {
    int i = def->signature.find(k.name);
    require(i >= 0, "{} has no argument {}", op, k.name);
    args[static_cast<size_t>(i)] = k.value;
    given[static_cast<size_t>(i)] = true;
  }
  for (size_t i = 0; i < schema.size(); i++)
    if (!given[i]) {
      require(schema[i].has_default, "{}: argument {} is missing", op, schema[i].name);
      args[i] = schema[i].fallback;
    }
  return call_full(*def, std::move(args), hint);
}

namespace {

// Positions are integers, or masks; library steps and loads read them as such.
void check_indices(const Graph& graph, const OpDef& def, const ArgList& args) {
  static constexpr std::string_view names[] = {"index", "indices", "repeats", "offsets", "sorter"};
  for (size_t i = 0; i < args.size(); i++) {
    const std::string& name = def.signature.args[i].name;
    if (std::find(std::begin(names), std::end(names), name) == std::end(names)) continue;
    for_each_value(args[i], [&](ValueId v) {
      const Type& t = graph.type(v);
      if (!t.is_tensor() || !(is_float(t.dtype) || is_complex(t.dtype))) return;
      require_input(name != "indices", "{}: tensors used as indices must be long, int, byte or bool tensors", def.signature.name);
      bad_input("{0}(): Expected dtype int32/int64 for {1}: {1} is of dtype {2}", def.signature.name, name, torch_name(t.dtype));
    });
  }
}

template <class F> bool any_leaf(const Arg& a, const F& f) {
  if (!a.is<ArgList>()) return f(a);
  auto& list = a.get<ArgList>();
  return std::any_of(list.begin(), list.end(), [&](const Arg& e) { return any_leaf(e, f); });
}

bool is_complex_value(const Graph& g, const Arg& a) {
  return a.is<ValueId>() && g.type(a.get<ValueId>()).is_tensor() && is_complex(g.type(a.get<ValueId>()).dtype);
}

bool has_complex_value(const Graph& g, const ArgList& args) {
  return any_leaf(args, [&](const Arg& a) { return is_complex_value(g, a); });
}

bool has_complex(const Graph& g, const ArgList& args) {
  return any_leaf(args, [&](const Arg& a) {
    return is_complex_value(g, a) || a.is<std::complex<double>>() || (a.is<DType>() && is_complex(a.get<DType>()));
  });
}

} // namespace

// Edge code computes with real numbers only: a complex result is made of its parts by edge::complex, and what is done with
// it next asks for the parts again. Only library steps and the program's border hold complex tensors.
Values Builder::call_complex(const OpDef& def, ArgList args, const std::vector<Type>* hint) {
  if (def.on_complex)
    if (Values out = def.on_complex(*this, Call(graph_, def, args)); !out.empty()) return out;
  if (def.decompose)
    if (Values out = def.decompose(*this, Call(graph_, def, args)); !out.empty() || def.is_composite()) return out;
  if (def.kind == Kind::View) return by_parts(def, args);
  if (def.kind != Kind::Library) unsupported("{} of complex tensors", def.signature.name);
  std::vector<Type> types = def.data_dependent && hint ? *hint : infer_types(graph_, def, args);
  return append(def, std::move(args), std::move(types));
}

// What moves elements moves both parts alike; a number it fills with has parts too. What makes elements makes real ones.
Values Builder::by_parts(const OpDef& def, const ArgList& args) {
  auto part = [&](bool imaginary) {
    ArgList now = args;
    std::function<Arg(const Arg&, bool)> take = [&](const Arg& a, bool scalar) -> Arg {
      if (is_complex_value(graph_, a)) return imaginary ? imag(wrap(a.get<ValueId>())) : real(wrap(a.get<ValueId>()));
      if (a.is<std::complex<double>>()) return imaginary ? a.get<std::complex<double>>().imag() : a.get<std::complex<double>>().real();
      if (a.is<DType>()) return part_type(a.get<DType>());
      if (a.is<ArgList>()) {
        ArgList out;
        for (const Arg& e : a.get<ArgList>()) out.push_back(take(e, scalar));
        return out;
      }
      return scalar && imaginary && !a.is_none() && !a.is<ValueId>() ? Arg(0) : a;
    };
    for (size_t i = 0; i < now.size(); i++) now[i] = take(now[i], def.signature.args[i].type == ArgType::Scalar);
    return call_full(def, std::move(now)).at(0);
  };
  V re = part(false);
  return complex(re, has_complex_value(graph_, args) ? part(true) : full(re.sizes(), 0, re.dtype()));
}

namespace {

// A graph for a call alone: the arguments, with a parameter for each value.
ArgList as_params(Graph& parts, const Graph& graph, const ArgList& args) {
  ArgList out;
  for (const Arg& a : args) out.push_back(map_values(a, [&](ValueId v) { return parts.add_param(parts.top(), graph.type(v)); }));
  return out;
}

// Whether a decomposition is of ATen's operators alone; the operators of our own are none of core ATen.
bool is_of_aten(const Graph& graph, const OpDef& def, const ArgList& args) {
  Graph parts(graph.shared_pool());
  Builder b(parts, parts.top(), false);
  b.to_core();
  ArgList operands = as_params(parts, graph, args);
  try {
    def.decompose(b, Call(parts, def, operands));
  } catch (const Error& e) {
    if (e.kind == ErrorKind::Internal) throw;
    return false;
  }
  for (uint32_t i = 0; i < parts.num_nodes(); i++)
    if (parts.node(NodeId{i}).op.dialect() == "tenon") return false;
  return true;
}

} // namespace

// What the call is in core ATen; none where it stays.
Values Builder::call_core(const OpDef& def, const ArgList& args) {
  if (def.is_core) return {};
  if (def.to_core)
    if (Values out = def.to_core(*this, Call(graph_, def, args)); !out.empty()) return out;
  if (!def.decompose || !def.signature.name.starts_with("aten::") || !is_of_aten(graph_, def, args)) return {};
  return def.decompose(*this, Call(graph_, def, args));
}

Values Builder::call_full(const OpDef& def, ArgList args, const std::vector<Type>* hint) {
  check_indices(graph_, def, args);
  if (core_)
    if (Values out = call_core(def, args); !out.empty()) return out;
  if (edge_ && has_complex(graph_, args)) return call_complex(def, std::move(args), hint);
  if (edge_ && def.decompose && !stays(def, args))
    if (Values out = def.decompose(*this, Call(graph_, def, args)); !out.empty() || def.is_composite()) return out;
  if (edge_ && def.kind == Kind::Pointwise) return append_pointwise(def, std::move(args));
  if ((def.data_dependent || core_) && hint) return append(def, std::move(args), *hint); // in core mode the call is as it was
  std::vector<Type> types = infer_types(graph_, def, args);
  return append(def, std::move(args), std::move(types));
}

Values Builder::append(const OpDef& def, ArgList args, std::vector<Type> types) {
  std::string name = def.signature.name;
  for (const Type& t : types) check_sizes(t.sizes, name);
  if (edge_ && name.starts_with("aten::")) name = "edge::" + name.substr(6);
  NodeId n = graph_.append(block_, Node{.op = std::move(name), .def = &def, .args = std::move(args), .origin = origin_}, std::move(types));
  Values out;
  for (ValueId v : graph_.node(n).outputs) out.push_back(wrap(v));
  return out;
}

// Floats of 8 bits are only moved; what little torch computes with them is computed in f32.
Values Builder::append_float8(const OpDef& def, ArgList args, DType output) {
  for (Arg& a : args) a = map_values(a, [&](ValueId v) { return is_float8(graph_.type(v).dtype) ? to(wrap(v), DType::F32).id : v; });
  Values out = append_pointwise(def, std::move(args));
  return is_float8(output) ? to(out.at(0), output) : out;
}

namespace {

[[noreturn]] void refuse_dtype(const OpDef& def, DType t) {
  if (t == DType::Bool && def.signature.name == aten::neg)
    bad_input("Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the `~` or "
              "`logical_not()` operator instead.");
  if (t == DType::Bool && def.signature.name == aten::sub_Tensor)
    bad_input("Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator instead.");
  std::string_view name = def.signature.name;
  name = name.substr(name.find("::") + 2);
  bad_input("\"{}_cpu\" not implemented for '{}'", name.substr(0, name.find('.')), torch_name(t));
}

} // namespace

// The Edge form of a pointwise call: operands of one dtype, casts explicit, no scalars.
Values Builder::append_pointwise(const OpDef& def, ArgList args) {
  Promotion p = promotion_of(graph_, def, args);
  if (is_float8(p.compute) && def.signature.name != aten::where_self) return append_float8(def, std::move(args), p.output);
  if (!(def.dtypes >> static_cast<int>(p.compute) & 1)) refuse_dtype(def, p.compute);
  std::vector<Type> types = pointwise_types(graph_, def, args);
  for (size_t i = 0; i < args.size(); i++) {
    auto& schema = def.signature.args[i];
    bool operand = schema.type == ArgType::Tensor || schema.type == ArgType::Scalar;
    if (!operand || args[i].is_none()) continue;
    bool kept = is_kept(def, i);
    if (args[i].is<ValueId>()) {
      if (!kept) args[i] = to(wrap(args[i].get<ValueId>()), p.compute);
    } else if (!args[i].is<ArgList>()) args[i] = scalar_operand(*this, args[i], kept ? DType::F64 : p.compute);
  }
  return append(def, std::move(args), std::move(types));
}

V Builder::full(std::vector<Expr> sizes, const Arg& value, DType dtype) { return call1(aten::full, {sizes, value}, {{"dtype", dtype}}); }
V Builder::scalar(const Arg& value, DType dtype) { return full({}, value, dtype); }

V Builder::constant(Tensor tensor, std::string name) {
  std::vector<Expr> sizes;
  for (int64_t s : tensor.sizes()) sizes.push_back(integer(s));
  Type type = Type::tensor(tensor.dtype(), sizes);
  TensorId t = graph_.add_tensor(std::move(tensor));
  NodeId n = graph_.append(block_, Node{.op = prim::Constant, .def = find_op(prim::Constant), .args = {Arg(t)}, .origin = origin_}, {type},
                           {std::move(name)});
  return wrap(graph_.node(n).outputs[0]);
}

V Builder::to(V x, DType dtype) {
  if (is_complex(x.dtype()) && !is_complex(dtype) && dtype != DType::Bool)
    unsupported("an operator that takes a complex tensor for {}", name_of(dtype));
  return x.dtype() == dtype ? x : call1(aten::_to_copy, {x}, {{"dtype", dtype}});
}
V Builder::expand(V x, std::vector<Expr> sizes) { return x.sizes() == sizes ? x : call1(aten::expand, {x, sizes}); }
V Builder::reshape(V x, std::vector<Expr> sizes) { return x.sizes() == sizes ? x : call1(aten::view, {x, sizes}); }
V Builder::permute(V x, std::vector<int64_t> order) {
  bool identity = true;
  for (size_t i = 0; i < order.size(); i++) identity &= order[i] == static_cast<int64_t>(i);
  return identity ? x : call1(aten::permute, {x, order});
}
V Builder::transpose(V x, int64_t d0, int64_t d1) {
  if (x.rank() == 0) return x;
  std::vector<int64_t> order(x.rank());
  for (size_t i = 0; i < order.size(); i++) order[i] = static_cast<int64_t>(i);
  std::swap(order[static_cast<size_t>(wrap_dim(d0, x.rank(), "transpose"))],
            order[static_cast<size_t>(wrap_dim(d1, x.rank(), "transpose"))]);
  return permute(x, order);
}
V Builder::slice(V x, int64_t dim, Expr start, Expr length, int64_t step) {
  dim = wrap_dim(dim, x.rank(), "slice");
  if (step == 1 && is_const_int(start, 0) && length == x.size(dim)) return x;
  Expr end = start + (length - 1.0) * static_cast<double>(step) + 1.0;
  return call1(aten::slice_Tensor, {x, dim, start, end, step});
}
V Builder::select(V x, int64_t dim, Expr index) { return call1(aten::select_int, {x, dim, index}); }
V Builder::unsqueeze(V x, int64_t dim) { return call1(aten::unsqueeze, {x, dim}); }
V Builder::squeeze(V x, int64_t dim) { return call1(aten::squeeze_dims, {x, ArgList{dim}}); }
V Builder::where(V condition, const Arg& a, const Arg& b) { return call1(aten::where_self, {condition, a, b}); }
V Builder::sum(V x, std::vector<int64_t> dims, bool keepdim) { return call1(aten::sum_dim_IntList, {x, dims, keepdim}); }
V Builder::mean(V x, std::vector<int64_t> dims, bool keepdim) { return call1(aten::mean_dim, {x, dims, keepdim}); }
V Builder::matmul(V a, V b) { return call1(aten::matmul, {a, b}); }
V Builder::real(V x) { return is_complex(x.dtype()) ? call1(aten::real, {x}) : x; }
V Builder::imag(V x) { return call1(aten::imag, {x}); }
V Builder::complex(V re, V im) { return call1(aten::complex, {re, im}); }
V Builder::arange(Expr end, DType dtype) { return call1(aten::arange_start_step, {0, end, 1}, {{"dtype", dtype}}); }

std::vector<V> Builder::scan(const std::vector<V>& carried, const std::vector<V>& xs, bool reverse, const ScanBody& body) {
  require(!xs.empty(), "a scan needs something to run over");
  Expr steps = xs[0].size(0);
  std::vector<Type> types, slices;
  for (V v : carried) types.push_back(Type::tensor(v.dtype(), v.sizes()));
  for (V x : xs) slices.push_back(Type::tensor(x.dtype(), {x.sizes().begin() + 1, x.sizes().end()}));
  ArgList args{ArgList(carried.begin(), carried.end()), ArgList(xs.begin(), xs.end()), reverse, false};
  // The outputs come last: only the body tells the types of the stacks.
  NodeId node = graph_.append(block_, Node{.op = prim::Scan, .def = find_op(prim::Scan), .args = std::move(args), .origin = origin_}, {});
  BlockId outer = std::exchange(block_, graph_.add_block(node));
  std::vector<V> now, parts;
  for (const Type& t : types) now.push_back(wrap(graph_.add_param(block_, t)));
  for (const Type& t : slices) parts.push_back(wrap(graph_.add_param(block_, t)));
  std::vector<V> returned = body(now, parts);
  require(returned.size() >= carried.size(), "a scan's body returns too little");
  graph_.block(block_).returns = ArgList(returned.begin(), returned.end());
  block_ = outer;
  std::vector<V> out;
  for (size_t i = 0; i < returned.size(); i++) {
    std::vector<Expr> sizes = returned[i].sizes();
    if (i >= carried.size()) sizes.insert(sizes.begin(), steps);
    out.push_back(wrap(graph_.add_output(node, Type::tensor(returned[i].dtype(), sizes))));
  }
  return out;
}

Graph written_out(const Graph& graph, const OpDef& def, const ArgList& args) {
  Graph parts(graph.shared_pool());
  Builder b(parts, parts.top(), true);
  b.keep_late(false);
  Values out = b.call_full(def, as_params(parts, graph, args));
  parts.block(parts.top()).returns = ArgList(out.begin(), out.end());
  return parts;
}

bool stays_in_core(const Graph& graph, const OpDef& def, const ArgList& args) {
  if (def.is_core) return true;
  Graph parts(graph.shared_pool());
  Builder b(parts, parts.top(), false);
  b.to_core();
  try {
    b.call_full(def, as_params(parts, graph, args));
  } catch (const Error& e) {
    if (e.kind == ErrorKind::Internal) throw;
    return true; // what the row refuses it refuses elsewhere, with a reason
  }
  return parts.num_nodes() == 1 && parts.node(NodeId{0}).def == &def;
}

std::vector<Type> infer_types(const Graph& graph, const OpDef& def, const ArgList& args) {
  bool by_rule = def.on_complex && has_complex(graph, args);
  if (!by_rule && def.infer) return def.infer(Call(graph, def, args));
  if (!by_rule && def.kind == Kind::Pointwise) return pointwise_types(graph, def, args);
  require(by_rule || def.is_composite(), "{} has no shape rule", def.signature.name);
  // A composite, and a call on complex tensors, has the types of its decomposition.
  Graph parts = written_out(graph, def, args);
  std::vector<Type> types;
  for (const Arg& a : parts.block(parts.top()).returns) types.push_back(parts.type(a.get<ValueId>()));
  return types;
}

} // namespace tenon
