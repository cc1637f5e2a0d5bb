// The C API in tests: statuses with their messages, handles that free themselves.
#pragma once
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "tenon/tenon.c.h"

namespace tenon::test {

/// The message where f gives this status; else what came instead. f gets where to put an error.
template <class F> std::string refusal(int32_t status, F f) {
  tenon_error* error = nullptr;
  int32_t got = f(&error);
  std::string message = tenon_error_message(error);
  CHECK(tenon_error_code(error) == got);
  CHECK_MESSAGE(got == status, "status ", got, ": ", message);
  CHECK((error == nullptr) == (got == TENON_OK));
  tenon_error_free(error);
  CHECK(f(static_cast<tenon_error**>(nullptr)) == status); // nobody has to ask why
  return message;
}
template <class F> void succeeds(F f) {
  tenon_error* error = nullptr;
  int32_t got = f(&error);
  REQUIRE_MESSAGE(got == TENON_OK, std::string(tenon_error_message(error)));
  CHECK(error == nullptr);
}

template <auto free> struct Freed {
  template <class T> void operator()(T* p) const { free(p); }
};
template <class T, auto free> using Handle = std::unique_ptr<T, Freed<free>>;
using CProgram = Handle<tenon_program, tenon_program_free>;
using CExecutable = Handle<tenon_executable, tenon_executable_free>;
using CTensors = Handle<tenon_tensors, tenon_tensors_free>;
inline void let_go(DLManagedTensorVersioned* t) { t->deleter(t); }
using CTensor = Handle<DLManagedTensorVersioned, let_go>;

/// What f puts at its `out`.
template <class H, class F> H made(F f) {
  typename H::pointer out = nullptr;
  succeeds([&](tenon_error** e) { return f(&out, e); });
  return H(out);
}
template <class F> std::string text(F f) {
  char* out = nullptr;
  succeeds([&](tenon_error** e) { return f(&out, e); });
  std::string copy = out;
  tenon_text_free(out);
  return copy;
}

/// f32 memory, shown as a DLTensor; row-major without strides.
struct F32 {
  std::vector<float> data;
  std::vector<int64_t> sizes, strides;
  F32(std::vector<float> d, std::vector<int64_t> s, std::vector<int64_t> st = {})
      : data(std::move(d)), sizes(std::move(s)), strides(std::move(st)) {}
  DLTensor shown() {
    return {.data = data.data(),
            .device = {kDLCPU, 0},
            .ndim = static_cast<int32_t>(sizes.size()),
            .dtype = {kDLFloat, 32, 1},
            .shape = sizes.data(),
            .strides = strides.empty() ? nullptr : strides.data(),
            .byte_offset = 0};
  }
};

inline CProgram load(const std::string& name) {
  std::string path = std::string(TENON_FIXTURES) + "/programs/" + name + ".pt2";
  return made<CProgram>([&](auto out, auto e) { return tenon_program_load(path.c_str(), nullptr, out, e); });
}
inline CExecutable compile(const CProgram& program, std::vector<tenon_option> options = {}) {
  tenon_options given{sizeof given, 0, options.data(), options.size(), nullptr};
  return made<CExecutable>([&](auto out, auto e) { return tenon_program_compile(program.get(), &given, out, e); });
}

} // namespace tenon::test
