// Sequences and patterns: arange, linspace, logspace, windows, eye, triangles, grids. Values are computed as torch's CPU kernels
// do: f32 sequences in f64 where torch does so, reduced floats rounded after every operation where it does so.
#include "ops/shape.h"
#include "ops/table.h"

namespace tenon::ops {

namespace {

// The number argument `name` in dtype `to`: a Scalar, or a tensor with one element.
Expr number(const DefineArgs& d, std::string_view name, DType to) {
  if (!d.call[name].is<ValueId>()) return cast(d.call.scalar(name), to);
  return cast(d.load(name, std::vector<Expr>(d.call.rank(name), d.integer(0))), to);
}

DType range_dtype(const Call& c) {
  if (auto t = c.dtype("dtype")) return *t;
  for (auto name : {"start", "end", "step"})
    if (is_float(c.scalar(name)->type)) return DType::F32;
  return DType::I64;
}

// How many of start, start + step ... lie before end.
std::vector<Type> arange_types(const Call& c) {
  DType t = range_dtype(c);
  bool ints = true;
  for (auto name : {"start", "end", "step"}) ints &= !is_float(c.scalar(name)->type);
  if (!ints) {
    Expr start = cast(c.scalar("start"), DType::F64), end = cast(c.scalar("end"), DType::F64), step = cast(c.scalar("step"), DType::F64);
    return {Type::tensor(t, {cast(unary(Op::Ceil, (end - start) / step), DType::I64)})};
  }
  auto integer = [&](std::string_view name) { return cast(c.scalar(name), DType::I64); };
  Expr step = integer("step"), distance = integer("end") - integer("start");
  if (is_const_int(step, 0)) c.fail("step is 0");
  if (step->hi < 0) step = -step, distance = -distance;
  if (distance->hi < 0) c.fail("upper bound and lower bound inconsistent with step sign");
  return {Type::tensor(t, {ceil_div(distance, step)})};
}

Compute arange_define(const DefineArgs& d) {
  DType t = d.output.dtype, in = t == DType::F32 ? DType::F64 : is_float(t) ? compute_type(t) : DType::I64;
  return {.axes = d.axes, .body = cast(number(d, "start", in) + cast(d.i(0), in) * number(d, "step", in), t)};
}

Values arange_end(Builder& b, const Call& c) { return b.call("aten::arange.start_step", {0, c["end"], 1}, {{"dtype", c["dtype"]}}); }
Values arange_start(Builder& b, const Call& c) {
  return b.call("aten::arange.start_step", {c["start"], c["end"], 1}, {{"dtype", c["dtype"]}});
}

// range(start, end, step) holds its end.
std::vector<Type> range_types(const Call& c) {
  auto number = [&](std::string_view name) { return cast(c.scalar(name), DType::F64); };
  Expr n = cast(floor((number("end") - number("start")) / number("step")), DType::I64) + 1.0;
  return {Type::tensor(c.dtype("dtype").value_or(DType::F32), {n})};
}

std::vector<Type> steps_types(const Call& c) {
  for (auto end : {"start", "end"})
    if (c[end].is<ValueId>() && c.rank(end) != 0) c.fail(fmt::format("{} has dims", end));
  return {Type::tensor(c.dtype("dtype").value_or(DType::F32), {c.sym("steps")})};
}

// A single step is the start.
Expr in_first_half(const DefineArgs& d, Expr steps) { return lt(d.i(0), max(floor_div(steps, d.integer(2)), d.integer(1))); }

// The second half counts down from the end, so that the end is met exactly. Integers step in f64; a reduced float is
// rounded after each operation.
Compute linspace_define(const DefineArgs& d) {
  DType t = d.output.dtype, in = is_float(t) ? compute_type(t) : DType::F64;
  auto rounded = [&](Expr e) { return is_reduced_float(t) ? cast(cast(e, t), in) : e; };
  auto end_of = [&](std::string_view name) { return cast(number(d, name, t), in); };
  Expr start = end_of("start"), end = end_of("end"), steps = d.call.sym("steps");
  auto as_number = [&](Expr e) { return rounded(cast(e, in)); };
  Expr step = rounded(rounded(end - start) / as_number(max(steps - 1.0, d.integer(1))));
  Expr up = rounded(start + rounded(step * as_number(d.i(0)))), down = rounded(end - rounded(step * as_number(steps - d.i(0) - 1.0)));
  return {.axes = d.axes, .body = cast(select(in_first_half(d, steps), up, down), t)};
}

// base ** linspace, in f64.
Compute logspace_define(const DefineArgs& d) {
  DType t = d.output.dtype, in = DType::F64;
  auto end_of = [&](std::string_view name) { return cast(number(d, name, t), in); };
  Expr base = d.pool.number(d.call.number("base"), in), steps = d.call.sym("steps");
  if (is_const_int(steps, 1)) return {.axes = d.axes, .body = cast(pow(base, number(d, "start", in)), t)};
  Expr start = end_of("start"), end = end_of("end"), step = (end - start) / cast(max(steps - 1.0, d.integer(1)), in);
  Expr up = start + step * cast(d.i(0), in), down = end - step * cast(steps - d.i(0) - 1.0, in);
  return {.axes = d.axes, .body = cast(pow(base, select(in_first_half(d, steps), up, down)), t)};
}

// Frequencies of a transform of n samples, d apart: 0, 1 ... then, of a whole one, the negative half.
template <bool Half> Values fft_frequencies(Builder& b, const Call& c) {
  Expr n = c.sym("n"), two = b.integer(2), half = floor_div(n, two);
  DType t = c.dtype("dtype").value_or(DType::F32);
  Arg scale = c.pool().number(1, DType::F64) / (cast(n, DType::F64) * c.number("d"));
  if (Half) return b.arange(half + 1.0, t) * scale;
  V up = b.arange(n - half, t), down = b.call1("aten::arange.start_step", {Arg(-half), 0, 1}, {{"dtype", t}});
  return b.call1("aten::cat.default", {ArgList{up, down}, 0}) * scale;
}

template <bool Square> std::vector<Type> eye_types(const Call& c) {
  return {Type::tensor(c.dtype("dtype").value_or(DType::F32), {c.sym("n"), c.sym(Square ? "n" : "m")})};
}

Compute eye_define(const DefineArgs& d) { return {.axes = d.axes, .body = cast(eq(d.i(0), d.i(1)), d.output.dtype)}; }

// Keeps column - row <= diagonal (tril), or >= (triu).
template <bool Lower> Compute triangle_define(const DefineArgs& d) {
  if (d.axes.size() < 2) d.call.fail(fmt::format("{}: input tensor must have at least 2 dimensions", Lower ? "tril" : "triu"));
  Expr row = d.i(d.axes.size() - 2), column = d.axes.back(), edge = row + d.call.sym("diagonal"), x = d.load("self", d.axes);
  return {.axes = d.axes, .body = select(Lower ? le(column, edge) : le(edge, column), x, constant_like(0, x))};
}

// sum over k <= m of k within [0, limit].
Expr sum_up_to(Expr m, Expr limit) {
  Expr zero = m->pool->integer(0), inside = min(max(m, zero), limit);
  return floor_div(inside * (inside + 1.0), m->pool->integer(2)) + max(m - limit, zero) * limit;
}

// Rows and columns of a triangle, row by row. Row i has offset + i + 1 columns of the lower one, within [0, columns].
template <bool Lower> Values triangle_indices(Builder& b, const Call& c) {
  Expr rows = c.sym("row"), columns = c.sym("col"), offset = c.sym("offset");
  if (rows->hi < 0 || columns->hi < 0) c.fail("row and col must not be negative");
  Expr edge = Lower ? offset : offset - 1.0, lower = sum_up_to(rows + edge, columns) - sum_up_to(edge, columns);
  V distance = b.arange(columns, DType::I64) - b.unsqueeze(b.arange(rows, DType::I64), 1);
  V mask = b.call1(Lower ? "aten::le.Scalar" : "aten::gt.Scalar", {distance, Arg(edge)});
  V found = b.call1("aten::nonzero_static.default", {mask}, {{"size", Lower ? lower : rows * columns - lower}});
  return b.to(b.call1("aten::t.default", {found}), c.dtype("dtype").value_or(DType::I64));
}

// Windows: `shape` maps the positions 0, 1 ... to `last` of a window (one more than asked for where it is periodic). A window of one
// point is 1.
template <class Shape> Values window(Builder& b, const Call& c, Shape shape) {
  Expr length = c.sym("window_length"), one = b.integer(1);
  bool periodic = c.def.signature.find("periodic") < 0 || c.flag("periodic");
  DType t = c.dtype("dtype").value_or(DType::F32);
  if (!is_float(t)) c.fail("the dtype must be a floating-point type");
  if (length->hi <= 1) return b.full({length}, 1, t);
  Expr n = periodic ? length + 1.0 : length;
  V w = shape(b.arange(n, t), max(n - 1.0, one));
  if (periodic) w = b.slice(w, 0, b.integer(0), length);
  return length->lo > 1 ? w : b.where(b.scalar(Arg(le(length, one)), DType::Bool), b.scalar(Arg(1.0), t), w);
}

Expr over(double x, Expr n) { return n->pool->number(x, DType::F64) / cast(n, DType::F64); }
V cosine(V x) { return x.builder().call1("aten::cos.default", {x}); }

Values raised_cosine(Builder& b, const Call& c, double alpha, double beta) {
  return window(b, c, [&](V i, Expr last) { return cosine(i * Arg(over(M_PI * 2, last))) * -beta + alpha; });
}

Values hann(Builder& b, const Call& c) { return raised_cosine(b, c, 0.5, 0.5); }

Values hamming(Builder& b, const Call& c) {
  auto given = [&](std::string_view name, double otherwise) { return c.def.signature.find(name) < 0 ? otherwise : c.number(name); };
  return raised_cosine(b, c, given("alpha", 0.54), given("beta", 0.46));
}

Values blackman(Builder& b, const Call& c) {
  return window(b, c, [](V i, Expr last) {
    V x = i * Arg(over(M_PI, last));
    return cosine(x * 4) * 0.08 - cosine(x * 2) * 0.5 + 0.42;
  });
}

Values bartlett(Builder& b, const Call& c) {
  return window(b, c, [&](V i, Expr last) {
    V x = i * Arg(over(2, last));
    return b.where(b.call1("aten::le.Scalar", {i, Arg(floor_div(last, b.integer(2)))}), x, -x + 2);
  });
}

Values kaiser(Builder& b, const Call& c) {
  double beta = c.def.signature.find("beta") < 0 ? 12 : c.number("beta");
  return window(b, c, [&](V i, Expr last) {
    Arg half = cast(last, DType::F64) * 0.5;
    V x = (i - half) / half, root = b.call1("aten::sqrt.default", {-(x * x) + 1});
    return b.call1("aten::i0.default", {root * beta}) / b.call1("aten::i0.default", {b.scalar(beta, i.dtype())});
  });
}

const OpRow create_range_ops[] = {
    {.schema = "aten::arange.start_step(Scalar start, Scalar end, Scalar step=1, *, ScalarType? dtype=None, Layout? layout=None, "
               "Device? device=None, bool? pin_memory=None) -> Tensor",
     .kind = Kind::View,
     .infer = arange_types,
     .define = arange_define,
     .types = "-> reals"},
    {.schema = "aten::arange(Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) "
               "-> Tensor",
     .decompose = arange_end},
    {.schema = "aten::arange.start(Scalar start, Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
               "bool? pin_memory=None) -> Tensor",
     .decompose = arange_start},
    {.schema = "aten::range.step(Scalar start, Scalar end, Scalar step=1, *, ScalarType? dtype=None, Layout? layout=None, Device? "
               "device=None, bool? pin_memory=None) -> Tensor",
     .kind = Kind::View,
     .infer = range_types,
     .define = arange_define,
     .types = "-> reals"},
    {.schema = "aten::fft_fftfreq(int n, float d=1., *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
               "pin_memory=None) -> Tensor",
     .decompose = fft_frequencies<false>},
    {.schema = "aten::fft_rfftfreq(int n, float d=1., *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
               "pin_memory=None) -> Tensor",
     .decompose = fft_frequencies<true>},
    {.schema = "aten::linspace(Scalar start, Scalar end, int steps, *, ScalarType? dtype=None, Layout? layout=None, Device? "
               "device=None, bool? pin_memory=None) -> Tensor",
     .kind = Kind::View,
     .infer = steps_types,
     .define = linspace_define,
     .types = "-> any"},
    {.schema = "aten::linspace.Tensor_Tensor(Tensor start, Tensor end, int steps, *, ScalarType? dtype=None, Layout? layout=None, "
               "Device? device=None, bool? pin_memory=None) -> Tensor",
     .kind = Kind::View,
     .infer = steps_types,
     .define = linspace_define,
     .types = "end=any -> any"},
    {.schema = "aten::linspace.Tensor_Scalar(Tensor start, Scalar end, int steps, *, ScalarType? dtype=None, Layout? layout=None, "
               "Device? device=None, bool? pin_memory=None) -> Tensor",
     .kind = Kind::View,
     .infer = steps_types,
     .define = linspace_define,
     .types = "-> any"},
    {.schema = "aten::linspace.Scalar_Tensor(Scalar start, Tensor end, int steps, *, ScalarType? dtype=None, Layout? layout=None, "
               "Device? device=None, bool? pin_memory=None) -> Tensor",
     .kind = Kind::View,
     .infer = steps_types,
     .define = linspace_define,
     .types = "-> any"},
    {.schema = "aten::logspace(Scalar start, Scalar end, int steps, float base=10., *, ScalarType? dtype=None, Layout? layout=None, "
               "Device? device=None, bool? pin_memory=None) -> Tensor",
     .kind = Kind::View,
     .infer = steps_types,
     .define = logspace_define,
     .types = "-> any"},
    {.schema = "aten::logspace.Tensor_Tensor(Tensor start, Tensor end, int steps, float base=10., *, ScalarType? dtype=None, Layout? "
               "layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     .kind = Kind::View,
     .infer = steps_types,
     .define = logspace_define,
     .types = "end=any -> any"},
    {.schema = "aten::logspace.Tensor_Scalar(Tensor start, Scalar end, int steps, float base=10., *, ScalarType? dtype=None, Layout? "
               "layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     .kind = Kind::View,
     .infer = steps_types,
     .define = logspace_define,
     .types = "-> any"},
    {.schema = "aten::logspace.Scalar_Tensor(Scalar start, Tensor end, int steps, float base=10., *, ScalarType? dtype=None, Layout? "
               "layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     .kind = Kind::View,
     .infer = steps_types,
     .define = logspace_define,
     .types = "-> any"},
    {.schema = "aten::eye(SymInt n, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> "
               "Tensor",
     .kind = Kind::View,
     .infer = eye_types<true>,
     .define = eye_define,
     .types = "-> reals|float8|bool"},
    {.schema = "aten::eye.m(SymInt n, SymInt m, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
               "pin_memory=None) -> Tensor",
     .kind = Kind::View,
     .infer = eye_types<false>,
     .define = eye_define,
     .types = "-> reals|float8|bool"},
    {.schema = "aten::tril(Tensor self, SymInt diagonal=0) -> Tensor",
     .kind = Kind::View,
     .infer = [](const Call& c) { return self_with(c, c.type("self").sizes); },
     .define = triangle_define<true>,
     .dtypes = real_types | bool_type,
     .vjp = "self: torch.tril(grad, diagonal)"},
    {.schema = "aten::triu(Tensor self, SymInt diagonal=0) -> Tensor",
     .kind = Kind::View,
     .infer = [](const Call& c) { return self_with(c, c.type("self").sizes); },
     .define = triangle_define<false>,
     .dtypes = real_types | bool_type,
     .vjp = "self: torch.triu(grad, diagonal)"},
    {.schema = "aten::tril_indices(int row, int col, int offset=0, *, ScalarType? dtype=long, Layout? layout=None, Device? device=None, "
               "bool? pin_memory=None) -> Tensor",
     .decompose = triangle_indices<true>},
    {.schema = "aten::triu_indices(int row, int col, int offset=0, *, ScalarType? dtype=long, Layout? layout=None, Device? device=None, "
               "bool? pin_memory=None) -> Tensor",
     .decompose = triangle_indices<false>},
    {.schema = "aten::hann_window(int window_length, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
               "pin_memory=None) -> Tensor",
     .decompose = hann},
    {.schema = "aten::hann_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None, Layout? layout=None, Device? "
               "device=None, bool? pin_memory=None) -> Tensor",
     .decompose = hann},
    {.schema = "aten::hamming_window(int window_length, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
               "pin_memory=None) -> Tensor",
     .decompose = hamming},
    {.schema = "aten::hamming_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None, Layout? layout=None, "
               "Device? device=None, bool? pin_memory=None) -> Tensor",
     .decompose = hamming},
    {.schema = "aten::hamming_window.periodic_alpha(int window_length, bool periodic, float alpha, *, ScalarType? dtype=None, Layout? "
               "layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     .decompose = hamming},
    {.schema = "aten::hamming_window.periodic_alpha_beta(int window_length, bool periodic, float alpha, float beta, *, ScalarType? "
               "dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     .decompose = hamming},
    {.schema = "aten::blackman_window(int window_length, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
               "pin_memory=None) -> Tensor",
     .decompose = blackman},
    {.schema = "aten::blackman_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None, Layout? layout=None, "
               "Device? device=None, bool? pin_memory=None) -> Tensor",
     .decompose = blackman},
    {.schema = "aten::bartlett_window(int window_length, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
               "pin_memory=None) -> Tensor",
     .decompose = bartlett},
    {.schema = "aten::bartlett_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None, Layout? layout=None, "
               "Device? device=None, bool? pin_memory=None) -> Tensor",
     .decompose = bartlett},
    {.schema = "aten::kaiser_window(int window_length, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
               "pin_memory=None) -> Tensor",
     .decompose = kaiser},
    {.schema = "aten::kaiser_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None, Layout? layout=None, "
               "Device? device=None, bool? pin_memory=None) -> Tensor",
     .decompose = kaiser},
    {.schema = "aten::kaiser_window.beta(int window_length, bool periodic, float beta, *, ScalarType? dtype=None, Layout? "
               "layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     .decompose = kaiser},
};

} // namespace

std::span<const OpRow> create_range_rows() { return create_range_ops; }

} // namespace tenon::ops
