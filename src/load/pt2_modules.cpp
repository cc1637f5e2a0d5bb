// The module call graph, as it is recorded.
#include "load/pt2_modules.h"

namespace tenon {

using json::Element;

namespace {

// A value's name; a constant as JSON.
std::vector<std::string> names_of(Element list) {
  std::vector<std::string> names;
  for (Element argument : json::array(list)) {
    Element value = json::single(argument).second;
    std::string_view name;
    bool named = value.is_object() && (value["name"].get(name) == simdjson::SUCCESS || value["as_name"].get(name) == simdjson::SUCCESS);
    names.push_back(named ? std::string(name) : simdjson::minify(argument));
  }
  return names;
}

} // namespace

std::vector<ir::ModuleCall> read_module_calls(Element module) {
  std::vector<ir::ModuleCall> calls;
  for (Element entry : json::array(json::get(module, "module_call_graph"))) {
    ir::ModuleCall& call = calls.emplace_back(ir::ModuleCall{.fqn = std::string(json::text(entry, "fqn"))});
    auto signature = json::find(entry, "signature");
    if (!signature) continue;
    call.has_signature = true;
    call.inputs = names_of(json::get(*signature, "inputs")), call.outputs = names_of(json::get(*signature, "outputs"));
    call.in_spec = json::text(*signature, "in_spec"), call.out_spec = json::text(*signature, "out_spec");
    if (auto names = json::find(*signature, "forward_arg_names"))
      for (Element n : json::array(*names)) call.forward_arg_names.emplace_back(json::text(n));
  }
  return calls;
}

} // namespace tenon
