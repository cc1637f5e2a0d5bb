// ATen to Edge, in order. Each pass takes the program's graph and makes it anew.
#pragma once
#include "ir/pass.h"

namespace tenon {

/// In-place operators and aliasing views become functions; written buffers and inputs become outputs.
///   %y = aten::add_.Tensor(%x, 1)   ->   %y = aten::add.Tensor(%x, 1), and x's new value is %y
bool functionalize(LoadedProgram& program);
/// Tangents are computed beside the values that have them.
///   %d = aten::_make_dual(%x, %t); %y = aten::sin(%d); %p, %u = aten::_unpack_dual(%y)   ->   %p = aten::sin(%x), %u = %t * aten::cos(%x)
bool forward_ad(LoadedProgram& program);
/// Parameters, buffers and constants that nothing writes become prim::Constant nodes.
bool lift_weights(LoadedProgram& program);
/// Nodes that kernels of the user take, of those that the compilation asks for, call these.
///   %y = aten::gelu(%x)   ->   %y = mine::gelu.row_major(%x)
bool choose_kernels(LoadedProgram& program);
/// Composites are decomposed, dtypes promoted by explicit casts, scalar operands become 0-d tensors.
///   aten::linear(%x, %w, %b)   ->   edge::permute, edge::mm, edge::add.Tensor
bool to_edge(LoadedProgram& program);
/// Sizes that an operator takes for equal, and that nothing shows to be, are checked where it stands.
///   %z : Float(s0) = edge::add.Tensor(%x, %y)   ->   prim::Assert(s0 == s1, "...") before it, for %y : Float(s1)
bool guard_sizes(LoadedProgram& program);

/// What is no operator of core ATen is taken apart; dtypes are promoted by the operators, as in ATen. For texts: the way to Edge does not
/// pass here.
///   aten::linear(%x, %w, %b)   ->   aten::permute(%w), aten::addmm(%b, %x, ...)
bool to_core(LoadedProgram& program);

inline constexpr Pass core_passes[] = {
    {"functionalize", functionalize},
    {"forward_ad", forward_ad},
    {"to_core", to_core},
    {"remove_dead_code", remove_dead_code},
};

inline constexpr Pass aten_passes[] = {
    {"functionalize", functionalize},   {"forward_ad", forward_ad}, {"lift_weights", lift_weights},
    {"choose_kernels", choose_kernels}, {"to_edge", to_edge},       {"remove_dead_code", remove_dead_code},
    {"guard_sizes", guard_sizes},
};

} // namespace tenon
