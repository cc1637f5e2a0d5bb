// The registry of custom operators. A function becomes a library step that calls it; an expression becomes a pointwise row.
#include "ops/custom.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <shared_mutex>

#include "base/lexer.h"
#include "expr/names.h"
#include "ir/promote.h"

namespace tenon::ops {

namespace {

struct Custom {
  std::string schema, results, expression;
  tenon_op_function function = nullptr;
  void* data = nullptr;
  std::string keep; // arguments that take no part in promotion: all numbers
  OpDef def;        // of an operator that writes arguments: what programs call
  OpDef functional; // what is run
  int64_t number;   // of a function, what its steps know it by
};

struct Registry {
  std::shared_mutex mutex;
  std::deque<Custom> ops; // their addresses stay
};
Registry& registry() {
  static Registry r;
  return r;
}

int64_t index_of(std::string_view name) { // under the mutex
  auto& ops = registry().ops;
  for (size_t i = 0; i < ops.size(); i++)
    if (ops[i].def.signature.name == name || ops[i].functional.signature.name == name) return static_cast<int64_t>(i);
  return -1;
}
const Custom& custom_of(const Call& c) {
  std::shared_lock lock(registry().mutex);
  return registry().ops[static_cast<size_t>(index_of(c.def.signature.name))];
}

// What a step knows its operator by, in a file as well: a hash of its schema and its shape rule.
int64_t number_of(std::string_view schema, std::string_view results) {
  constexpr uint64_t prime = 0x100000001b3;
  uint64_t hash = 0xcbf29ce484222325;
  for (std::string_view text : {schema, results}) {
    for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * prime;
    hash *= prime;
  }
  return static_cast<int64_t>(hash >> 12); // exact in any arithmetic
}
const Custom* numbered(int64_t number) {
  std::shared_lock lock(registry().mutex);
  auto at = std::ranges::find(registry().ops, number, &Custom::number);
  return at == registry().ops.end() ? nullptr : &*at;
}

bool is_number(const SchemaArg& a) {
  return a.type == ArgType::Scalar || a.type == ArgType::Float || a.type == ArgType::Int || a.type == ArgType::Bool;
}
bool is_integer(const SchemaArg& a) { return a.type == ArgType::Int || a.type == ArgType::Bool; }

// The shape rule.

Type result_type(const Call& c, Lexer& lexer) {
  std::string name(lexer.word());
  std::optional<DType> dtype;
  for (int t = 0; t < num_dtypes; t++)
    if (name_of(static_cast<DType>(t)) == name) dtype = static_cast<DType>(t);
  auto tensor = [&](std::string_view arg) -> const Type* {
    int at = c.def.signature.find(arg);
    return at >= 0 && c.args[static_cast<size_t>(at)].is<ValueId>() ? &c.type(arg) : nullptr;
  };
  const Type* like = dtype ? nullptr : tensor(name);
  if (!dtype && !like) lexer.fail(fmt::format("{} is neither a dtype nor a tensor argument", name));
  if (!lexer.accept("[")) {
    if (!like) lexer.fail("sizes are missing");
    return Type::tensor(like->dtype, like->sizes);
  }
  Names names{.value =
                  [&](std::string_view arg) {
                    int at = c.def.signature.find(arg);
                    return at >= 0 && c.def.signature.args[static_cast<size_t>(at)].type == ArgType::Int ? c.sym(arg) : Expr{};
                  },
              .size = [&](std::string_view arg, int64_t dim) { return tensor(arg) ? c.size(arg, dim) : Expr{}; }};
  std::vector<Expr> sizes;
  while (!lexer.accept("]")) {
    if (!sizes.empty()) lexer.expect(",");
    sizes.push_back(parse_expr(c.pool(), lexer, names));
    if (sizes.back()->type != DType::I64) lexer.fail("a size is not an integer");
    if (auto known = const_int(sizes.back()); known && *known < 0) lexer.fail("a size is negative");
  }
  return Type::tensor(dtype ? *dtype : like->dtype, std::move(sizes));
}

std::vector<Type> infer(const Call& c) {
  const Custom& op = custom_of(c);
  Lexer lexer(op.results);
  std::vector<Type> out;
  while (!lexer.at_end()) {
    if (!out.empty()) lexer.expect(";");
    out.push_back(result_type(c, lexer));
  }
  for (const SchemaArg& a : op.def.signature.args)
    if (a.written) out.push_back(Type::tensor(c.type(a.name).dtype, c.type(a.name).sizes));
  size_t want = op.functional.signature.returns.size();
  if (out.size() != want) c.fail(fmt::format("{} results by the shape rule, {} by the schema", out.size(), want));
  return out;
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

// The function. Parameters of its step: the operator's number, a layout for each tensor argument (how many tensors; -1 for None), then the
// caller's.

void add_number(const Call& c, const SchemaArg& schema, const Arg& value, LibraryStep& step) {
  if (is_integer(schema)) step.ints.push_back(cast(to_expr(c.pool(), value), DType::I64));
  else step.numbers.push_back(cast(to_expr(c.pool(), value), DType::F64)->number());
}

void add_argument(const Call& c, size_t i, LibraryStep& step) {
  const SchemaArg& schema = c.def.signature.args[i];
  const Arg& arg = c.args[i];
  if (schema.type == ArgType::Tensor) {
    if (schema.list) step.ints.push_back(c.pool().integer(static_cast<int64_t>(c.values(schema.name).size())));
    return;
  }
  if (schema.optional) step.ints.push_back(c.pool().integer(!arg.is_none()));
  if (arg.is<ArgList>()) {
    step.ints.push_back(c.pool().integer(static_cast<int64_t>(arg.get<ArgList>().size())));
    for (const Arg& e : arg.get<ArgList>()) add_number(c, schema, e, step);
  } else if (!arg.is_none()) {
    if (!is_integer(schema) && !c.scalar(schema.name)->is_const())
      c.fail(fmt::format("argument {} must be known at compile time", schema.name));
    add_number(c, schema, arg, step);
  } else add_number(c, schema, int64_t{0}, step);
}

LibraryStep step(const Call& c) {
  LibraryStep s{.function = call_custom};
  s.ints.push_back(c.pool().integer(custom_of(c).number));
  for (auto& a : c.def.signature.args) {
    if (a.type != ArgType::Tensor) continue;
    std::vector<ValueId> values = c.values(a.name);
    s.ints.push_back(c.pool().integer(values.empty() && !a.list ? -1 : static_cast<int64_t>(values.size())));
    s.inputs.insert(s.inputs.end(), values.begin(), values.end());
  }
  for (size_t i = 0; i < c.args.size(); i++) add_argument(c, i, s);
  return s;
}

// Registration.

void check_arguments(const Schema& s, bool expression) {
  for (auto& a : s.args) {
    bool tensor = a.type == ArgType::Tensor;
    require_input(tensor || is_number(a), "{}: an argument of the type of {} cannot be handed on", s.name, a.name);
    require_input(!expression || (!a.list && !a.optional && !a.written), "{}: an expression takes tensors and numbers only, not {}", s.name,
                  a.name);
    require_input(!a.optional_elements && (!a.optional || !a.list), "{}: optional lists are not supported: {}", s.name, a.name);
  }
  for (auto& r : s.returns)
    require_input(r.type == ArgType::Tensor && !r.list && !r.optional && r.alias.empty(), "{}: results are new tensors", s.name);
}

// Over f32 operands: names and functions are right, or the error says where they are not.
void try_expression(const Custom& op) {
  ExprPool pool;
  Names names{.value = [&](std::string_view name) -> Expr {
    int at = op.def.signature.find(name);
    return at < 0 ? Expr{} : pool.symbol(std::string(name), DType::F32);
  }};
  Lexer lexer(op.expression);
  parse_expr(pool, lexer, names);
  if (!lexer.at_end()) lexer.fail("more text after the expression");
}

Custom describe(const tenon_op& op) {
  require_input(op.schema != nullptr, "a custom operator without schema");
  Custom c{.schema = op.schema,
           .results = op.results ? op.results : "",
           .expression = op.expression ? op.expression : "",
           .function = op.function,
           .data = op.data,
           .keep = {},
           .def = {},
           .functional = {},
           .number = 0};
  c.number = number_of(c.schema, c.results);
  Schema s = parse_schema(c.schema);
  require_input(s.name.find("::") != s.name.npos && !s.name.starts_with("prim::") && !s.name.starts_with("edge::") &&
                    !s.name.starts_with("tenon::"),
                "{}: a custom operator's name has a namespace of its own", s.name);
  bool expression = op.expression != nullptr;
  require_input(expression != (op.function != nullptr), "{}: either a function or an expression", s.name);
  check_arguments(s, expression);
  require_input(!expression ||
                    (s.returns.size() == 1 && std::any_of(s.args.begin(), s.args.end(), [](auto& a) { return a.type == ArgType::Tensor; })),
                "{}: an expression has a tensor argument and one result", s.name);
  for (auto& a : s.args)
    if (a.type != ArgType::Tensor) c.keep += (c.keep.empty() ? "" : " ") + a.name;
  c.def.signature = s;
  c.def.kind = expression ? Kind::Pointwise : Kind::Library;
  if (expression) c.def.body = body;
  else c.def.infer = infer, c.def.library = step;
  c.functional = c.def;
  if (!s.mutates()) return c;
  c.functional.signature.name = s.name.substr(0, s.name.rfind('.')) + ".functional_" + s.name.substr(s.name.rfind('.') + 1);
  for (auto& a : c.functional.signature.args)
    if (std::exchange(a.written, false)) a.alias.clear(), c.functional.signature.returns.push_back({});
  return c;
}

} // namespace

void register_custom(const tenon_op& op) {
  Custom c = describe(op);
  if (!c.expression.empty()) try_expression(c);
  const std::string& name = c.def.signature.name;
  const OpDef* known = find_op(name);
  require_input(!known || known == find_custom(name), "{} is an operator of tenon's own", name);
  std::unique_lock lock(registry().mutex);
  if (int64_t at = index_of(name); at >= 0) {
    const Custom& old = registry().ops[static_cast<size_t>(at)];
    bool same = old.schema == c.schema && old.results == c.results && old.expression == c.expression && old.function == c.function &&
                old.data == c.data;
    require_input(same, "{} is registered already, with another meaning", name);
    return;
  }
  require_input(std::ranges::find(registry().ops, c.number, &Custom::number) == registry().ops.end(),
                "{}: another operator has its number: give it another name", name);
  Custom& kept = registry().ops.emplace_back(std::move(c));
  kept.def.schema = kept.functional.schema = kept.schema;
  kept.def.keep = kept.functional.keep = kept.keep;
}

const OpDef* find_custom(std::string_view name) {
  std::shared_lock lock(registry().mutex);
  int64_t at = index_of(name);
  if (at < 0) return nullptr;
  const Custom& c = registry().ops[static_cast<size_t>(at)];
  return c.functional.signature.name == name ? &c.functional : &c.def;
}

const OpDef* functional_custom(const OpDef& def) {
  if (!def.signature.mutates()) return nullptr;
  std::shared_lock lock(registry().mutex);
  int64_t at = index_of(def.signature.name);
  return at >= 0 ? &registry().ops[static_cast<size_t>(at)].functional : nullptr;
}

const char* call_custom(const LibraryCall& c) {
  try {
    const Custom* known = numbered(c.ints[0]);
    if (!known) return "a custom operator that is not registered";
    const Custom& op = *known;
    size_t operands = 0;
    for (auto& a : op.def.signature.args) operands += a.type == ArgType::Tensor;
    auto view = [](const LibraryTensor& t) {
      return tenon_tensor{t.data, t.sizes.data(), static_cast<int32_t>(t.rank()), static_cast<int32_t>(t.dtype)};
    };
    std::vector<tenon_tensor> inputs, outputs;
    size_t next = 0;
    for (size_t i = 0; i < operands; i++) {
      int64_t n = c.ints[1 + i];
      if (n < 0) inputs.push_back({nullptr, nullptr, -1, 0});
      for (int64_t k = 0; k < n; k++) inputs.push_back(view(c.inputs[next++]));
    }
    for (auto& t : c.outputs) outputs.push_back(view(t));
    auto ints = c.ints.subspan(1 + operands);
    tenon_op_call call{inputs.data(),  outputs.data(), ints.data(),      c.numbers.data(), inputs.size(),
                       outputs.size(), ints.size(),    c.numbers.size(), op.data};
    return op.function(&call);
  } catch (const std::exception& e) {
    thread_local std::string message;
    return (message = e.what()).c_str();
  }
}

std::string custom_text(int64_t number) {
  const Custom* op = numbered(number);
  return op ? fmt::format("{}, results {}", op->schema, op->results) : "";
}

} // namespace tenon::ops
