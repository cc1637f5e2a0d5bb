// The interpreter's walk over a graph: definitions, library steps, control flow.
#include "interp/interp.h"

#include "base/stop_point.h"
#include "base/strided.h"
#include "expr/eval.h"
#include "ir/builder.h"
#include "ir/define.h"
#include "ops/names.h"
#include "runtime/collective_steps.h"
#include "runtime/library_steps.h"

namespace tenon {

namespace {

template <class T> Tensor scalar(DType type, T v) {
  Tensor t(type, {});
  *t.data_as<T>() = v;
  return t;
}

double read_scalar(const Tensor& t) {
  require_input(t.numel() == 1, "a tensor of {} elements is read as one number", t.numel());
  return dispatch(t.dtype(), [&]<class T>(T) { return convert<double>(*t.data_as<T>()); });
}

// Memory that a library step asks for while it runs.
struct Allocation {
  std::vector<Tensor> outputs;
  std::vector<DType> types;
  static void* allocate(void* self, int index, std::span<const int64_t> sizes) {
    auto& a = *static_cast<Allocation*>(self);
    try {
      a.outputs[static_cast<size_t>(index)] = Tensor(a.types[static_cast<size_t>(index)], {sizes.begin(), sizes.end()});
    } catch (const Error&) {
      return nullptr;
    }
    return a.outputs[static_cast<size_t>(index)].data();
  }
};

class Interpreter {
public:
  Interpreter(const Graph& graph, SymbolValues& symbols, uint64_t seed, const Collectives* collectives)
      : g_(graph), symbols_(symbols), seed_(seed), collectives_(collectives) {}

  void set(ValueId v, Tensor t) { values_[v] = std::move(t); }
  const Tensor& get(ValueId v) { return values_[v]; }

  std::vector<Tensor> run_block(BlockId id) {
    for (NodeId n : g_.block(id).nodes) stop_point(), run_node(n);
    std::vector<Tensor> out;
    for (const Arg& r : g_.block(id).returns) out.push_back(value_of(r));
    return out;
  }

  void run_node(NodeId id) {
    const Node& n = g_.node(id);
    try {
      if (n.op.dialect() == "prim") return run_prim(n);
      require(n.def != nullptr, "{} has no row", n.op);
      if (n.def->library) return run_library(n);
      if (n.def->is_composite() || (n.def->decompose && n.op.dialect() == "aten")) return run_parts(n);
      require(has_definition(n), "{} is not an Edge operator", n.op);
      std::vector<Tensor> operands;
      for (ValueId v : tensor_operands(n.args, g_)) operands.push_back(get(v));
      set(n.outputs.at(0), evaluate(definition_of(g_, n), g_.type(n.outputs[0]).dtype, operands, symbols_));
    } catch (const Error& e) {
      if (!e.where.empty()) throw;
      throw Error(e.kind, fmt::format("{}: {}", n.op, e.what()), n.op.name());
    }
  }

private:
  Tensor value_of(const Arg& a) {
    if (a.is<ValueId>()) return get(a.get<ValueId>());
    Expr e = to_expr(g_.pool(), a);
    if (!e) return {};
    double v = eval_number(e, [&](const ExprNode& n) { return symbol(n); });
    if (is_float(e->type)) return scalar<double>(DType::F64, v);
    if (e->type == DType::Bool) return scalar<bool>(DType::Bool, v != 0);
    return scalar<int64_t>(DType::I64, evaluate_size(e, symbols_));
  }

  double symbol(const ExprNode& n) {
    auto it = symbols_.find(n.name);
    require_input(it != symbols_.end(), "size {} is used, but nothing gives its value", n.name);
    return it->second;
  }

  void bind(const Type& type, const Tensor& t) {
    for (size_t d = 0; d < type.rank() && d < t.rank(); d++)
      if (type.sizes[d]->op == Op::Symbol) bind_symbol(symbols_, *type.sizes[d], static_cast<double>(t.sizes()[d]));
  }

  void run_library(const Node& n) {
    LibraryStep step = n.def->library(Call(g_, *n.def, n.args, n.attributes));
    std::vector<Tensor> inputs;
    std::vector<LibraryTensor> in, out;
    for (ValueId v : step.inputs) inputs.push_back(get(v).contiguous());
    for (auto& t : inputs) in.push_back({t.data(), t.dtype(), t.sizes()});
    std::vector<int64_t> ints;
    for (Expr e : step.ints) ints.push_back(evaluate_size(e, symbols_));
    Allocation a;
    for (ValueId v : n.outputs) {
      const Type& t = g_.type(v);
      a.types.push_back(t.dtype);
      if (n.def->data_dependent) a.outputs.emplace_back();
      else {
        std::vector<int64_t> sizes;
        for (Expr s : t.sizes) sizes.push_back(evaluate_size(s, symbols_));
        a.outputs.emplace_back(t.dtype, sizes);
      }
    }
    for (auto& t : a.outputs) out.push_back({t.data(), t.dtype(), t.sizes()});
    LibraryCall call{in,
                     out,
                     ints,
                     step.numbers,
                     library::is_random(step.function) ? library::step_seed(seed_, ++random_steps_) : 0,
                     Allocation::allocate,
                     &a,
                     nullptr,
                     step.texts};
    if (step.function == library::wait_tensor) return set(n.outputs[0], inputs[0]);
    if (library::communicates(step.function)) communicate(call, step);
    else if (const char* error = step.function(call)) bad_input("{}", error);
    for (size_t i = 0; i < n.outputs.size(); i++) {
      if (n.def->data_dependent) bind(g_.type(n.outputs[i]), a.outputs[i]);
      set(n.outputs[i], a.outputs[i]);
    }
  }

  // Begun and waited for.
  void communicate(const LibraryCall& call, const LibraryStep& step) {
    require_input(collectives_ != nullptr, "the program communicates, and there is no communicator");
    CollectiveKind what = collective_of(step.function, step.texts, call.ints);
    void* request = nullptr;
    std::string error = collectives_->start(what, call.inputs[0], call.outputs[0], call.ints, request);
    if (error.empty()) error = collectives_->wait(what.group, request);
    require_input(error.empty(), "{}", error);
  }

  // A composite, by its parts.
  void run_parts(const Node& n) {
    Graph parts = written_out(g_, *n.def, n.args);
    Interpreter run(parts, symbols_, seed_, collectives_);
    size_t next = 0;
    for (const Arg& a : n.args) for_each_value(a, [&](ValueId v) { run.set(parts.block(parts.top()).params.at(next++), get(v)); });
    std::vector<Tensor> out = run.run_block(parts.top());
    for (size_t i = 0; i < n.outputs.size(); i++) {
      if (g_.type(n.outputs[i]).is_tensor()) bind(g_.type(n.outputs[i]), out.at(i));
      set(n.outputs[i], out.at(i));
    }
  }

  std::vector<Tensor> values_of(const Arg& list) {
    std::vector<Tensor> out;
    for (const Arg& a : list.get<ArgList>()) out.push_back(value_of(a));
    return out;
  }
  void set_params(BlockId b, const std::vector<Tensor>& values) {
    auto& params = g_.block(b).params;
    for (size_t i = 0; i < params.size(); i++) {
      bind(g_.type(params[i]), values.at(i));
      if (Expr e = g_.type(params[i]).value; e && e->op == Op::Symbol) symbols_[e->name] = read_scalar(values[i]);
      set(params[i], values.at(i));
    }
  }
  void set_outputs(const Node& n, const std::vector<Tensor>& values) {
    for (size_t i = 0; i < n.outputs.size(); i++) {
      const Type& t = g_.type(n.outputs[i]);
      bind(t, values.at(i));
      if (t.value && t.value->op == Op::Symbol) bind_symbol(symbols_, *t.value, read_scalar(values[i]));
      set(n.outputs[i], values.at(i));
    }
  }

  void run_prim(const Node& n) {
    if (n.op == prim::Constant) set(n.outputs[0], g_.tensor(n.args[0].get<TensorId>()));
    else if (n.op == prim::Item) {
      Expr e = g_.type(n.outputs[0]).value;
      double v = read_scalar(get(n.args[0].get<ValueId>()));
      if (e && e->op == Op::Symbol) bind_symbol(symbols_, *e, v);
    } else if (n.op == prim::Assert) {
      Tensor c = value_of(n.args[0]);
      if (read_scalar(c) == 0) bad_input("{}", n.args[1].is<std::string>() ? n.args[1].get<std::string>() : "assertion failed");
    } else if (n.op == prim::Print) {
      for (const Arg& part : n.args[0].get<ArgList>())
        fmt::print("{}", part.is<std::string>() ? part.get<std::string>() : fmt::format("{}", read_scalar(value_of(part))));
    } else if (n.op == prim::If) set_outputs(n, run_block(n.blocks.at(read_scalar(value_of(n.args[0])) != 0 ? 0 : 1)));
    else if (n.op == prim::While) run_while(n);
    else if (n.op == prim::Scan) run_scan(n);
    else if (n.op == prim::Delegate) run_delegate(n);
    else internal_error("{} is not known", n.op);
  }

  void run_while(const Node& n) {
    std::vector<Tensor> carried = values_of(n.args[0]);
    while (true) {
      set_params(n.blocks[0], carried);
      if (read_scalar(run_block(n.blocks[0]).at(0)) == 0) break;
      set_params(n.blocks[1], carried);
      carried = run_block(n.blocks[1]);
    }
    set_outputs(n, carried);
  }

  // By its definition, not by its backend.
  void run_delegate(const Node& n) {
    require(!n.blocks.empty(), "a delegate without its sub-graph");
    set_params(n.blocks[0], values_of(n.args[0]));
    set_outputs(n, run_block(n.blocks[0]));
  }

  // Slice `i` of dim 0, shared.
  static Tensor slice(const Tensor& t, int64_t i) {
    std::vector<int64_t> sizes(t.sizes().begin() + 1, t.sizes().end()), strides(t.strides().begin() + 1, t.strides().end());
    auto* data = static_cast<char*>(t.data()) + i * t.strides()[0] * static_cast<int64_t>(size_of(t.dtype()));
    return Tensor(t.dtype(), sizes, strides, t.storage(), data);
  }

  void run_scan(const Node& n) {
    std::vector<Tensor> carried = values_of(n.args[0]), xs = values_of(n.args[1]);
    bool reverse = n.args[2].is<bool>() && n.args[2].get<bool>();
    size_t num_carried = carried.size(), num_ys = n.outputs.size() - num_carried;
    int64_t steps = xs.empty() ? 0 : xs[0].sizes().at(0);
    std::vector<Tensor> ys(num_ys);
    for (size_t k = 0; k < num_ys; k++) {
      const Type& t = g_.type(n.outputs[num_carried + k]);
      std::vector<int64_t> sizes;
      for (Expr s : t.sizes) sizes.push_back(evaluate_size(s, symbols_));
      ys[k] = Tensor(t.dtype, sizes);
    }
    for (int64_t i = 0; i < steps; i++) {
      int64_t at = reverse ? steps - 1 - i : i;
      std::vector<Tensor> args = carried;
      for (auto& x : xs) args.push_back(slice(x, at));
      set_params(n.blocks[0], args);
      std::vector<Tensor> out = run_block(n.blocks[0]);
      carried.assign(out.begin(), out.begin() + static_cast<ptrdiff_t>(num_carried));
      for (size_t k = 0; k < num_ys; k++) {
        Tensor to = slice(ys[k], at);
        copy_to_strided(out[num_carried + k].contiguous().data(), to.view());
      }
    }
    carried.insert(carried.end(), ys.begin(), ys.end());
    set_outputs(n, carried);
  }

  const Graph& g_;
  SymbolValues& symbols_;
  uint64_t seed_, random_steps_ = 0;
  const Collectives* collectives_;
  SideTable<ValueId, Tensor> values_;
};

} // namespace

std::vector<Tensor> interpret(const Graph& graph, const std::vector<Tensor>& inputs, SymbolValues symbols, uint64_t seed,
                              const Collectives* collectives) {
  Interpreter run(graph, symbols, seed, collectives);
  auto& params = graph.block(graph.top()).params;
  for (size_t i = 0; i < params.size(); i++) run.set(params[i], inputs.at(i));
  return run.run_block(graph.top());
}

} // namespace tenon
