// The line from a loaded program to something that runs, one call per stage.
#pragma once
#include <string_view>

#include "ir/program.h"
#include "ir/verify.h"
#include "tenon/options.h"

namespace tenon {

struct Pass;

/// A pass of any stage by its name; BadInput lists the names where there is none.
Pass find_pass(std::string_view name);
/// The verifier's checks that hold after every pass: what TENON_VERIFY=1 turns on.
void verify_program(const LoadedProgram& program);
/// The same for a graph that a user wrote, which is what BadInput speaks of then, in the words `whose`.
void verify_given_program(const LoadedProgram& program, Dialect dialect, std::string_view whose);
/// Runs the stages on `program` up to and including `stage`: "aten" (as loaded), "edge", "backend".
void lower(LoadedProgram& program, std::string_view stage, const Options& options = {});

} // namespace tenon
