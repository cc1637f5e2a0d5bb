// Fourier transforms against sums of the definition; complex arithmetic against std::complex.
#include <doctest/doctest.h>

#include <complex>
#include <numbers>
#include <random>

#include "runtime/library/fft.h"
#include "tests/unit/graph_harness.h"

namespace tenon::fft_test {
using namespace tenon::test;

namespace {

using C = std::complex<double>;

Tensor complex_tensor(const std::vector<C>& values, std::vector<int64_t> sizes) {
  Tensor t(DType::C128, std::move(sizes));
  std::copy(values.begin(), values.end(), t.data_as<C>());
  return t;
}
std::vector<C> values_of(const Tensor& t) {
  Tensor c = t.contiguous();
  std::vector<C> out(static_cast<size_t>(c.numel()));
  if (c.dtype() == DType::C128) return {c.data_as<C>(), c.data_as<C>() + c.numel()};
  if (c.dtype() == DType::C64) std::copy_n(c.data_as<std::complex<float>>(), c.numel(), out.begin());
  else out.assign(c.data_as<double>(), c.data_as<double>() + c.numel());
  return out;
}
std::vector<C> noise(size_t n, uint32_t seed) {
  std::mt19937 g(seed);
  std::uniform_real_distribution<double> u(-2, 2);
  std::vector<C> out(n);
  for (C& z : out) z = {u(g), u(g)};
  return out;
}

std::vector<C> transform_of(const std::vector<C>& x, double sign) {
  auto n = static_cast<double>(x.size());
  std::vector<C> out(x.size());
  for (size_t k = 0; k < x.size(); k++)
    for (size_t j = 0; j < x.size(); j++)
      out[k] += x[j] * std::polar(1.0, sign * 2 * std::numbers::pi * static_cast<double>(j * k % x.size()) / n);
  return out;
}

std::vector<Tensor> run_graph(const std::vector<Tensor>& inputs,
                              const std::function<std::vector<V>(Builder&, const std::vector<V>&)>& build) {
  TestGraph g;
  std::vector<V> values;
  for (auto& t : inputs) {
    std::vector<Expr> shape;
    for (int64_t s : t.sizes()) shape.push_back(g.b.integer(s));
    values.push_back(g.input(shape, t.dtype()));
  }
  for (V v : build(g.b, values)) g.returns(v);
  compare(g, {inputs}); // native code and interpreter agree
  return run(g.program().compile().value(), inputs);
}

void check_close(const Tensor& got, const std::vector<C>& want, double tolerance) {
  std::vector<C> values = values_of(got);
  REQUIRE(values.size() == want.size());
  for (size_t i = 0; i < want.size(); i++)
    CHECK_MESSAGE(std::abs(values[i] - want[i]) <= tolerance * (1 + std::abs(want[i])), i, " of ", want.size());
}

// The definition, summed in more digits than are compared.
using Wide = std::complex<long double>;
std::vector<Wide> roots_of(int64_t n, bool inverse) {
  std::vector<Wide> out;
  for (int64_t k = 0; k < n; k++)
    out.push_back(
        std::polar(1.0L, (inverse ? 2 : -2) * std::numbers::pi_v<long double> * static_cast<long double>(k) / static_cast<long double>(n)));
  return out;
}

// One pass over `lines` lines of length n, contiguous ones or, `across`, side by side; against the definition, in up to
// 40 of its elements.
enum class Way { Forward, Inverse, ToHalf, ToWhole, ToReal };
template <class T> void check_pass(int64_t n, int64_t lines, bool across, Way way, double tolerance) {
  bool real_in = way == Way::ToHalf || way == Way::ToWhole, real_out = way == Way::ToReal, inverse = way == Way::Inverse || real_out;
  int64_t half = n / 2 + 1, n_in = real_out ? half : n, n_out = way == Way::ToHalf ? half : n;
  std::vector<C> x = noise(static_cast<size_t>(n_in * lines), static_cast<uint32_t>(n));
  int64_t unit_in = real_in ? 1 : 2, unit_out = real_out ? 1 : 2;
  std::vector<T> in, out(static_cast<size_t>(n_out * lines * unit_out), T(99));
  for (C z : x) {
    in.push_back(static_cast<T>(z.real()));
    if (!real_in) in.push_back(static_cast<T>(z.imag()));
  }
  auto strides = [&](int64_t length, int64_t unit) { return std::pair(across ? unit : length * unit, across ? lines * unit : unit); };
  auto [in_line, in_step] = strides(n_in, unit_in);
  auto [out_line, out_step] = strides(n_out, unit_out);
  LibraryCall c{};
  static const Workers workers(2);
  c.workers = &workers;
  library::run_fft<T>(c, {n,
                          inverse,
                          T(0.5),
                          1,
                          lines,
                          {in.data(), !real_in, 0, in_line, in_step},
                          {out.data(), !real_out, 0, out_line, out_step},
                          way == Way::ToWhole});
  std::vector<Wide> roots = roots_of(n, inverse);
  double worst = 0, norm = 0;
  for (int64_t l = 0; l < lines; l += std::max<int64_t>(1, lines / 5)) {
    auto at = [&](int64_t j) {
      int64_t i = j < n_in ? j : n - j;
      auto* p = &in[static_cast<size_t>(l * in_line + i * in_step)];
      bool alone = real_in || (real_out && (i == 0 || 2 * i == n));
      return C(static_cast<double>(p[0]), alone ? 0 : (j < n_in ? 1 : -1) * static_cast<double>(p[1]));
    };
    for (int64_t k = 0; k < n_out; k += std::max<int64_t>(1, n_out / 40)) {
      Wide exact = 0;
      for (int64_t j = 0; j < n; j++) exact += Wide(at(j)) * roots[static_cast<size_t>(j * k % n)];
      C sum(exact);
      auto* p = &out[static_cast<size_t>(l * out_line + k * out_step)];
      worst = std::max(worst, std::abs(C(static_cast<double>(p[0]), real_out ? sum.imag() / 2 : static_cast<double>(p[1])) - sum / 2.0));
      norm = std::max(norm, std::abs(sum) / 2);
    }
  }
  CHECK_MESSAGE(worst <= tolerance * (norm + std::sqrt(static_cast<double>(n))), "length ", n, " lines ", lines, across ? " across" : "",
                " way ", static_cast<int>(way), " error ", worst, " of ", norm);
}
void check_length(int64_t n, int64_t lines) {
  for (bool across : {false, true})
    for (Way way : {Way::Forward, Way::Inverse, Way::ToHalf, Way::ToWhole, Way::ToReal}) {
      check_pass<double>(n, lines, across, way, 4e-15);
      check_pass<float>(n, lines, across, way, 1.5e-6);
    }
}

} // namespace

TEST_CASE("every length: powers of two and their neighbours, small and large primes, products") {
  for (int64_t n = 1; n <= 130; n++) check_length(n, 3), check_length(n, 37);
  for (int64_t n : {1009, 1021 * 2, 960, 1000, 37 * 37, 1024, 2048, 4095, 4096, 67 * 67}) check_length(n, 1), check_length(n, 20);
  for (int64_t n : {256, 512, 768, 1536, 3072, 4608, 6144, 8192, 9216, 12288, 32768}) check_length(n, 2); // matrices of whole vectors
  for (int64_t n : {10007, 16384, 19683, 40000}) check_length(n, 1), check_length(n, 2);
}

TEST_CASE("transforms along dims, halves, scales") {
  std::vector<C> x = noise(3 * 7, 1);
  Tensor t = complex_tensor(x, {3, 7});
  auto column = [&](const std::vector<C>& m, size_t j) { return std::vector<C>{m[j], m[7 + j], m[14 + j]}; };
  std::vector<C> first(21), both(21);
  for (size_t j = 0; j < 7; j++)
    for (size_t i = 0; i < 3; i++) first[i * 7 + j] = transform_of(column(x, j), -1)[i];
  for (size_t i = 0; i < 3; i++) {
    std::vector<C> row = transform_of({first.begin() + static_cast<int64_t>(7 * i), first.begin() + static_cast<int64_t>(7 * i + 7)}, -1);
    std::copy(row.begin(), row.end(), both.begin() + static_cast<int64_t>(7 * i));
  }
  auto out = run_graph({t}, [](Builder& b, const std::vector<V>& in) -> std::vector<V> {
    V f = b.call1("aten::fft_fft.default", {in[0], Arg(), 0}), g = b.call1("aten::fft_fftn.default", {in[0]});
    V back = b.call1("aten::fft_ifftn.default", {g}), real = b.real(in[0]);
    V half = b.call1("aten::fft_rfftn.default", {real}), again = b.call1("aten::fft_irfftn.default", {half, {3, 7}});
    V same = b.call1("aten::fft_hfft.default", {b.call1("aten::fft_ihfft.default", {real}), 7});
    V ortho = b.call1("aten::fft_ifft.default", {b.call1("aten::fft_fft.default", {in[0], Arg(), -1, "ortho"}), Arg(), -1, "ortho"});
    return {f, g, back - in[0], again - real, same - real, ortho - in[0], half, b.call1("aten::fft_fftn.default", {real})};
  });
  check_close(out[0], first, 1e-12), check_close(out[1], both, 1e-12);
  for (size_t i = 2; i < 6; i++) check_close(out[i], std::vector<C>(21), 1e-12);
  std::vector<C> half = values_of(out[6]), full = values_of(out[7]);
  for (size_t i = 0; i < 3; i++)
    for (size_t j = 0; j < 4; j++) CHECK(std::abs(half[i * 4 + j] - full[i * 7 + j]) < 1e-12);
}

TEST_CASE("images of a batch along all dims are those alone") {
  for (int64_t images : {1, 2, 5}) // the first are fewer than threads
    for (auto [rows, columns] : {std::pair<int64_t, int64_t>{16, 512}, {7, 12}, {5, 9}, {64, 1}}) {
      Tensor x = filled(DType::F64, {images, 2, rows, columns}, [](int64_t i) { return std::sin(static_cast<double>(i * i % 101)); });
      auto out = run_graph({x}, [&](Builder& b, const std::vector<V>& in) -> std::vector<V> {
        V one = b.call1("aten::slice.Tensor", {in[0], 0, images - 1, images}), half = b.call1("aten::fft_rfft2.default", {in[0]});
        V whole = b.call1("aten::fft_fft2.default", {in[0]}), back = b.call1("aten::fft_irfft2.default", {half, {rows, columns}});
        auto last = [&](V v) { return b.call1("aten::slice.Tensor", {v, 0, images - 1, images}); };
        return {last(half) - b.call1("aten::fft_rfft2.default", {one}), last(whole) - b.call1("aten::fft_fft2.default", {one}),
                back - in[0]};
      });
      for (const Tensor& y : out) check_close(y, std::vector<C>(static_cast<size_t>(y.numel())), 1e-10);
    }
}

TEST_CASE("the whole spectrum of real numbers is that of complex ones without imaginary part") {
  for (DType t : {DType::F32, DType::F64})
    for (int64_t last : {1, 2, 3, 6, 17}) {
      Tensor x = filled(t, {3, 4, 5, last}, [](int64_t i) { return std::sin(static_cast<double>(i * i % 101)); });
      auto out = run_graph({x}, [&](Builder& b, const std::vector<V>& in) -> std::vector<V> {
        V whole = b.complex(in[0], in[0] * Arg(0));
        std::vector<V> differences;
        for (std::vector<int64_t> dims : {std::vector<int64_t>{3}, {1, 3}, {0, 1, 2, 3}, {3, 2}, {2, 1}, {0, 2, 3}})
          differences.push_back(b.call1("aten::fft_fftn.default", {in[0], Arg(), dims}) -
                                b.call1("aten::fft_fftn.default", {whole, Arg(), dims}));
        return differences;
      });
      for (const Tensor& y : out) check_close(y, std::vector<C>(static_cast<size_t>(60 * last)), t == DType::F32 ? 1e-3 : 1e-10);
    }
}

TEST_CASE("a short-time transform and back, hop no divisor of the length") {
  for (int64_t hop : {3, 4, 5})
    for (int64_t n : {64, 67}) {
      Tensor x = filled(DType::F64, {2, n}, [](int64_t i) { return std::sin(static_cast<double>(i * i % 17)); });
      auto out = run_graph({x}, [&](Builder& b, const std::vector<V>& in) -> std::vector<V> {
        V window = b.call1("aten::hann_window.default", {16}, {{"dtype", DType::F64}});
        V s = b.call1("aten::stft.center", {in[0], 16, hop, Arg(), window}, {{"return_complex", true}});
        V y = b.call1("aten::istft.default", {s, 16, hop, Arg(), window});
        return {y - b.slice(in[0], 1, b.integer(0), y.size(1))};
      });
      for (double v : numbers(out[0])) CHECK(std::abs(v) < 1e-12);
    }
}

TEST_CASE("a short-time transform by its definition, as complex numbers and as their parts") {
  for (int64_t n : {1, 2, 15, 16, 512})
    for (bool half : {true, false}) {
      constexpr int64_t hop = 3;
      int64_t time = std::max<int64_t>(103, n + hop - 1); // of 512 a single frame
      int64_t frames = (time - n) / hop + 1, count = half ? n / 2 + 1 : n;
      auto signal = [](int64_t b, int64_t t) { return std::sin(static_cast<double>(t * t % 29 + b)); };
      Tensor x = filled(DType::F64, {2, time}, [&](int64_t i) { return signal(i / time, i % time); });
      Tensor w = filled(DType::F64, {n}, [](int64_t i) { return 1 + static_cast<double>(i % 19); });
      auto out = run_graph({x, w}, [&](Builder& b, const std::vector<V>& in) -> std::vector<V> {
        V s = b.call1("aten::stft.default", {in[0], n, hop, Arg(), in[1], false, half, true});
        return {s, b.real(s), b.imag(s), b.call1("aten::view_as_real.default", {s})};
      });
      std::vector<C> want, re, im, both;
      for (int64_t b = 0; b < 2; b++)
        for (int64_t k = 0; k < count; k++)
          for (int64_t f = 0; f < frames; f++) {
            C sum = 0;
            for (int64_t j = 0; j < n; j++)
              sum += signal(b, f * hop + j) * static_cast<double>(j % 19 + 1) *
                     std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(j * k % n) / static_cast<double>(n));
            want.push_back(sum), re.push_back(sum.real()), im.push_back(sum.imag()), both.push_back(sum.real()), both.push_back(sum.imag());
          }
      check_close(out[0], want, 1e-11), check_close(out[1], re, 1e-11), check_close(out[2], im, 1e-11), check_close(out[3], both, 1e-11);
    }
}

TEST_CASE("complex functions") {
  std::vector<C> x = noise(97, 2), y = noise(97, 3);
  x[0] = 0, x[1] = {-1, 0}, x[2] = {0, 2}, x[3] = {1e-170, 1e-170}, y[3] = {2e-170, -1e-170};
  struct Function {
    const char* op;
    C (*want)(C);
  };
  const Function functions[] = {
      {"aten::exp.default", [](C z) { return std::exp(z); }},      {"aten::sqrt.default", [](C z) { return std::sqrt(z); }},
      {"aten::sin.default", [](C z) { return std::sin(z); }},      {"aten::cos.default", [](C z) { return std::cos(z); }},
      {"aten::tanh.default", [](C z) { return std::tanh(z); }},    {"aten::tan.default", [](C z) { return std::tan(z); }},
      {"aten::sinh.default", [](C z) { return std::sinh(z); }},    {"aten::asinh.default", [](C z) { return std::asinh(z); }},
      {"aten::atan.default", [](C z) { return std::atan(z); }},    {"aten::abs.default", [](C z) { return C(std::abs(z)); }},
      {"aten::angle.default", [](C z) { return C(std::arg(z)); }}, {"aten::_conj.default", [](C z) { return std::conj(z); }},
      {"aten::square.default", [](C z) { return z * z; }}};
  for (auto& f : functions) {
    CAPTURE(f.op);
    std::vector<C> in(x.begin() + 4, x.end()), want;
    for (C z : in) want.push_back(f.want(z));
    auto out = run_graph({complex_tensor(in, {93})},
                         [&](Builder& b, const std::vector<V>& v) -> std::vector<V> { return {b.call1(f.op, {v[0]})}; });
    check_close(out[0], want, 1e-11);
  }
  auto out = run_graph({complex_tensor(x, {97}), complex_tensor(y, {97})}, [](Builder& b, const std::vector<V>& v) -> std::vector<V> {
    V scaled = b.call1("aten::add.Tensor", {v[0], v[1], 2}), picked = b.call1("aten::eq.Tensor", {v[0], v[1] - v[1]});
    return {
        v[0] * v[1], v[0] / v[1], scaled, b.to(picked, DType::F64), b.sum(v[0] / v[1], {0}, false), v[0] * Arg(std::complex<double>(0, 1))};
  });
  std::vector<C> product, quotient, sum, times_i, zero(97);
  C total = 0;
  for (size_t i = 0; i < 97; i++) {
    product.push_back(x[i] * y[i]), quotient.push_back(x[i] / y[i]), sum.push_back(x[i] + 2.0 * y[i]), times_i.push_back(x[i] * C(0, 1));
    zero[i] = x[i] == 0.0, total += quotient[i];
  }
  check_close(out[0], product, 1e-13), check_close(out[1], quotient, 1e-13), check_close(out[2], sum, 1e-13), check_close(out[3], zero, 0);
  check_close(out[4], {total}, 1e-12), check_close(out[5], times_i, 1e-13);
}

TEST_CASE("complex matrices, views, constants") {
  std::vector<C> x = noise(12, 5), y = noise(12, 6);
  auto out = run_graph({complex_tensor(x, {3, 4}), complex_tensor(y, {4, 3})}, [](Builder& b, const std::vector<V>& v) -> std::vector<V> {
    V joined = b.call1("aten::cat.default", {ArgList{b.transpose(v[0], 0, 1), v[1]}, 1});
    V padded = b.call1("aten::constant_pad_nd.default", {v[0], {1, 0}, 0});
    V reals = b.call1("aten::view_as_real.default", {v[0]});
    return {b.matmul(v[0], v[1]), joined, padded, b.call1("aten::view_as_complex.default", {reals * Arg(2)}) - v[0] * Arg(2),
            b.full({b.integer(2)}, std::complex<double>(1, -1), DType::C128)};
  });
  std::vector<C> product(9), joined(24), padded(15);
  for (size_t i = 0; i < 3; i++)
    for (size_t k = 0; k < 4; k++) {
      for (size_t j = 0; j < 3; j++) product[i * 3 + j] += x[i * 4 + k] * y[k * 3 + j];
      joined[k * 6 + i] = x[i * 4 + k], joined[k * 6 + 3 + i] = y[k * 3 + i], padded[i * 5 + k + 1] = x[i * 4 + k];
    }
  check_close(out[0], product, 1e-13), check_close(out[1], joined, 0), check_close(out[2], padded, 0),
      check_close(out[3], std::vector<C>(12), 0);
  check_close(out[4], {C(1, -1), C(1, -1)}, 0);
}

} // namespace tenon::fft_test
