#include "bench/product_rivals.h"

#include <dlfcn.h>

#include <cstdlib>
#include <memory>
#include <optional>

#ifdef HAVE_LIBXSMM
#include <libxsmm.h>
#endif
#ifdef HAVE_ONEDNN
#include <omp.h>
#include <oneapi/dnnl/dnnl.hpp>

#include <unordered_map>
#endif

namespace tenon::bench {
namespace {

// The C interface of BLAS, whose constants and integers of 32 bits all libraries share.
constexpr int row_major = 101, no_transpose = 111, transpose = 112;
using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*, int);
using Dgemm = void (*)(int, int, int, int, int, int, double, const double*, int, const double*, int, double, double*, int);
using Bf16Gemm = void (*)(int, int, int, int, int, int, float, const uint16_t*, int, const uint16_t*, int, float, float*, int);
using SetThreads = void (*)(int);

struct Blas {
  Sgemm sgemm = nullptr;
  Dgemm dgemm = nullptr;
  Bf16Gemm bf16 = nullptr;
  SetThreads set_threads = nullptr;
};

/// Opened apart from this program's own symbols: the reference BLAS under LAPACK has functions of the same names.
Blas open_blas(std::initializer_list<const char*> files, const char* set_threads, const char* bf16) {
  void* library = nullptr;
  for (const char* file : files)
    if (!library) library = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  if (!library) return {};
  auto find = [&](const char* name) { return name ? dlsym(library, name) : nullptr; };
  return {reinterpret_cast<Sgemm>(find("cblas_sgemm")), reinterpret_cast<Dgemm>(find("cblas_dgemm")),
          reinterpret_cast<Bf16Gemm>(find(bf16)), reinterpret_cast<SetThreads>(find(set_threads))};
}

template <class T, class F>
std::function<void()> blas_calls(const F& gemm, SetThreads set_threads, const Product& p, const ProductData& d, int threads) {
  using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;
  return [=] {
    set_threads(threads);
    for (int64_t i = 0; i < p.batch; i++)
      gemm(row_major, p.a_transposed ? transpose : no_transpose, p.b_transposed ? transpose : no_transpose, static_cast<int>(p.m),
           static_cast<int>(p.n), static_cast<int>(p.k), 1, static_cast<const T*>(d.a) + i * p.m * p.k,
           static_cast<int>(p.a_transposed ? p.m : p.k), static_cast<const T*>(d.b) + i * p.k * p.n,
           static_cast<int>(p.b_transposed ? p.k : p.n), 0, static_cast<Sum*>(d.c) + i * p.m * p.n, static_cast<int>(p.n));
  };
}

ProductRival blas_rival(const char* name, const Blas& b) {
  return {name, [b](const Product& p, const ProductData& d, int threads) -> std::function<void()> {
            if (p.a_type != p.b_type) return {};
            if (p.a_type == DType::F32 && b.sgemm) return blas_calls<float>(b.sgemm, b.set_threads, p, d, threads);
            if (p.a_type == DType::F64 && b.dgemm) return blas_calls<double>(b.dgemm, b.set_threads, p, d, threads);
            if (p.a_type == DType::BF16 && b.bf16) return blas_calls<uint16_t>(b.bf16, b.set_threads, p, d, threads);
            return {};
          }};
}

#ifdef HAVE_LIBXSMM
auto xsmm_kernel(float, int m, int n, int k, int lda, int ldb, int ldc, int flags) {
  float one = 1, zero = 0;
  return libxsmm_smmdispatch(m, n, k, &lda, &ldb, &ldc, &one, &zero, &flags, nullptr);
}
auto xsmm_kernel(double, int m, int n, int k, int lda, int ldb, int ldc, int flags) {
  double one = 1, zero = 0;
  return libxsmm_dmmdispatch(m, n, k, &lda, &ldb, &ldc, &one, &zero, &flags, nullptr);
}

/// Kernels for exactly these sizes, which are what the library is for; each thread takes some of the batch, or of the rows. It
/// thinks in columns: C^T = B^T * A^T.
template <class T> std::function<void()> xsmm_calls(const Product& p, const ProductData& d, int threads) {
  int flags = (p.b_transposed ? LIBXSMM_GEMM_FLAG_TRANS_A : 0) | (p.a_transposed ? LIBXSMM_GEMM_FLAG_TRANS_B : 0);
  int n = static_cast<int>(p.n), k = static_cast<int>(p.k), ldb = p.b_transposed ? k : n,
      lda = static_cast<int>(p.a_transposed ? p.m : p.k);
  int64_t parts = p.batch == 1 ? std::min<int64_t>(threads, p.m) : 1, rows = (p.m + parts - 1) / parts, last = p.m - (parts - 1) * rows;
  if (last <= 0) return {};
  auto whole = xsmm_kernel(T{}, n, static_cast<int>(rows), k, ldb, lda, n, flags),
       rest = xsmm_kernel(T{}, n, static_cast<int>(last), k, ldb, lda, n, flags);
  if (!whole || !rest) return {};
  return [=] {
    auto part = [&](int64_t i) {
      const T *a = static_cast<const T*>(d.a), *b = static_cast<const T*>(d.b);
      T* c = static_cast<T*>(d.c);
      if (p.batch > 1) return whole(b + i * p.k * p.n, a + i * p.m * p.k, c + i * p.m * p.n);
      (i + 1 < parts ? whole : rest)(b, a + i * rows * (p.a_transposed ? 1 : p.k), c + i * rows * p.n);
    };
    int64_t all = p.batch > 1 ? p.batch : parts;
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int64_t i = 0; i < all; i++) part(i);
  };
}

std::function<void()> xsmm_product(const Product& p, const ProductData& d, int threads) {
  if (p.a_type != p.b_type) return {};
  if (p.a_type == DType::F32) return xsmm_calls<float>(p, d, threads);
  if (p.a_type == DType::F64) return xsmm_calls<double>(p, d, threads);
  return {}; // of bf16 and bytes it takes packed operands alone
}
#endif

#ifdef HAVE_ONEDNN
using Memory = dnnl::memory;

struct DnnlCall {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  dnnl::primitive primitive{};
  std::unordered_map<int, Memory> args{};
};

std::optional<Memory::data_type> dnnl_type(DType t) {
  switch (t) {
  case DType::F32: return Memory::data_type::f32;
  case DType::BF16: return Memory::data_type::bf16;
  case DType::U8: return Memory::data_type::u8;
  case DType::I8: return Memory::data_type::s8;
  case DType::I32: return Memory::data_type::s32;
  default: return std::nullopt;
  }
}

std::function<void()> dnnl_product(const Product& p, const ProductData& d, int threads) {
  auto a_type = dnnl_type(p.a_type), b_type = dnnl_type(p.b_type), c_type = dnnl_type(p.sum());
  if (!a_type || !b_type || !c_type || (p.a_type == DType::F32 && p.b_type != DType::F32)) return {};
  omp_set_num_threads(threads);
  auto tag = [](bool transposed) { return transposed ? Memory::format_tag::acb : Memory::format_tag::abc; };
  Memory::desc a({p.batch, p.m, p.k}, *a_type, tag(p.a_transposed)), b({p.batch, p.k, p.n}, *b_type, tag(p.b_transposed)),
      any({p.batch, p.k, p.n}, *b_type, Memory::format_tag::any), c({p.batch, p.m, p.n}, *c_type, tag(false));
  auto r = std::make_shared<DnnlCall>();
  try {
    dnnl::matmul::primitive_desc pd(dnnl::matmul::desc(a, p.constant ? any : b, c), r->engine);
    r->primitive = dnnl::matmul(pd);
    Memory given(b, r->engine, const_cast<void*>(d.b)), weights = given;
    if (pd.weights_desc() != b) {
      weights = Memory(pd.weights_desc(), r->engine);
      dnnl::reorder(given, weights).execute(r->stream, given, weights);
      r->stream.wait();
    }
    r->args = {{DNNL_ARG_SRC, Memory(a, r->engine, const_cast<void*>(d.a))},
               {DNNL_ARG_WEIGHTS, weights},
               {DNNL_ARG_DST, Memory(c, r->engine, d.c)}};
  } catch (const dnnl::error&) {
    return {};
  } // no such product
  return [r, threads] {
    omp_set_num_threads(threads);
    r->primitive.execute(r->stream, r->args);
    r->stream.wait();
  };
}
#endif

} // namespace

const std::vector<ProductRival>& product_rivals() {
  static const std::vector<ProductRival> all = [] {
    std::vector<ProductRival> found;
    // Threads that wait for work would take the cores from the next library.
    setenv("OPENBLAS_THREAD_TIMEOUT", "22", 0);
    setenv("MKL_THREADING_LAYER", "GNU", 0);
    Blas openblas = open_blas({"libopenblas.so.0"}, "openblas_set_num_threads", "cblas_sbgemm");
    if (openblas.set_threads) found.push_back(blas_rival("openblas", openblas));
    Blas mkl = open_blas({"libmkl_rt.so.3", "libmkl_rt.so.2", "libmkl_rt.so"}, "MKL_Set_Num_Threads", "cblas_gemm_bf16bf16f32");
    if (mkl.set_threads) found.push_back(blas_rival("mkl", mkl));
#ifdef HAVE_LIBXSMM
    found.push_back({"libxsmm", xsmm_product});
#endif
#ifdef HAVE_ONEDNN
    found.push_back({"onednn", dnnl_product});
#endif
    return found;
  }();
  return all;
}

} // namespace tenon::bench
