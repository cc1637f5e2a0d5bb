// `tenon bench --html, --history, --trace`.
#include "cli/bench_report.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>

#include <fmt/chrono.h>
#include <fmt/core.h>
#include <simdjson.h>

#include "base/check.h"
#include "base/cpu_name.h"
#include "base/json_text.h"
#include "pages/pages.h"

namespace tenon::cli {

namespace {

std::string program_name(const BenchArgs& args) {
  std::string name = std::filesystem::path(args.model.file).filename().string();
  return args.model.method.empty() ? name : name + " " + args.model.method;
}

// One run of bench, as the history has it: what was measured, of which program, when and where.
std::string json_of(const Figures& f, const BenchArgs& args) {
  std::string time = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  std::string text = fmt::format("{{\"time\": \"{}\", \"program\": {}, \"cpu\": {}, \"threads\": {}", time, json_quote(program_name(args)),
                                 json_quote(cpu_name()), args.options.threads);
  auto number = [&](const char* name, double v) { text += fmt::format(", \"{}\": {:.6g}", name, v); };
  number("load_ms", f.load_ms), number("compile_ms", f.compile_ms), number("first_result_ms", f.first_result_ms);
  number("median_ms", f.median_ms), number("min_ms", f.min_ms), number("p90_ms", f.p90_ms), number("p99_ms", f.p99_ms);
  number("peak_rss_mb", f.peak_rss_mb);
  return text + fmt::format(", \"runs\": {}, \"kernels_compiled\": {}, \"fallback_steps\": {}}}", f.runs, f.stats.kernels_compiled,
                            f.stats.fallback_steps);
}

/// The lines of the file that are of this program on this machine, with as many threads.
std::vector<std::string> history_of(const BenchArgs& args) {
  std::vector<std::string> lines;
  if (args.history.empty()) return lines;
  std::ifstream in(args.history);
  simdjson::dom::parser parser;
  std::string line, program = program_name(args), cpu = cpu_name();
  for (int number = 1; std::getline(in, line); number++) {
    if (line.empty()) continue;
    simdjson::dom::object o;
    std::string_view its_program, its_cpu;
    int64_t threads = -1;
    bool is_ours = parser.parse(line).get(o) == simdjson::SUCCESS && o["program"].get(its_program) == simdjson::SUCCESS &&
                   o["cpu"].get(its_cpu) == simdjson::SUCCESS && o["threads"].get(threads) == simdjson::SUCCESS;
    require_input(is_ours, "{}: line {} is none that bench --history wrote", args.history, number);
    if (its_program == program && its_cpu == cpu && threads == args.options.threads) lines.push_back(line);
  }
  return lines;
}

/// Columns over the logarithm of times: where they begin in ms, and how many runs are in them.
std::string histogram(const std::vector<double>& sorted) {
  constexpr int columns = 60;
  double low = std::log(std::max(sorted.front(), 1e-6)), high = std::log(std::max(sorted[sorted.size() * 999 / 1000], 1e-6));
  double step = std::max((high - low) / columns, 1e-3);
  std::vector<int64_t> counts(columns);
  for (double t : sorted) {
    int c = static_cast<int>((std::log(std::max(t, 1e-6)) - low) / step);
    if (c < columns) counts[static_cast<size_t>(std::max(c, 0))]++;
  }
  int k = 0;
  return json_array(counts, [&](int64_t n) { return fmt::format("[{:.6g}, {}]", std::exp(low + step * k++), n); });
}

std::string percentiles(const std::vector<double>& sorted) {
  constexpr double shares[] = {0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1};
  return json_array(shares, [&](double p) {
    size_t at = std::min(sorted.size() - 1, static_cast<size_t>(p * static_cast<double>(sorted.size())));
    return fmt::format("[{}, {:.6g}]", p, sorted[at]);
  });
}

/// At most so many, evenly spread.
std::string over_time(const std::vector<double>& times) {
  constexpr size_t most = 800;
  std::vector<double> some;
  for (size_t i = 0; i < std::min(most, times.size()); i++) some.push_back(times[i * times.size() / std::min(most, times.size())]);
  return json_array(some, [](double t) { return fmt::format("{:.6g}", t); });
}

Explanation explanation_of(const BenchArgs& args) {
  Options options = args.options;
  options.profile = true;
  Ready cold = make_ready(args.model, options), warm = make_ready(args.model, options);
  std::vector<Tensor> inputs = cold.inputs(args.inputs), outputs;
  cold.executable.run(inputs, outputs).check();
  auto end = Clock::now() + std::chrono::duration<double>(std::min(args.seconds, 1.));
  do warm.executable.run(inputs, outputs).check();
  while (goes_on(args.options, Clock::now() < end));
  Explanation e = warm.executable.explanation().value();
  e.program = program_name(args);
  return e;
}

} // namespace

void append_history(const Figures& figures, const BenchArgs& args) {
  history_of(args); // a file of something else is left alone
  std::ofstream out(args.history, std::ios::app);
  out << json_of(figures, args) << "\n";
  out.close();
  require_input(out.good(), "cannot write {}", args.history);
}

void write_bench_page(const Figures& figures, const std::vector<double>& times, const BenchArgs& args) {
  std::vector<double> sorted = times;
  std::sort(sorted.begin(), sorted.end());
  std::string json =
      fmt::format("{{\"figures\": {}, \"percentiles\": {}, \"histogram\": {}, \"times\": {}, \"history\": {}, \"explanation\": {}}}",
                  json_of(figures, args), percentiles(sorted), histogram(sorted), over_time(times),
                  json_array(history_of(args), [](auto& line) { return line; }), to_json(explanation_of(args)));
  write_file(args.html, pages::page("bench", program_name(args) + " – tenon bench", json));
}

void write_trace(const BenchArgs& args) {
  Timeline timeline = Timeline::start().value();
  Ready ready = make_ready(args.model, args.options);
  std::vector<Tensor> inputs = ready.inputs(args.inputs), outputs;
  auto end = Clock::now() + std::chrono::milliseconds(200);
  int runs = 0;
  do ready.executable.run(inputs, outputs).check();
  while (goes_on(args.options, ++runs < 5 || (runs < 200 && Clock::now() < end)));
  timeline.stop();
  timeline.write(args.trace, "tenon " + program_name(args)).check();
}

} // namespace tenon::cli
