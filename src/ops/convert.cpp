// Casts, operators that change nothing, and those that fill a tensor or copy into its shape.
#include "ops/jvp.h"
#include "ops/pointwise.h"
#include "ops/shape.h"
#include "ops/table.h"
#include "ops/view_inverse.h"

namespace tenon::ops {

namespace {

// Where the program asks for it, complex numbers lose their imaginary part.
V converted(Builder& b, V x, DType dtype) { return b.to(is_complex(dtype) || dtype == DType::Bool ? x : b.real(x), dtype); }
Values to_dtype(Builder& b, const Call& c) { return converted(b, b.input(c, "self"), c.dtype("dtype").value_or(c.type("self").dtype)); }
Values to_other(Builder& b, const Call& c) { return converted(b, b.input(c, "self"), c.type("other").dtype); }

Values fill_scalar(Builder& b, const Call& c) { return b.full(c.type("self").sizes, c["value"], c.type("self").dtype); }
Values fill_tensor(Builder& b, const Call& c) { return b.expand(b.to(b.input(c, "value"), c.type("self").dtype), c.type("self").sizes); }
Values zeros_of_self(Builder& b, const Call& c) { return b.full(c.type("self").sizes, 0, c.type("self").dtype); }
Values copy(Builder& b, const Call& c) { return b.expand(b.to(b.input(c, "src"), c.type("self").dtype), c.type("self").sizes); }

Values unpack_dual(Builder& b, const Call& c) {
  V x = b.input(c, "dual");
  return Values{x, b.full(x.sizes(), 0, x.dtype())};
}

// The result has the dtype of self whatever the value is.
Values masked_fill(Builder& b, const Call& c) {
  V self = b.input(c, "self");
  if (DType mask = c.type("mask").dtype; mask != DType::Bool)
    c.fail(fmt::format("masked_fill_ only supports boolean masks, but got mask with dtype {}", c_name(mask)));
  Arg value = c["value"];
  value = value.is<ValueId>() ? Arg(b.to(b.wrap(value.get<ValueId>()), self.dtype())) : Arg(b.scalar(value, self.dtype()));
  return b.where(b.input(c, "mask"), value, self);
}

constexpr OpRow conversion(std::string_view schema, Decompose decompose) {
  return {.schema = schema, .decompose = decompose, .shares = stays_itself, .view_inverse = all_elements, .layout_follows = true};
}

const OpRow convert_ops[] = {
    // The one cast of the Edge dialect: the body's operand is still of the input's dtype, the output's is what is asked for.
    {.schema = "aten::_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, "
               "bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor",
     .kind = Kind::View,
     .infer =
         [](const Call& c) { return std::vector{Type::tensor(c.dtype("dtype").value_or(c.type("self").dtype), c.type("self").sizes)}; },
     .define = [](const DefineArgs& d) { return Compute{.axes = d.axes, .body = cast(d.load("self", d.axes), d.output.dtype)}; },
     .types = "-> any",
     .jvp = jvp_linear,
     .layout_follows = true,
     .vjp = "self: cast_back(grad, self_dtype, result_dtype)"},
    with_vjp(with_jvp(conversion("aten::to.dtype(Tensor(a) self, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? "
                                 "memory_format=None) -> Tensor(a)",
                                 to_dtype),
                      jvp_linear),
             "self: cast_back(grad, self_dtype, result_dtype)"),
    with_vjp(conversion("aten::to.device(Tensor(a) self, Device device, ScalarType dtype, bool non_blocking=False, bool copy=False, "
                        "MemoryFormat? memory_format=None) -> Tensor(a)",
                        to_dtype),
             "self: cast_back(grad, self_dtype, result_dtype)"),
    with_vjp(conversion("aten::to.dtype_layout(Tensor(a) self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
                        "pin_memory=None, "
                        "bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)",
                        to_dtype),
             "self: cast_back(grad, self_dtype, result_dtype)"),
    with_vjp(
        conversion(
            "aten::to.other(Tensor(a) self, Tensor other, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> "
            "Tensor(a)",
            to_other),
        "self: cast_back(grad, self_dtype, result_dtype)"),
    with_vjp(composite("aten::type_as(Tensor self, Tensor other) -> Tensor", to_other), "self: cast_back(grad, self_dtype, result_dtype)"),
    composite("quantized_decomposed::convert_element_type.no_fuse(Tensor input, ScalarType dtype) -> Tensor",
              [](Builder& b, const Call& c) -> Values { return b.to(b.input(c, "input"), *c.dtype("dtype")); }),

    {.schema = "aten::detach(Tensor(a) self) -> Tensor(a)", .decompose = identity, .view_inverse = all_elements, .vjp = "none"},
    with_vjp(composite("aten::detach_copy(Tensor self) -> Tensor", identity), "none"),
    {.schema = "aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor",
     .decompose = identity,
     .jvp = jvp_linear,
     .layout_follows = true,
     .vjp = "self: grad"},
    {.schema = "aten::contiguous(Tensor(a) self, *, MemoryFormat memory_format=0) -> Tensor(a)",
     .decompose = identity,
     .shares = stays_itself,
     .view_inverse = all_elements,
     .vjp = "self: grad"},
    composite("dim_order_ops::_clone_dim_order(Tensor self, *, bool non_blocking=False, int[]? dim_order=None) -> Tensor", identity),
    composite("dim_order_ops::_to_dim_order_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
              "pin_memory=None, bool non_blocking=False, int[]? dim_order=None) -> Tensor",
              to_dtype),
    with_vjp(composite("aten::lift(Tensor self) -> Tensor", identity), "self: grad"),
    with_vjp(composite("aten::lift_fresh(Tensor(a) self) -> Tensor(a)", identity), "self: grad"),
    with_vjp(composite("aten::lift_fresh_copy(Tensor self) -> Tensor", identity), "self: grad"),
    with_vjp(composite("aten::positive(Tensor(a) self) -> Tensor(a)", identity), "self: grad"),
    with_vjp(composite("aten::conj_physical(Tensor self) -> Tensor", identity), "self: grad"),

    // Where no tangent is followed; aten/forward_ad.cpp does.
    composite("aten::_make_dual(Tensor(a) primal, Tensor tangent, int level) -> Tensor(a)", identity),
    composite("aten::_unpack_dual(Tensor(a) dual, int level) -> (Tensor(a) primal, Tensor tangent)", unpack_dual),

    // Sparse tensors are dense ones here.
    composite("aten::to_sparse(Tensor self, *, Layout? layout=None, int[2]? blocksize=None, int? dense_dim=None) -> Tensor", identity),
    composite("aten::to_sparse.sparse_dim(Tensor self, int sparse_dim) -> Tensor", identity),
    composite("aten::_to_sparse(Tensor self, *, Layout? layout=None, int[2]? blocksize=None, int? dense_dim=None) -> Tensor", identity),
    composite("aten::_to_sparse.sparse_dim(Tensor self, int sparse_dim) -> Tensor", identity),
    with_vjp(composite("aten::coalesce(Tensor(a) self) -> Tensor(a)", identity), "self: grad"),
    composite("aten::to_dense(Tensor self, ScalarType? dtype=None, *, bool? masked_grad=None) -> Tensor", to_dtype),
    composite("aten::_to_dense(Tensor self, ScalarType? dtype=None, bool? masked_grad=None) -> Tensor", to_dtype),

    with_vjp(composite("aten::fill.Scalar(Tensor self, Scalar value) -> Tensor", fill_scalar), "none"),
    with_vjp(composite("aten::fill.Tensor(Tensor self, Tensor value) -> Tensor", fill_tensor), "value: grad.sum()"),
    with_vjp(composite("aten::zero(Tensor self) -> Tensor", zeros_of_self), "none"),
    with_vjp(composite("aten::copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor", copy),
             "src: grad.sum_to_size(src_size).to(src_dtype)"),
    with_vjp(composite("aten::masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor", masked_fill),
             "broadcasts; self: grad.masked_fill(mask, 0)"),
    with_vjp(composite("aten::masked_fill.Tensor(Tensor self, Tensor mask, Tensor value) -> Tensor", masked_fill),
             "self: grad.masked_fill(mask, 0).sum_to_size(self_size); value: torch.where(mask, grad, 0.0).sum()"),
};

} // namespace

std::span<const OpRow> convert_rows() { return convert_ops; }

} // namespace tenon::ops
