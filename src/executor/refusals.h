// What torch's kernels refuse at a call, in their words, where the operator's row alone does not say it.
#pragma once
#include <span>

#include "builtins/ivalue.h"
#include "ir/schema.h"

namespace tenon::executor {

/// Throws Error(BadInput) where `from` does not broadcast to the sizes of `self`, which it is copied to.
void check_copied(const Tensor& self, const Tensor& from);
/// Throws Error(BadInput) where a result of this type cannot be written to `self`: by its sizes, by its dtype, or because elements of
/// `self` share memory.
void check_written(const Tensor& self, const Type& result);

/// The message of an operator that met an index out of range, "index 5 is out of range for size 3", as torch has it; others as they are.
std::string torch_message(std::string_view message, const Schema& signature, std::span<const IValue> args);

} // namespace tenon::executor
