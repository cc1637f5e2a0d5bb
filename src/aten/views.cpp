// Inverses of views, and functional forms of in-place operators.
#include "aten/views.h"

namespace tenon {

bool is_inplace(const Node& n) {
  return n.def && n.op != n.def->signature.name && n.op.dialect() == "aten" && functional_name(n.op) == n.def->signature.name;
}

namespace {

// Row-major, as far as the recorded strides tell.
bool dense(const Type& t) { return t.strides.empty(); }

bool may_copy(std::string_view op) {
  return op == "aten::reshape.default" || op == "aten::flatten.using_ints" || op == "aten::reshape_as.default" ||
         op == "aten::ravel.default";
}

bool is_conversion(std::string_view op) {
  return op.starts_with("aten::to.") || op == "aten::type_as.default" || op == "aten::contiguous.default";
}

} // namespace

ValueId view_source(const Graph& g, const Node& n) {
  if (n.def == nullptr || n.def->signature.returns.empty() || n.outputs.empty()) return {};
  const std::string& alias = n.def->signature.returns[0].alias;
  if (alias.empty()) return {};
  for (size_t i = 0; i < n.args.size(); i++) {
    if (n.def->signature.args[i].alias.empty() || n.def->signature.args[i].alias[0] != alias[0] || !n.args[i].is<ValueId>()) continue;
    ValueId source = n.args[i].get<ValueId>();
    const Type &in = g.type(source), &out = g.type(n.outputs[0]);
    if (may_copy(n.op) && !dense(in) && in.sizes != out.sizes) return {};
    if (is_conversion(n.op) && (in.dtype != out.dtype || in.strides != out.strides)) return {};
    return source;
  }
  return {};
}

namespace {

std::vector<int64_t> inverse(const std::vector<int64_t>& order) {
  std::vector<int64_t> out(order.size());
  for (size_t i = 0; i < order.size(); i++) out[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return out;
}

// Output `k` of split, chunk, unbind shows a range of `dim`: where it starts is the sum of the earlier outputs' sizes.
V scatter_piece(Builder& b, const Graph& g, const Node& view, int64_t dim, uint32_t k, V parent, V now) {
  Expr start = b.integer(0);
  for (uint32_t i = 0; i < k; i++) start = start + g.type(view.outputs[i]).sizes[static_cast<size_t>(dim)];
  return b.call1("aten::slice_scatter.default", {parent, now, dim, start, start + now.size(dim), 1});
}

} // namespace

V scatter_view(Builder& b, const Graph& g, const Node& view, const ArgList& args, uint32_t output, V parent, V now) {
  Call c(b.graph(), *view.def, args);
  std::string_view op = view.def->signature.name;
  size_t rank = parent.rank();
  auto is = [&](auto... names) { return ((op == names) || ...); };
  // Views that keep every element: the inverse is a view too.
  if (now.sizes() == parent.sizes() && (is("aten::alias.default", "aten::detach.default", "aten::expand.default") || is_conversion(op)))
    return now;
  if (is("aten::transpose.int", "aten::transpose.default", "aten::swapaxes.default", "aten::swapdims.default"))
    return b.transpose(now,
                       c.integer(op == "aten::transpose.int"      ? "dim0"
                                 : op == "aten::swapaxes.default" ? "axis0"
                                                                  : "dim0"),
                       c.integer(op == "aten::transpose.int"      ? "dim1"
                                 : op == "aten::swapaxes.default" ? "axis1"
                                                                  : "dim1"));
  if (is("aten::t.default", "aten::mT.default", "aten::numpy_T.default") && rank == 2) return b.transpose(now, 0, 1);
  if (is("aten::mT.default")) return b.transpose(now, -1, -2);
  if (is("aten::permute.default")) return b.permute(now, inverse(c.dims("dims", rank, false)));
  // Views of a part: the other elements stay.
  if (is("aten::select.int")) return b.call1("aten::select_scatter.default", {parent, now, c["dim"], c["index"]});
  if (is("aten::slice.Tensor")) return b.call1("aten::slice_scatter.default", {parent, now, c["dim"], c["start"], c["end"], c["step"]});
  if (is("aten::narrow.default"))
    return b.call1("aten::slice_scatter.default", {parent, now, c["dim"], c["start"], Arg(c.sym("start") + c.sym("length")), 1});
  if (is("aten::diagonal.default")) return b.call1("aten::diagonal_scatter.default", {parent, now, c["offset"], c["dim1"], c["dim2"]});
  if (is("aten::as_strided.default"))
    return b.call1("aten::as_strided_scatter.default", {parent, now, c["size"], c["stride"], c["storage_offset"]});
  if (is("aten::unbind.int")) return b.call1("aten::select_scatter.default", {parent, now, c["dim"], static_cast<int64_t>(output)});
  if (is("aten::split.Tensor", "aten::split_with_sizes.default", "aten::chunk.default", "aten::tensor_split.sections",
         "aten::tensor_split.indices"))
    return scatter_piece(b, g, view, c.dim("dim", rank), output, parent, now);
  // Reshapes keep row-major order; squeezes and unsqueezes among them.
  if (is("aten::view.default", "aten::_unsafe_view.default", "aten::reshape.default", "aten::reshape_as.default",
         "aten::flatten.using_ints", "aten::unflatten.int", "aten::unsqueeze.default", "aten::squeeze.default", "aten::squeeze.dim",
         "aten::squeeze.dims", "aten::ravel.default", "aten::view_as.default"))
    return b.reshape(now, parent.sizes());
  // Complex numbers and their parts.
  if (is("aten::view_as_real.default")) return b.call1("aten::view_as_complex.default", {now});
  if (is("aten::view_as_complex.default")) return b.call1("aten::view_as_real.default", {now});
  if (is("aten::real.default")) return is_complex(parent.dtype()) ? b.complex(now, b.imag(parent)) : now;
  if (is("aten::imag.default")) return b.complex(b.real(parent), now);
  if (is("aten::conj.default", "aten::_conj.default")) return b.call1("aten::_conj.default", {now});
  unsupported("an in-place operator on the result of {}", op);
}

V inplace_result(Builder& b, const Node& n, ArgList args, V self) {
  V now;
  std::string_view op = n.op;
  if (op == "aten::copy_.default") now = b.wrap(args.at(1).get<ValueId>());
  else if (op == "aten::zero_.default") now = b.full(self.sizes(), 0, self.dtype());
  else if (op == "aten::fill_.Scalar") now = b.full(self.sizes(), args.at(1), self.dtype());
  else if (op == "aten::fill_.Tensor") now = b.wrap(args.at(1).get<ValueId>());
  else now = b.call_full(*n.def, std::move(args)).at(0);
  return b.expand(b.to(now, self.dtype()), self.sizes());
}

} // namespace tenon
