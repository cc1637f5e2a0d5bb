// GraphWriter: nodes, arguments, types as JSON.
#include "load/pt2_write_graph.h"

#include <algorithm>
#include <cmath>

#include "base/json_text.h"
#include "fx/sympy.h"
#include "ir/op.h"
#include "ir/origin.h"
#include "ops/names.h"

namespace tenon {

int scalar_type(DType t) {
  switch (t) {
  case DType::U8: return 1;
  case DType::I8: return 2;
  case DType::I16: return 3;
  case DType::I32: return 4;
  case DType::I64: return 5;
  case DType::F16: return 6;
  case DType::F32: return 7;
  case DType::F64: return 8;
  case DType::C64: return 10;
  case DType::C128: return 11;
  case DType::Bool: return 12;
  case DType::BF16: return 13;
  case DType::F8E4M3FN: return 29;
  case DType::F8E5M2: return 30;
  case DType::F8E4M3FNUZ: return 31;
  case DType::F8E5M2FNUZ: return 32;
  case DType::U64: return 35;
  }
  internal_error("a dtype without a number");
}

std::string tensor_meta(DType dtype, const std::string& sizes, const std::string& strides, int64_t offset, const TensorMeta& meta) {
  std::string device = device_name(meta);
  return fmt::format(R"({{"dtype": {}, "sizes": {}, "requires_grad": {}, "device": {{"type": "{}", "index": {}}}, "strides": {}, )"
                     R"("storage_offset": {{"as_int": {}}}, "layout": 7}})",
                     scalar_type(dtype), sizes, meta.requires_grad, device.substr(0, device.find(':')),
                     meta.device_index < 0 ? "null" : std::to_string(meta.device_index), strides, offset);
}

namespace {

std::string float_text(double d) {
  if (std::isnan(d)) return R"("NaN")";
  if (std::isinf(d)) return d < 0 ? R"("-Infinity")" : R"("Infinity")";
  std::string s = fmt::format("{}", d);
  return s.find_first_of(".e") == s.npos ? s + ".0" : s;
}

std::string word_argument(const Word& w, const SchemaArg* schema) {
  static constexpr std::string_view formats[] = {"unknown", "contiguous_format", "channels_last", "channels_last_3d", "preserve_format"};
  static constexpr std::string_view layouts[] = {"unknown",    "sparse_coo", "sparse_csr", "sparse_csc",
                                                 "sparse_bsr", "sparse_bsc", "mkldnn",     "strided"};
  if (auto at = std::ranges::find(formats, w.text); at != std::end(formats))
    return fmt::format(R"({{"as_memory_format": {}}})", at - std::begin(formats));
  if (auto at = std::ranges::find(layouts, w.text); at != std::end(layouts))
    return fmt::format(R"({{"as_layout": {}}})", at - std::begin(layouts));
  if (schema && schema->type == ArgType::String) return fmt::format(R"({{"as_string": {}}})", json_quote(w.text));
  size_t colon = w.text.find(':');
  return fmt::format(R"({{"as_device": {{"type": {}, "index": {}}}}})", json_quote(w.text.substr(0, colon)),
                     colon == w.text.npos ? "null" : w.text.substr(colon + 1));
}

// "as_tensor" of a value; what union key its name stands in.
std::string_view key_of(const Type& t) {
  switch (t.kind) {
  case TypeKind::Int: return "as_sym_int";
  case TypeKind::Float: return "as_sym_float";
  case TypeKind::Bool: return "as_sym_bool";
  case TypeKind::Custom: return "as_custom_obj";
  case TypeKind::Tensor: return "as_tensor";
  default: return "as_none";
  }
}

} // namespace

std::string GraphWriter::size(Expr e) const {
  if (auto c = const_int(e)) return fmt::format(R"({{"as_int": {}}})", *c);
  Substitution s;
  bool known = true;
  visit(e, [&](const ExprNode& n) {
    if (n.op != Op::Symbol) return;
    auto hint = hints_.find(n.name);
    if (hint == hints_.end()) known = false;
    else s.set(Expr(&n), n.pool->integer(hint->second));
  });
  auto hint = known ? const_int(s.apply(e)) : std::nullopt;
  return fmt::format(R"({{"as_expr": {{"expr_str": {}, "hint": {}}}}})", json_quote(srepr(e)),
                     hint ? fmt::format(R"({{"as_int": {}}})", *hint) : "null");
}

std::string GraphWriter::value(const std::string& name, const Type& type) const {
  std::string_view key = key_of(type);
  if (key == "as_none") return R"({"as_none": true})";
  if (key == "as_custom_obj") unsupported("%{}: an object in a file", name);
  return fmt::format(R"({{"{}": {{"{}": {}}}}})", key, key == "as_tensor" ? "name" : "as_name", json_quote(name));
}

std::string GraphWriter::argument_named(const std::string& name) const {
  for (const FxNode& n : fx_.nodes)
    if (n.name == name && n.val && n.val->types.size() == 1) return value(name, n.val->types[0]);
  return "";
}

std::string GraphWriter::argument(const Arg& a, const SchemaArg* schema) const {
  if (a.is_none()) return R"({"as_none": true})";
  if (a.is<ValueId>()) {
    if (node(a).kind == FxKind::GetAttr) return subgraph(node(a));
    if (!node(a).val) unsupported("%{}: a result of unknown type in a file", node(a).name);
    return value(node(a).name, node(a).val->types.at(0));
  }
  if (a.is<bool>()) return fmt::format(R"({{"as_bool": {}}})", a.get<bool>());
  if (a.is<int64_t>()) return fmt::format(R"({{"as_int": {}}})", a.get<int64_t>());
  if (a.is<double>()) return fmt::format(R"({{"as_float": {}}})", float_text(a.get<double>()));
  if (a.is<std::string>() && schema && schema->type == ArgType::Device) return word_argument(Word{a.get<std::string>()}, schema);
  if (a.is<std::string>()) return fmt::format(R"({{"as_string": {}}})", json_quote(a.get<std::string>()));
  if (a.is<DType>()) return fmt::format(R"({{"as_scalar_type": {}}})", scalar_type(a.get<DType>()));
  if (a.is<Word>()) return word_argument(a.get<Word>(), schema);
  if (a.is<std::complex<double>>())
    return fmt::format(R"({{"as_complex": {{"real": {}, "imag": {}}}}})", float_text(a.get<std::complex<double>>().real()),
                       float_text(a.get<std::complex<double>>().imag()));
  if (a.is<ArgList>()) return list(a.get<ArgList>(), schema);
  unsupported("an argument of this kind in a file");
}

std::string GraphWriter::subgraph(const FxNode& read) const {
  for (const FxGraph& m : fx_.modules) {
    if (m.name != read.target) continue;
    GraphWriter inner(m, hints_);
    std::vector<std::string> inputs;
    for (const FxNode& n : m.nodes)
      if (n.kind == FxKind::Placeholder) inputs.push_back(inner.argument_named(n.name));
    return fmt::format(R"({{"as_graph": {{"name": {}, "graph": {}}}}})", json_quote(m.name),
                       inner.graph(json_array(inputs, [](auto& s) { return s; })));
  }
  unsupported("%{}: a constant inside of control flow in a file", read.name);
}

std::string GraphWriter::list(const ArgList& all, const SchemaArg* schema) const {
  std::span<const Arg> elements = fx_elements(all);
  auto each = [&](auto f) { return std::ranges::all_of(elements, f); };
  auto is_value = [&](const Arg& a, TypeKind kind) { return a.is<ValueId>() && node(a).val && node(a).val->types.at(0).kind == kind; };
  auto is_tensor = [&](const Arg& a) { return is_value(a, TypeKind::Tensor); };
  auto inner = [&](const Arg& a) { // what stands behind the key of the union
    std::string text = argument(a, schema);
    size_t from = text.find(": ") + 2;
    return text.substr(from, text.size() - from - 1);
  };
  auto array = [&](std::string_view key, auto f) { return fmt::format(R"({{"{}": {}}})", key, json_array(elements, f)); };
  auto floats = [&](const Arg& a) { return a.is<double>() ? inner(a) : float_text(static_cast<double>(a.get<int64_t>())); };
  bool tensors = schema ? schema->type == ArgType::Tensor : !elements.empty() && is_tensor(elements[0]);
  if (tensors && each(is_tensor)) return array("as_tensors", inner);
  if (each([&](const Arg& a) { return a.is_none() || is_tensor(a); }) && !elements.empty())
    return array("as_optional_tensors", [&](const Arg& a) { return argument(a); });
  if (each([](const Arg& a) { return a.is<int64_t>(); })) {
    bool real = schema && schema->type == ArgType::Float && !elements.empty();
    return real ? array("as_floats", floats) : array("as_ints", inner);
  }
  if (each([](const Arg& a) { return a.is<double>() || a.is<int64_t>(); })) return array("as_floats", floats);
  if (each([](const Arg& a) { return a.is<bool>(); })) return array("as_bools", inner);
  if (each([](const Arg& a) { return a.is<std::string>(); })) return array("as_strings", inner);
  if (each([&](const Arg& a) { return a.is<int64_t>() || is_value(a, TypeKind::Int); }))
    return array("as_sym_ints", [&](const Arg& a) { return a.is<int64_t>() ? argument(a) : inner(a); });
  if (each([](const Arg& a) { return a.is<ArgList>(); })) return array("as_int_lists", inner);
  unsupported("a list of unlike elements in a file");
}

// Names of the results, taken out by getitem nodes where there are several.
std::string GraphWriter::outputs(uint32_t at) const {
  const FxNode& n = fx_.nodes[at];
  if (!n.val) return "[]"; // checks
  if (!n.val->is_list) return n.val->types.empty() ? "[]" : "[" + value(n.name, n.val->types[0]) + "]";
  std::vector<std::string> names;
  for (size_t k = 0; k < n.val->types.size(); k++) names.push_back(fmt::format("{}_unused_{}", n.name, k));
  for (const FxNode& item : fx_.nodes)
    if (item.target == "operator.getitem" && item.args[0] == Arg(ValueId{at}))
      names.at(static_cast<size_t>(item.args[1].get<int64_t>())) = item.name;
  const OpDef* def = find_op(operator_name(n.target));
  if (def && def->signature.variadic_result)
    return fmt::format(R"([{{"as_tensors": {}}}])",
                       json_array(names, [](auto& s) { return fmt::format(R"({{"name": {}}})", json_quote(s)); }));
  size_t k = 0;
  return json_array(names, [&](auto& s) { return value(s, n.val->types[k++]); });
}

std::string GraphWriter::call(uint32_t at) const {
  const FxNode& n = fx_.nodes[at];
  std::string op = operator_name(n.target);
  const OpDef* def = find_op(op);
  if (!def) def = find_op(functional_name(op));
  if (op.starts_with("edge::") || op.starts_with("tenon::")) unsupported("%{}: {} has no form in ATen", n.name, op);
  std::vector<std::string> inputs;
  auto add = [&](std::string_view name, const Arg& a, const SchemaArg* schema, int kind) {
    inputs.push_back(fmt::format(R"({{"name": {}, "arg": {}, "kind": {}}})", json_quote(name), argument(a, schema), kind));
  };
  static constexpr std::string_view letters[] = {"a", "b", "c"};
  for (size_t i = 0; i < n.args.size(); i++) {
    const SchemaArg* s = def && i < def->signature.args.size() ? &def->signature.args[i] : nullptr;
    std::string_view name = s                                                                         ? std::string_view(s->name)
                            : i < 3 && !op.starts_with("aten::") && !op.starts_with("higher_order::") ? letters[i]
                                                                                                      : "";
    if (op == aten::sym_size_int || op == aten::item || op == aten::_assert_scalar) name = i ? "dim" : "self";
    if (op == aten::_assert_scalar && i) name = "assert_msg";
    add(name, n.args[i], s, 1);
  }
  for (const Attribute& k : n.kwargs) {
    int i = def ? def->signature.find(k.name) : -1;
    add(k.name, k.value, i < 0 ? nullptr : &def->signature.args[static_cast<size_t>(i)], 2);
  }
  std::string metadata;
  if (n.origin) metadata = json_join(metadata_of(*n.origin), [](auto& m) { return json_quote(m.first) + ": " + json_quote(m.second); });
  std::string target = n.target.starts_with("operator.") ? "_" + n.target : n.target;
  std::string_view single = op.starts_with("higher_order::") ? "false" : "null";
  return fmt::format(R"({{"target": {}, "inputs": {}, "outputs": {}, "metadata": {{{}}}, "is_hop_single_tensor_return": {}, "name": {}}})",
                     json_quote(target), json_array(inputs, [](auto& s) { return s; }), outputs(at), metadata, single, json_quote(n.name));
}

// {name: what it is} of the nodes of one kind.
std::string GraphWriter::values_of(TypeKind kind) const {
  std::string all;
  auto add = [&](const std::string& name, const Type& t, const TensorMeta& meta) {
    std::string text;
    if (kind == TypeKind::Tensor) {
      std::vector<Expr> strides = t.strides;
      for (size_t d = 0; strides.size() < t.rank(); d++) strides.push_back(product(*fx_.pool, std::span(t.sizes).subspan(d + 1)));
      auto sizes = [&](auto& list) { return json_array(list, [&](Expr e) { return size(e); }); };
      text = tensor_meta(t.dtype, sizes(t.sizes), sizes(strides), 0, meta);
    } else if (t.value) text = size(t.value);
    else unsupported("%{}: a number without an expression in a file", name);
    all += fmt::format("{}{}: {}", all.empty() ? "" : ", ", json_quote(name), text);
  };
  for (const FxNode& n : fx_.nodes) {
    if (!n.val || n.kind == FxKind::GetAttr) continue;
    if (!n.val->is_list && n.val->types.size() == 1 && n.val->types[0].kind == kind) add(n.name, n.val->types[0], n.val->meta);
    if (n.val->is_list)
      for (size_t k = 0; k < n.val->types.size(); k++) // of those that are not taken out
        if (std::string name = fmt::format("{}_unused_{}", n.name, k); n.val->types[k].kind == kind) {
          auto taken = [&](const FxNode& item) {
            return item.target == "operator.getitem" && &node(item.args[0]) == &n && item.args[1] == Arg(static_cast<int64_t>(k));
          };
          if (std::ranges::none_of(fx_.nodes, taken)) add(name, n.val->types[k], {});
        }
  }
  return "{" + all + "}";
}

std::string GraphWriter::graph(const std::string& inputs) const {
  std::vector<std::string> calls;
  for (uint32_t i = 0; i < fx_.nodes.size(); i++) {
    const FxNode& n = fx_.nodes[i];
    if (n.kind == FxKind::CallFunction && n.target != "operator.getitem") calls.push_back(call(i));
  }
  auto text = [](auto& s) { return s; };
  bool single = !fx_.result.is<ArgList>();
  auto results = single ? std::span(&fx_.result, 1) : fx_elements(fx_.result.get<ArgList>());
  return fmt::format(R"({{"inputs": {}, "outputs": {}, "nodes": {}, "tensor_values": {}, "sym_int_values": {}, "sym_bool_values": {}, )"
                     R"("is_single_tensor_return": {}, "custom_obj_values": {{}}, "sym_float_values": {}}})",
                     inputs, json_array(results, [&](const Arg& a) { return argument(a); }), json_array(calls, text),
                     values_of(TypeKind::Tensor), values_of(TypeKind::Int), values_of(TypeKind::Bool), single, values_of(TypeKind::Float));
}

} // namespace tenon
