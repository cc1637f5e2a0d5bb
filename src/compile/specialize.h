// A program for one choice of its inputs' sizes, or of some of them.
#pragma once
#include <map>
#include <span>

#include "ir/program.h"

namespace tenon {

/// What the symbols of a program are where its tensor inputs, dim by dim and input by input, have these sizes; -1: any, which says nothing.
/// BadInput where none give them. Numbers among the inputs are not sizes: their symbols stay.
std::map<std::string, int64_t> symbols_of(const LoadedProgram& program, std::span<const int64_t> sizes);
/// The program with those symbols' values in their place.
LoadedProgram specialize(const LoadedProgram& program, const std::map<std::string, int64_t>& symbols);

} // namespace tenon
