// The registry of custom operators. A function becomes a library step that calls it; an expression becomes a pointwise row.
#include "ops/custom.h"

#include <algorithm>
#include <mutex>
#include <shared_mutex>

#include "base/lexer.h"
#include "expr/names.h"
#include "ir/builder.h"
#include "ops/custom_registry.h"

namespace tenon::ops {

namespace {

struct Registry {
  std::shared_mutex mutex;
  std::deque<Custom> all; // their addresses stay
};
Registry& registry() {
  static Registry r;
  return r;
}

const Form* form_named(std::string_view name) { // under the mutex
  for (const Custom& c : registry().all)
    for (const Form& f : c.forms)
      if (f.signature.name == name) return &f;
  return nullptr;
}

int64_t number_of(std::string_view text) {
  constexpr uint64_t prime = 0x100000001b3;
  uint64_t hash = 0xcbf29ce484222325;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * prime;
  return static_cast<int64_t>(hash >> 12); // exact in any arithmetic
}

bool is_number(const SchemaArg& a) {
  return a.type == ArgType::Scalar || a.type == ArgType::Float || a.type == ArgType::Int || a.type == ArgType::Bool;
}

// The expression.

Expr body(const BodyArgs& a) {
  const Custom& op = custom_of(a.call);
  DType type = DType::F32;
  for (auto& arg : a.call.def.signature.args)
    if (arg.type == ArgType::Tensor) type = a[arg.name]->type;
  Names names{.value = [&](std::string_view name) -> Expr {
    int at = a.call.def.signature.find(name);
    if (at < 0) return {};
    if (a.call.def.signature.args[static_cast<size_t>(at)].type == ArgType::Tensor) return a[name];
    Expr number = a.call.scalar(name);
    return is_float(type) ? cast(number, type) : number;
  }};
  Lexer lexer(op.expression);
  Expr e = parse_expr(a.call.pool(), lexer, names);
  if (!lexer.at_end()) lexer.fail("more text after the expression");
  return cast(e, type);
}

// Over f32 operands: names and functions are right, or the error says where they are not.
void try_expression(const Custom& op, const Schema& schema) {
  ExprPool pool;
  Names names{
      .value = [&](std::string_view name) -> Expr { return schema.find(name) < 0 ? Expr{} : pool.symbol(std::string(name), DType::F32); }};
  Lexer lexer(op.expression);
  parse_expr(pool, lexer, names);
  if (!lexer.at_end()) lexer.fail("more text after the expression");
}

void check_schema(const Schema& s, bool expression) {
  require_input(s.name.find("::") != s.name.npos && !s.name.starts_with("prim::") && !s.name.starts_with("edge::") &&
                    !s.name.starts_with("tenon::"),
                "{}: a custom operator's name has a namespace of its own", s.name);
  for (auto& a : s.args) {
    bool operand = a.type == ArgType::Tensor || is_number(a);
    require_input(can_be_handed_on(a), "{}: an argument of the type of {} cannot be handed on", s.name, a.name);
    require_input(!expression || (operand && !a.list && !a.optional && !a.written),
                  "{}: an expression takes tensors and numbers only, not {}", s.name, a.name);
  }
  for (auto& r : s.returns) {
    bool tensor = r.type == ArgType::Tensor && !r.optional && (!r.list || s.returns.size() == 1) && r.alias.empty();
    bool number = is_number(r) && !r.list && !r.optional && r.type != ArgType::Scalar;
    require_input(tensor || number, "{}: results are new tensors, one list of them, or int, float and bool", s.name);
  }
  bool tensors = std::ranges::any_of(s.args, [](auto& a) { return a.type == ArgType::Tensor; });
  require_input(!expression || (tensors && s.returns.size() == 1 && s.returns[0].type == ArgType::Tensor && !s.returns[0].list),
                "{}: an expression has a tensor argument and one result", s.name);
}

// The forms of an operator with a function. Programs call the first. One that writes arguments has a functional one, which returns their
// new values after its results; one that gives numbers is taken apart into one that gives tensors, and reads of these.

Values read_numbers(Builder& b, const Call& c) {
  Values out = b.call_full(*form_of(c).runs, c.args);
  for (size_t i = 0; i < c.def.signature.returns.size(); i++) {
    ArgType type = c.def.signature.returns[i].type;
    if (type == ArgType::Tensor) continue;
    bool real = type == ArgType::Float;
    Expr symbol = b.pool().symbol(b.pool().fresh_symbol(real ? "zuf" : "u"), real ? DType::F64 : DType::I64);
    Node item{.op = "prim::Item", .def = find_op("prim::Item"), .args = {Arg(out[i])}, .origin = b.origin()};
    NodeId id = b.graph().append(b.block(), std::move(item), {Type::scalar(real ? TypeKind::Float : TypeKind::Int, symbol)});
    out[i] = b.wrap(b.graph().node(id).outputs[0]);
  }
  return out;
}

std::string form_name(const Schema& s, std::string_view form) {
  size_t dot = s.name.rfind('.');
  return fmt::format("{}.{}_{}", s.name.substr(0, dot), form, s.name.substr(dot + 1));
}

std::vector<Form> forms_of(const Schema& s) {
  Form given;
  given.signature = s;
  given.kind = Kind::Library, given.infer = infer_custom, given.library = step_of_custom;
  std::vector<Form> forms{given};
  if (s.mutates()) {
    Form& f = forms.emplace_back(given);
    f.signature.name = form_name(s, "functional");
    for (auto& a : f.signature.args)
      if (std::exchange(a.written, false)) a.alias.clear(), f.signature.returns.push_back({});
    f.signature.variadic_result = false;
  }
  if (std::ranges::all_of(s.returns, [](auto& r) { return r.type == ArgType::Tensor; })) return forms;
  Form tensors = forms.back();
  tensors.signature.name = form_name(s, "tensors");
  for (auto& r : tensors.signature.returns) r.type = ArgType::Tensor;
  for (Form& f : forms)
    f.kind = Kind::Composite, f.infer = nullptr, f.library = nullptr, f.decompose = read_numbers, f.data_dependent = true;
  forms.push_back(tensors);
  return forms;
}

} // namespace

const Custom* numbered(int64_t number) {
  std::shared_lock lock(registry().mutex);
  auto at = std::ranges::find(registry().all, number, &Custom::number);
  return at == registry().all.end() ? nullptr : &*at;
}

void add_custom(Custom c, std::vector<Form> forms) {
  c.number = number_of(c.text);
  const std::string& name = forms[0].signature.name;
  const OpDef* known = find_op(name);
  require_input(!known || known == find_custom(name), "{} is an operator of tenon's own", name);
  std::unique_lock lock(registry().mutex);
  if (const Form* there = form_named(name)) {
    const Custom& old = *there->of;
    bool same = old.text == c.text && old.function == c.function && old.data == c.data;
    require_input(same, "{} is registered already, with another meaning", c.name.empty() ? name : c.name);
    return;
  }
  require_input(std::ranges::find(registry().all, c.number, &Custom::number) == registry().all.end(),
                "{}: another operator has its number: give it another name", name);
  Custom& kept = registry().all.emplace_back(std::move(c));
  for (Form& f : forms) {
    Form& form = kept.forms.emplace_back(std::move(f));
    form.of = &kept, form.schema = kept.schema, form.keep = kept.keep;
  }
  for (Form& form : kept.forms) form.runs = &kept.forms.back();
}

void register_custom(const tenon_op& op) {
  require_input(op.schema != nullptr, "a custom operator without schema");
  std::string results = op.results ? op.results : "", expression = op.expression ? op.expression : "";
  Schema s = parse_schema(op.schema);
  bool is_expression = op.expression != nullptr;
  require_input(is_expression != (op.function != nullptr), "{}: either a function or an expression", s.name);
  check_schema(s, is_expression);
  Custom c{.text = is_expression ? fmt::format("the custom operator {} = {}", op.schema, expression)
                                 : fmt::format("the custom operator {}, results {}", op.schema, results),
           .schema = op.schema,
           .results = std::move(results),
           .expression = std::move(expression),
           .function = op.function,
           .data = op.data};
  for (auto& a : s.args)
    if (a.type != ArgType::Tensor) c.keep += (c.keep.empty() ? "" : " ") + a.name;
  if (!is_expression) return add_custom(std::move(c), forms_of(s));
  try_expression(c, s);
  Form pointwise;
  pointwise.signature = std::move(s), pointwise.kind = Kind::Pointwise, pointwise.body = body;
  add_custom(std::move(c), {pointwise});
}

const OpDef* find_custom(std::string_view name) {
  std::shared_lock lock(registry().mutex);
  return form_named(name);
}

const OpDef* functional_custom(const OpDef& def) {
  if (!def.signature.mutates()) return nullptr;
  std::shared_lock lock(registry().mutex);
  const Form* form = form_named(def.signature.name);
  return form ? &form->of->forms[1] : nullptr;
}

void keep_attributes(Graph& g, size_t first, const std::vector<Attribute>& attributes) {
  if (attributes.empty()) return;
  for (size_t i = first; i < g.num_nodes(); i++)
    if (Node& n = g.node(NodeId{static_cast<uint32_t>(i)}); n.def && find_custom(n.op)) n.attributes = attributes;
}

std::string custom_text(int64_t number) {
  const Custom* op = numbered(number);
  return op ? op->text : "";
}

std::vector<const Custom*> registered() {
  std::shared_lock lock(registry().mutex);
  std::vector<const Custom*> list;
  for (const Custom& c : registry().all) list.push_back(&c);
  return list;
}

} // namespace tenon::ops
