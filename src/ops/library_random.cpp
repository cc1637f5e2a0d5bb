// Rows that draw random numbers. Few are steps; the others are arithmetic on uniform and normal numbers. The numbers are not
// torch's, the distributions are. A generator argument is ignored: the call's seed decides.
#include "ops/library.h"
#include "ops/table.h"

namespace tenon::ops {

namespace {

// The functional forms of in-place fills take "self" for its sizes and dtype.
DType float_like(const Call& c) {
  DType t = c.type("self").dtype;
  return is_float(t) ? t : DType::F32;
}
V uniform(Builder& b, const std::vector<Expr>& sizes, DType dtype) { return b.call1("aten::rand.default", {sizes}, {{"dtype", dtype}}); }
V uniform_like(Builder& b, const Call& c) { return uniform(b, c.type("self").sizes, float_like(c)); }
V normal(Builder& b, const std::vector<Expr>& sizes, DType dtype) { return b.call1("aten::randn.default", {sizes}, {{"dtype", dtype}}); }

std::vector<Type> sized(const Call& c) { return {Type::tensor(c.dtype("dtype").value_or(DType::F32), c.syms("size"))}; }
std::vector<Type> sized_integers(const Call& c) { return {Type::tensor(c.dtype("dtype").value_or(DType::I64), c.syms("size"))}; }

// rand_like(x, dtype=t) is rand(x.size(), dtype=t).
template <Name N> Values sized_like(Builder& b, const Call& c) {
  const Type& t = c.type("self");
  return b.call(N.text, {t.sizes}, {{"dtype", c.dtype("dtype").value_or(t.dtype)}});
}
Values randint(Builder& b, const Call& c) {
  return b.call("aten::randint.low", {0, c["high"], c["size"]}, {{"dtype", c.dtype("dtype").value_or(DType::I64)}});
}
Values randint_like(Builder& b, const Call& c) {
  const Type& t = c.type("self");
  Arg low = c.def.signature.find("low") >= 0 ? c["low"] : Arg(0);
  return b.call("aten::randint.low", {low, c["high"], t.sizes}, {{"dtype", c.dtype("dtype").value_or(t.dtype)}});
}

// Integers up to what the dtype holds exactly.
Values random_full(Builder& b, const Call& c) {
  const Type& t = c.type("self");
  int64_t high = t.dtype == DType::F64    ? int64_t{1} << 53
                 : t.dtype == DType::F32  ? 1 << 24
                 : t.dtype == DType::F16  ? 1 << 11
                 : t.dtype == DType::BF16 ? 1 << 8
                 : t.dtype == DType::Bool ? 2
                 : size_of(t.dtype) == 8  ? INT64_MAX
                                          : int64_t{1} << (8 * size_of(t.dtype) - (t.dtype != DType::U8));
  Arg low = c.def.signature.find("from") >= 0 ? c["from"] : Arg(0);
  bool given = c.def.signature.find("to") >= 0 && c.has("to");
  return b.call("aten::randint.low", {low, given ? c["to"] : Arg(high), t.sizes}, {{"dtype", t.dtype}});
}

// 1 where a uniform number lies below p.
Values bernoulli_by(Builder& b, const Call& c, std::string_view p) {
  const Type& t = c.type("self");
  DType dtype = is_float(t.dtype) ? t.dtype : DType::F32;
  const Arg& chance = c[p];
  if (chance.is<ValueId>() && is_float(c.type(p).dtype)) dtype = c.type(p).dtype;
  V u = uniform(b, t.sizes, is_reduced_float(dtype) ? DType::F32 : dtype);
  V hit = chance.is<ValueId>() ? b.call1("aten::lt.Tensor", {u, chance}) : b.call1("aten::lt.Scalar", {u, chance});
  return b.to(hit, t.dtype);
}

// N(0, 1) * std + mean; either may be a tensor.
Values normal_from(Builder& b, const Call& c) {
  std::vector<Expr> sizes;
  DType dtype = DType::F32;
  for (std::string_view name : {"std", "mean"})
    if (c[name].is<ValueId>()) sizes = broadcast(b.pool(), c.type(name).sizes, sizes, "normal"), dtype = c.type(name).dtype;
  V z = normal(b, sizes, dtype);
  z = c["std"].is<ValueId>() ? z * b.input(c, "std") : z * c["std"];
  return c["mean"].is<ValueId>() ? z + b.input(c, "mean") : z + c["mean"];
}
Values normal_like(Builder& b, const Call& c) { return normal(b, c.type("self").sizes, float_like(c)) * c["std"] + c["mean"]; }

V minus_log(Builder& b, V u) { return -b.call1("aten::log1p.default", {-u}); } // of 1 - u, which is never 0

Values exponential(Builder& b, const Call& c) { return minus_log(b, uniform_like(b, c)) / c["lambd"]; }
Values geometric(Builder& b, const Call& c) {
  double p = c.number("p");
  if (!(p > 0 && p <= 1)) c.fail(fmt::format("p is {}, but must be in (0, 1]", p));
  DType wide = c.type("self").dtype == DType::F64 ? DType::F64 : DType::F32;
  V x = b.call1("aten::ceil.default", {minus_log(b, uniform(b, c.type("self").sizes, wide)) / Arg(-std::log1p(-p))});
  return b.to(b.call1("aten::clamp_min.default", {x, 1}), c.type("self").dtype);
}
Values cauchy(Builder& b, const Call& c) {
  V angle = (uniform_like(b, c) - 0.5) * M_PI;
  return b.call1("aten::tan.default", {angle}) * c["sigma"] + c["median"];
}

// A mask that keeps with probability 1 - p, scaled to mean 1 where `scaled`.
V keep_mask(Builder& b, const std::vector<Expr>& sizes, double p) { return b.call1("aten::ge.Scalar", {uniform(b, sizes, DType::F32), p}); }
bool drops(const Call& c, std::string_view flag) {
  double p = c.number("p");
  if (!(p >= 0 && p <= 1)) c.fail(fmt::format("dropout probability has to be between 0 and 1, but got {}", p));
  return p > 0 && (!c.has(flag) || c.flag(flag));
}
// One draw for each of the first two dims.
std::vector<Expr> feature_sizes(Builder& b, V x) {
  if (x.rank() < 2) bad_input("feature dropout needs a tensor of rank 2 or more");
  std::vector<Expr> sizes(x.rank(), b.integer(1));
  sizes[0] = x.size(0), sizes[1] = x.size(1);
  return sizes;
}
template <bool Feature> Values dropout(Builder& b, const Call& c) {
  V x = b.input(c, "input");
  if (!drops(c, "train")) return x;
  double p = c.number("p");
  if (p == 1) return x * Arg(0.0);
  V mask = keep_mask(b, Feature ? feature_sizes(b, x) : x.sizes(), p);
  return x * b.to(mask, x.dtype()) * Arg(1 / (1 - p));
}
Values native_dropout(Builder& b, const Call& c) {
  V x = b.input(c, "input");
  if (!drops(c, "train")) return {x, b.full(x.sizes(), true, DType::Bool)};
  double p = c.number("p");
  if (p == 1) return {x * Arg(0.0), b.full(x.sizes(), false, DType::Bool)};
  V mask = keep_mask(b, x.sizes(), p);
  return {x * b.to(mask, x.dtype()) * Arg(1 / (1 - p)), mask};
}
// Keeps mean and variance of what SELU gives: dropped elements take its negative limit.
template <bool Feature> Values alpha_dropout(Builder& b, const Call& c) {
  V x = b.input(c, "input");
  if (!drops(c, "train")) return x;
  double p = c.number("p"), alpha = 1.7580993408473766;
  if (p == 1) return x * Arg(0.0);
  double a = 1 / std::sqrt((alpha * alpha * p + 1) * (1 - p));
  V keep = b.to(keep_mask(b, Feature ? feature_sizes(b, x) : x.sizes(), p), x.dtype());
  V shift = (keep - 1.0) * Arg(alpha * a) + Arg(alpha * a * p);
  return x * (keep * Arg(a)) + shift;
}

Values rrelu_parts(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  double lower = c.number("lower"), upper = c.number("upper");
  if (!c.flag("training")) return {b.call1("aten::leaky_relu.default", {x, (lower + upper) / 2}), b.full(x.sizes(), 0, x.dtype())};
  V slope = uniform(b, x.sizes(), x.dtype()) * Arg(upper - lower) + Arg(lower);
  V noise = b.where(b.call1("aten::le.Scalar", {x, 0}), slope, b.scalar(1, x.dtype()));
  return {x * noise, noise};
}

std::vector<Type> multinomial_types(const Call& c) {
  std::vector<Expr> sizes = c.type("self").sizes;
  if (sizes.empty() || sizes.size() > 2) c.fail("the probabilities must be a vector or a matrix");
  sizes.back() = c.sym("num_samples");
  return {Type::tensor(DType::I64, sizes)};
}

#define TENON_SIZED "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None"
#define TENON_SIZED_LONG "ScalarType? dtype=long, Layout? layout=None, Device? device=None, bool? pin_memory=None"
#define TENON_LIKE TENON_SIZED ", MemoryFormat? memory_format=None"

std::vector<Type> binomial_types(const Call& c) {
  const Type &count = c.type("count"), &prob = c.type("prob");
  require_input(count.dtype == prob.dtype, "{}: counts are {}, probabilities {}", c.def.signature.name, name_of(count.dtype),
                name_of(prob.dtype));
  if (count.sizes != prob.sizes) unsupported("{} of counts and probabilities of different sizes", c.def.signature.name);
  return {typed(c, "count", count.dtype)};
}

const OpRow library_random_ops[] = {
    {.schema = "aten::rand(SymInt[] size, *, " TENON_SIZED ") -> Tensor",
     .kind = Kind::Library,
     .infer = sized,
     .library = [](const Call&) { return LibraryStep{library::random_uniform, {}, {}, {0, 1}}; },
     .types = "-> floats|complex"},
    {.schema = "aten::rand.generator(SymInt[] size, *, Generator? generator, " TENON_SIZED ") -> Tensor",
     .decompose = same<"aten::rand.default">},
    {.schema = "aten::rand_like(Tensor self, *, " TENON_LIKE ") -> Tensor", .decompose = sized_like<"aten::rand.default">, .vjp = "none"},
    {.schema = "aten::rand_like.generator(Tensor self, *, Generator? generator, " TENON_LIKE ") -> Tensor",
     .decompose = sized_like<"aten::rand.default">},
    {.schema = "aten::randn(SymInt[] size, *, " TENON_SIZED ") -> Tensor",
     .kind = Kind::Library,
     .infer = sized,
     .library = [](const Call&) { return LibraryStep{library::random_normal, {}, {}, {0, 1}}; },
     .types = "-> floats|complex"},
    {.schema = "aten::randn.generator(SymInt[] size, *, Generator? generator, " TENON_SIZED ") -> Tensor",
     .decompose = same<"aten::randn.default">},
    {.schema = "aten::randn_like(Tensor self, *, " TENON_LIKE ") -> Tensor", .decompose = sized_like<"aten::randn.default">, .vjp = "none"},
    {.schema = "aten::randn_like.generator(Tensor self, *, Generator? generator, " TENON_LIKE ") -> Tensor",
     .decompose = sized_like<"aten::randn.default">},
    {.schema = "aten::randint(SymInt high, SymInt[] size, *, " TENON_SIZED_LONG ") -> Tensor", .decompose = randint},
    {.schema = "aten::randint.generator(SymInt high, SymInt[] size, *, Generator? generator, " TENON_SIZED_LONG ") -> Tensor",
     .decompose = randint},
    {.schema = "aten::randint.low(SymInt low, SymInt high, SymInt[] size, *, " TENON_SIZED_LONG ") -> Tensor",
     .kind = Kind::Library,
     .infer = sized_integers,
     .library = [](const Call& c) { return LibraryStep{library::random_integers, {}, {c.sym("low"), c.sym("high")}}; },
     .types = "-> reals|u64"},
    {.schema =
         "aten::randint.low_generator(SymInt low, SymInt high, SymInt[] size, *, Generator? generator, " TENON_SIZED_LONG ") -> Tensor",
     .decompose = same<"aten::randint.low">},
    {.schema = "aten::randint_like(Tensor self, SymInt high, *, " TENON_LIKE ") -> Tensor", .decompose = randint_like, .vjp = "none"},
    {.schema = "aten::randint_like.generator(Tensor self, SymInt high, *, Generator? generator, " TENON_LIKE ") -> Tensor",
     .decompose = randint_like},
    {.schema = "aten::randint_like.low_dtype(Tensor self, SymInt low, SymInt high, *, " TENON_LIKE ") -> Tensor",
     .decompose = randint_like,
     .vjp = "none"},
    {.schema =
         "aten::randint_like.low_generator_dtype(Tensor self, SymInt low, SymInt high, *, Generator? generator, " TENON_LIKE ") -> Tensor",
     .decompose = randint_like},
    {.schema = "aten::randperm(SymInt n, *, " TENON_SIZED_LONG ") -> Tensor",
     .kind = Kind::Library,
     .infer = [](const Call& c) { return std::vector{Type::tensor(c.dtype("dtype").value_or(DType::I64), {c.sym("n")})}; },
     .library = [](const Call&) { return LibraryStep{library::random_permutation}; },
     .types = "-> reals"},
    {.schema = "aten::randperm.generator(SymInt n, *, Generator? generator, " TENON_SIZED_LONG ") -> Tensor",
     .decompose = same<"aten::randperm.default">},
    {.schema = "aten::random(Tensor self, *, Generator? generator=None) -> Tensor", .decompose = random_full},
    {.schema = "aten::random.to(Tensor self, int to, *, Generator? generator=None) -> Tensor", .decompose = random_full},
    {.schema = "aten::random.from(Tensor self, int from, int? to, *, Generator? generator=None) -> Tensor", .decompose = random_full},
    {.schema = "aten::bernoulli(Tensor self, *, Generator? generator=None) -> Tensor",
     .decompose = [](Builder& b, const Call& c) { return bernoulli_by(b, c, "self"); },
     .vjp = "none"},
    {.schema = "aten::bernoulli.p(Tensor self, float p, *, Generator? generator=None) -> Tensor",
     .decompose = [](Builder& b, const Call& c) { return bernoulli_by(b, c, "p"); },
     .vjp = "none"},
    {.schema = "aten::bernoulli.float(Tensor self, float p=0.5, *, Generator? generator=None) -> Tensor",
     .decompose = [](Builder& b, const Call& c) { return bernoulli_by(b, c, "p"); },
     .vjp = "none"},
    {.schema = "aten::bernoulli.Tensor(Tensor self, Tensor p, *, Generator? generator=None) -> Tensor",
     .decompose = [](Builder& b, const Call& c) { return bernoulli_by(b, c, "p"); },
     .vjp = "none"},
    {.schema = "aten::normal.Tensor_float(Tensor mean, float std=1., *, Generator? generator=None) -> Tensor", .decompose = normal_from},
    {.schema = "aten::normal.float_Tensor(float mean, Tensor std, *, Generator? generator=None) -> Tensor", .decompose = normal_from},
    {.schema = "aten::normal.Tensor_Tensor(Tensor mean, Tensor std, *, Generator? generator=None) -> Tensor", .decompose = normal_from},
    {.schema = "aten::normal.float_float(float mean, float std, SymInt[] size, *, Generator? generator=None, " TENON_SIZED ") -> Tensor",
     .decompose = [](Builder& b, const Call& c) -> Values {
       return normal(b, c.syms("size"), c.dtype("dtype").value_or(DType::F32)) * c["std"] + c["mean"];
     }},
    {.schema = "aten::normal_functional(Tensor self, float mean=0., float std=1., *, Generator? generator=None) -> Tensor",
     .decompose = normal_like},
    // normal_, functionalized, has this name.
    {.schema = "aten::normal(Tensor self, float mean=0., float std=1., *, Generator? generator=None) -> Tensor", .decompose = normal_like},
    {.schema = "aten::log_normal(Tensor self, float mean=1., float std=2., *, Generator? generator=None) -> Tensor",
     .decompose = [](Builder& b, const Call& c) { return b.call("aten::exp.default", {normal_like(b, c)[0]}); }},
    {.schema = "aten::uniform(Tensor self, float from=0., float to=1., *, Generator? generator=None) -> Tensor",
     .decompose = [](Builder& b, const Call& c) -> Values {
       return uniform_like(b, c) * Arg(c.number("to") - c.number("from")) + c["from"];
     }},
    {.schema = "aten::exponential(Tensor self, float lambd=1., *, Generator? generator=None) -> Tensor", .decompose = exponential},
    {.schema = "aten::geometric(Tensor self, float p, *, Generator? generator=None) -> Tensor", .decompose = geometric},
    {.schema = "aten::cauchy(Tensor self, float median=0., float sigma=1., *, Generator? generator=None) -> Tensor", .decompose = cauchy},
    {.schema = "aten::poisson(Tensor self, Generator? generator=None) -> Tensor",
     .kind = Kind::Library,
     .infer = like_self,
     .library = [](const Call& c) { return LibraryStep{library::random_poisson, {c.value("self")}}; },
     .dtypes = float_types},
    {.schema = "aten::binomial(Tensor count, Tensor prob, Generator? generator=None) -> Tensor",
     .kind = Kind::Library,
     .infer = binomial_types,
     .library = [](const Call& c) { return LibraryStep{library::random_binomial, {c.value("count"), c.value("prob")}}; },
     .dtypes = full_floats},
    {.schema = "aten::multinomial(Tensor self, SymInt num_samples, bool replacement=False, *, Generator? generator=None) -> Tensor",
     .kind = Kind::Library,
     .infer = multinomial_types,
     .library = [](const Call& c) { return LibraryStep{library::multinomial, {c.value("self")}, integers(c, {c.flag("replacement")})}; },
     .dtypes = float_types,
     .types = "-> i64",
     .vjp = "none"},
    {.schema = "aten::dropout(Tensor input, float p, bool train) -> Tensor",
     .decompose = dropout<false>,
     .vjp = "result: torch.native_dropout(input, p, train)[0]"},
    {.schema = "aten::feature_dropout(Tensor input, float p, bool train) -> Tensor",
     .decompose = dropout<true>,
     .vjp = "input: grad * (result / input).masked_fill(input == 0, 0)"},
    {.schema = "aten::native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)",
     .decompose = native_dropout,
     .vjp = "input: grad * result1 * (1.0 / (1.0 - p) if train is None or train else 1.0)"},
    {.schema = "aten::alpha_dropout(Tensor input, float p, bool train) -> Tensor", .decompose = alpha_dropout<false>},
    {.schema = "aten::feature_alpha_dropout(Tensor input, float p, bool train) -> Tensor", .decompose = alpha_dropout<true>},
    {.schema = "aten::rrelu(Tensor self, Scalar lower=0.125, Scalar upper=0.33333333333333331, bool training=False, Generator? "
               "generator=None) -> Tensor",
     .decompose = [](Builder& b, const Call& c) -> Values { return rrelu_parts(b, c)[0]; },
     .vjp = "self: torch.where(self > 0, grad, grad * (result / self).masked_fill(self == 0, 0))"},
    {.schema = "aten::rrelu_with_noise_functional(Tensor self, Tensor noise, Scalar lower=0.125, Scalar upper=0.33333333333333331, bool "
               "training=False, "
               "Generator? generator=None) -> (Tensor, Tensor noise_out)",
     .decompose = rrelu_parts},
};

} // namespace

std::span<const OpRow> library_random_rows() { return library_random_ops; }

} // namespace tenon::ops
