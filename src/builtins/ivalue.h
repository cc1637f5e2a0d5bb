// Values of TorchScript's programs (tenon/ivalue.h), and what the compiler asks of them.
#pragma once
#include "base/check.h"
#include "ir/type.h"
#include "tenon/ivalue.h"

namespace tenon {

/// The type that a value itself shows; an empty list is of its `element`, an empty dict of Any.
Type type_of(const IValue& v);

/// What a program raises: an Error(BadInput) whose message begins with the exception's name where that is not RuntimeError.
[[noreturn]] void raise(std::string_view exception, const std::string& message);

} // namespace tenon
