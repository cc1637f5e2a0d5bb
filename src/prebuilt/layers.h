// Which kernels are prebuilt: those of the layers that networks are made of, as small programs.
#pragma once
#include <vector>

#include "ir/program.h"

namespace tenon {

/// In the ATen dialect. Sizes do not matter, but for what they decide of a kernel's form.
std::vector<LoadedProgram> prebuilt_layers();

} // namespace tenon
