// `tenon bench`: the times of loading, compiling, the first result, and many runs.
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

#include <fmt/core.h>

#include "cli/bench_report.h"

namespace tenon::cli {

namespace {

double clock_ms(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) * 1e-6;
}

// Milliseconds since this process was started. The kernel knows the start to a clock tick (10 ms): field 22 of
// /proc/self/stat, on the boot clock. Within that tick the CPU time used at entry to main decides: a process that loads its
// libraries from the page cache has not waited.
double since_start_ms(double cpu_at_main_ms, double main_ms) {
  std::ifstream file("/proc/self/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  std::istringstream fields(text.substr(std::min(text.size(), text.rfind(')') + 1)));
  std::string word;
  for (int i = 3; i <= 22; i++) fields >> word;
  double tick_ms = 1e3 / static_cast<double>(sysconf(_SC_CLK_TCK)), start = std::atof(word.c_str()) * tick_ms;
  start = std::clamp(main_ms - cpu_at_main_ms, start, start + tick_ms);
  return clock_ms(CLOCK_BOOTTIME) - start;
}

void print(const Figures& f, bool json) {
  auto line = [&](const char* name, double v) { fmt::print(fmt::runtime(json ? "\"{}\": {:.4f}, " : "{:<16} {:.4f}\n"), name, v); };
  auto count = [&](const char* name, size_t v, bool last = false) {
    fmt::print(fmt::runtime(json ? "\"{}\": {}{}" : "{:<16} {}{}"), name, v, json ? last ? "" : ", " : "\n");
  };
  if (json) fmt::print("{{");
  line("load_ms", f.load_ms);
  line("compile_ms", f.compile_ms);
  line("first_result_ms", f.first_result_ms);
  line("median_ms", f.median_ms);
  line("min_ms", f.min_ms);
  line("p90_ms", f.p90_ms);
  if (f.precision_error >= 0)
    fmt::print(fmt::runtime(json ? "\"precision_error\": {:.3g}, " : "precision_error    {:.3g}\n"), f.precision_error);
  count("runs", f.runs);
  line("peak_rss_mb", f.peak_rss_mb);
  count("kernels_compiled", static_cast<size_t>(f.stats.kernels_compiled));
  count("fallback_steps", static_cast<size_t>(f.stats.fallback_steps), true);
  if (json) fmt::print("}}\n");
}

std::vector<TensorView> views_of(const std::vector<Tensor>& tensors) {
  std::vector<TensorView> views;
  for (const Tensor& t : tensors) views.push_back(t.view());
  return views;
}

/// A copy that does not lie in the pages of a file, which are small ones: programs that call an executable made their inputs.
Tensor in_own_memory(const Tensor& t) {
  if (!t.is_contiguous()) return t;
  Tensor out(t.dtype(), t.sizes());
  if (t.numel() > 0) std::memcpy(out.data(), t.data(), static_cast<size_t>(t.numel()) * size_of(t.dtype()));
  return out;
}

double peak_rss_mb() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

// One run in milliseconds.
double time_run(const Executable& exe, std::span<const TensorView> inputs, std::vector<Tensor>& outputs) {
  double start = clock_ms(CLOCK_MONOTONIC);
  exe.run(inputs, outputs).check();
  return clock_ms(CLOCK_MONOTONIC) - start;
}

} // namespace

ProcessStart process_start() { return {clock_ms(CLOCK_PROCESS_CPUTIME_ID), clock_ms(CLOCK_BOOTTIME)}; }

int bench(const BenchArgs& args) {
  if (!args.against.empty()) return bench_against(args);
  if (is_script(args.model.file)) return bench_script(args);
  Figures f;
  Ready ready = make_ready(args.model, args.options);
  const Executable& exe = ready.executable;
  f.load_ms = ready.load_ms, f.compile_ms = ready.compile_ms;
  std::vector<Tensor> inputs = ready.inputs(args.inputs), outputs;
  double first = time_run(exe, views_of(inputs), outputs);
  f.first_result_ms = since_start_ms(args.start.cpu_ms, args.start.main_ms);
  time_run(exe, views_of(inputs), outputs);
  f.peak_rss_mb = peak_rss_mb();
  for (Tensor& t : inputs) t = in_own_memory(t);
  std::vector<TensorView> views = views_of(inputs);
  // Warm-up: a tenth of the time and eight runs, which pack weights, unless they take all of it; then the median needs at least five.
  double start = clock_ms(CLOCK_MONOTONIC), end = start + args.seconds * 100;
  int warm = 0;
  do time_run(exe, views, outputs), warm++;
  while (goes_on(args.options, clock_ms(CLOCK_MONOTONIC) < (warm < 8 ? start + args.seconds * 1e3 : end)));
  std::vector<double> times;
  times.reserve(std::min<size_t>(1u << 20, static_cast<size_t>(args.seconds * 1e3 / std::max(first, 1e-3)) * 4 + 16));
  end = clock_ms(CLOCK_MONOTONIC) + args.seconds * 1e3;
  do times.push_back(time_run(exe, views, outputs));
  while (goes_on(args.options, clock_ms(CLOCK_MONOTONIC) < end || times.size() < 5));
  std::vector<double> in_order = times;
  std::sort(times.begin(), times.end());
  f.median_ms = times[times.size() / 2];
  f.min_ms = times[0];
  f.p90_ms = times[times.size() * 9 / 10];
  f.p99_ms = times[times.size() * 99 / 100];
  f.runs = times.size();
  f.stats = exe.stats();
  if (ready.program && args.options.precision != Precision::Strict)
    f.precision_error = ready.program->error_of(args.options, views).value();
  if (!args.history.empty()) append_history(f, args);
  if (!args.html.empty()) write_bench_page(f, in_order, args);
  if (!args.trace.empty()) write_trace(args);
  print(f, args.json);
  return 0;
}

} // namespace tenon::cli
