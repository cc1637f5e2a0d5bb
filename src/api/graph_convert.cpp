// Arguments, types and sizes between the public graph and the compiler's.
#include "api/graph_impl.h"
#include "base/lexer.h"
#include "expr/names.h"
#include "ir/call.h"

namespace tenon::ir {

namespace {

Size size_of_expr(Expr e) {
  Size s(to_string(e));
  s.number = const_int(e);
  return s;
}

std::vector<Size> sizes_of(const std::vector<Expr>& list) {
  std::vector<Size> out;
  for (Expr e : list) out.push_back(size_of_expr(e));
  return out;
}

struct ToPublic {
  GraphImpl& g;
  ir::Arg operator()(std::monostate) const { return {}; }
  ir::Arg operator()(ValueId v) const { return Access::value(&g, v); }
  ir::Arg operator()(const tenon::Word& w) const { return ir::Word{w.text}; }
  ir::Arg operator()(Expr e) const { return size_of_expr(e); }
  ir::Arg operator()(TensorId t) const { return g.graph.tensor(t); }
  ir::Arg operator()(const ArgList& list) const {
    ir::Arg::List o;
    for (const tenon::Arg& e : list) o.push_back(g.out(e));
    return o;
  }
  ir::Arg operator()(const auto& constant) const { return constant; }
};

struct FromPublic {
  GraphImpl& g;
  tenon::Arg operator()(std::monostate) const { return {}; }
  tenon::Arg operator()(Value v) const {
    require_input(static_cast<bool>(v), "an argument is an empty Value");
    require_input(Access::graph(v) == &g, "%{} is a value of another graph", v.name());
    const tenon::Type& t = g.graph.type(Access::id(v));
    return t.value ? tenon::Arg(t.value) : tenon::Arg(Access::id(v));
  }
  tenon::Arg operator()(const ir::Word& w) const { return tenon::Word{w.text}; }
  tenon::Arg operator()(const Size& s) const { return g.size(s); }
  tenon::Arg operator()(const Tensor& t) const {
    require_input(t.defined(), "an argument is a Tensor without memory");
    return g.graph.add_tensor(t);
  }
  tenon::Arg operator()(const ir::Arg::List& list) const {
    ArgList o;
    for (const ir::Arg& e : list) o.push_back(g.in(e));
    return o;
  }
  tenon::Arg operator()(const auto& constant) const { return constant; }
};

} // namespace

void Arg::wrongKind() { bad_input("the argument is of another kind than is asked for"); }

Expr GraphImpl::size(const Size& s) {
  Lexer lexer(s.text);
  Names symbols{.value = [&](std::string_view name) { return graph.pool().find_symbol(std::string(name)); }};
  Expr e = parse_expr(graph.pool(), lexer, symbols);
  require_input(lexer.at_end(), "'{}' is no size", s.text);
  return e;
}

ir::Type GraphImpl::out(const tenon::Type& t) const {
  ir::Type o{.kind = static_cast<ir::Type::Kind>(t.kind), .dtype = t.dtype, .sizes = sizes_of(t.sizes), .strides = sizes_of(t.strides)};
  if (t.value) o.value = size_of_expr(t.value);
  return o;
}

tenon::Type GraphImpl::in(const ir::Type& t) {
  tenon::Type o{.kind = static_cast<TypeKind>(t.kind), .dtype = t.dtype};
  for (const Size& s : t.sizes) {
    o.sizes.push_back(size(s));
    require_input(o.sizes.back()->type == DType::I64 && (!const_int(o.sizes.back()) || *const_int(o.sizes.back()) >= 0), "'{}' is no size",
                  s.text);
  }
  for (const Size& s : t.strides) o.strides.push_back(size(s));
  require_input(o.strides.empty() || o.strides.size() == o.sizes.size(), "{} strides for {} sizes", o.strides.size(), o.sizes.size());
  if (t.value) o.value = size(*t.value);
  return o;
}

ir::Arg GraphImpl::out(const tenon::Arg& a) { return std::visit(ToPublic{*this}, a.v); }

tenon::Arg GraphImpl::in(const ir::Arg& a) { return std::visit(FromPublic{*this}, a.v); }

std::string Type::str() const {
  GraphImpl g(tenon::Graph(), Dialect::Any);
  auto declare = [&](const Size& s) { // symbols of whatever graph it is of
    Lexer lexer(s.text);
    parse_expr(g.graph.pool(), lexer);
  };
  for (const Size& s : sizes) declare(s);
  for (const Size& s : strides) declare(s);
  if (value) declare(*value);
  return to_string(g.in(*this));
}

} // namespace tenon::ir
