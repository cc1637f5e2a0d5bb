// What a caller gives and gets, flat and nested.
#pragma once
#include "ir/program.h"

namespace tenon {

struct Signature {
  std::vector<ArgInfo> inputs, outputs;
  Tree in_spec, out_spec;             // their leaves are ArgInfos and fixed values; ((positional...), {keyword: ...}), and any
  std::vector<std::string> arg_names; // of positional arguments; may be fewer
};

/// A program that says nothing of nesting takes and gives tuples of leaves. BadInput where trees have more or fewer leaves than the
/// program.
Signature signature_of(const LoadedProgram& program);

} // namespace tenon
