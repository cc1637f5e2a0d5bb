// Kernels of the user for operators of tenon's own: a row for each layout of memory that a kernel takes, with the operator's arguments and
// results, and a library step.
#include <numeric>

#include "base/lexer.h"
#include "ir/builder.h"
#include "ops/custom_registry.h"

namespace tenon::ops {

namespace {

std::vector<Type> infer_row_major(const Call& c) { return infer_types(c.graph, *custom_of(c).computes, c.args); }

bool has_channels(const Type& t) { return t.is_tensor() && (t.rank() == 4 || t.rank() == 5); }

// Operands and results lie permuted in row-major memory; the operator's types are those of what they stand for.
std::vector<Type> infer_channels_last(const Call& c) {
  Graph scratch(c.graph.shared_pool());
  ArgList args;
  for (const Arg& a : c.args)
    args.push_back(map_values(a, [&](ValueId v) {
      Type t = c.graph.type(v);
      if (t.is_tensor()) t.sizes = from_channels_last(t.sizes);
      return scratch.add_param(scratch.top(), std::move(t));
    }));
  std::vector<Type> types = infer_types(scratch, *custom_of(c).computes, args);
  for (Type& t : types)
    if (t.is_tensor()) t.sizes = to_channels_last(t.sizes);
  return types;
}

V permuted(V x, bool to_memory) {
  if (!has_channels(x.type())) return x;
  std::vector<int64_t> order(x.rank());
  std::iota(order.begin(), order.end(), 0);
  return x.builder().permute(x, to_memory ? to_channels_last(order) : from_channels_last(order));
}

Values call_in_channels_last(Builder& b, const Call& c) {
  ArgList args;
  for (const Arg& a : c.args) args.push_back(map_values(a, [&](ValueId v) { return permuted(b.wrap(v), true).id; }));
  Values out = b.call_full(*form_of(c).runs, std::move(args));
  for (V& v : out) v = permuted(v, false);
  return out;
}

DTypes dtypes_of(const char* text) {
  if (!text) return any_type;
  DTypes set = 0;
  Lexer lexer(text);
  while (!lexer.at_end()) {
    std::string_view name = lexer.word();
    DTypes before = set;
    for (int t = 0; t < num_dtypes; t++)
      if (name_of(static_cast<DType>(t)) == name) set |= set_of({static_cast<DType>(t)});
    if (name.empty() || set == before) lexer.fail(fmt::format("{} is no dtype, or named twice", name));
  }
  return set;
}

// The operator, which a step must be able to compute.
const OpDef& operator_of(const tenon_kernel& k) {
  const OpDef* op = find_op(k.op);
  require_input(op != nullptr, "kernel {}: there is no operator {}", k.name, k.op);
  const Schema& s = op->signature;
  require_input(op->kind != Kind::Prim && !op->data_dependent, "kernel {}: no kernel can compute {}", k.name, s.name);
  require_input(!s.mutates() && functional_name(s.name) == s.name, "kernel {}: {} writes its arguments: take {}", k.name, s.name,
                functional_name(s.name));
  for (const SchemaArg& a : s.args)
    require_input(can_be_handed_on(a) || a.optional, "kernel {}: argument {} of {} cannot be handed on", k.name, a.name, s.name);
  return *op;
}

} // namespace

void register_kernel(const tenon_kernel& k) {
  require_input(k.name && k.op && k.function, "a kernel has a name, an operator and a function");
  std::string name = k.name;
  require_input(name.find("::") != name.npos && name.find('.') == name.npos && !find_op(name),
                "kernel {}: its name is \"namespace::name\", and no operator's", name);
  require_input(k.layout >= TENON_ROW_MAJOR && k.layout <= TENON_ANY_LAYOUT, "kernel {}: there is no layout {}", name, k.layout);
  const OpDef& op = operator_of(k);
  constexpr const char* layouts[] = {"row-major", "channels-last", "any layout"};
  Custom c{.text =
               fmt::format("the kernel {} of {} in {}, {}", name, op.signature.name, k.dtypes ? k.dtypes : "any dtype", layouts[k.layout]),
           .schema = to_string(op.signature),
           .results = {},
           .function = k.function,
           .data = k.data,
           .name = name,
           .computes = &op,
           .dtypes = dtypes_of(k.dtypes)};
  std::vector<Form> forms;
  auto add = [&](std::string_view form, Kind kind) -> Form& {
    Form& f = forms.emplace_back();
    f.signature = op.signature, f.signature.name = fmt::format("{}.{}", name, form), f.kind = kind;
    if (kind == Kind::Library) f.library = step_of_custom;
    return f;
  };
  if (k.layout != TENON_CHANNELS_LAST) add("row_major", Kind::Library).infer = infer_row_major;
  if (k.layout != TENON_ROW_MAJOR) {
    Form& f = add("channels_last", Kind::Composite);
    f.decompose = call_in_channels_last, f.infer = infer_row_major;
    Form& memory = add("channels_last_memory", Kind::Library);
    memory.infer = infer_channels_last, memory.channels_last = true;
  }
  add_custom(std::move(c), std::move(forms));
}

std::vector<Kernel> find_kernels(std::string_view name) {
  std::vector<Kernel> found;
  bool all = name.ends_with('*');
  if (all) name.remove_suffix(1);
  for (const Custom* c : registered()) {
    if (!c->computes || !(all ? c->name.starts_with(name) : c->name == name)) continue;
    Kernel k{
        .name = c->name, .op = c->computes, .dtypes = c->dtypes, .row_major = nullptr, .channels_last = nullptr, .step = &c->forms.back()};
    for (const Form& f : c->forms) {
      if (f.signature.name.ends_with(".row_major")) k.row_major = &f;
      if (f.signature.name.ends_with(".channels_last")) k.channels_last = &f;
    }
    found.push_back(k);
  }
  return found;
}

std::string text_of(const OpDef& def) {
  if (const OpDef* custom = find_custom(def.signature.name); custom == &def)
    if (const Custom& c = *static_cast<const Form&>(def).of; c.computes) return fmt::format("{} by {}", c.computes->signature.name, c.name);
  return def.signature.name;
}

} // namespace tenon::ops
