// Library steps by name: what a plan that is written to a file says of them.
#pragma once
#include <string_view>

#include "runtime/library.h"

namespace tenon::library {

/// "topk"; empty for a function that is no library step, such as a custom operator's.
std::string_view name_of(LibraryFn step) noexcept;
/// Null: there is none of that name.
LibraryFn find(std::string_view name) noexcept;

} // namespace tenon::library
