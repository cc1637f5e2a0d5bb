#include "script/inline.h"

#include "script/emitter.h"

namespace tenon::script {

Functions::Functions(std::string file, std::string text)
    : scope_(make_scope(std::make_shared<const Source>(Source{std::move(file), std::move(text)}))) {}
Functions::~Functions() = default;

bool Functions::has(std::string_view name) const { return scope_->find(name) != nullptr; }

ValueId Emitter::emit_into(BlockId block, const FunctionRef& fn, std::span<const ValueId> args) {
  root.block = block;
  root.boundary = true;
  frame = &root;
  stack.push_back({{}, "0:", {}, {}, {}});
  CallArgs given;
  for (ValueId v : args) given.positional.emplace_back(fn.def->range, Sugared{v});
  return as_value(fn.def->range, inline_call(fn.def->range, fn, given));
}

ValueId emit_call(Graph& graph, BlockId block, const Functions& functions, std::string_view name, std::span<const ValueId> args) {
  auto* found = functions.scope_->find(name);
  auto* def = found ? std::get_if<std::shared_ptr<const Def>>(found) : nullptr;
  require(def, "there is no function {}", name);
  std::vector<std::string> weights;
  return Emitter(graph, weights).emit_into(block, {*def, functions.scope_.get(), nullptr}, args);
}

} // namespace tenon::script
