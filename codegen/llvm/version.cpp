// The version of LLVM that is linked.
#include "codegen/llvm/version.h"

#include <llvm/Config/llvm-config.h>

namespace tenon {

const char* llvm_version_text() { return LLVM_VERSION_STRING; }

} // namespace tenon
