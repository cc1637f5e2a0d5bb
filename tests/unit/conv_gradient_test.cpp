// The gradient of a convolution's weights, by the machine's kernels as by its definition.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "base/numeric.h"
#include "kernel_test.h"
#include "runtime/gemm_block.h"
#include "runtime/library_steps.h"
#include "runtime/parallel.h"

namespace tenon::conv_gradient_test {

namespace {

struct Geometry {
  int64_t batch, groups, inputs, outputs; // channels of a group
  std::vector<int64_t> in, taps, stride, pad, dilation;

  std::vector<int64_t> sizes(int64_t channels, bool output) const {
    std::vector<int64_t> s{batch, groups * channels};
    for (size_t d = 0; d < in.size(); d++)
      s.push_back(output ? (in[d] + 2 * pad[d] - dilation[d] * (taps[d] - 1) - 1) / stride[d] + 1 : in[d]);
    return s;
  }
  std::vector<int64_t> ints() const {
    std::vector<int64_t> all;
    for (auto* list : {&stride, &pad, &dilation}) all.insert(all.end(), list->begin(), list->end());
    all.push_back(groups);
    return all;
  }
};

/// Small integers, whose sums are exact in any order.
Tensor integers(DType type, const std::vector<int64_t>& sizes, int64_t seed) {
  Tensor t(type, sizes);
  dispatch(type, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!is_complex_v<T>)
      for (int64_t i = 0; i < t.numel(); i++) t.data_as<T>()[i] = static_cast<T>(static_cast<float>((i * 7919 + seed) % 13 % 5 - 2));
  });
  return t;
}

Tensor gradient(const Geometry& g, const Tensor& x, const Tensor& grad, const KernelTable* kernels, int threads) {
  std::vector<int64_t> sizes{g.groups * g.outputs, g.inputs};
  sizes.insert(sizes.end(), g.taps.begin(), g.taps.end());
  Tensor out(x.dtype(), sizes);
  std::fill_n(static_cast<char*>(out.data()), out.numel() * static_cast<int64_t>(size_of(out.dtype())), char{0x55});
  LibraryTensor in[] = {{x.data(), x.dtype(), x.sizes()}, {grad.data(), grad.dtype(), grad.sizes()}},
                to[] = {{out.data(), out.dtype(), out.sizes()}};
  Workers workers(threads);
  Caches caches;
  std::vector<int64_t> ints = g.ints();
  LibraryCall call{in, to, ints, {}, 0, nullptr, nullptr, &workers};
  if (kernels) call.kernels = kernels, call.caches = &caches;
  const char* wrong = library::conv_weight_gradient(call);
  CHECK_MESSAGE(!wrong, wrong);
  return out;
}

bool same(const Tensor& a, const Tensor& b) {
  bool all = true;
  dispatch(a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!is_complex_v<T>)
      for (int64_t i = 0; i < a.numel(); i++) {
        auto x = convert<double>(a.data_as<T>()[i]), y = convert<double>(b.data_as<T>()[i]);
        all &= x == y || (std::isnan(x) && std::isnan(y));
      }
  });
  return all;
}

void check(const KernelTable& kernels, const Geometry& g) {
  for (DType type : {DType::F32, DType::F64, DType::BF16, DType::F16}) {
    Tensor x = integers(type, g.sizes(g.inputs, false), 3), grad = integers(type, g.sizes(g.outputs, true), 5);
    Tensor want = gradient(g, x, grad, nullptr, 2);
    for (int threads : {1, 2}) {
      INFO(name_of(type), ", batch ", g.batch, ", ", g.groups, " groups of ", g.inputs, " to ", g.outputs, ", ", g.in[0], " by ", g.taps[0],
           ", ", threads, " threads");
      CHECK(same(gradient(g, x, grad, &kernels, threads), want));
    }
  }
}

std::vector<Geometry> geometries() {
  std::vector<Geometry> all;
  // Over two dimensions: few and many channels, images in place and copied, as wide as the gradient or not.
  for (auto [groups, inputs, outputs] : {std::array<int64_t, 3>{1, 3, 33}, {1, 17, 16}, {2, 5, 9}, {7, 1, 1}, {3, 4, 8}, {1, 40, 5}})
    for (int64_t batch : {1, 3})
      for (auto [taps, stride, pad, dilation] : {std::array<int64_t, 4>{1, 1, 0, 1},
                                                 {1, 2, 0, 1},
                                                 {3, 1, 1, 1},
                                                 {3, 2, 1, 1},
                                                 {3, 1, 0, 1},
                                                 {2, 2, 0, 1},
                                                 {3, 1, 2, 2},
                                                 {5, 3, 2, 1},
                                                 {3, 2, 4, 3},
                                                 {1, 1, 1, 1}})
        all.push_back({batch, groups, inputs, outputs, {11, 13}, {taps, taps}, {stride, stride}, {pad, pad}, {dilation, dilation}});
  for (auto [inputs, outputs] : {std::pair<int64_t, int64_t>{3, 20}, {1, 1}}) {
    all.push_back({2, 2, inputs, outputs, {129}, {17}, {1}, {8}, {1}});
    all.push_back({1, 1, inputs, outputs, {131}, {5}, {3}, {2}, {2}});
    all.push_back({1, 2, inputs, outputs, {64}, {4}, {1}, {0}, {1}});
    all.push_back({2, 2, inputs, outputs, {5, 6, 7}, {3, 2, 3}, {1, 2, 1}, {1, 0, 1}, {1, 1, 2}});
    all.push_back({1, 1, inputs, outputs, {6, 5, 5}, {3, 1, 1}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}});
    all.push_back({1, 1, inputs, outputs, {9, 1}, {3, 1}, {2, 1}, {1, 0}, {1, 1}});
    all.push_back({1, 1, inputs, outputs, {3, 4}, {3, 9}, {1, 1}, {1, 6}, {1, 1}}); // windows that lie in the padding alone
    all.push_back({1, 1, inputs, outputs, {3, 4}, {3, 2}, {1, 1}, {1 << 30, 1 << 29}, {1 << 30, 1 << 30}}); // copies that no memory holds
  }
  all.push_back({1, 1, 3, 24, {70, 67}, {7, 7}, {2, 2}, {3, 3}, {1, 1}}); // lines in several blocks and parts
  all.push_back({1, 4, 1, 1, {97, 90}, {3, 3}, {1, 1}, {1, 1}, {1, 1}});
  return all;
}

} // namespace

TEST_CASE("weight gradients of convolutions are those of the definition") {
  for (const Target& target : available_targets()) {
    MicroKernels mk(target);
    for (const Geometry& g : geometries()) check(mk.table(), g);
  }
}

TEST_CASE("an infinity meets the taps that reach it alone") {
  Geometry g{1, 1, 2, 20, {6, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1}};
  MicroKernels mk;
  for (int64_t outputs : {1, 20})
    for (int64_t column : {0, 8}) {
      g.outputs = outputs;
      Tensor x = integers(DType::F32, g.sizes(g.inputs, false), 3), grad = integers(DType::F32, g.sizes(outputs, true), 5);
      x.data_as<float>()[3 * 9 + column] = std::numeric_limits<float>::infinity();
      Tensor want = gradient(g, x, grad, nullptr, 1), got = gradient(g, x, grad, &mk.table(), 1);
      CHECK(std::isfinite(want.data_as<float>()[column ? 0 : 2])); // the window's other side
      CHECK(same(got, want));
    }
}

TEST_CASE("weight gradients of operands that do not go together are refused") {
  Geometry g{1, 1, 2, 3, {6, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1}};
  Tensor x = integers(DType::F32, g.sizes(g.inputs, false), 3), grad = integers(DType::F32, g.sizes(g.outputs, true), 5),
         out(DType::F32, {3, 2, 3, 3});
  auto run = [&](const Tensor& image, const Tensor& gradient, std::vector<int64_t> ints) {
    LibraryTensor in[] = {{image.data(), image.dtype(), image.sizes()}, {gradient.data(), gradient.dtype(), gradient.sizes()}},
                  to[] = {{out.data(), out.dtype(), out.sizes()}};
    const char* wrong = library::conv_weight_gradient({in, to, ints, {}, 0, nullptr, nullptr, nullptr});
    return std::string(wrong ? wrong : "");
  };
  CHECK(run(x, grad, g.ints()).empty());
  CHECK_FALSE(run(x, grad, {0, 1, 1, 1, 1, 1, 1}).empty());
  CHECK_FALSE(run(x, grad, {1, 1, 1, 1, 1, 1, 2}).empty());
  CHECK_FALSE(run(x, grad, {1, 1, 1}).empty());
  CHECK_FALSE(run(grad, x, g.ints()).empty());
  CHECK_FALSE(run(x, integers(DType::F64, g.sizes(g.outputs, true), 5), g.ints()).empty());
}

} // namespace tenon::conv_gradient_test
