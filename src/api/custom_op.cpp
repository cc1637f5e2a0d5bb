// register_op, register_kernel, load_op_library.
#include <dlfcn.h>

#include "api/operator.h"
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

Status register_kernel(const tenon_kernel& kernel) {
  return status_of([&] { ops::register_kernel(kernel); });
}

Status load_op_library(const std::string& path) {
  return status_of([&] {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    require_input(library != nullptr, "a library of operators: {}", library ? "" : dlerror());
    auto ops = reinterpret_cast<decltype(&tenon_ops)>(dlsym(library, "tenon_ops"));
    auto kernels = reinterpret_cast<decltype(&tenon_kernels)>(dlsym(library, "tenon_kernels"));
    auto operators = reinterpret_cast<decltype(&tenon_operators)>(dlsym(library, "tenon_operators"));
    require_input(ops || kernels || operators, "{} exports no tenon_ops, tenon_kernels or tenon_operators", path);
    size_t count = 0;
    if (const OperatorDef* list = operators ? operators(&count) : nullptr) register_operators(list, count);
    if (const tenon_op* list = ops ? ops(&count) : nullptr)
      for (size_t i = 0; i < count; i++) ops::register_custom(list[i]);
    if (const tenon_kernel* list = kernels ? kernels(&count) : nullptr)
      for (size_t i = 0; i < count; i++) ops::register_kernel(list[i]);
  });
}

} // namespace tenon
