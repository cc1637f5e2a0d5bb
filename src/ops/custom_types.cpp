// The shape rule of custom operators: types of results from those of arguments.
#include <algorithm>

#include "base/lexer.h"
#include "expr/names.h"
#include "ops/custom_registry.h"

namespace tenon::ops {

namespace {

class ShapeRule {
public:
  explicit ShapeRule(const Call& call) : c_(call), lexer_(custom_of(call).results) {}

  std::vector<Type> types() {
    std::vector<Type> out;
    while (!lexer_.at_end()) {
      if (!out.empty()) lexer_.expect(";");
      std::vector<Type> next = results();
      out.insert(out.end(), next.begin(), next.end());
    }
    return out;
  }

private:
  const SchemaArg* argument(std::string_view name) const {
    int at = c_.def.signature.find(name);
    return at < 0 ? nullptr : &c_.def.signature.args[static_cast<size_t>(at)];
  }
  const Type* tensor(std::string_view name) const {
    const SchemaArg* arg = argument(name);
    return arg && arg->type == ArgType::Tensor && !arg->list && c_[name].is<ValueId>() ? &c_.type(name) : nullptr;
  }
  std::optional<DType> dtype(std::string_view name) const {
    for (int t = 0; t < num_dtypes; t++)
      if (name_of(static_cast<DType>(t)) == name) return static_cast<DType>(t);
    const SchemaArg* arg = argument(name);
    return arg && arg->type == ArgType::DType && !arg->list ? c_.dtype(name) : std::nullopt;
  }

  // One type, or those of a list.
  std::vector<Type> results() {
    std::string name(lexer_.word());
    if (const SchemaArg* arg = argument(name); arg && arg->type == ArgType::Tensor && arg->list) {
      std::vector<Type> all;
      for (ValueId v : c_.values(name)) all.push_back(Type::tensor(c_.graph.type(v).dtype, c_.graph.type(v).sizes));
      return all;
    }
    const Type* like = tensor(name);
    std::optional<DType> type = like ? like->dtype : dtype(name);
    if (!type) lexer_.fail(fmt::format("{} is neither a dtype nor a tensor argument", name));
    if (!lexer_.at("[") && !like) lexer_.fail("sizes are missing");
    Type one = Type::tensor(*type, lexer_.accept("[") ? sizes() : like->sizes);
    if (!lexer_.accept("*")) return {one};
    auto count = const_int(integer());
    if (!count) unsupported("{}: how many results there are must be known at compile time", c_.def.signature.name);
    if (*count < 0 || *count > 4096) lexer_.fail(fmt::format("{} results", *count));
    return std::vector<Type>(static_cast<size_t>(*count), one);
  }

  std::vector<Expr> sizes() {
    std::vector<Expr> list;
    while (!lexer_.accept("]")) {
      if (!list.empty()) lexer_.expect(",");
      size_t begin = lexer_.position();
      if (lexer_.at_word())
        if (const Type* t = tensor(lexer_.word()); t && (lexer_.at("]") || lexer_.at(","))) { // all of its sizes
          list.insert(list.end(), t->sizes.begin(), t->sizes.end());
          if (list.empty() && lexer_.accept("]")) break;
          continue;
        }
      lexer_.go_back(begin);
      list.push_back(integer());
      if (auto known = const_int(list.back()); known && *known < 0) lexer_.fail("a size is negative");
    }
    return list;
  }

  Expr integer() {
    Names names{.value =
                    [&](std::string_view name) {
                      const SchemaArg* arg = argument(name);
                      return arg && arg->type == ArgType::Int && !arg->list ? c_.sym(name) : Expr{};
                    },
                .size = [&](std::string_view name, int64_t dim) { return tensor(name) ? c_.size(name, dim) : Expr{}; }};
    Expr e = parse_expr(c_.pool(), lexer_, names);
    if (e->type != DType::I64) lexer_.fail("a size is not an integer");
    return e;
  }

  const Call& c_;
  Lexer lexer_;
};

Type type_of_number(const SchemaArg& result) {
  DType t = result.type == ArgType::Int ? DType::I64 : result.type == ArgType::Bool ? DType::Bool : DType::F64;
  return Type::tensor(t, {});
}

} // namespace

// In the schema's order: tensors by the rule, numbers in 0-d tensors; then the new values of written arguments, where the form returns
// them.
std::vector<Type> infer_custom(const Call& c) {
  const Schema &given = custom_of(c).forms[0].signature, &own = c.def.signature;
  std::vector<Type> by_rule = ShapeRule(c).types(), out;
  bool is_list = given.variadic_result;
  auto wanted = static_cast<size_t>(std::ranges::count(given.returns, ArgType::Tensor, &SchemaArg::type));
  if (!is_list && by_rule.size() != wanted) c.fail(fmt::format("{} results by the shape rule, {} by the schema", by_rule.size(), wanted));
  auto next = by_rule.begin();
  if (is_list) out = by_rule;
  else
    for (const SchemaArg& r : given.returns) out.push_back(r.type == ArgType::Tensor ? *next++ : type_of_number(r));
  if (given.mutates() && !own.mutates())
    for (const SchemaArg& a : given.args)
      if (a.written) out.push_back(Type::tensor(c.type(a.name).dtype, c.type(a.name).sizes));
  return out;
}

} // namespace tenon::ops
