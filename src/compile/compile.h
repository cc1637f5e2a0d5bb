// The line from a loaded program to something that runs, one call per stage.
#pragma once
#include <string_view>

#include "ir/program.h"
#include "tenon/options.h"

namespace tenon {

/// Runs the stages on `program` up to and including `stage`: "aten" (as loaded), "edge", "backend".
void lower(LoadedProgram& program, std::string_view stage);

} // namespace tenon
