// Arguments, types and sizes between the public graph and the compiler's.
#include "api/graph_impl.h"
#include "base/lexer.h"
#include "expr/names.h"
#include "ir/call.h"
#include "script/text.h"

namespace tenon::ir {

namespace {

Size size_of_expr(Expr e) {
  if (!e) return Size("*");
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
  ir::Arg operator()(const GraphP& inner) const { return std::make_shared<const ir::Graph>(public_graph(*inner, g.dialect)); }
  ir::Arg operator()(const auto& constant) const { return constant; }
};

struct FromPublic {
  GraphImpl& g;
  tenon::Arg operator()(std::monostate) const { return {}; }
  tenon::Arg operator()(Value v) const {
    require_input(static_cast<bool>(v), "an argument is an empty Value");
    require_input(Access::graph(v) == &g, "%{} is a value of another graph", v.name());
    const tenon::Type& t = g.graph.type(Access::id(v));
    return t.value && !g.is_script() ? tenon::Arg(t.value) : tenon::Arg(Access::id(v));
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
  tenon::Arg operator()(const std::shared_ptr<const ir::Graph>& inner) const {
    require_input(inner != nullptr, "an argument is a null Graph");
    return std::make_shared<const tenon::Graph>(inner->impl().graph);
  }
  tenon::Arg operator()(const auto& constant) const { return constant; }
};

static_assert(static_cast<int>(ir::Type::Kind::Variable) == static_cast<int>(TypeKind::Variable), "kinds are numbered alike");

} // namespace

void Arg::wrongKind() { bad_input("the argument is of another kind than is asked for"); }

Expr GraphImpl::size(const Size& s) {
  if (s.text == "*" && (is_script() || dialect == Dialect::Any)) return {};
  Lexer lexer(s.text);
  Names symbols{.value = [&](std::string_view name) { return graph.pool().find_symbol(std::string(name)); }};
  Expr e = parse_expr(graph.pool(), lexer, symbols);
  require_input(lexer.at_end(), "'{}' is no size", s.text);
  return e;
}

ir::Type GraphImpl::out(const tenon::Type& t) const {
  ir::Type o{.kind = t.kind, .dtype = t.dtype, .sizes = sizes_of(t.sizes), .strides = sizes_of(t.strides)};
  if (t.value) o.value = size_of_expr(t.value);
  for (const tenon::Type& e : t.elements()) o.elements.push_back(out(e));
  if (t.parts) o.name = t.parts->name, o.fields = t.parts->fields;
  return o;
}

tenon::Type GraphImpl::in(const ir::Type& t) {
  tenon::Type o{.kind = t.kind, .dtype = t.dtype};
  for (const Size& s : t.sizes) {
    o.sizes.push_back(size(s));
    if (!o.sizes.back()) continue;
    require_input(o.sizes.back()->type == DType::I64 && (!const_int(o.sizes.back()) || *const_int(o.sizes.back()) >= 0), "'{}' is no size",
                  s.text);
  }
  for (const Size& s : t.strides) o.strides.push_back(size(s));
  require_input(o.strides.empty() || o.strides.size() == o.sizes.size(), "{} strides for {} sizes", o.strides.size(), o.sizes.size());
  if (t.value) o.value = size(*t.value);
  if (t.kind <= ir::Type::Kind::Custom) return o;
  size_t want = t.kind == ir::Type::Kind::Dict ? 2 : t.kind == ir::Type::Kind::List || t.kind == ir::Type::Kind::Optional;
  bool any_count = t.kind == ir::Type::Kind::Tuple || t.kind == ir::Type::Kind::Union;
  require_input(any_count || t.elements.size() == want, "a type has {} elements where {} are needed", t.elements.size(), want);
  std::vector<tenon::Type> elements;
  for (const ir::Type& e : t.elements) elements.push_back(in(e));
  if (t.kind == ir::Type::Kind::Optional) return tenon::Type::optional(std::move(elements[0]));
  if (!elements.empty() || !t.name.empty() || t.kind == ir::Type::Kind::Tuple) o.parts = Parts({std::move(elements), t.name, t.fields});
  return o;
}

GraphImpl::Typed GraphImpl::typed(const ir::Type& t) {
  Typed made{.type = in(t), .meta = {.requires_grad = t.requires_grad}};
  require_input(set_device(made.meta, t.device), "no such device: '{}'", t.device);
  return made;
}
void GraphImpl::set_type(ValueId id, Typed t) { graph.value(id).type = std::move(t.type), graph.value(id).meta = t.meta; }

ir::Arg GraphImpl::out(const tenon::Arg& a) { return std::visit(ToPublic{*this}, a.v); }

tenon::Arg GraphImpl::in(const ir::Arg& a) { return std::visit(FromPublic{*this}, a.v); }

std::string Type::str() const {
  GraphImpl g(tenon::Graph(), Dialect::Any);
  auto declare = [&](const Size& s) { // symbols of whatever graph it is of
    if (s.text == "*") return;
    Lexer lexer(s.text);
    parse_expr(g.graph.pool(), lexer);
  };
  for (const Size& s : sizes) declare(s);
  for (const Size& s : strides) declare(s);
  if (value) declare(*value);
  TensorMeta meta{.requires_grad = requires_grad};
  set_device(meta, device);
  return to_string(g.in(*this), meta);
}

Type Type::parse(std::string_view text) {
  GraphImpl g(tenon::Graph(), Dialect::Script);
  Lexer lexer(text);
  TensorMeta meta;
  ir::Type t = g.out(script::parse_script_type(g.graph.pool(), lexer, &meta));
  if (!lexer.at_end()) lexer.fail("more text after the type");
  t.requires_grad = meta.requires_grad, t.device = device_name(meta);
  return t;
}

} // namespace tenon::ir
