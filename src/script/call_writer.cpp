#include "script/call_writer.h"

#include <algorithm>

#include "builtins/elements.h"
#include "ops/call_names.h"
#include "ops/names.h"
#include "script/values.h"

namespace tenon::script {

namespace {
// The list that a schema asks for, optional or not.
Type list_of(const SchemaArg& schema) {
  Type t = type_of(schema);
  return t.is(TypeKind::Optional) ? Type(t.element()) : t;
}

// What torch's enumerations are as numbers; none for a text.
std::optional<int64_t> enumerator(const SchemaArg& schema, const std::string& word) {
  if (schema.type == ArgType::String || schema.type == ArgType::Device) return std::nullopt;
  if (word == "Mean" || word == "mean") return 1; // reductions
  auto c = constant_of_path("torch." + word);
  return c && c->as<int64_t>() ? std::optional(*c->as<int64_t>()) : std::nullopt;
}
} // namespace

ValueId CallWriter::one(OpId op, ArgList args, Type type, std::optional<size_t> of) {
  return append_(op, std::move(args), {std::move(type)}, of).at(0);
}

ValueId CallWriter::constant(Arg value, Type type, std::optional<size_t> of) {
  ValueId v = one(prim::Constant, {}, std::move(type), of);
  if (!value.is_none()) g_.node(g_.value(v).node).attributes.push_back({"value", std::move(value)});
  return v;
}

ArgList CallWriter::arguments(const Resolved& call, std::span<const ValueId> given) {
  ArgList out;
  for (size_t i = 0; i < call.args.size(); i++) out.emplace_back(argument(call.args[i], call.signature->args[i], given));
  if (call.signature->any_args)
    for (size_t i = call.args.size(); i < given.size(); i++) out.emplace_back(given[i]);
  return out;
}

ValueId CallWriter::converted(const Passed& p, const SchemaArg& schema, size_t i, ValueId v) {
  if (p.convert.empty()) return v;
  if (p.convert == "empty") return one(prim::ListConstruct, {}, list_of(schema), i);
  if (p.convert != "tuple") {
    std::string_view name = p.convert.substr(0, p.convert.find('.'));
    Given argument{g_.type(v)};
    return append_(name, {v}, resolve(name, std::span(&argument, 1)).results, i).at(0);
  }
  ArgList items;
  const std::vector<Type> types = g_.type(v).elements();
  for (ValueId o : append_(prim::TupleUnpack, {v}, types, i)) items.emplace_back(o);
  Type list = list_of(schema);
  if (list.element().is(TypeKind::Variable)) list = Type::list(types.at(0));
  return one(prim::ListConstruct, std::move(items), std::move(list), i);
}

ValueId CallWriter::argument(const Passed& p, const SchemaArg& schema, std::span<const ValueId> given) {
  if (p.from == Passed::From::Default) return default_value(schema);
  if (p.from == Passed::From::Given) return converted(p, schema, p.index, given[p.index]);
  ArgList items;
  std::optional<ValueId> same;
  for (size_t i = 0; i < p.count; i++) {
    bool repeat = p.from == Passed::From::Repeat;
    size_t at = repeat ? p.index : p.index + i;
    if (!repeat || !same) same = converted(p, schema, at, given[at]);
    items.emplace_back(*same);
  }
  return one(prim::ListConstruct, std::move(items), list_of(schema));
}

ValueId CallWriter::default_value(const SchemaArg& schema) {
  const Arg& d = schema.fallback;
  if (d.is_none()) return constant({}, Type::simple(TypeKind::None));
  Type t = list_of(schema);
  if (d.is<DType>()) return constant(builtins::code_of_dtype(d.get<DType>()), Type::simple(TypeKind::Int));
  if (d.is<Word>()) {
    if (auto number = enumerator(schema, d.get<Word>().text)) return constant(*number, Type::simple(TypeKind::Int));
    return constant(d.get<Word>().text, Type::simple(TypeKind::String));
  }
  if (d.is<Expr>()) bad_input("the default of '{}' is not a constant", schema.name);
  if (t.is(TypeKind::Float) && d.is<int64_t>()) return constant(static_cast<double>(d.get<int64_t>()), t);
  if (t.is(TypeKind::Number))
    t = Type::simple(d.is<bool>()      ? TypeKind::Bool
                     : d.is<int64_t>() ? TypeKind::Int
                     : d.is<double>()  ? TypeKind::Float
                                       : TypeKind::Complex);
  if (!t.is(TypeKind::List)) return constant(d, t);
  ArgList items;
  if (d.is<ArgList>())
    for (const Arg& i : d.get<ArgList>()) items.emplace_back(constant(i, t.element()));
  else items.assign(static_cast<size_t>(std::max(1, schema.fixed_length)), constant(d, t.element())); // int[2] stride=1
  return one(prim::ListConstruct, std::move(items), std::move(t));
}

} // namespace tenon::script
