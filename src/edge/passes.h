// Passes on the Edge graph, in order. None changes what an operator means; each does nothing the second time.
#pragma once
#include "ir/pass.h"
#include "tenon/options.h"

namespace tenon {

/// Operands of a given Edge graph that an operator computes with in another dtype are cast; to_edge leaves none.
///   %y : Float = sigmoid(%x : Long)   ->   %1 : Float = _to_copy(%x); %y = sigmoid(%1)
bool explicit_casts(LoadedProgram& program);
/// What the steps of a scan compute without looking at the step before is computed before it: products for all steps at once.
///   %h = prim::Scan([%h0], [%x]) of tanh(mm(%x, %w) + mm(%h, %u))   ->   %1 = mm of all %x; %h = prim::Scan([%h0], [%1]) of tanh(...)
bool split_scans(LoadedProgram& program);
/// What vmap computes step by step is computed for the whole batch, by rules of operators; those without stay scans.
///   %y = prim::Scan([], [%x], each=True) of exp   ->   %y = exp(%x)
bool vectorize_maps(LoadedProgram& program);
/// Composites that stayed whole in the Edge graph are taken apart, where no kernel takes them.
///   %y = scaled_dot_product_attention(%q, %k, %v)   ->   bmm, mul, amax, sub, exp, sum, div, bmm
bool decompose_late(LoadedProgram& program);
/// Sums of a convolution that only an f32 computation reads are not rounded before it.
///   %1 : BFloat16 = convolution(%x, %w); %2 : Float = _to_copy(%1)   ->   %2 : Float = convolution.dtype(%x, %w, f32)
bool keep_sums(LoadedProgram& program);
/// A table of rewrites, one line each, until none applies.
///   %1 = permute(%x, [1, 0]); %2 = permute(%1, [1, 0])   ->   %x
bool canonicalize(LoadedProgram& program);
/// What is computed from weights alone is computed before it is expanded.
///   %1 = expand(%w, [n, -1]); %2 = exp(%1)   ->   %1 = exp(%w); %2 = expand(%1, [n, -1])
bool expand_late(LoadedProgram& program);
/// Equal nodes are computed once.
///   %1 = exp(%x); %2 = exp(%x)   ->   %1 = exp(%x)
bool cse(LoadedProgram& program);
/// What only depends on constants, and is small, becomes one.
///   %1 = rsqrt(%running_var)   ->   %1 = prim::Constant(tensor<...>)
bool fold_constants(LoadedProgram& program);
/// A scale per channel behind a convolution with constant weights goes into these; shifts per channel are added up.
///   %1 = convolution(%x, %w); %2 = mul(%1, %scale)   ->   %2 = convolution(%x, %w * %scale)
bool fold_norm(LoadedProgram& program);

/// Embedding bags of one length become sums of rows.
///   %o = arange(0, n * 10, 10); %y, ... = _embedding_bag(%w, %i, %o)   ->   %y = sum(embedding(%w, view(%i, [n, 10])), [1])
bool even_bags(LoadedProgram& program);

/// Products of dequantized tensors become products of their integers, in I32, with what the zero points add and both scales after.
///   %y = mm((%q - zx) * sx, %w * sw)   ->   %y = (mm.dtype(%q, %w, i32) - zx * column sums of %w) * (sx * sw)
bool integer_products(LoadedProgram& program);

/// Products with constant weights of 4 or 8 bits that share a scale by group read them packed.
///   %y = mm(%x, permute(view(_to_copy(%codes, f32) * %scale), [1, 0]))   ->   %y = quantized_weight_mm(%x, pack_quantized_weight(%codes,
///   %scale))
bool weight_only_products(LoadedProgram& program);

/// Convolutions of bf16 and bytes get channels in pairs and fours.
///   %y = convolution(%x, %w)   ->   %y = convolution(constant_pad_nd(%x, [0, 0, 0, 0, 0, 1]), constant_pad_nd(%w, [0, 0, 0, 0, 0, 1]))
bool whole_groups(LoadedProgram& program);

/// Complex tensors that are needed whole are made in the memory of their parts, side by side.
///   %z = complex(%x, %y)   ->   %1 = cat([unsqueeze(%x, -1), unsqueeze(%y, -1)], -1); %z = tenon::as_complex(%1)
bool whole_complex(LoadedProgram& program);

/// Not in the list below: what the caller allows (Options::precision) is done after it. f32 products read bf16 or, of constant weights,
/// bytes.
///   %y = mm(%x, %w)   ->   %y = mm.dtype(_to_copy(%x, bf16), _to_copy(%w, bf16), f32)
bool narrow_products(LoadedProgram& program, Precision precision);

/// What delegates compute is their backends' affair from here on: their blocks go.
bool drop_definitions(LoadedProgram& program);

inline constexpr Pass edge_passes[] = {
    {"explicit_casts", explicit_casts},
    {"drop_definitions", drop_definitions},
    {"split_scans", split_scans},
    {"vectorize_maps", vectorize_maps},
    {"decompose_late", decompose_late},
    {"even_bags", even_bags},
    {"keep_sums", keep_sums},
    {"canonicalize", canonicalize},
    {"expand_late", expand_late},
    {"cse", cse},
    {"integer_products", integer_products},
    {"weight_only_products", weight_only_products},
    {"whole_groups", whole_groups},
    {"fold_constants", fold_constants},
    {"fold_norm", fold_norm},
    {"remove_dead_code", remove_dead_code},
    {"whole_complex", whole_complex},
};

} // namespace tenon
