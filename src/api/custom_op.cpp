// register_op, load_op_library.
#include <dlfcn.h>

#include "base/check.h"
#include "ops/custom.h"

namespace tenon {

namespace {

template <class F> Status status_of(F f) {
  try {
    f();
    return {};
  } catch (const Error& e) {
    return e;
  } catch (const std::exception& e) {
    return Error(ErrorKind::Internal, e.what());
  }
}

} // namespace

Status register_op(const tenon_op& op) {
  return status_of([&] { ops::register_custom(op); });
}

Status load_op_library(const std::string& path) {
  return status_of([&] {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    require_input(library != nullptr, "a library of operators: {}", library ? "" : dlerror());
    auto exported = reinterpret_cast<decltype(&tenon_ops)>(dlsym(library, "tenon_ops"));
    require_input(exported != nullptr, "{} exports no tenon_ops", path);
    size_t count = 0;
    const tenon_op* list = exported(&count);
    for (size_t i = 0; i < count; i++) ops::register_custom(list[i]);
  });
}

} // namespace tenon
