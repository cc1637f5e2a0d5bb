// How kernels are run and compared.
#include "tests/unit/kernel_harness.h"

#include <cmath>
#include <random>

#include "base/numeric.h"
#include "loops/interpret.h"

namespace tenon::harness {

GuardedMemory::GuardedMemory(size_t bytes, bool at_start) {
  size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE)), inner = (bytes + page - 1) / page * page + page;
  size_ = inner + 2 * page;
  map_ = static_cast<char*>(mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  REQUIRE(map_ != MAP_FAILED);
  REQUIRE(mprotect(map_, page, PROT_NONE) == 0);
  REQUIRE(mprotect(map_ + page + inner, page, PROT_NONE) == 0);
  data_ = at_start ? map_ + page : map_ + page + inner - bytes;
}

std::vector<Isa> levels() {
  std::vector<Isa> out = {Isa::Avx2};
  try {
    host_target(Isa::Avx512);
    out.push_back(Isa::Avx512);
  } catch (const Error&) {}
  return out;
}

Jit& jit_for(Isa isa) {
  static Jit avx2(host_target(Isa::Avx2), kernel_symbols());
  if (isa == Isa::Avx2) return avx2;
  static Jit avx512(host_target(Isa::Avx512), kernel_symbols());
  return avx512;
}

Data Data::random(DType type, size_t count, uint32_t seed) {
  Data d{.count = count};
  d.bytes.resize(count * size_of(type));
  std::mt19937 g(seed);
  for (size_t i = 0; i < count; i++)
    dispatch(type, [&]<class T>(T) {
      T v;
      float f = std::uniform_real_distribution<float>(-3, 3)(g);
      if constexpr (std::is_same_v<T, bool>) v = f > 0;
      else if constexpr (std::is_integral_v<T>) v = static_cast<T>(static_cast<int>(f * 10));
      else if constexpr (is_complex_v<T>) v = T{f, -f};
      else v = static_cast<T>(f);
      std::memcpy(&d.bytes[i * sizeof(T)], &v, sizeof v);
    });
  return d;
}

namespace {

template <class T> bool close(T got, T want, double tolerance) {
  if constexpr (is_complex_v<T>) return close(got.re, want.re, tolerance) && close(got.im, want.im, tolerance);
  else if constexpr (std::is_integral_v<T>) return got == want;
  else {
    double a = convert<double>(got), b = convert<double>(want);
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
    if (tolerance == 0 || std::isinf(a) || std::isinf(b)) return a == b && std::signbit(a) == std::signbit(b);
    return std::fabs(a - b) <= tolerance * (1 + std::fabs(b));
  }
}

} // namespace

Outcome run(const Case& c, KernelFn f, bool at_start) {
  std::vector<std::unique_ptr<GuardedMemory>> memory;
  std::vector<void*> pointers;
  for (size_t i = 0; i < c.kernel.buffers.size(); i++) {
    size_t bytes = c.data[i].count * size_of(c.kernel.buffers[i].dtype);
    memory.push_back(std::make_unique<GuardedMemory>(bytes, at_start));
    std::memset(memory.back()->data(), 0x5a, bytes);
    if (!c.data[i].bytes.empty()) std::memcpy(memory.back()->data(), c.data[i].bytes.data(), bytes);
    pointers.push_back(memory.back()->data());
  }
  alignas(64) static char scratch[1 << 20];
  Outcome out;
  KernelArgs args{pointers.data(), c.scalars.data(), scratch, out.error};
  if (f) f(&args, c.begin, c.end);
  else interpret(c.kernel, args, c.begin, c.end);
  for (size_t i = 0; i < pointers.size(); i++) {
    size_t bytes = c.kernel.buffers[i].kind == BufferKind::Output ? c.data[i].count * size_of(c.kernel.buffers[i].dtype) : 0;
    char* p = static_cast<char*>(pointers[i]);
    out.buffers.emplace_back(p, p + bytes);
  }
  return out;
}

void compare(const Case& c, const Outcome& got, const Outcome& want, const std::string& level) {
  CHECK(got.error[0] == want.error[0]);
  CHECK(got.error[0] == c.expect_error);
  for (size_t b = 0; b < want.buffers.size(); b++) {
    DType type = c.kernel.buffers[b].dtype;
    int bad = 0;
    for (size_t i = 0; i < want.buffers[b].size() / size_of(type) && bad < 3; i++)
      dispatch(type, [&]<class T>(T) {
        const char *p = &got.buffers[b][i * sizeof(T)], *q = &want.buffers[b][i * sizeof(T)];
        if (std::memcmp(p, q, sizeof(T)) == 0) return; // what was never written is not a value of every type
        T x, y;
        std::memcpy(static_cast<void*>(&x), p, sizeof x);
        std::memcpy(static_cast<void*>(&y), q, sizeof y);
        if (close(x, y, c.tolerance)) return;
        bad++;
        if constexpr (!is_complex_v<T>)
          FAIL_CHECK(to_string(c.kernel) << level << ": b" << b << "[" << i << "] is " << convert<double>(x) << ", expected "
                                         << convert<double>(y));
        else FAIL_CHECK(to_string(c.kernel) << level << ": b" << b << "[" << i << "]");
      });
  }
}

void check(Case c) {
  if (c.data.size() < c.kernel.buffers.size()) c.data.resize(c.kernel.buffers.size());
  for (size_t i = 0; i < c.data.size(); i++)
    if (c.kernel.buffers[i].kind == BufferKind::Input && c.data[i].bytes.empty())
      c.data[i] = Data::random(c.kernel.buffers[i].dtype, c.data[i].count, static_cast<uint32_t>(i + 1));
  verify(c.kernel);
  Outcome want = run(c, nullptr, false);
  for (Isa isa : levels()) {
    CompiledKernel k = compile_kernel(c.kernel, jit_for(isa));
    for (bool at_start : {false, true}) compare(c, run(c, k.function, at_start), want, isa == Isa::Avx2 ? "avx2" : "avx512");
  }
}

Case Pointwise::make(std::vector<KernelBuffer> buffers, int64_t n, int lanes, bool dynamic, const std::function<Expr(Pointwise&)>& body) {
  Case c;
  Expr size = dynamic ? pool.symbol("s0", DType::I64, 0, INT64_MAX) : pool.integer(n);
  if (dynamic) c.kernel.scalars.push_back(size), c.scalars.push_back(n);
  p = pool.axis(0, pool.integer(1)), i = pool.axis(1, size);
  c.kernel.name = "pointwise";
  c.kernel.buffers = std::move(buffers);
  c.kernel.parallel = p;
  int out = static_cast<int>(c.kernel.buffers.size()) - 1;
  c.kernel.body.push_back(loop(i, lanes, {store(out, i, body(*this))}));
  c.data.resize(c.kernel.buffers.size());
  for (Data& d : c.data) d.count = static_cast<size_t>(n);
  return c;
}

} // namespace tenon::harness
