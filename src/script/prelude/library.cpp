#include "script/prelude/prelude.h"
#include "script/values.h"

namespace tenon::script {

namespace {

std::unique_ptr<Scope> part(const char* file, std::initializer_list<const char*> texts) {
  std::string all;
  for (auto* t : texts) all += t;
  return make_scope(std::make_shared<const Source>(Source{file, std::move(all)}));
}

} // namespace

const Scope* library_scope(std::string_view path) {
  if (path == "torch.nn.functional") {
    static const auto scope = part("torch/nn/functional.py", {prelude::functional, prelude::losses});
    return scope.get();
  }
  if (path == "torch.nn" || path == "torch.nn.modules") {
    static const auto scope =
        part("torch/nn/modules.py", {prelude::modules, prelude::layers, prelude::padding, prelude::loss_modules, prelude::recurrent});
    return scope.get();
  }
  if (path == "torch" || path == "torch.functional") {
    static const auto scope = part("torch/functional.py", {prelude::tensors});
    return scope.get();
  }
  return nullptr;
}

} // namespace tenon::script
