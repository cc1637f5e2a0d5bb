// The version of LLVM that is linked.
#pragma once

namespace tenon {

const char* llvm_version_text();

} // namespace tenon
