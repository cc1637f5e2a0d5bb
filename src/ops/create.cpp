// Operators that make tensors filled with a value, from sizes or from the sizes of another tensor.
#include "ops/shape.h"
#include "ops/table.h"

namespace tenon::ops {

namespace {

DType dtype_of_number(Expr e) { return is_float(e->type) ? DType::F32 : e->type; }

std::vector<Type> full_types(const Call& c) {
  return {Type::tensor(c.dtype("dtype").value_or(dtype_of_number(c.scalar("fill_value"))), c.syms("size"))};
}

Compute full_define(const DefineArgs& d) { return {.axes = d.axes, .body = cast(d.call.scalar("fill_value"), d.output.dtype)}; }

// zeros(size), ones(size), empty(size): memory that torch leaves unset is 0.
template <int Value> Values filled(Builder& b, const Call& c) {
  return b.full(c.syms("size"), Value, c.dtype("dtype").value_or(DType::F32));
}

Values full_like(Builder& b, const Call& c) {
  const Type& t = c.type("self");
  return b.full(t.sizes, c["fill_value"], c.dtype("dtype").value_or(t.dtype));
}

template <int Value> Values filled_like(Builder& b, const Call& c) {
  const Type& t = c.type("self");
  return b.full(t.sizes, Value, c.dtype("dtype").value_or(t.dtype));
}

Values new_full(Builder& b, const Call& c) {
  return b.full(c.syms("size"), c["fill_value"], c.dtype("dtype").value_or(c.type("self").dtype));
}

template <int Value> Values new_filled(Builder& b, const Call& c) {
  return b.full(c.syms("size"), Value, c.dtype("dtype").value_or(c.type("self").dtype));
}

Values scalar_tensor(Builder& b, const Call& c) { return b.scalar(c["s"], c.dtype("dtype").value_or(DType::F32)); }

// The class number as a row of zeros with a single 1; numbers outside [0, classes) give none.
Values one_hot(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  Expr classes = c.sym("num_classes");
  if (!is_int(x.dtype())) c.fail("one_hot is only applicable to index tensor of type LongTensor.");
  if (is_const_int(classes, -1)) unsupported("aten::one_hot without num_classes: the size depends on the values");
  V hot = b.call1("aten::eq.Tensor", {b.unsqueeze(x, -1), b.arange(classes, DType::I64)});
  return b.to(hot, DType::I64);
}

const OpRow create_ops[] = {
    {.schema = "aten::full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
               "bool? pin_memory=None) -> Tensor",
     .kind = Kind::View,
     .infer = full_types,
     .define = full_define,
     .types = "-> any"},
    {.schema = "aten::full_like(Tensor self, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
               "bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
     .decompose = full_like,
     .vjp = "none"},
    {.schema = "aten::new_full(Tensor self, SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? "
               "device=None, bool? pin_memory=None) -> Tensor",
     .decompose = new_full,
     .vjp = "none"},
    {.schema = "aten::zeros(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
               "pin_memory=None) -> Tensor",
     .decompose = filled<0>},
    {.schema = "aten::ones(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) "
               "-> Tensor",
     .decompose = filled<1>},
    {.schema = "aten::empty.memory_format(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
               "pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
     .decompose = filled<0>},
    {.schema = "aten::empty_strided(SymInt[] size, SymInt[] stride, *, ScalarType? dtype=None, Layout? layout=None, Device? "
               "device=None, bool? pin_memory=None) -> Tensor",
     .decompose = filled<0>},
    {.schema = "aten::empty_permuted(SymInt[] size, int[] physical_layout, *, ScalarType? dtype=None, Layout? layout=None, Device? "
               "device=None, bool? pin_memory=None) -> Tensor",
     .decompose = filled<0>},
    {.schema = "aten::zeros_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
               "pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
     .decompose = filled_like<0>,
     .vjp = "none"},
    {.schema = "aten::ones_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
               "pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
     .decompose = filled_like<1>,
     .vjp = "none"},
    {.schema = "aten::empty_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
               "pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
     .decompose = filled_like<0>,
     .vjp = "none"},
    {.schema = "aten::new_zeros(Tensor self, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
               "bool? pin_memory=None) -> Tensor",
     .decompose = new_filled<0>,
     .vjp = "none"},
    {.schema = "aten::new_ones(Tensor self, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
               "pin_memory=None) -> Tensor",
     .decompose = new_filled<1>,
     .vjp = "none"},
    {.schema = "aten::new_empty(Tensor self, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
               "bool? pin_memory=None) -> Tensor",
     .decompose = new_filled<0>,
     .vjp = "none"},
    {.schema = "aten::new_empty_strided(Tensor self, SymInt[] size, SymInt[] stride, *, ScalarType? dtype=None, Layout? layout=None, "
               "Device? device=None, bool? pin_memory=None) -> Tensor",
     .decompose = new_filled<0>},
    {.schema = "aten::scalar_tensor(Scalar s, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
               "pin_memory=None) -> Tensor",
     .decompose = scalar_tensor},
    {.schema = "aten::one_hot(Tensor self, int num_classes=-1) -> Tensor", .decompose = one_hot, .vjp = "none"},
};

} // namespace

std::span<const OpRow> create_rows() { return create_ops; }

} // namespace tenon::ops
