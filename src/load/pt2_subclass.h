// Weights of tensor subclasses, such as torchao's quantized tensors.
#pragma once
#include <map>

#include "load/load.h"
#include "load/pickle.h"

namespace tenon {

/// A tensor subclass holds further tensors as attributes, and its graph reads them by export::access_subclass_inner_tensor.
/// Each that is read becomes a weight of its own, named "weight.attribute"; the whole one is no input any more.
/// `subclasses`: what was saved, by qualified name. Those that are plain tensors after all become ordinary weights.
void unwrap_subclasses(LoadedProgram& program, const std::map<std::string, PickleValue>& subclasses);

} // namespace tenon
