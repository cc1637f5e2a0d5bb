// Every operator of eval.h on every dtype it is legal for, with special values, by lanes and one by one; and all casts.
#include "codegen/code_count.h"
#include "expr/eval.h"
#include "kernel_harness.h"
#include "runtime/parallel.h"

namespace tenon::emit_ops_test {
using namespace harness;

namespace {

template <class T> std::vector<T> specials() {
  std::vector<T> v;
  if constexpr (std::is_same_v<T, bool>) v = {false, true};
  else if constexpr (std::is_integral_v<T>) {
    using L = std::numeric_limits<T>;
    for (int x : {0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 15, 16, 31, 32, 33, 63, 64, 65, 100}) {
      v.push_back(static_cast<T>(x));
      if (L::is_signed) v.push_back(static_cast<T>(-x));
    }
    for (T x : {L::min(), L::max(), static_cast<T>(L::min() + 1), static_cast<T>(L::max() - 1), static_cast<T>(L::max() / 2 + 1)})
      v.push_back(x);
  } else {
    for (double x :
         {0.0, 1.0, 2.0, 3.0, 0.5, 0.25, 1.5, 2.5, 3.5, 10.0, 0.1, 0.7, 0.99, 7.0, 100.0, 1e-3, 1e-30, 127.5, 300.7, 40000.5, 1e6, 3e4}) {
      if (std::isinf(convert<float>(static_cast<T>(static_cast<float>(x))))) continue; // 1e6 in f16
      v.push_back(static_cast<T>(static_cast<float>(x))), v.push_back(static_cast<T>(static_cast<float>(-x)));
    }
    for (float x : {INFINITY, -INFINITY, NAN}) v.push_back(static_cast<T>(x));
  }
  return v;
}

Data special_data(DType t) {
  return dispatch(t, [&]<class T>(T) -> Data {
    if constexpr (is_complex_v<T>) return {}; // generated code sees pairs of reals
    else if constexpr (std::is_same_v<T, bool>) return Data::of(std::vector<uint8_t>{0, 1, 1, 0, 1});
    else return Data::of(specials<T>());
  });
}

// All pairs of the special values.
std::pair<Data, Data> special_pairs(DType t) {
  return dispatch(t, [&]<class T>(T) -> std::pair<Data, Data> {
    if constexpr (is_complex_v<T>) return {};
    else {
      using Stored = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;
      std::vector<Stored> a, b;
      for (T x : specials<T>())
        for (T y : specials<T>()) a.push_back(static_cast<Stored>(x)), b.push_back(static_cast<Stored>(y));
      return {Data::of(a), Data::of(b)};
    }
  });
}

const DType arithmetic[] = {DType::Bool, DType::U8, DType::I8, DType::I16, DType::I32, DType::I64, DType::F32, DType::F64};

bool legal_unary(Op op, DType t) {
  if (is_float(t)) return op != Op::Not;
  if (t == DType::Bool) return op == Op::Not || op == Op::Abs;
  return op == Op::Neg || op == Op::Abs || op == Op::Not || (op >= Op::Floor && op <= Op::Trunc);
}
bool legal_binary(Op op, DType t) {
  if (is_float(t)) return op < Op::And || is_compare(op);
  if (t == DType::Bool)
    return op == Op::And || op == Op::Or || op == Op::Xor || op == Op::Min || op == Op::Max || op == Op::Mul || op == Op::Add ||
           op == Op::Sub || is_compare(op);
  return op != Op::Div && op != Op::Atan2;
}

// Accuracy is the matter of vector_math_test; here it must be the right function.
double tolerance(Op op, DType t) {
  if (!is_float(t)) return 0;
  bool exact = op == Op::Neg || op == Op::Abs || (op >= Op::Floor && op <= Op::Trunc) || op == Op::Add || op == Op::Sub || op == Op::Mul ||
               op == Op::Div;
  return exact ? 0 : t == DType::F32 ? 4e-6 : 1e-14;
}

} // namespace

TEST_CASE("every unary operator on every dtype") {
  for (int o = static_cast<int>(Op::Neg); o <= static_cast<int>(Op::Trunc); o++)
    for (DType t : arithmetic)
      for (int lanes : {1, 16, 32}) {
        Op op = static_cast<Op>(o);
        if (!legal_unary(op, t)) continue;
        Data d = special_data(t);
        Pointwise b;
        Case c = b.make({input(t), output(t)}, static_cast<int64_t>(d.count), lanes, lanes == 32,
                        [&](Pointwise& k) { return k.pool.intern({.op = op, .type = t, .args = {k.pool.load(0, t, {k.i})}}); });
        c.kernel.name = name_of(op);
        c.data[0] = d;
        c.tolerance = tolerance(op, t);
        check(c);
      }
}

TEST_CASE("every binary operator on every dtype") {
  for (int o = static_cast<int>(Op::Add); o <= static_cast<int>(Op::Le); o++)
    for (DType t : arithmetic)
      for (int lanes : {1, 16, 32}) {
        Op op = static_cast<Op>(o);
        if (!legal_binary(op, t)) continue;
        auto [x, y] = special_pairs(t);
        DType result = is_compare(op) ? DType::Bool : t;
        Pointwise b;
        Case c = b.make({input(t), input(t), output(result)}, static_cast<int64_t>(x.count), lanes, lanes == 32, [&](Pointwise& k) {
          return k.pool.intern({.op = op, .type = result, .args = {k.pool.load(0, t, {k.i}), k.pool.load(1, t, {k.i})}});
        });
        c.kernel.name = "binary";
        c.data[0] = x, c.data[1] = y;
        c.tolerance = tolerance(op, t);
        if (op == Op::Min || op == Op::Max) c.tolerance = is_float(t) ? 1e-12 : 0;
        check(c);
      }
}

TEST_CASE("integer division by constants") {
  for (Op op : {Op::TruncDiv, Op::Fmod, Op::FloorDiv, Op::Mod, Op::Pow, Op::Shl, Op::Shr})
    for (DType t : {DType::U8, DType::I8, DType::I16, DType::I32, DType::I64})
      for (int64_t divisor : {-7, -1, 0, 1, 2, 3, 5, 16, 100, 127})
        for (int lanes : {1, 16, 32}) {
          if (t == DType::U8 && divisor < 0) continue;
          Data d = special_data(t);
          Pointwise b;
          Case c = b.make({input(t), output(t)}, static_cast<int64_t>(d.count), lanes, false, [&](Pointwise& k) {
            return k.pool.intern({.op = op, .type = t, .args = {k.pool.load(0, t, {k.i}), k.pool.integer(divisor, t)}});
          });
          c.data[0] = d;
          check(c);
        }
}

TEST_CASE("powers by constants") {
  for (double e : {-2.0, -1.0, 0.0, 0.5, 1.0, 2.0, 3.0, 3.5})
    for (DType t : {DType::F32, DType::F64}) {
      Data d = special_data(t);
      Pointwise b;
      Case c = b.make({input(t), output(t)}, static_cast<int64_t>(d.count), 16, false,
                      [&](Pointwise& k) { return binary(Op::Pow, k.pool.load(0, t, {k.i}), k.pool.number(e, t)); });
      c.data[0] = d;
      c.tolerance = tolerance(Op::Pow, t);
      check(c);
    }
}

TEST_CASE("casts among all dtypes") {
  for (int from = 0; from < num_dtypes; from++)
    for (int to = 0; to < num_dtypes; to++)
      for (int lanes : {1, 16, 32}) {
        DType a = static_cast<DType>(from), r = static_cast<DType>(to);
        if (is_complex(a) || is_complex(r) || (is_float8(a) && is_int(r))) continue;
        Data d = special_data(a);
        if (r == DType::I32 && is_float(a)) d.count -= 3; // i32 of NaN and infinities is left open
        Pointwise b;
        Case c = b.make({input(a), output(r)}, static_cast<int64_t>(d.count), lanes, lanes == 32, [&](Pointwise& k) {
          if (is_float8(a) || is_float8(r)) return cast(k.pool.load(0, a, {k.i}), r); // spelled out, there is no such Cast
          return k.pool.intern({.op = Op::Cast, .type = r, .args = {k.pool.load(0, a, {k.i})}});
        });
        c.kernel.name = fmt::format("{}_to_{}", name_of(a), name_of(r));
        c.data[0] = d;
        check(c);
      }
}

TEST_CASE("values of 16-bit floats go back to them without rounding") {
  for (DType t : {DType::BF16, DType::F16})
    for (int lanes : {1, 16, 32}) {
      Data d = special_data(t);
      Pointwise b;
      Case c = b.make({input(t), input(t), output(t)}, static_cast<int64_t>(d.count), lanes, lanes == 32, [&](Pointwise& k) {
        Expr x = cast(k.pool.load(0, t, {k.i}), DType::F32), y = cast(k.pool.load(1, t, {k.i}), DType::F32);
        return cast(select(lt(x, y), max(-x, k.pool.number(0.5, DType::F32)), min(unary(Op::Abs, y), x)), t);
      });
      c.data[0] = d, c.data[1] = special_pairs(t).second;
      c.data[1].count = d.count;
      check(c);
    }
}

TEST_CASE("kernels that flush denormals round all else to nearest even") {
  for (int lanes : {16, 32, 64}) {
    Data d = special_data(DType::F32);
    Pointwise b;
    Case c = b.make({input(DType::F32), output(DType::BF16)}, static_cast<int64_t>(d.count), lanes, lanes == 32,
                    [&](Pointwise& k) { return cast(k.pool.load(0, DType::F32, {k.i}), DType::BF16); });
    c.kernel.flushes_denormals = true;
    c.data[0] = d;
    c.tolerance = 1e-37; // of a denormal; all else is equal, as the smallest step of bf16 is larger
    check(c);
  }
}

TEST_CASE("bitcast, select, copies of every dtype") {
  for (int i = 0; i < num_dtypes; i++)
    for (int lanes : {1, 16, 64}) {
      DType t = static_cast<DType>(i);
      if (is_complex(t)) continue;
      Pointwise b;
      Case c = b.make({input(t), input(t), input(DType::Bool), output(t)}, 75, lanes, lanes == 16, [&](Pointwise& k) {
        return select(k.pool.load(2, DType::Bool, {k.i}), k.pool.load(0, t, {k.i}), k.pool.load(1, t, {k.i}));
      });
      check(c);
    }
  for (auto [a, r] : {std::pair(DType::F32, DType::I32),
                      {DType::I32, DType::F32},
                      {DType::F64, DType::I64},
                      {DType::BF16, DType::I16},
                      {DType::I8, DType::U8}}) {
    Pointwise b;
    check(b.make({input(a), output(r)}, 75, 16, true,
                 [&](Pointwise& k) { return k.pool.intern({.op = Op::Bitcast, .type = r, .args = {k.pool.load(0, a, {k.i})}}); }));
  }
}

TEST_CASE("calls of special functions") {
  for (DType t : {DType::F32, DType::F64})
    for (int lanes : {1, 16}) {
      Pointwise b;
      Case c = b.make({input(t), input(t), output(t)}, 37, lanes, false, [&](Pointwise& k) {
        Expr x = k.pool.load(0, t, {k.i}), y = k.pool.load(1, t, {k.i});
        return k.pool.call("hypot", t, {x, y}) + k.pool.call("lgamma", t, {y});
      });
      c.tolerance = 1e-6;
      check(c);
    }
}

TEST_CASE("float and narrow integer size parameters") {
  Pointwise b;
  Case c = b.make({input(DType::F32), output(DType::F32)}, 37, 16, false, [&](Pointwise& k) {
    Expr alpha = k.pool.symbol("alpha", DType::F64), beta = k.pool.symbol("beta", DType::I64);
    return k.pool.load(0, DType::F32, {k.i}) * cast(alpha, DType::F32) + cast(beta, DType::F32);
  });
  c.kernel.scalars = {b.pool.find_symbol("alpha"), b.pool.find_symbol("beta")};
  c.scalars = {std::bit_cast<int64_t>(0.375), -12};
  c.tolerance = 1e-6;
  check(c);
}

static Together together(int threads) {
  return [workers = Workers(threads)](auto& work) { workers.together(work); };
}

TEST_CASE("kernels compile on several threads") {
  std::vector<std::unique_ptr<Pointwise>> builders;
  std::vector<Case> cases;
  for (int64_t n = 1; n < 20; n++) {
    builders.push_back(std::make_unique<Pointwise>());
    cases.push_back(builders.back()->make({input(DType::F32), output(DType::F32)}, n, 16, n % 2,
                                          [&](Pointwise& k) { return k.pool.load(0, DType::F32, {k.i}) * static_cast<double>(n); }));
    cases.back().data[0] = Data::random(DType::F32, static_cast<size_t>(n), 3);
  }
  std::vector<const Kernel*> kernels;
  for (const Case& c : cases) kernels.push_back(&c.kernel);
  std::vector<CompiledKernel> compiled = compile_kernels(kernels, jit_for(Isa::Avx2), together(3));
  REQUIRE(compiled.size() == cases.size());
  for (size_t i = 0; i < cases.size(); i++) {
    CHECK(compiled[i].code == compiled[0].code);
    compare(cases[i], run(cases[i], compiled[i].function, false), run(cases[i], nullptr, false), "avx2");
  }
  CHECK(compile_kernels({}, jit_for(Isa::Avx2), together(3)).empty());

  std::vector<CodeObject> objects(kernels.size());
  compile_kernels(kernels, jit_for(Isa::Avx2), together(3), {}, objects);
  std::vector<std::shared_ptr<const CodeObject>> prebuilt;
  for (const CodeObject& object : objects) prebuilt.push_back(std::make_shared<const CodeObject>(object));
  for (int threads : {3, 1}) { // another Jit links them
    uint64_t pieces = pieces_of_code;
    std::vector<CompiledKernel> linked;
    {
      Jit jit(host_target(Isa::Avx2), kernel_symbols());
      linked = compile_kernels(kernels, jit, together(threads), {}, {}, prebuilt);
    }
    CHECK(pieces_of_code == pieces);
    for (size_t i = 0; i < cases.size(); i++)
      compare(cases[i], run(cases[i], linked[i].function, false), run(cases[i], compiled[i].function, false), "linked");
  }

  cases[4].kernel.body.push_back(add(9, builders[4]->pool.number(1, DType::F32)));
  CHECK_THROWS_AS(compile_kernels(kernels, jit_for(Isa::Avx2), together(3)), Error);
}

} // namespace tenon::emit_ops_test
