// Complex tensors. An Edge graph computes with their real and imaginary parts: the rules here say what operators are on
// the parts; views and pure compositions need no rule (Builder::call_complex). Whole complex tensors occur at the
// program's border and around library steps, where edge::complex puts them together (whole_complex makes its result in the
// memory of its parts) and edge::view_as_real shows them as [..., 2].
#include <functional>

#include "ops/autocast.h"
#include "ops/complex.h"
#include "ops/library.h"
#include "ops/pointwise.h"
#include "ops/table.h"
#include "ops/view_inverse.h"

namespace tenon::ops {

bool is_made_of_parts(V x) {
  NodeId n = x.builder().graph().value(x.id).node;
  return n.valid() && x.builder().graph().node(n).op == "edge::complex.default";
}

// Of select(x, -1, 0) and select(x, -1, 1), where x has no more than these two, that is x.
V interleaved(Parts z) {
  Builder& b = z.re.builder();
  auto source = [&](V x, int64_t index) -> ValueId {
    NodeId id = b.graph().value(x.id).node;
    if (!id.valid() || b.graph().node(id).op != "edge::select.int") return {};
    const ArgList& args = b.graph().node(id).args;
    V from = b.wrap(args[0].get<ValueId>());
    auto is = [&](const Arg& a, int64_t value) {
      Expr e = to_expr(b.pool(), a);
      return e && is_const_int(e, value);
    };
    auto last = static_cast<int64_t>(from.rank()) - 1;
    return (is(args[1], -1) || is(args[1], last)) && is(args[2], index) && is_const_int(from.size(-1), 2) ? from.id : ValueId();
  };
  ValueId x = source(z.re, 0);
  if (x.valid() && x == source(z.im, 1)) return b.wrap(x);
  return b.call1("aten::stack.default", {ArgList{z.re, z.im}, -1});
}

namespace {

V to_bool(Builder& b, const Arg& x) { return b.to(b.wrap(x.get<ValueId>()), DType::Bool); }

// Operand number i, in the common dtype.
V operand(Builder& b, const Call& c, size_t i) {
  DType t = promotion_of(c.graph, c.def, c.args).compute;
  return c.args[i].is<ValueId>() ? b.to(b.wrap(c.args[i].get<ValueId>()), t) : b.scalar(c.args[i], t);
}

// ---- putting together, taking apart

const Node* maker(Builder& b, ValueId x) {
  NodeId n = b.graph().value(x).node;
  return n.valid() && b.graph().node(n).op == "edge::complex.default" ? &b.graph().node(n) : nullptr;
}

// The same Fourier transform with its parts in a last dim: steps that can give either have a flag, their last one.
V transform_in_parts(Builder& b, ValueId x) {
  NodeId id = b.graph().value(x).node;
  if (!id.valid()) return {};
  const Node& n = b.graph().node(id);
  if (n.op != "tenon::fft.default" && n.op != "tenon::stft.default") return {};
  ArgList args = n.args;
  args[static_cast<size_t>(n.def->signature.find("parts_out"))] = true;
  return b.call_full(*n.def, args).at(0);
}

Tensor part_of(const Tensor& given, bool imaginary) {
  Tensor t = given.contiguous(), out(part_type(t.dtype()), t.sizes());
  dispatch(out.dtype(), [&]<class T>(T) {
    for (int64_t i = 0; i < t.numel(); i++) out.data_as<T>()[i] = t.data_as<T>()[2 * i + imaginary];
  });
  return out;
}

template <bool Imaginary> Values part(Builder& b, const Call& c) {
  ValueId x = c.value("self");
  if (!is_complex(c.type("self").dtype)) {
    if (Imaginary) c.fail("self is not complex");
    return b.wrap(x);
  }
  if (!b.edge()) return {};
  if (const Node* n = maker(b, x)) return b.wrap(n->args[Imaginary].get<ValueId>());
  if (V y = transform_in_parts(b, x)) return b.select(y, -1, b.integer(Imaginary));
  if (const Tensor* t = b.graph().constant(x)) return b.constant(part_of(*t, Imaginary));
  return b.select(b.call1("aten::view_as_real.default", {x}), -1, b.integer(Imaginary));
}
std::vector<Type> part_types(const Call& c) { return {typed(c, "self", part_type(c.type("self").dtype))}; }
template <bool Imaginary> LibraryStep part_step(const Call& c) {
  return {library::complex_part, {c.value("self")}, integers(c, {Imaginary})};
}

std::vector<Type> types_of_complex(const Call& c) {
  const Type &re = c.type("real"), &im = c.type("imag");
  if (re.dtype != im.dtype || (re.dtype != DType::F32 && re.dtype != DType::F64)) c.fail("the parts are f32 or f64, both of one dtype");
  return {Type::tensor(complex_type(re.dtype), broadcast(c.pool(), re.sizes, im.sizes, c.def.signature.name))};
}
Values broadcast_parts(Builder& b, const Call& c) {
  V re = b.input(c, "real"), im = b.input(c, "imag");
  if (re.sizes() == im.sizes()) return {};
  std::vector<Expr> sizes = types_of_complex(c)[0].sizes;
  return b.complex(b.expand(re, sizes), b.expand(im, sizes));
}

Values polar(Builder& b, const Call& c) {
  V r = b.input(c, "abs"), angle = b.input(c, "angle");
  return b.complex(r * call("aten::cos.default", angle), r * call("aten::sin.default", angle));
}

std::vector<Type> view_as_real_types(const Call& c) {
  if (!is_complex(c.type("self").dtype)) c.fail("self is not complex");
  Type t = part_types(c)[0];
  t.sizes.push_back(integer(c, 2));
  return {t};
}
Values view_as_real(Builder& b, const Call& c) {
  if (b.edge())
    if (V y = transform_in_parts(b, c.value("self"))) return y;
  const Node* n = maker(b, c.value("self"));
  if (!n && !b.graph().constant(c.value("self"))) return {};
  return interleaved(parts(b.input(c, "self")));
}

std::vector<Type> as_complex_types(const Call& c) {
  Type t = typed(c, "self", complex_type(c.type("self").dtype));
  if (t.rank() == 0 || !is_const_int(t.sizes.back(), 2)) c.fail("the last dim of self has not two elements");
  t.sizes.pop_back();
  return {t};
}
// The same bytes, of another dtype.
LibraryStep copy_bytes(const Call& c) { return {library::view_as_real, {c.value("self")}}; }

Values view_as_complex(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  return b.complex(b.select(x, -1, b.integer(0)), b.select(x, -1, b.integer(1)));
}

Values conjugate(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  if (!is_complex(x.dtype())) return x;
  return whole({b.real(x), -b.imag(x)});
}
Values conjugate_transpose(Builder& b, const Call& c) { return b.transpose(conjugate(b, c)[0], -2, -1); }

V real_back(Builder& b, const ViewWrite& w) { return is_complex(w.parent.dtype()) ? b.complex(w.now, b.imag(w.parent)) : w.now; }
V imag_back(Builder& b, const ViewWrite& w) { return b.complex(b.real(w.parent), w.now); }
template <Name N> V seen_as(Builder& b, const ViewWrite& w) { return b.call1(N.text, {w.now}); }

const OpRow complex_ops[] = {
    {.schema = "aten::complex(Tensor real, Tensor imag) -> Tensor",
     .kind = Kind::Library,
     .infer = types_of_complex,
     .decompose = broadcast_parts,
     .library = [](const Call& c) { return LibraryStep{library::complex_of_parts, {c.value("real"), c.value("imag")}}; },
     .dtypes = full_floats,
     .types = "-> complex_of"},
    {.schema = "aten::real(Tensor(a) self) -> Tensor(a)",
     .kind = Kind::Library,
     .infer = part_types,
     .decompose = part<false>,
     .library = part_step<false>,
     .dtypes = any_type | complex_types,
     .types = "-> part",
     .view_inverse = real_back,
     .vjp = "self: grad"},
    {.schema = "aten::imag(Tensor(a) self) -> Tensor(a)",
     .kind = Kind::Library,
     .infer = part_types,
     .decompose = part<true>,
     .library = part_step<true>,
     .dtypes = complex_types,
     .types = "-> part",
     .view_inverse = imag_back},
    {.schema = "aten::view_as_real(Tensor(a) self) -> Tensor(a)",
     .kind = Kind::Library,
     .infer = view_as_real_types,
     .decompose = view_as_real,
     .library = copy_bytes,
     .dtypes = complex_types,
     .types = "-> part",
     .view_inverse = seen_as<"aten::view_as_complex.default">},
    // Interleaved parts, in whose memory the result lies where that can be.
    {.schema = "tenon::as_complex(Tensor self) -> Tensor",
     .kind = Kind::Library,
     .infer = as_complex_types,
     .library = copy_bytes,
     .dtypes = full_floats,
     .types = "-> complex_of"},
    {.schema = "aten::view_as_complex(Tensor(a) self) -> Tensor(a)",
     .decompose = view_as_complex,
     .view_inverse = seen_as<"aten::view_as_real.default">,
     .autocast = to_f32},
    renamed<"aten::view_as_real">("aten::view_as_real_copy(Tensor self) -> Tensor"),
    renamed<"aten::view_as_complex">("aten::view_as_complex_copy(Tensor self) -> Tensor"),
    composite("aten::polar(Tensor abs, Tensor angle) -> Tensor", polar, to_f32),
    {.schema = "aten::conj(Tensor(a) self) -> Tensor(a)",
     .decompose = conjugate,
     .view_inverse = seen_as<"aten::_conj.default">,
     .vjp = "self: grad"},
    {.schema = "aten::_conj(Tensor(a) self) -> Tensor(a)",
     .decompose = conjugate,
     .view_inverse = seen_as<"aten::_conj.default">,
     .vjp = "self: grad"},
    with_vjp(composite("aten::_conj_physical(Tensor self) -> Tensor", conjugate), "self: grad"),
    with_vjp(composite("aten::resolve_conj(Tensor(a) self) -> Tensor(a)", identity), "self: grad"),
    with_vjp(composite("aten::resolve_neg(Tensor(a) self) -> Tensor(a)", identity), "self: grad"),
};

// ---- arithmetic

Parts operator+(Parts x, Parts y) { return {x.re + y.re, x.im + y.im}; }
Parts operator-(Parts x, Parts y) { return {x.re - y.re, x.im - y.im}; }
Parts operator*(Parts x, Parts y) { return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re}; }
Parts operator*(Parts x, double k) { return {x.re * Arg(k), x.im * Arg(k)}; }
Parts operator+(Parts x, double k) { return {x.re + Arg(k), x.im}; }
Parts operator-(Parts x) { return {-x.re, -x.im}; }
Parts times_i(Parts x) { return {-x.im, x.re}; }

// Scaled by the larger part of the divisor, so that its square neither overflows nor vanishes.
Parts operator/(Parts x, Parts y) {
  V s = call("aten::maximum.default", call("aten::abs.default", y.re), call("aten::abs.default", y.im));
  V c = y.re / s, d = y.im / s, square = c * c + d * d;
  return {(x.re * c + x.im * d) / square / s, (x.im * c - x.re * d) / square / s};
}

V argument(Parts z) { return call("aten::atan2.default", z.im, z.re); }

using Unary = Parts (*)(Parts);
using Binary = Parts (*)(Parts, Parts);

template <Unary F> Values unary(Builder& b, const Call& c) { return whole(F(parts(operand(b, c, 0)))); }
template <Binary F> Values binary(Builder& b, const Call& c) { return whole(F(parts(operand(b, c, 0)), parts(operand(b, c, 1)))); }
template <Binary F> Values sum_of(Builder& b, const Call& c) {
  Expr alpha = to_expr(c.pool(), c["alpha"]);
  if (!alpha || !alpha->is_const() || alpha->number() != 1) return {};
  return binary<F>(b, c);
}
// In doubles, for functions whose formulas cancel.
template <Unary F> Values wide_unary(Builder& b, const Call& c) {
  Parts z = parts(operand(b, c, 0));
  DType t = z.re.dtype();
  Parts w = F({b.to(z.re, DType::F64), b.to(z.im, DType::F64)});
  return whole({b.to(w.re, t), b.to(w.im, t)});
}

Parts add(Parts x, Parts y) { return x + y; }
Parts subtract(Parts x, Parts y) { return x - y; }
Parts multiply(Parts x, Parts y) { return x * y; }
Parts divide(Parts x, Parts y) { return x / y; }
Parts negate(Parts x) { return -x; }

Parts constant_like(V x, double re, double im) {
  Builder& b = x.builder();
  return {b.scalar(re, x.dtype()), b.scalar(im, x.dtype())};
}
Parts reciprocal(Parts z) { return constant_like(z.re, 1, 0) / z; }

Parts exp(Parts z) {
  V e = call("aten::exp.default", z.re);
  return {e * call("aten::cos.default", z.im), e * call("aten::sin.default", z.im)};
}
Parts log(Parts z) { return {call("aten::log.default", modulus(z)), argument(z)}; }

// From the half that does not cancel: t = sqrt((|re| + |z|) / 2), and the other part is im / 2t.
Parts sqrt(Parts z) {
  Builder& b = z.re.builder();
  V t = call("aten::sqrt.default", (call("aten::abs.default", z.re) + modulus(z)) * Arg(0.5));
  V other = b.where(b.call1("aten::eq.Scalar", {t, 0}), t, call("aten::abs.default", z.im) / (t * Arg(2)));
  V right = b.call1("aten::ge.Scalar", {z.re, 0});
  return {b.where(right, t, other), call("aten::copysign.Tensor", b.where(right, other, t), z.im)};
}

Parts sinh(Parts z) {
  return {call("aten::sinh.default", z.re) * call("aten::cos.default", z.im),
          call("aten::cosh.default", z.re) * call("aten::sin.default", z.im)};
}
Parts cosh(Parts z) {
  return {call("aten::cosh.default", z.re) * call("aten::cos.default", z.im),
          call("aten::sinh.default", z.re) * call("aten::sin.default", z.im)};
}
// By tanh of the real part alone: it does not overflow.
Parts tanh(Parts z) {
  V t = call("aten::tanh.default", z.re), u = call("aten::tan.default", z.im);
  V one = z.re.builder().scalar(1.0, z.re.dtype());
  return Parts{t, u} / Parts{one, t * u};
}
Parts sin(Parts z) { return -times_i(sinh(times_i(z))); }
Parts cos(Parts z) { return cosh(times_i(z)); }
Parts tan(Parts z) { return -times_i(tanh(times_i(z))); }
Parts asinh(Parts z) { return log(z + sqrt(z * z + 1)); }
Parts acosh(Parts z) { return log(z + sqrt(z + 1) * sqrt(z + -1)); }
Parts atanh(Parts z) { return (log(z + 1) - log(-z + 1)) * 0.5; }
Parts asin(Parts z) { return -times_i(asinh(times_i(z))); }
Parts acos(Parts z) { return -asin(z) + M_PI_2; }
Parts atan(Parts z) { return -times_i(atanh(times_i(z))); }
Parts rsqrt(Parts z) { return reciprocal(sqrt(z)); }
Parts log2(Parts z) { return log(z) * (1 / M_LN2); }
Parts log10(Parts z) { return log(z) * (1 / M_LN10); }
Parts log1p(Parts z) { return log(z + 1); }
Parts exp2(Parts z) { return exp(z * M_LN2); }
Parts expm1(Parts z) { return exp(z) + -1; }
Parts sigmoid(Parts z) { return reciprocal(exp(-z) + 1); }

// 0 to the power of 0 is 1, to another power 0.
Values complex_pow(Builder& b, const Call& c) {
  Parts x = parts(operand(b, c, 0)), y = parts(operand(b, c, 1));
  DType t = x.re.dtype();
  auto is_zero = [&](Parts z) {
    return call("aten::logical_and.default", b.call1("aten::eq.Scalar", {z.re, 0}), b.call1("aten::eq.Scalar", {z.im, 0}));
  };
  auto wide = [&](Parts z) { return Parts{b.to(z.re, DType::F64), b.to(z.im, DType::F64)}; };
  Parts p = exp(wide(y) * log(wide(x)));
  V zero = is_zero(x), one = b.to(is_zero(y), t);
  return whole({b.where(zero, one, b.to(p.re, t)), b.where(zero, b.scalar(0, t), b.to(p.im, t))});
}

Values sign(Builder& b, const Call& c) {
  Parts z = parts(b.input(c, "self"));
  V m = modulus(z), none = b.call1("aten::eq.Scalar", {m, 0});
  return whole({b.where(none, m, z.re / m), b.where(none, m, z.im / m)});
}

// ---- to real numbers and truths

Values absolute(Builder& b, const Call& c) { return modulus(parts(b.input(c, "self"))); }
Values angle(Builder& b, const Call& c) { return argument(parts(b.input(c, "self"))); }

template <Name Test, Name Join> Values compare(Builder& b, const Call& c) {
  Parts x = parts(operand(b, c, 0)), y = parts(operand(b, c, 1));
  return call(Join.text, call(Test.text, x.re, y.re), call(Test.text, x.im, y.im));
}
template <Name Test, Name Join> Values examine(Builder& b, const Call& c) {
  Parts z = parts(b.input(c, "self"));
  return call(Join.text, call(Test.text, z.re), call(Test.text, z.im));
}
Values is_real(Builder& b, const Call& c) { return b.call("aten::eq.Scalar", {b.imag(b.input(c, "self")), 0}); }

// The same operator on truth values.
Values of_truths(Builder& b, const Call& c) {
  ArgList args = c.args;
  for (Arg& a : args)
    if (a.is<ValueId>()) a = to_bool(b, a);
  return b.call_full(c.def, args);
}
// ---- structure

Values convert(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  DType to = c.dtype("dtype").value_or(x.dtype());
  if (to == x.dtype()) return x;
  if (!is_complex(x.dtype())) {
    V re = b.to(x, part_type(to));
    return b.complex(re, b.full(re.sizes(), 0, re.dtype()));
  }
  Parts z = parts(x);
  if (is_complex(to)) return b.complex(b.to(z.re, part_type(to)), b.to(z.im, part_type(to)));
  if (to == DType::Bool) return call("aten::logical_or.default", b.to(z.re, to), b.to(z.im, to));
  return b.to(z.re, to);
}

Values fill(Builder& b, const Call& c) {
  const Arg& v = c["fill_value"];
  DType t = part_type(c.dtype("dtype").value_or(DType::C64));
  std::complex<double> z = v.is<std::complex<double>>() ? v.get<std::complex<double>>() : 0;
  bool real = !v.is<std::complex<double>>();
  return b.complex(b.full(c.syms("size"), real ? v : Arg(z.real()), t), b.full(c.syms("size"), z.imag(), t));
}

Values where(Builder& b, const Call& c) {
  Parts x = parts(operand(b, c, 1)), y = parts(operand(b, c, 2));
  V condition = b.input(c, "condition");
  return b.complex(b.where(condition, x.re, y.re), b.where(condition, x.im, y.im));
}

Values addcmul(Builder& b, const Call& c) { return operand(b, c, 0) + operand(b, c, 1) * c["value"] * operand(b, c, 2); }
Values addcdiv(Builder& b, const Call& c) { return operand(b, c, 0) + operand(b, c, 1) * c["value"] / operand(b, c, 2); }
Values is_close(Builder& b, const Call& c) {
  V x = operand(b, c, 0), y = operand(b, c, 1), far = modulus(parts(x - y));
  V allowed = modulus(parts(y)) * Arg(c.number("rtol")) + Arg(c.number("atol")), equal = call("aten::eq.Tensor", x, y);
  V near = call("aten::logical_and.default", call("aten::le.Tensor", far, allowed), call("aten::isfinite.default", far));
  if (c.flag("equal_nan"))
    equal = call("aten::logical_or.default", equal,
                 call("aten::logical_and.default", call("aten::isnan.default", x), call("aten::isnan.default", y)));
  return call("aten::logical_or.default", equal, near);
}
Values complex_lerp(Builder& b, const Call& c) {
  V x = operand(b, c, 0), y = operand(b, c, 1);
  return x + (y - x) * c["weight"];
}

const ComplexRule complex_rule_table[] = {
    {"aten::_to_copy.default", convert},
    {"aten::full.default", fill},
    {"aten::where.self", where},
    {"aten::add.Tensor", sum_of<add>},
    {"aten::sub.Tensor", sum_of<subtract>},
    {"aten::mul.Tensor", binary<multiply>},
    {"aten::div.Tensor", binary<divide>},
    {"aten::reciprocal.default", unary<reciprocal>},
    {"aten::neg.default", unary<negate>},
    {"aten::addcmul.default", addcmul},
    {"aten::addcdiv.default", addcdiv},
    {"aten::lerp.Tensor", complex_lerp},
    {"aten::lerp.Scalar", complex_lerp},
    {"aten::pow.Tensor_Tensor", complex_pow},
    {"aten::exp.default", unary<exp>},
    {"aten::exp2.default", unary<exp2>},
    {"aten::expm1.default", wide_unary<expm1>},
    {"aten::log.default", unary<log>},
    {"aten::log2.default", unary<log2>},
    {"aten::log10.default", unary<log10>},
    {"aten::log1p.default", wide_unary<log1p>},
    {"aten::sqrt.default", unary<sqrt>},
    {"aten::rsqrt.default", unary<rsqrt>},
    {"aten::sin.default", unary<sin>},
    {"aten::cos.default", unary<cos>},
    {"aten::tan.default", unary<tan>},
    {"aten::sinh.default", unary<sinh>},
    {"aten::cosh.default", unary<cosh>},
    {"aten::tanh.default", unary<tanh>},
    {"aten::asin.default", wide_unary<asin>},
    {"aten::acos.default", wide_unary<acos>},
    {"aten::atan.default", wide_unary<atan>},
    {"aten::asinh.default", wide_unary<asinh>},
    {"aten::acosh.default", wide_unary<acosh>},
    {"aten::atanh.default", wide_unary<atanh>},
    {"aten::sigmoid.default", unary<sigmoid>},
    {"aten::sgn.default", sign},
    {"aten::abs.default", absolute},
    {"aten::angle.default", angle},
    {"aten::eq.Tensor", compare<"aten::eq.Tensor", "aten::logical_and.default">},
    {"aten::ne.Tensor", compare<"aten::ne.Tensor", "aten::logical_or.default">},
    {"aten::isnan.default", examine<"aten::isnan.default", "aten::logical_or.default">},
    {"aten::isinf.default", examine<"aten::isinf.default", "aten::logical_or.default">},
    {"aten::isfinite.default", examine<"aten::isfinite.default", "aten::logical_and.default">},
    {"aten::isreal.default", is_real},
    {"aten::isclose.default", is_close},
    {"aten::logical_and.default", of_truths},
    {"aten::logical_or.default", of_truths},
    {"aten::logical_xor.default", of_truths},
    {"aten::logical_not.default", of_truths},
    {"aten::any.default", of_truths},
    {"aten::any.dim", of_truths},
    {"aten::any.dims", of_truths},
    {"aten::all.default", of_truths},
    {"aten::all.dim", of_truths},
    {"aten::all.dims", of_truths},
    {"aten::nonzero.default", of_truths},
    {"aten::argwhere.default", of_truths},
    {"aten::nonzero_static.default", of_truths},
    {"aten::conj_physical.default", conjugate},
    {"aten::adjoint.default", conjugate_transpose},
    {"aten::matrix_H.default", conjugate_transpose},
    {"aten::mH.default", conjugate_transpose},
};

} // namespace

V modulus(Parts z) {
  if (z.re.dtype() == DType::F64) return call("aten::hypot.default", z.re, z.im);
  Builder& b = z.re.builder();
  V re = b.to(z.re, DType::F64), im = b.to(z.im, DType::F64);
  return b.to(call("aten::sqrt.default", re * re + im * im), z.re.dtype());
}

std::span<const OpRow> complex_rows() { return complex_ops; }
std::span<const ComplexRule> complex_rules() { return complex_rule_table; }

} // namespace tenon::ops
