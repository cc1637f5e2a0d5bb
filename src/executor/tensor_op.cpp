#include "executor/tensor_op.h"

#include "aten/passes.h"
#include "base/strided.h"
#include "compile/compile.h"
#include "executor/constants.h"
#include "executor/refusals.h"
#include "executor/tensor_program.h"
#include "executor/views.h"
#include "ir/builder.h"
#include "ops/names.h"

namespace tenon::executor {

struct TensorOp::Prepared {
  std::unique_ptr<TensorProgram> program; // none for views
  struct View {
    size_t of; // among the tensors of the call
    StridedView place;
    DType dtype;
  };
  std::vector<View> views;
  std::vector<size_t> tensors;   // which of the call's tensors are parameters: the same one is given once
  std::vector<bool> is_list;     // of each result: whether it is one element of a list
  std::vector<bool> is_returned; // in place: the result is the operand
};

namespace {

// The tensors of a call, lists flattened, in the order of the schema.
void collect(const IValue& v, std::vector<IValue>& out) {
  if (v.is(IValue::Tag::Tensor)) out.push_back(v);
  else if (v.is(IValue::Tag::List))
    for (const IValue& e : v.to_list()) collect(e, out);
}

template <class T> void put(std::string& key, const T& v) { key.append(reinterpret_cast<const char*>(&v), sizeof v); }

// All that the way of a call depends on. Tensors: dtype, sizes, and for views strides; which of them are the same.
void add_key(std::string& key, const IValue& v, std::vector<IValue>& tensors, bool strides) {
  using Tag = IValue::Tag;
  put(key, v.tag());
  switch (v.tag()) {
  case Tag::None: return;
  case Tag::Bool: return put(key, v.to_bool());
  case Tag::Int: return put(key, v.to_int());
  case Tag::Double: return put(key, v.to_double());
  case Tag::Complex: return put(key, v.to_complex());
  case Tag::String: put(key, v.to_string().size()), key += v.to_string(); return;
  case Tag::Device: put(key, v.to_device().size()), key += v.to_device(); return;
  case Tag::List:
  case Tag::Tuple: {
    auto& items = v.is(Tag::List) ? v.to_list() : v.to_tuple();
    put(key, items.size());
    for (const IValue& e : items) add_key(key, e, tensors, strides);
    return;
  }
  case Tag::Tensor: {
    const Tensor& t = v.to_tensor();
    put(key, t.dtype()), put(key, t.rank());
    for (int64_t s : t.sizes()) put(key, s);
    if (strides)
      for (int64_t s : t.strides()) put(key, s);
    size_t same = 0;
    while (same < tensors.size() && !tensors[same].same(v)) same++;
    put(key, same);
    tensors.push_back(v);
    return;
  }
  default: bad_input("a {} is no argument of an operator on tensors", name_of(v.tag()));
  }
}

bool is_view(const Schema& s) { return !s.returns.empty() && !s.returns[0].alias.empty() && !s.returns[0].written; }

// Whether the call asks for memory in another order than `base` has: no view, then.
bool is_reordered(const Schema& s, std::span<const IValue> args, const Tensor& base) {
  constexpr int64_t contiguous = 0, preserve = 1; // torch's numbers of memory formats
  int i = s.find("memory_format");
  if (i < 0 || !args[static_cast<size_t>(i)].is(IValue::Tag::Int)) return false;
  int64_t format = args[static_cast<size_t>(i)].to_int();
  return format != preserve && !(format == contiguous && base.is_contiguous());
}

} // namespace

TensorOp::TensorOp(const OpDef& def, std::string name, const Schema& signature, bool in_place)
    : def_(def), name_(std::move(name)), signature_(signature), in_place_(in_place) {}
TensorOp::~TensorOp() = default;

namespace {

// A program of one call: a parameter for each distinct tensor.
struct OneCall {
  LoadedProgram program;
  std::vector<size_t> tensors; // which of the call's each parameter is
};

OneCall program_of_call(const OpDef& def, const std::string& name, const Schema& signature, bool in_place, std::span<const IValue> args) {
  OneCall made;
  LoadedProgram& p = made.program;
  Graph& g = p.graph;
  std::vector<IValue> tensors;
  std::vector<ValueId> values;
  auto param_of = [&](const IValue& v) -> Arg {
    size_t same = 0;
    while (same < tensors.size() && !tensors[same].same(v)) same++;
    tensors.push_back(v);
    if (same + 1 < tensors.size()) {
      values.push_back(values[same]);
      return values[same];
    }
    const Tensor& t = v.to_tensor();
    std::vector<Expr> sizes;
    for (int64_t s : t.sizes()) sizes.push_back(g.pool().integer(s));
    ValueId id = g.add_param(g.top(), Type::tensor(t.dtype(), std::move(sizes)));
    p.inputs.push_back({.kind = InputKind::User, .name = fmt::format("arg{}", values.size()), .target = {}, .value = id});
    made.tensors.push_back(values.size());
    values.push_back(id);
    return id;
  };
  ArgList list;
  for (size_t i = 0; i < args.size(); i++) list.push_back(arg_of(signature.args[i], args[i], param_of));
  if (in_place) {
    Type self = g.type(list.at(0).get<ValueId>());
    g.append(g.top(), {.op = name, .def = &def, .args = std::move(list)}, {self});
    return made;
  }
  Values results = Builder(g, g.top(), false).call_full(def, std::move(list));
  for (V v : results) {
    g.block(g.top()).returns.push_back(v.id);
    p.outputs.push_back({.kind = OutputKind::User});
  }
  return made;
}

} // namespace

std::shared_ptr<TensorOp::Prepared> TensorOp::prepare(std::span<const IValue> args) {
  if (in_place_ && signature_.find("src") == 1) check_copied(args[0].to_tensor(), args[1].to_tensor());
  OneCall call = program_of_call(def_, name_, signature_, in_place_, args);
  if (in_place_) { // what the function gives is to fit what is written
    const LoadedProgram function = program_of_call(def_, name_, signature_, false, args).program;
    const ArgList& returns = function.graph.block(function.graph.top()).returns;
    if (returns.size() == 1 && returns[0].is<ValueId>()) check_written(args[0].to_tensor(), function.graph.type(returns[0].get<ValueId>()));
  }
  auto p = std::make_shared<Prepared>();
  p->tensors = call.tensors;
  if (is_view(signature_) && call.tensors.size() == 1) {
    LoadedProgram edge = call.program;
    lower(edge, "edge");
    std::vector<IValue> tensors;
    for (const IValue& a : args) collect(a, tensors);
    const Tensor& base = tensors.at(call.tensors[0]).to_tensor();
    bool good = !is_reordered(signature_, args, base);
    for (const Arg& r : edge.graph.block(edge.graph.top()).returns) {
      auto place = good && r.is<ValueId>() ? strided_view(edge.graph, r.get<ValueId>(), base.strides()) : std::nullopt;
      good &= place.has_value() && edge.graph.type(r.get<ValueId>()).dtype == base.dtype();
      if (good) p->views.push_back({call.tensors[0], std::move(*place), base.dtype()});
    }
    if (good) return p;
    p->views.clear();
    if (def_.signature.name == aten::view)
      bad_input("view size is not compatible with input tensor's size and stride (at least one dimension spans across two contiguous "
                "subspaces). Use .reshape(...) instead.");
  }
  p->program = std::make_unique<TensorProgram>(std::move(call.program));
  return p;
}

std::vector<IValue> TensorOp::run_view(const Prepared& p, std::span<const IValue> args) {
  std::vector<IValue> tensors, out;
  for (const IValue& a : args) collect(a, tensors);
  for (const Prepared::View& v : p.views) {
    const Tensor& base = tensors[v.of].to_tensor();
    auto* data = static_cast<char*>(base.data()) + v.place.offset * static_cast<int64_t>(size_of(v.dtype));
    out.emplace_back(Tensor(v.dtype, v.place.sizes, v.place.strides, base.storage(), data));
  }
  return out;
}

std::vector<IValue> TensorOp::run(std::span<const IValue> args) {
  std::string key;
  std::vector<IValue> tensors;
  for (const IValue& a : args) add_key(key, a, tensors, is_view(signature_));
  std::shared_ptr<Prepared> p;
  {
    std::scoped_lock lock(mutex_);
    auto& slot = prepared_[key];
    if (!slot) {
      if (prepared_.size() > 256) prepared_.clear(), p = prepare(args), prepared_[key] = p;
      else slot = prepare(args), p = slot;
    } else p = slot;
  }
  std::vector<IValue> out;
  if (!p->program) out = run_view(*p, args);
  else {
    std::vector<TensorView> views;
    for (size_t i : p->tensors) views.push_back(tensors[i].to_tensor().view());
    std::vector<Tensor> results;
    try {
      results = p->program->run(views);
    } catch (const Error& e) {
      throw Error(e.kind, torch_message(e.what(), signature_, args), e.where);
    }
    if (in_place_) return {args[0]};
    for (Tensor& t : results) out.emplace_back(std::move(t));
  }
  if (signature_.variadic_result) {
    IValue list = IValue::list(std::move(out));
    out.clear();
    out.push_back(std::move(list));
  }
  return out;
}

} // namespace tenon::executor
