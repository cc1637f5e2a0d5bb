// register_backend, load_backend_library.
#include <dlfcn.h>

#include "api/impl.h"
#include "base/check.h"
#include "runtime/backends.h"

namespace tenon {

Status register_backend(const Backend& backend) {
  auto done = guarded([&] { return add_backend(backend), true; });
  return done ? Status() : Status(done.error());
}

Result<std::vector<std::string>> load_backend_library(const std::string& path) {
  return guarded([&] {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    require_input(library != nullptr, "a library of backends: {}", library ? "" : dlerror());
    auto exported = reinterpret_cast<decltype(&tenon_backends)>(dlsym(library, "tenon_backends"));
    require_input(exported != nullptr, "{} exports no tenon_backends", path);
    auto describe = reinterpret_cast<void (*)(Backend*)>(dlsym(library, "tenon_describe_backend"));
    size_t count = 0;
    const tenon_backend* list = exported(&count);
    std::vector<std::string> names;
    for (size_t i = 0; i < count; i++) {
      Backend backend{.runtime = list[i]};
      if (describe) describe(&backend);
      add_backend(backend);
      names.emplace_back(backend.runtime.name);
    }
    return names;
  });
}

} // namespace tenon
