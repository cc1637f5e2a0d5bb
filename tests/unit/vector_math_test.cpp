// Vector math against libm of the next wider type, on both instruction levels. The tables are the stated accuracy: the
// greatest error in units in the last place of the result. TENON_ULP_STRIDE=1 walks over all floats instead of every 4001st,
// TENON_ULP_ONLY=tanh over one function, TENON_ULP_PRINT=1 tells the errors found.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include "base/numeric.h"
#include "codegen/llvm/jit.h"
#include "codegen/llvm/vector_math.h"

namespace tenon::vector_math_test {

namespace {

using Body = std::function<llvm::Value*(const vmath::Emitter&, llvm::Value* x, llvm::Value* y)>;
struct Kernel {
  void (*function)(const void* x, const void* y, void* out, int64_t n);
  std::shared_ptr<const Code> code;
  void operator()(const void* x, const void* y, void* out, int64_t n) const { function(x, y, out, n); }
};

// out[i] = body(x[i], y[i]) by vectors of `lanes`, n a multiple of it; 0 lanes: scalar code.
std::unique_ptr<llvm::Module> emit_kernel(llvm::LLVMContext& c, const Target& target, const Body& body,
                                          llvm::Type* (*in)(llvm::LLVMContext&), llvm::Type* (*out)(llvm::LLVMContext&), unsigned lanes) {
  auto module = new_module(c, "test");
  llvm::IRBuilder<> b(c);
  llvm::FastMathFlags flags;
  flags.setAllowContract();
  b.setFastMathFlags(flags);
  auto* type = llvm::FunctionType::get(b.getVoidTy(), {b.getPtrTy(), b.getPtrTy(), b.getPtrTy(), b.getInt64Ty()}, false);
  auto* f = llvm::Function::Create(type, llvm::Function::ExternalLinkage, "kernel", *module);
  set_function_attributes(*f, target);
  auto* entry = llvm::BasicBlock::Create(c, "entry", f);
  auto* loop = llvm::BasicBlock::Create(c, "loop", f);
  auto* done = llvm::BasicBlock::Create(c, "done", f);
  b.SetInsertPoint(entry);
  b.CreateCondBr(b.CreateICmpSGT(f->getArg(3), b.getInt64(0)), loop, done);
  b.SetInsertPoint(loop);
  auto* i = b.CreatePHI(b.getInt64Ty(), 2);
  i->addIncoming(b.getInt64(0), entry);
  llvm::Type* vec = lanes ? llvm::FixedVectorType::get(in(c), lanes) : in(c);
  auto load = [&](unsigned k) { return b.CreateAlignedLoad(vec, b.CreateGEP(in(c), f->getArg(k), i), llvm::Align(1)); };
  vmath::Emitter e{b, target};
  llvm::Value* r = body(e, load(0), load(1));
  CHECK(b.getFastMathFlags().allowContract());
  b.CreateAlignedStore(r, b.CreateGEP(out(c), f->getArg(2), i), llvm::Align(1));
  auto* next = b.CreateAdd(i, b.getInt64(lanes ? lanes : 1));
  i->addIncoming(next, b.GetInsertBlock());
  b.CreateCondBr(b.CreateICmpSLT(next, f->getArg(3)), loop, done);
  b.SetInsertPoint(done);
  b.CreateRetVoid();
  return module;
}

Kernel compile(Jit& jit, const Body& body, llvm::Type* (*in)(llvm::LLVMContext&), llvm::Type* (*out)(llvm::LLVMContext&), unsigned lanes,
               CodeText* text = nullptr) {
  auto emit = [&](llvm::LLVMContext& c) { return emit_kernel(c, jit.target(), body, in, out, lanes); };
  CompiledFunction f = jit.compile({"kernel", emit}, text);
  return {reinterpret_cast<decltype(Kernel::function)>(f.address), f.code};
}

llvm::Type* f32(llvm::LLVMContext& c) { return llvm::Type::getFloatTy(c); }
llvm::Type* f64(llvm::LLVMContext& c) { return llvm::Type::getDoubleTy(c); }

template <class T> Kernel compile_unary(Jit& jit, vmath::Unary emit, unsigned lanes) {
  auto type = sizeof(T) == 4 ? f32 : f64;
  return compile(jit, [emit](auto& e, llvm::Value* x, llvm::Value*) { return emit(e, x); }, type, type, lanes);
}
template <class T> Kernel compile_binary(Jit& jit, vmath::Binary emit, unsigned lanes) {
  auto type = sizeof(T) == 4 ? f32 : f64;
  return compile(jit, [emit](auto& e, llvm::Value* x, llvm::Value* y) { return emit(e, x, y); }, type, type, lanes);
}

template <class Row> auto find(std::span<const Row> rows, std::string_view name) {
  for (const Row& r : rows)
    if (r.name == name) return r.emit;
  FAIL("no function " << name);
  return rows[0].emit;
}

// The distance in units in the last place of T around `want`, the result in a wider type.
template <class T, class Wide> double ulps(T got, Wide want) {
  using Limits = std::numeric_limits<T>;
  T rounded = static_cast<T>(want);
  if (std::isnan(rounded) || std::isnan(got)) return std::isnan(rounded) && std::isnan(got) ? 0 : 1e30;
  if (std::signbit(got) != std::signbit(rounded)) return 1e30;
  if (got == rounded && (std::isinf(got) || got == 0)) return 0;
  if (std::isinf(got) || std::isinf(rounded)) return std::fabs(got) == Limits::max() || std::fabs(rounded) == Limits::max() ? 1 : 1e30;
  int exponent = std::max(std::ilogb(rounded == 0 ? Limits::denorm_min() : rounded), Limits::min_exponent - 1);
  return static_cast<double>(std::fabs(std::ldexp(static_cast<Wide>(got) - want, Limits::digits - 1 - exponent)));
}

template <class T> std::vector<T> special_values() {
  using L = std::numeric_limits<T>;
  std::vector<T> v;
  for (T x : {T(0),
              T(1),
              T(2),
              T(3),
              T(0.5),
              T(0.25),
              T(10),
              T(100),
              T(1000),
              T(1.5),
              T(2.5),
              T(88.5),
              T(89),
              T(104),
              T(710),
              T(1e6),
              T(1e9),
              T(3.9),
              T(3.95),
              T(9.0),
              T(9.1),
              T(1e30),
              L::max(),
              L::min(),
              L::denorm_min(),
              L::min() / 2,
              L::epsilon(),
              L::infinity(),
              L::quiet_NaN(),
              T(M_PI),
              T(M_PI_2),
              T(1) - L::epsilon() / 2,
              T(1) + L::epsilon()})
    v.push_back(x), v.push_back(-x);
  return v;
}

// Bit patterns over the whole line, the band where most functions do their work, special values; a multiple of 64.
std::vector<float> samples_f32() {
  const char* text = std::getenv("TENON_ULP_STRIDE");
  uint64_t stride = text ? std::strtoull(text, nullptr, 10) : 4001;
  std::vector<float> v = special_values<float>();
  for (uint64_t i = 0; i < uint64_t{1} << 32; i += stride) v.push_back(std::bit_cast<float>(static_cast<uint32_t>(i)));
  for (int i = -150000; i <= 150000; i++) v.push_back(static_cast<float>(i) * 1e-5f);
  for (int i = -60000; i <= 60000; i++) v.push_back(static_cast<float>(i) * 1.7e-3f);
  while (v.size() % 64) v.push_back(0.7f);
  return v;
}
std::vector<double> samples_f64() {
  std::vector<double> v = special_values<double>();
  for (uint64_t i = 0; i < 20000; i++) v.push_back(std::bit_cast<double>(i * 0x346dc5d63886aULL));
  for (int i = -20000; i <= 20000; i++) v.push_back(i * 1.000123e-4), v.push_back(i * 0.0357);
  while (v.size() % 64) v.push_back(0.7);
  return v;
}

struct Accuracy {
  const char* name;
  double f32, f64; // stated bounds
  double (*wide)(double);
  long double (*wider)(long double);
};

double sigmoid64(double x) { return 1 / (1 + std::exp(-x)); }
long double sigmoid80(long double x) { return 1 / (1 + std::exp(-x)); }
double rsqrt64(double x) { return 1 / std::sqrt(x); }
long double rsqrt80(long double x) { return 1 / std::sqrt(x); }

#define LIBM(f) static_cast<double (*)(double)>(std::f), static_cast<long double (*)(long double)>(std::f)
const Accuracy table[] = {
    {"exp", 2, 2, LIBM(exp)},         {"exp2", 2, 2, LIBM(exp2)},
    {"expm1", 2, 2, LIBM(expm1)},     {"sigmoid", 2.5, 3, sigmoid64, sigmoid80},
    {"sinh", 2, 2, LIBM(sinh)},       {"cosh", 2, 2, LIBM(cosh)},
    {"tanh", 2, 3, LIBM(tanh)},       {"log", 2, 2, LIBM(log)},
    {"log2", 2, 3, LIBM(log2)},       {"log10", 2, 3, LIBM(log10)},
    {"log1p", 2, 2, LIBM(log1p)},     {"asinh", 1, 3, LIBM(asinh)},
    {"acosh", 1, 3, LIBM(acosh)},     {"atanh", 1, 3, LIBM(atanh)},
    {"sin", 2, 2, LIBM(sin)},         {"cos", 2, 2, LIBM(cos)},
    {"tan", 4, 2, LIBM(tan)},         {"asin", 2.25, 1.5, LIBM(asin)},
    {"acos", 2, 1, LIBM(acos)},       {"atan", 2, 1.25, LIBM(atan)},
    {"erf", 1.25, 1, LIBM(erf)},      {"erfc", 1, 3.5, LIBM(erfc)},
    {"sqrt", 0.5, 0.5, LIBM(sqrt)},   {"rsqrt", 1.5, 1.5, rsqrt64, rsqrt80},
    {"abs", 0, 0, LIBM(fabs)},        {"floor", 0, 0, LIBM(floor)},
    {"ceil", 0, 0, LIBM(ceil)},       {"trunc", 0, 0, LIBM(trunc)},
    {"round", 0, 0, LIBM(nearbyint)},
};
#undef LIBM

template <class T, class Wide>
void check_unary(Jit& jit, const Accuracy& row, double bound, const std::vector<T>& x, const std::vector<Wide>& want, unsigned lanes) {
  std::vector<T> got(x.size());
  compile_unary<T>(jit, find(vmath::unary_functions(), row.name), lanes)(x.data(), x.data(), got.data(), static_cast<int64_t>(x.size()));
  double worst = -1;
  size_t at = 0;
  for (size_t i = 0; i < x.size(); i++)
    if (double d = ulps(got[i], want[i]); d > worst) worst = d, at = i;
  INFO(std::string(row.name), " of ", sizeof(T) * 8, " bits, ", lanes, " lanes, AVX-512: ", jit.target().avx512());
  INFO("at ", x[at], " got ", got[at], " want ", want[at]);
  if (std::getenv("TENON_ULP_PRINT")) MESSAGE("worst " << worst);
  CHECK(worst <= bound);
}

} // namespace

TEST_CASE("unary f32 functions are within their stated error") {
  std::vector<float> x = samples_f32();
  std::vector<double> want(x.size());
  Jit narrow(host_target(Isa::Avx2)), wide(host_target(Isa::Auto));
  const char* only = std::getenv("TENON_ULP_ONLY");
  for (const Accuracy& row : table) {
    if (only && std::string(only) != row.name) continue;
    for (size_t i = 0; i < x.size(); i++) want[i] = row.wide(static_cast<double>(x[i]));
    check_unary(narrow, row, row.f32, x, want, 8);
    check_unary(wide, row, row.f32, x, want, 16);
  }
}

TEST_CASE("unary f64 functions are within their stated error") {
  std::vector<double> x = samples_f64();
  std::vector<long double> want(x.size());
  Jit narrow(host_target(Isa::Avx2)), wide(host_target(Isa::Auto));
  for (const Accuracy& row : table) {
    for (size_t i = 0; i < x.size(); i++) want[i] = row.wider(static_cast<long double>(x[i]));
    check_unary(narrow, row, row.f64, x, want, 4);
    check_unary(wide, row, row.f64, x, want, 8);
  }
}

TEST_CASE("every lane count, scalars included, gives the same results") {
  Jit narrow(host_target(Isa::Avx2)), wide(host_target(Isa::Auto));
  std::vector<float> x = special_values<float>();
  while (x.size() % 192) x.push_back(static_cast<float>(x.size()) * 0.37f - 20);
  for (const vmath::UnaryRow& row : vmath::unary_functions())
    for (Jit* jit : {&narrow, &wide}) {
      std::vector<float> want(x.size()), got(x.size());
      compile_unary<float>(*jit, row.emit, 8)(x.data(), x.data(), want.data(), static_cast<int64_t>(x.size()));
      for (unsigned lanes : {0u, 1u, 3u, 4u, 16u, 32u}) {
        INFO(std::string(row.name), " ", lanes);
        compile_unary<float>(*jit, row.emit, lanes)(x.data(), x.data(), got.data(), static_cast<int64_t>(x.size()));
        size_t differ = 0;
        for (size_t i = 0; i < x.size(); i++)
          differ += std::bit_cast<uint32_t>(got[i]) != std::bit_cast<uint32_t>(want[i]) && !(std::isnan(got[i]) && std::isnan(want[i]));
        CHECK(differ == 0);
      }
    }
}

namespace {

float torch_remainder(float x, float y) {
  float r = std::fmod(x, y);
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

struct BinaryAccuracy {
  const char* name;
  double f32;
  double (*wide)(double, double);
  float (*exact)(float, float);
};
const BinaryAccuracy binary_table[] = {
    {"pow", 1, std::pow, nullptr},
    {"atan2", 2, std::atan2, nullptr},
    {"fmod", 0, nullptr, std::fmod},
    {"remainder", 0, nullptr, torch_remainder},
};

} // namespace

TEST_CASE("binary f32 functions are within their stated error") {
  std::vector<float> some = special_values<float>(), x, y;
  for (float a : some)
    for (float b : some) x.push_back(a), y.push_back(b);
  for (uint32_t i = 0; i < 200000; i++) {
    x.push_back(std::bit_cast<float>(i * 2654435761u)), y.push_back(std::bit_cast<float>(i * 40503u * 2246822519u));
    x.push_back(static_cast<float>(i) * 1e-3f - 50), y.push_back(static_cast<float>(i % 97) - 48);
    x.push_back(static_cast<float>(i) * 1e-4f), y.push_back(static_cast<float>(i % 1009) * 0.021f - 10);
  }
  while (x.size() % 64) x.push_back(2), y.push_back(3);
  for (Isa isa : {Isa::Avx2, Isa::Auto}) {
    Jit jit(host_target(isa));
    for (const BinaryAccuracy& row : binary_table) {
      std::vector<float> got(x.size());
      compile_binary<float>(jit, find(vmath::binary_functions(), row.name), isa == Isa::Avx2 ? 8 : 16)(x.data(), y.data(), got.data(),
                                                                                                       static_cast<int64_t>(x.size()));
      double worst = -1;
      size_t at = 0;
      for (size_t i = 0; i < x.size(); i++) {
        double d = row.exact ? ulps(got[i], static_cast<double>(row.exact(x[i], y[i])))
                             : ulps(got[i], row.wide(static_cast<double>(x[i]), static_cast<double>(y[i])));
        if (d > worst) worst = d, at = i;
      }
      INFO(std::string(row.name), " at ", x[at], ", ", y[at], " got ", got[at]);
      if (std::getenv("TENON_ULP_PRINT")) MESSAGE("worst " << worst);
      CHECK(worst <= row.f32);
    }
  }
}

TEST_CASE("binary f64 functions, minimum and maximum follow C and torch") {
  std::vector<double> some = special_values<double>(), x, y;
  for (double a : some)
    for (double b : some) x.push_back(a), y.push_back(b);
  for (uint64_t i = 0; i < 60000; i++) {
    x.push_back(std::bit_cast<double>(i * 0x9e3779b97f4a7c15ULL)), y.push_back(std::bit_cast<double>(i * 0xd1342543de82ef95ULL));
    x.push_back(static_cast<double>(i) * 1.37e-3), y.push_back(static_cast<double>(i % 1013) * 0.217 - 110);
    x.push_back(1 + static_cast<double>(i) * 1e-7), y.push_back(static_cast<double>(i % 997) * 71.3 - 35000);
  }
  while (x.size() % 64) x.push_back(7.25), y.push_back(-2);
  struct Near {
    double bound;
    long double (*f)(long double, long double);
  };
  const std::map<std::string, Near> near = {{"pow", {1.5, std::pow}}, {"atan2", {2, std::atan2}}};
  const std::map<std::string, double (*)(double, double)> want = {
      {"fmod", std::fmod},
      {"remainder",
       [](double a, double b) {
         double r = std::fmod(a, b);
         return r != 0 && (r < 0) != (b < 0) ? r + b : r;
       }},
      {"minimum", [](double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN
                                                  : a < b                        ? a
                                                                                 : b; }},
      {"maximum", [](double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN
                                                  : a > b                        ? a
                                                                                 : b; }},
  };
  for (Isa isa : {Isa::Avx2, Isa::Auto}) {
    Jit jit(host_target(isa));
    for (const vmath::BinaryRow& row : vmath::binary_functions()) {
      std::vector<double> got(x.size());
      compile_binary<double>(jit, row.emit, 8)(x.data(), y.data(), got.data(), static_cast<int64_t>(x.size()));
      size_t wrong = 0, at = 0;
      double worst = 0;
      const auto close = near.find(std::string(row.name));
      for (size_t i = 0; i < x.size(); i++) {
        bool bad = false;
        if (close != near.end()) {
          double d = ulps(got[i], close->second.f(x[i], y[i]));
          bad = d > worst && d > close->second.bound, worst = std::max(worst, d);
        } else {
          double w = want.at(std::string(row.name))(x[i], y[i]);
          bad = !(got[i] == w || (std::isnan(got[i]) && std::isnan(w)));
        }
        if (bad) wrong++, at = i;
      }
      if (std::getenv("TENON_ULP_PRINT")) MESSAGE("worst " << worst);
      INFO(std::string(row.name), " at ", x[at], ", ", y[at], " got ", got[at]);
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("16-bit floats convert as the soft conversions do, over all patterns") {
  auto i16 = [](llvm::LLVMContext& c) -> llvm::Type* { return llvm::Type::getInt16Ty(c); };
  std::vector<uint16_t> all(65536), back(65536);
  for (size_t i = 0; i < all.size(); i++) all[i] = static_cast<uint16_t>(i);
  std::vector<float> x = samples_f32(), wide(65536);
  std::vector<uint16_t> half(x.size());
  auto unary = [](vmath::Unary f) { return [f](auto& e, llvm::Value* v, llvm::Value*) { return f(e, v); }; };
  for (Isa isa : {Isa::Avx2, Isa::Auto})
    for (bool brain : {false, true}) {
      Jit jit(host_target(isa));
      Kernel up = compile(jit, unary(brain ? vmath::bf16_to_f32 : vmath::f16_to_f32), i16, f32, 16);
      Kernel down = compile(jit, unary(brain ? vmath::f32_to_bf16 : vmath::f32_to_f16), f32, i16, 16);
      up(all.data(), all.data(), wide.data(), 65536);
      down(wide.data(), wide.data(), back.data(), 65536);
      down(x.data(), x.data(), half.data(), static_cast<int64_t>(x.size()));
      size_t wrong = 0;
      for (size_t i = 0; i < all.size(); i++) {
        float w = brain ? std::bit_cast<float>(static_cast<uint32_t>(i) << 16) : [&] {
          F16 h;
          h.bits = all[i];
          return static_cast<float>(h);
        }();
        if (std::isnan(w)) wrong += !std::isnan(wide[i]);
        else wrong += std::bit_cast<uint32_t>(wide[i]) != std::bit_cast<uint32_t>(w) || back[i] != all[i];
      }
      for (size_t i = 0; i < x.size(); i++) {
        if (std::isnan(x[i])) wrong += (half[i] & 0x7fff) <= (brain ? 0x7f80 : 0x7c00);
        else wrong += half[i] != (brain ? BF16(x[i]).bits : F16(x[i]).bits);
      }
      CHECK(wrong == 0);
    }
}

namespace {

template <class To, class From> void check_float_to_int(Jit& jit, const std::vector<From>& x) {
  std::vector<To> got(x.size());
  constexpr int bits = sizeof(To) * 8;
  auto to = [](llvm::LLVMContext& c) -> llvm::Type* { return llvm::Type::getIntNTy(c, bits); };
  compile(
      jit, [](auto& e, llvm::Value* v, llvm::Value*) { return vmath::float_to_int(e, v, bits); }, sizeof(From) == 4 ? f32 : f64, to,
      8)(x.data(), x.data(), got.data(), static_cast<int64_t>(x.size()));
  size_t wrong = 0;
  using Step = std::conditional_t<bits == 64, int64_t, int32_t>;
  for (size_t i = 0; i < x.size(); i++) {
    bool fits = std::fabs(x[i]) < std::ldexp(From(1), sizeof(Step) * 8 - 1);
    Step n = fits ? static_cast<Step>(x[i]) : std::numeric_limits<Step>::min();
    wrong += got[i] != static_cast<To>(n);
  }
  CHECK(wrong == 0);
}

} // namespace

TEST_CASE("floats to integers: toward zero, the lowest integer out of range, cut to the width") {
  std::vector<float> x = special_values<float>();
  std::vector<double> d = special_values<double>();
  for (int i = -400; i < 400; i++)
    x.push_back(static_cast<float>(i) * 0.7f), x.push_back(static_cast<float>(i) * 7e6f), d.push_back(i * 0.7);
  while (x.size() % 8) x.push_back(-3.5f);
  while (d.size() % 8) d.push_back(-3.5);
  for (Isa isa : {Isa::Avx2, Isa::Auto}) {
    Jit jit(host_target(isa));
    check_float_to_int<int64_t>(jit, x);
    check_float_to_int<int32_t>(jit, x);
    check_float_to_int<int16_t>(jit, x);
    check_float_to_int<int8_t>(jit, x);
    check_float_to_int<uint8_t>(jit, x);
    check_float_to_int<int64_t>(jit, d);
    check_float_to_int<int32_t>(jit, d);
  }
}

TEST_CASE("AVX-512 code uses full registers, AVX2 code none of them") {
  CodeText text;
  auto body = [](auto& e, llvm::Value* x, llvm::Value*) { return vmath::exp(e, x); };
  Jit narrow(host_target(Isa::Avx2)), wide(host_target(Isa::Auto));
  compile(narrow, body, f32, f32, 16, &text);
  CHECK(text.assembly.find("zmm") == std::string::npos);
  CHECK(text.assembly.find("vfmadd") != std::string::npos);
  compile(wide, body, f32, f32, 16, &text);
  if (wide.target().avx512()) {
    CHECK(text.assembly.find("zmm") != std::string::npos);
    CHECK(text.assembly.find("ymm") == std::string::npos);
  }
}

} // namespace tenon::vector_math_test
