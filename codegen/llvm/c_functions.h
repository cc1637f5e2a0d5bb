// libm and the memory functions: what LLVM may call on its own account, or the emitter names.
#pragma once
#include <span>

#include "codegen/llvm/jit.h"

namespace tenon {

std::span<const Symbol> c_functions();

} // namespace tenon
