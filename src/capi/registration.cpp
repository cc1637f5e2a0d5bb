// Operators, kernels and backends of the user in the C API.
#include "capi/handles.h"
#include "tenon/backend.h"

using namespace tenon;
using namespace tenon::capi;

int32_t tenon_op_register(const tenon_op* op, tenon_error** error) {
  return guarded(error, [&] {
    need(need(op, "op")->schema, "tenon_op::schema");
    register_op(*op).check();
  });
}
int32_t tenon_kernel_register(const tenon_kernel* kernel, tenon_error** error) {
  return guarded(error, [&] {
    need(need(kernel, "kernel")->name, "tenon_kernel::name"), need(kernel->op, "tenon_kernel::op");
    register_kernel(*kernel).check();
  });
}
int32_t tenon_op_library_load(const char* path, tenon_error** error) {
  return guarded(error, [&] { load_op_library(need(path, "path")).check(); });
}
int32_t tenon_backend_library_load(const char* path, char** out, tenon_error** error) {
  return guarded(error, [&] {
    need(out, "out");
    std::string names;
    for (const std::string& name : load_backend_library(need(path, "path")).value()) names += name + "\n";
    *out = text_of(names);
  });
}
