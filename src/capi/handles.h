// What stands behind the C API's handles, and how its functions are made: over include/tenon alone.
#pragma once
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tenon/program.h"
#include "tenon/tenon.c.h"

struct tenon_error {
  int32_t code;
  std::string message, where;
};
struct tenon_tensors {
  std::vector<tenon::NamedTensor> tensors;
};
struct tenon_thread_pool {
  tenon::ThreadPool pool;
};
struct tenon_bound_call {
  tenon::BoundCall call;
};

namespace tenon::capi {

/// Inputs or outputs as tenon_arg_info shows them.
struct Args {
  std::vector<ArgInfo> infos;
  std::vector<std::vector<const char*>> sizes; // into the texts of infos

  explicit Args(std::vector<ArgInfo> args);
  Args(const Args& o) : Args(o.infos) {}
  void get(size_t i, tenon_arg_info* out) const;
};

/// The status of an exception that is being handled, which `error` gets.
int32_t failed(tenon_error** error) noexcept;

/// Calls f, and makes a status of what it throws.
template <class F> int32_t guarded(tenon_error** error, F f) noexcept {
  try {
    f();
    return TENON_OK;
  } catch (...) {
    return failed(error);
  }
}

[[noreturn]] void refuse(const std::string& message);
/// The argument; throws where it is NULL.
template <class T> T* need(T* argument, const char* name) {
  if (!argument) refuse(std::string(name) + " is NULL");
  return argument;
}
/// A heap copy that tenon_text_free frees.
char* text_of(const std::string& text);

/// A growing struct of the caller, with the defaults of what it lacks.
template <class T> T read_struct(const T& given) {
  T out{};
  uint32_t size = given.struct_size;
  if (size < sizeof size) refuse("struct_size is not set");
  std::memcpy(static_cast<void*>(&out), &given, std::min<size_t>(size, sizeof out));
  auto* bytes = reinterpret_cast<const unsigned char*>(&given);
  for (size_t i = sizeof out; i < size; i++)
    if (bytes[i] != 0) refuse("a struct has a field that this version of tenon does not know");
  return out;
}
/// Fills one of the caller: as much as fits.
template <class T> void write_struct(T* out, T value, const char* name) {
  uint32_t size = need(out, name)->struct_size;
  if (size < sizeof size) refuse("struct_size is not set");
  value.struct_size = size;
  std::memcpy(static_cast<void*>(out), &value, std::min<size_t>(size, sizeof value));
  if (size > sizeof value) std::memset(reinterpret_cast<char*>(out) + sizeof value, 0, size - sizeof value);
}

Options options_of(const tenon_options* options);

DType dtype_of(const DLDataType& dtype);
/// Of the DLTensor that is called `what`. Its spans point into it.
TensorView view_of(const DLTensor* tensor, const std::string& what, bool with_data = true);
/// The same as a Tensor, which owns nothing where `storage` is null.
Tensor tensor_of(const DLTensor* tensor, const std::string& what, std::shared_ptr<void> storage = nullptr);
/// A handle that shares the tensor's memory.
DLManagedTensorVersioned* managed(Tensor tensor);

/// Views of an array of tensors; the usual number of them takes no memory from the heap.
class Views {
public:
  Views(const DLTensor* const* tensors, size_t count, const char* what, bool with_data = true);
  explicit Views(size_t count);
  Views(const Views&) = delete;
  size_t size() const { return views_.size(); }
  operator std::span<const TensorView>() const { return views_; }
  TensorView& operator[](size_t i) { return views_[i]; }

private:
  std::array<TensorView, 16> few_;
  std::vector<TensorView> many_;
  std::span<TensorView> views_;
};

} // namespace tenon::capi

struct tenon_program {
  tenon::Program program;
  tenon::capi::Args inputs, outputs;

  explicit tenon_program(tenon::Program p) : program(std::move(p)), inputs(program.inputs()), outputs(program.outputs()) {}
};
struct tenon_executable {
  tenon::Executable executable;
  tenon::capi::Args inputs, outputs; // Executable's own would wait for its code
};
