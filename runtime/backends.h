// The registry of backends, and delegates: what a backend made of its bytes.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/parallel.h"
#include "tenon/backend.h"
#include "tenon/tensor.h"

namespace tenon {

/// BadInput for a backend without name or functions, and for a name that another runtime has.
void add_backend(const Backend& backend);
/// Null: there is none of that name. Thread-safe.
std::shared_ptr<const Backend> find_backend(std::string_view name);

/// A handle of a backend. Delegates of equal bytes are one.
class Delegate {
public:
  Delegate(std::shared_ptr<const Backend> backend, Tensor bytes);
  ~Delegate();
  Delegate(const Delegate&) = delete;

  /// What is wrong; empty: nothing. `tensors`: operands, then results.
  std::string execute(std::span<const tenon_tensor> tensors, size_t inputs, std::span<const int64_t> sizes, const Workers& workers) const;
  bool serves(const Backend& backend, const Tensor& bytes) const;

private:
  std::shared_ptr<const Backend> backend_;
  Tensor bytes_;
  void* handle_ = nullptr;
};

/// Throws Error: Unsupported where no backend has the name, BadInput for what its `init` says, and names the operators.
std::shared_ptr<const Delegate> open_delegate(const std::string& backend, const Tensor& bytes, const std::string& operators);

} // namespace tenon
