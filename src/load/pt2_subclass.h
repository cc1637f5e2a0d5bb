// Weights of tensor subclasses, such as torchao's quantized tensors.
#pragma once
#include <map>

#include "load/load.h"
#include "load/pickle.h"

namespace tenon {

using Subclasses = std::map<std::string, PickleValue>; // as saved, by qualified name

/// A tensor subclass holds further tensors as attributes, and its graph reads them by export::access_subclass_inner_tensor.
/// Each that is read becomes a weight of its own, named "weight.attribute"; the whole one is no input any more.
/// Those that are plain tensors after all become ordinary weights.
void unwrap_subclasses(LoadedProgram& program, const Subclasses& subclasses);

} // namespace tenon
