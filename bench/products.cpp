// tenon_products: matrix products of many shapes and types beside other libraries, in one process, against this machine's
// limits measured in the same run. Prints a table, then geometric means.
//   tenon_products [--threads=N] [--ms=N] [--types=f32,f64,bf16,u8,i8,i8w] [--filter=TEXT] [--shape=BATCHxMxNxK...]
#include <fmt/core.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <thread>

#include "base/numeric.h"
#include "bench/arguments.h"
#include "bench/limits.h"
#include "bench/product_rivals.h"
#include "codegen/x86/micro_kernels.h"
#include "compile/lower_regions.h"
#include "runtime/gemm_pack.h"
#include "runtime/matmul.h"

namespace tenon::bench {
namespace {

/// BATCHxMxNxK with a: A given as k x m, t: B given as n x k, c: B constant.
constexpr const char* shapes[] = {
    // squares, powers of two and not
    "1x64x64x64", "1x100x100x100", "1x128x128x128", "1x200x200x200", "1x256x256x256", "1x384x384x384", "1x512x512x512", "1x640x640x640",
    "1x768x768x768", "1x1000x1000x1000", "1x1024x1024x1024", "1x1024x1024x1024t", "1x1024x1024x1024c", "1x1536x1536x1536",
    "1x2048x2048x2048",
    // primes
    "1x31x37x41", "1x127x131x137", "1x251x257x263", "1x509x521x523", "1x1009x1013x1019", "1x13x1021x509", "1x1021x13x509", "1x509x1021x13t",
    // few rows
    "1x1x1024x1024", "1x2x1024x1024", "1x3x1024x1024", "1x4x1024x1024", "1x6x1024x1024", "1x8x1024x1024", "1x12x1024x1024",
    "1x16x1024x1024", "1x1x1024x1024t", "1x2x1024x1024t", "1x3x1024x1024t", "1x4x1024x1024t", "1x6x1024x1024t", "1x8x1024x1024t",
    "1x12x1024x1024t", "1x16x1024x1024t", "1x1x1024x1024c", "1x4x1024x1024c", "1x8x1024x1024c", "1x16x1024x1024c", "1x32x1024x1024",
    "1x32x1024x1024t", "1x1x4096x4096", "1x1x4096x4096t", "1x1x4096x4096c", "1x4x4096x4096t", "1x4x4096x4096c", "1x16x4096x4096t",
    "1x16x4096x4096c", "1x1x1000x2048t", "1x5x1000x2048t", "1x1x127x131t",
    // tall and narrow
    "1x4096x1x1024", "1x4096x2x1024", "1x4096x4x1024", "1x4096x8x1024", "1x4096x16x1024", "1x4096x7x256t", "1x20000x1x64", "1x20000x3x64",
    "1x20000x16x16", "1x50000x8x8", "1x8192x10x512c", "1x4096x1x4096", "1x4096x1x1024a", "1x4096x4x1024a",
    // long sums
    "1x1x1x100000", "1x16x16x100000", "1x8x24x20000t", "1x64x64x20000", "1x64x64x20000at", "1x100x100x5000a",
    // many small ones
    "64x49x32x49", "64x49x49x32t", "12x128x128x64t", "12x128x64x128", "96x64x64x64", "1000x8x8x8", "1000x4x4x4", "500x16x16x16t",
    "16x197x197x64t", "16x197x64x197", "32x1x512x64t", "32x1x64x512", "8x512x512x64t", "8x512x64x512", "300x32x32x32",
    // layers of networks
    "1x128x768x768c", "1x128x768x768t", "1x128x3072x768c", "1x128x3072x768t", "1x128x768x3072c", "1x128x768x3072t", "1x49x512x2048t",
    "1x49x512x2048c", "1x3136x64x64c", "1x3136x256x64", "1x784x512x128t", "1x196x1024x256c", "1x197x2304x768t", "1x512x30522x128t",
    // transposed A
    "1x512x512x512a", "1x512x512x512at", "1x1024x64x1024a", "1x768x768x128a", "1x64x1024x1024a"};

Product parse(const char* text) {
  Product p;
  char flags[8] = {};
  long b = 0, m = 0, n = 0, k = 0;
  int read = std::sscanf(text, "%ldx%ldx%ldx%ld%7s", &b, &m, &n, &k, flags);
  if (read < 4 || std::min({b, m, n, k}) < 1 || std::strspn(flags, "atc") != std::strlen(flags))
    throw std::invalid_argument(std::string("no shape: ") + text +
                                "; one is BATCHxMxNxK, then a (A transposed), t (B transposed), c (B constant)");
  p.batch = b, p.m = m, p.n = n, p.k = k;
  p.a_transposed = std::strchr(flags, 'a'), p.b_transposed = std::strchr(flags, 't'), p.constant = std::strchr(flags, 'c');
  return p;
}

struct Types {
  const char* name;
  DType a, b;
  bool few; // every third shape
};
constexpr Types types[] = {{"f32", DType::F32, DType::F32, false},   {"f64", DType::F64, DType::F64, true},
                           {"bf16", DType::BF16, DType::BF16, true}, {"u8", DType::U8, DType::I8, true},
                           {"i8", DType::I8, DType::I8, true},       {"i8w", DType::F32, DType::I8, true}};

/// On a cache line, large arrays on large pages as far as the system grants them: floats within [-1, 1], or small integers.
std::shared_ptr<void> operand(DType type, int64_t n) {
  size_t bytes = static_cast<size_t>(n) * size_of(type);
  size_t page = bytes >= size_t{4} << 20 ? size_t{2} << 20 : 64;
  std::shared_ptr<void> p(std::aligned_alloc(page, (bytes + 2 * page - 1) / page * page), std::free);
  if (page > 64) madvise(p.get(), bytes, MADV_HUGEPAGE);
  dispatch(type, [&]<class T>(T) {
    for (int64_t i = 0; i < n; i++)
      static_cast<T*>(p.get())[i] = convert<T>(is_float(type) ? static_cast<double>(i * 2654435761u >> 7 & 2047) / 1024 - 1
                                                              : static_cast<double>(i * 2654435761u >> 7 & 63));
  });
  return p;
}

/// This project's product, planned; B is packed if it is a constant that is better not left as it is.
struct Own {
  const KernelTable& kernels;
  const Workers& workers;
  Matmul m;
  MatmulPlan plan;
  std::shared_ptr<void> packed, scratch;

  Own(const KernelTable& table, const Workers& w, const Caches& caches, const Product& p, const ProductData& d)
      : kernels(table), workers(w) {
    m = {.batch = {1, p.batch}, .m = p.m, .n = p.n, .k = p.k, .a_type = p.a_type, .b_type = p.b_type, .a = d.a, .b = d.b, .c = d.c};
    m.a_row = p.a_transposed ? 1 : p.k, m.a_k = p.a_transposed ? p.m : 1, m.a_batch[1] = p.m * p.k;
    m.b_k = p.b_transposed ? 1 : p.n, m.b_n = p.b_transposed ? p.k : 1, m.b_batch[1] = p.k * p.n;
    m.c_row = p.n, m.c_batch[1] = p.m * p.n;
    bool packs = p.constant && !pays_as_dots(kernels, caches, m);
    if (packs) {
      m.family = choose_family(kernels, m.a_type, m.b_type, m.m, m.n, m.k);
      int64_t bytes = packed_b_bytes(kernels, m.family, p.k, p.n);
      packed = operand(DType::U8, bytes);
      const GemmFamily& f = kernels.family(m.family);
      Panels panels = choose_panels(f, p.n, p.k);
      pack_panels(kernels, f, panels, {m.b, m.b_type, m.b_k, m.b_n}, 0, p.k, 0, panels.count(), packed.get());
      m.b = packed.get(), m.packed = true, m.b_batch[1] = bytes;
    }
    plan = plan_matmul(kernels, caches, workers.threads(), m);
    scratch = operand(DType::U8, plan.worker_bytes() * workers.threads());
  }
  void operator()() const { run_matmul(kernels, workers, plan, m, scratch.get()); }
};

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// The best time of one call, in `budget` seconds; calls too short for the clock are timed together.
double best_time(const std::function<void()>& f, double budget) {
  f();
  double start = seconds();
  f();
  double once = std::max(seconds() - start, 1e-8), best = 1e30;
  int together = std::clamp(static_cast<int>(20e-6 / once), 1, 1000);
  int least = 3;
  for (double end = start + budget; least-- > 0 || seconds() < end;) {
    double before = seconds();
    for (int i = 0; i < together; i++) f();
    best = std::min(best, (seconds() - before) / together);
  }
  return best;
}

struct Limits {
  std::map<std::string, double> peak; // by type, operations per second
  double read = 0;                    // bytes per second
};

Limits measure(int threads) {
  Limits l;
  Isa isa = resolve_isa(Isa::Auto);
  l.peak["f32"] = l.peak["i8w"] = 1e9 * product_peak(isa, PeakOf::F32, threads);
  l.peak["f64"] = l.peak["f32"] / 2;
  l.peak["bf16"] = std::max(l.peak["f32"], 1e9 * product_peak(isa, PeakOf::BF16, threads));
  l.peak["u8"] = l.peak["i8"] = std::max(l.peak["f32"], 1e9 * product_peak(isa, PeakOf::I8, threads));
  l.read = 1e9 * read_bandwidth(256l << 20, threads);
  return l;
}

struct Summary {
  double log_ratio = 0;
  int cells = 0, below = 0;
};

struct Run {
  const KernelTable& kernels;
  const Workers& workers;
  Caches caches;
  Limits limits;
  double budget;

  /// One row of the table.
  void cell(const char* shape, const Types& t, Summary& sum) const {
    Product p = parse(shape);
    p.a_type = t.a, p.b_type = t.b;
    auto a = operand(t.a, p.batch * p.m * p.k), b = operand(t.b, p.batch * p.k * p.n), c = operand(p.sum(), p.batch * p.m * p.n);
    ProductData d{a.get(), b.get(), c.get()};
    Own own(kernels, workers, caches, p, d);
    double mine = best_time(own, budget / 2), best_rival = 1e30;
    std::string others;
    for (const ProductRival& r : product_rivals()) {
      auto call = r.prepare(p, d, workers.threads());
      if (!call) continue;
      double time = best_time(call, budget);
      std::this_thread::sleep_for(std::chrono::milliseconds(workers.threads() > 1 ? 20 : 0)); // its threads fall asleep
      best_rival = std::min(best_rival, time);
      others += fmt::format(" {} {:.1f}", r.name, time * 1e6);
    }
    mine = std::min(mine, best_time(own, budget / 2));
    double flops = 2. * static_cast<double>(p.batch * p.m) * static_cast<double>(p.n * p.k);
    double bytes = static_cast<double>(p.batch) * (static_cast<double>(p.m * p.k) * static_cast<double>(size_of(t.a)) +
                                                   static_cast<double>(p.k * p.n) * static_cast<double>(size_of(t.b)) +
                                                   static_cast<double>(p.m * p.n) * static_cast<double>(size_of(p.sum())));
    double ratio = best_rival / mine;
    bool compared = best_rival < 1e30;
    fmt::print("{:5} {:20} {:9.1f} us {:4.0f}% peak {:4.0f}% read {} |{} | {}\n", t.name, shape, mine * 1e6,
               100 * flops / mine / limits.peak.at(t.name), 100 * bytes / mine / limits.read,
               compared ? fmt::format("x{:.2f}{}", ratio, ratio < 0.9 ? " <<" : "") : "", others,
               describe_matmul(kernels, own.plan, own.m));
    std::fflush(stdout);
    if (!compared) return;
    sum.log_ratio += std::log(ratio), sum.cells++, sum.below += ratio < 0.9;
  }
};

void run(int argc, char** argv) {
  check_arguments(argc, argv, {"threads", "ms", "types", "filter", "shape"});
  int threads = std::stoi(argument(argc, argv, "threads", "1"));
  std::string chosen = fmt::format(",{},", argument(argc, argv, "types", "f32,f64,bf16,u8,i8,i8w")),
              filter = argument(argc, argv, "filter", ""), shape = argument(argc, argv, "shape", "");
  Target target = host_target(resolve_isa(Isa::Auto));
  MicroKernels kernels(target);
  Workers workers(threads);
  Run r{kernels.table(), workers, PlanTarget(target).caches, measure(threads), std::stod(argument(argc, argv, "ms", "20")) / 1e3};
  fmt::print("{} threads; GFLOP/s or GOP/s: f32 {:.0f}, f64 {:.0f}, bf16 {:.0f}, int8 {:.0f}; read {:.1f} GB/s\n", threads,
             r.limits.peak["f32"] / 1e9, r.limits.peak["f64"] / 1e9, r.limits.peak["bf16"] / 1e9, r.limits.peak["u8"] / 1e9,
             r.limits.read / 1e9);
  int computed = 0;
  for (const Types& t : types) {
    if (chosen.find(fmt::format(",{},", t.name)) == std::string::npos) continue;
    Summary sum;
    int number = 0;
    if (!shape.empty()) r.cell(shape.c_str(), t, sum);
    for (const char* s : shapes)
      if (shape.empty() && std::string(s).find(filter) != std::string::npos && (!filter.empty() || !t.few || number++ % 3 == 0))
        r.cell(s, t, sum);
    if (sum.cells)
      fmt::print("{}: {} shapes, geometric mean x{:.2f} of the best rival, {} below x0.9\n", t.name, sum.cells,
                 std::exp(sum.log_ratio / sum.cells), sum.below);
    computed++;
  }
  if (!computed) throw std::invalid_argument("none of the types is one; there are f32, f64, bf16, u8, i8, i8w");
}

} // namespace
} // namespace tenon::bench

int main(int argc, char** argv) try { tenon::bench::run(argc, argv); } catch (const std::exception& e) {
  fmt::print(stderr, "{}\n", e.what());
  return 2;
}
