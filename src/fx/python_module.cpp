// Source of a Python module: imports, the class, and how its weights are loaded.
#include "fx/python_module.h"

#include "fx/arg_text.h"
#include "fx/edge_target.h"
#include "fx/python_text.h"

namespace tenon {

namespace {

constexpr std::string_view imports = R"(import math
import operator
from math import inf, nan

import numpy
import torch
from torch import device
)";

constexpr std::string_view constructor = R"(    def __init__(self, weights=None):
        super().__init__()
        make_graphs(self)
        if weights is not None:
            load_weights(self, weights)

)";

constexpr std::string_view functions = R"(

def make_graphs(module):
    """Graphs that nodes run are classes in the module's class: of each an instance, which stands before the class."""
    for name, graph in vars(type(module)).items():
        if isinstance(graph, type):
            module.__dict__[name] = make_graphs(graph())
    return module


def load_weights(module, path):
    """Buffers of the module and of those in it, by their qualified names."""
    for name, array in numpy.load(path).items():
        owner, (*parents, last) = module, name.split(".")
        for parent in parents:
            if not hasattr(owner, parent):
                owner.add_module(parent, torch.nn.Module())
            owner = getattr(owner, parent)
        tensor = torch.from_numpy(array.copy())
        owner.register_buffer(last, tensor.view(BITS[name]) if name in BITS else tensor)
)";

// As torch names operators: of ExecuTorch's, those they stand for.
FxGraph with_torch_targets(FxGraph g) {
  for (FxNode& n : g.nodes) {
    if (n.kind == FxKind::CallModule) unsupported("%{}: a call of the module {}, which is not in the graph", n.name, n.target);
    if (auto op = edge_operator(n.target)) n.target = fx_target(*op);
  }
  for (FxGraph& m : g.modules) m = with_torch_targets(std::move(m));
  return g;
}

void add_weights(const FxGraph& g, const std::string& path, std::vector<std::pair<std::string, Tensor>>& out) {
  for (auto& [name, tensor] : g.tensors) out.emplace_back(path + name, tensor);
  for (const FxGraph& m : g.modules) add_weights(m, path + m.name + ".", out);
}

} // namespace

std::vector<std::pair<std::string, Tensor>> weights_of(const FxGraph& g) {
  std::vector<std::pair<std::string, Tensor>> out;
  add_weights(g, "", out);
  return out;
}

std::string python_module(const FxGraph& g, std::string_view name, std::string_view title) {
  std::string bits;
  for (auto& [weight, tensor] : weights_of(g))
    if (tensor.dtype() == DType::BF16 || is_float8(tensor.dtype()))
      bits += fmt::format("    \"{}\": {},\n", weight, text_of(g, Arg(tensor.dtype()), ArgStyle::Python));
  return fmt::format("# {}\n{}\n\n{}\n\n# NumPy has no such dtypes: their bits are stored as integers.\nBITS = {{{}}}\n{}", title, imports,
                     to_python(with_torch_targets(g), name, constructor), bits.empty() ? "" : "\n" + bits, functions);
}

} // namespace tenon
