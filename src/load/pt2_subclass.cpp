// unwrap_subclasses. Nothing is known of any class: an attribute is looked up by name in the state that was saved.
#include "load/pt2_subclass.h"

#include "ir/pass.h"

namespace tenon {

namespace {

constexpr std::string_view access = "export::access_subclass_inner_tensor.default";

// The state is a dict, or a tuple of those (of __dict__ and of __slots__).
const PickleValue* find_attribute(const PickleValue& state, const std::string& name) {
  if (auto* dict = state.as<PickleDict>())
    for (auto& [key, value] : dict->items)
      if (auto* text = key.as<std::string>(); text && *text == name) return &value;
  if (auto* tuple = state.as<PickleTuple>())
    for (auto& part : tuple->items)
      if (auto* found = find_attribute(part, name)) return found;
  return nullptr;
}

const PickleValue& attribute(const PickleValue& value, const std::string& name, const std::string& path) {
  auto* object = value.as<PickleObject>();
  require_input(object != nullptr, "weight {} is no tensor subclass, but the graph reads its {}", path, name);
  const PickleValue* found = object->state.empty() ? nullptr : find_attribute(object->state[0], name);
  require_input(found != nullptr, "weight {} of class {} holds no {}", path, object->class_name, name);
  return *found;
}

class Unwrapper {
public:
  Unwrapper(LoadedProgram& program, const Subclasses& subclasses)
      : program_(program), subclasses_(subclasses), rewrite_(program.graph, false) {}

  void run() {
    const Graph& from = program_.graph;
    for (uint32_t i = 0; i < from.num_tensors(); i++) rewrite_.to.add_tensor(from.tensor(TensorId{i}));
    find_weights();
    find_parts(from.top());
    make_inputs();
    rewrite_.node = [this](NodeId id) { copy(id); };
    rewrite_.copy_block(program_.graph.top(), rewrite_.to.top());
    program_.graph = std::move(rewrite_.to);
  }

private:
  struct Whole {
    const PickleValue* value = nullptr;
    size_t input = 0; // of the program
    std::string path;
  };
  struct Part {
    ProgramInput input; // its value is that of the old graph
    Type type;
  };

  void find_weights() {
    parts_.resize(program_.inputs.size());
    for (size_t i = 0; i < program_.inputs.size(); i++) {
      const ProgramInput& in = program_.inputs[i];
      bool stored = in.kind == InputKind::Parameter || in.kind == InputKind::Buffer || in.kind == InputKind::Constant;
      auto found = stored ? subclasses_.find(in.target) : subclasses_.end();
      if (found != subclasses_.end() && found->second.as<PickleObject>()) whole_[in.value] = {&found->second, i, in.target};
    }
  }

  // An inner tensor may be of a subclass too.
  void find_parts(BlockId block) {
    const Graph& from = program_.graph;
    for (NodeId id : from.block(block).nodes) {
      const Node& n = from.node(id);
      for (BlockId inner : n.blocks) find_parts(inner);
      if (n.op != access) continue;
      require_input(n.args.size() == 2 && n.args[0].is<ValueId>() && n.args[1].is<std::string>() && n.outputs.size() == 1,
                    "{}: strange arguments", n.op);
      Whole whole = whole_.get(n.args[0].get<ValueId>());
      if (!whole.value) unsupported("{} of what is no weight", n.op);
      std::string name = n.args[1].get<std::string>(), path = whole.path + "." + name;
      const PickleValue& value = attribute(*whole.value, name, whole.path);
      if (auto* tensor = value.as<Tensor>()) {
        program_.weights[path] = *tensor;
        parts_[whole.input].push_back(
            {{.kind = InputKind::Parameter, .name = from.value(n.outputs[0]).name, .target = path, .value = n.outputs[0]},
             from.type(n.outputs[0])});
      } else whole_[n.outputs[0]] = {&value, whole.input, path};
    }
  }

  void make_inputs() {
    std::vector<ProgramInput> inputs;
    for (size_t i = 0; i < program_.inputs.size(); i++) {
      ProgramInput in = std::move(program_.inputs[i]);
      bool whole = in.value.valid() && whole_.get(in.value).value;
      for (Part& part : parts_[i]) inputs.push_back(add_param(std::move(part.input), part.type));
      if (whole) in.kind = InputKind::Fixed, in.value = {};
      if (in.value.valid()) in = add_param(std::move(in), program_.graph.type(in.value));
      inputs.push_back(std::move(in));
    }
    program_.inputs = std::move(inputs);
  }

  ProgramInput add_param(ProgramInput in, const Type& type) {
    ValueId now = rewrite_.to.add_param(rewrite_.to.top(), type, in.name);
    rewrite_.set(in.value, now);
    in.value = now;
    return in;
  }

  void copy(NodeId id) {
    const Node& n = program_.graph.node(id);
    if (n.op == access) return;
    for (const Arg& a : n.args) refuse_whole(a, n.op);
    for (const Attribute& a : n.attributes) refuse_whole(a.value, n.op);
    rewrite_.copy_node(id);
  }

  void refuse_whole(const Arg& arg, OpId op) {
    for_each_value(arg, [&](ValueId v) {
      if (Whole w = whole_.get(v); w.value) unsupported("{} of weight {} of class {}", op, w.path, w.value->as<PickleObject>()->class_name);
    });
  }

  LoadedProgram& program_;
  const Subclasses& subclasses_;
  Rewriter rewrite_;
  SideTable<ValueId, Whole> whole_;
  std::vector<std::vector<Part>> parts_; // of each input of the program
};

} // namespace

void unwrap_subclasses(LoadedProgram& program, const Subclasses& subclasses) {
  bool any = false;
  for (auto& [name, value] : subclasses) {
    if (auto* tensor = value.as<Tensor>()) program.weights[name] = *tensor;
    any |= value.as<PickleObject>() != nullptr;
  }
  if (any) Unwrapper(program, subclasses).run();
}

} // namespace tenon
