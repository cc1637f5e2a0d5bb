// The fields of a plan's structs, in the order they are written. What is added to a struct is added here; `format` changes with it.
#pragma once
#include "base/check.h"
#include "ir/signature.h"
#include "runtime/plan.h"

namespace tenon {

template <class A> void fields(A& a, SizeInstruction& i) { a(i.op, i.type, i.out, i.a, i.b, i.c, i.exact); }
template <class A> void fields(A& a, SizeRange& r) { a(r.name, r.lo, r.hi); }
template <class A> void fields(A& a, SlotRange& r) { a(r.slot, r.range); }
template <class A> void fields(A& a, SizeStage& s) { a(s.ranges, s.instructions); }
template <class A> void fields(A& a, SizeProgram& p) { a(p.initial, p.stages); }
template <class A> void fields(A& a, PlanBuffer& b) {
  a(b.name, b.dtype, b.sizes, b.place, b.index, b.offset, b.bytes, b.is_conditional, b.first, b.last);
}
template <class A> void fields(A& a, KernelStep& s) {
  a(s.buffers, s.scalars, s.iterations, s.scratch_bytes, s.iteration_elements, s.elements, s.element_ns, s.operations, s.kernel, s.written);
}
template <class A> void fields(A& a, TileKernel& k) { a(k.buffers, k.scalars, k.kernel, k.written, k.beside); }
template <class A> void fields(A& a, MatmulStep& s) {
  a(s.a, s.b, s.c, s.a_type, s.b_type, s.batch, s.m, s.n, s.k, s.a_offset, s.a_row, s.a_k, s.a_batch);
  a(s.b_offset, s.b_k, s.b_n, s.b_batch, s.c_row, s.c_batch, s.family, s.panel_vectors, s.packed, s.number, s.repeated, s.epilogue);
}
template <class A> void fields(A& a, ConvWindow& w) { a(w.in, w.out, w.kernel, w.stride, w.pad, w.dilation); }
/// Without pointers: a plan's have none.
template <class A> void fields(A& a, Conv& c) {
  a(c.window, c.transposed, c.row_major, c.by_lines, c.batch, c.groups, c.in_channels, c.out_channels, c.in_type, c.weight_type);
  a(c.padding, c.family, c.winograd, c.in_pixel, c.in_batch, c.packed, c.weight_strides, c.out_pixel, c.out_batch);
}
template <class A> void fields(A& a, ConvStep& s) {
  a(s.input, s.output, s.batch, s.in, s.out, s.in_pixel, s.in_batch, s.out_pixel, s.out_batch);
  a(s.weight, s.packed, s.packed_windows, s.shape, s.number, s.epilogue);
}
template <class A> void fields(A& a, AttentionStep::Operand& o) { a(o.buffer, o.offset, o.batch, o.row, o.column); }
template <class A> void fields(A& a, AttentionStep& s) {
  a(s.digits, s.rows, s.keys, s.depth, s.columns, s.q, s.k, s.v, s.upper, s.lower, s.block_keys, s.score, s.finish);
}
template <class A> void fields(A& a, LibraryStepCall& s) { a(s.function, s.inputs, s.outputs, s.ints, s.numbers, s.texts, s.is_random); }
template <class A> void fields(A& a, FallbackStep& s) { a(s.number); }
template <class A> void fields(A& a, PrintStep::Number& n) { a(n.slot, n.is_float); }
template <class A> void fields(A& a, PrintStep& s) { a(s.texts, s.numbers); }
template <class A> void fields(A& a, DelegateStep& s) { a(s.backend, s.operators, s.bytes, s.inputs, s.outputs, s.sizes, s.number); }
template <class A> void fields(A& a, CollectiveStep& s) { a(s.function, s.input, s.output, s.ints, s.texts, s.request, s.waits); }
template <class A> void fields(A& a, WaitStep& s) { a(s.request, s.input, s.output, s.group); }
template <class A> void fields(A& a, IfStep& s) { a(s.condition, s.condition_slot, s.branches); }
template <class A> void fields(A& a, CopyStep& s) { a(s.from, s.to); }
template <class A> void fields(A& a, WhileStep& s) { a(s.condition, s.body, s.flag, s.flag_slot); }
template <class A> void fields(A& a, ScanStep::Slice& s) { a(s.slice, s.whole, s.stride); }
template <class A> void fields(A& a, ScanStep::Carried& c) { a(c.now, c.next, c.first, c.last, c.spare, c.stacked); }
template <class A> void fields(A& a, ScanStep& s) { a(s.steps, s.reverse, s.slices, s.carried, s.body); }
template <class A> void fields(A& a, ItemStep& s) { a(s.buffer, s.slot, s.is_float); }
template <class A> void fields(A& a, ScalarStep& s) { a(s.slot, s.buffer, s.is_float); }
template <class A> void fields(A& a, AssertStep& s) { a(s.condition, s.message, s.values); }
template <class A> void fields(A& a, Step& s) { a(s.run, s.binds, s.dynamic, s.what, s.source, s.refused, s.number, s.waits_for); }
template <class A> void fields(A& a, InputDim& d) { a(d.kind, d.slot, d.equal, d.lo, d.hi, d.text, d.in_code); }
template <class A> void fields(A& a, InputSpec& s) {
  a(s.name, s.dtype, s.dims, s.buffer, s.is_number, s.number_slot, s.is_fixed, s.fixed);
}
template <class A> void fields(A& a, OutputSpec& o) { a(o.buffer, o.sizes, o.order, o.dtype, o.is_state, o.state, o.input, o.returned_as); }
template <class A> void fields(A& a, Caches& c) { a(c.l1, c.l2); }
/// Without its tensors.
template <class A> void fields(A& a, Plan& p) {
  a(p.buffers, p.steps, p.sizes, p.inputs, p.outputs, p.state_names, p.kernels, p.library, p.notes);
  a(p.num_steps, p.fallback_steps, p.num_matmuls, p.num_convs, p.num_delegates, p.num_requests, p.caches, p.seed);
}
template <class A> void fields(A& a, ArgInfo& i) { a(i.name, i.dtype, i.sizes, i.is_number, i.dim_order, i.requires_grad, i.device); }
template <class A> void fields(A&, std::monostate&) {}
template <class A> void fields(A& a, std::complex<double>& c) { a(reinterpret_cast<double(&)[2]>(c)); }
template <class A> void fields(A& a, Tree::Word& w) { a(w.text); }
template <class A> void fields(A&, Tensor&) { internal_error("a tensor in the structure of a call"); }
template <class A> void fields(A& a, Tree& t) {
  Tree::Leaf leaf = t.leaf();
  Tree::Kind kind = t.kind();
  std::string type = t.type(), context = t.context();
  std::vector<Tree> keys = t.keys(), children = t.children();
  a(leaf, kind, type, context, keys, children);
  if constexpr (A::reads)
    t = kind == Tree::Kind::Leaf ? Tree(std::move(leaf))
                                 : Tree::branch(kind, std::move(type), std::move(keys), std::move(children), std::move(context));
}
template <class A> void fields(A& a, Signature& s) { a(s.inputs, s.outputs, s.in_spec, s.out_spec, s.arg_names); }

} // namespace tenon
