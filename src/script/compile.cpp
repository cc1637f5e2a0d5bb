#include "script/emitter.h"
#include "script/script.h"

namespace tenon::script {

ScriptProgram compile_script(std::string_view source, std::string_view file, std::string_view entry) {
  auto text = std::make_shared<const Source>(Source{std::string(file), std::string(source)});
  if (source.size() > (size_t{1} << 26)) bad_input("{}: more than 64 MB of source", file);
  std::unique_ptr<Scope> scope = make_scope(text);
  auto* found = scope->find(entry);
  if (!found) scope->refuse_broken(entry), scope->refuse_broken("");
  if (!found) bad_input("{} has no function or class '{}'", file, entry);
  ScriptProgram program;
  Emitter emitter(program.graph, program.weights);
  if (auto* def = std::get_if<std::shared_ptr<const Def>>(found)) {
    program.params = emitter.emit_entry({*def, scope.get(), nullptr});
    return program;
  }
  auto* cls = std::get_if<std::shared_ptr<const ClassDef>>(found);
  if (!cls) bad_input("{}: '{}' is neither a function nor a module class", file, entry);
  InstanceP module = Evaluator().instantiate({*cls, scope.get()}, {}, {}, (*cls)->range);
  name_attributes(module, "");
  auto forward = find_method(module->cls, "forward");
  if (!forward) fail((*cls)->range, "Module '{}' has no forward method", entry);
  forward->self = module;
  program.params = emitter.emit_entry(*forward);
  return program;
}

} // namespace tenon::script
