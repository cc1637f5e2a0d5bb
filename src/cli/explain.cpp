// `tenon explain`: what the steps of a program are, and what they cost.
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fmt/core.h>

#include "base/check.h"
#include "cli/commands.h"

namespace tenon::cli {

namespace {

void run_for(const ExplainArgs& args, const Executable& exe, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> outputs;
  auto end = Clock::now() + std::chrono::duration<double>(args.seconds);
  do exe.run(inputs, outputs).check();
  while (goes_on(args.options, Clock::now() < end));
}

// What a plan for just the inputs' sizes gains, where sizes vary.
void explain_exact(const Program& program, const ExplainArgs& args, const std::vector<Tensor>& inputs) {
  Options options = args.options;
  options.specialization.compile_share = 0; // calls are counted; nothing is made by itself
  Executable exe = program.compile(options).value();
  run_for(args, exe, inputs);
  std::vector<TensorView> views;
  for (const Tensor& t : inputs) views.push_back(t.view());
  if (!exe.specialize(views).ok()) return;
  run_for(args, exe, inputs);
  VariantInfo v = exe.variants().back();
  fmt::print("a plan for exactly {}: {:.1f} us a call, the plan for all sizes {:.1f}; {} bytes of its own, compiled in {:.1f} ms\n",
             v.guard, v.mean_us, v.generic_us, v.bytes, v.compile_ms);
}

// Columns of the terminal on stdout; 0: it is none.
int terminal_columns() {
  winsize size{};
  if (!isatty(STDOUT_FILENO)) return 0;
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

void print_machine(const Explanation& e) {
  if (e.runs == 0) return;
  fmt::print("all steps: {:.3f} ms a run, over {} runs\n", 1e-3 * e.us, e.runs);
  fmt::print("machine: {}, {} threads, {:.1f} GB/s", e.machine.cpu, e.machine.threads, e.machine.gbytes_per_s);
  for (auto& p : e.machine.peaks) fmt::print(", {} {:.0f} GFLOP/s", p.kernels, p.gflops);
  fmt::print("\n");
}

void print_stats(const ExecutableStats& s) {
  fmt::print("{} steps, {} in the interpreter, {} of backends; {} kernels; {} bytes of temporaries, {} of state\n", s.steps,
             s.fallback_steps, s.delegate_steps, s.kernels_compiled, s.arena_bytes, s.state_bytes);
}

} // namespace

void write_file(const std::string& path, std::string_view text) {
  std::string part = path + ".part";
  std::ofstream out(part, std::ios::binary);
  out << text;
  out.close();
  std::error_code failed;
  if (out.good()) std::filesystem::rename(part, path, failed);
  require_input(out.good() && !failed, "cannot write {}: {}", path, failed ? failed.message() : std::strerror(errno));
}

void show_explanation(const Explanation& e, const ExplainArgs& args) {
  if (!args.html.empty()) {
    write_file(args.html, to_html(e));
    if (!args.json) fmt::print("{} is written\n", args.html);
  }
  if (args.json) return fmt::print("{}\n", to_json(e));
  if (!args.html.empty()) return;
  if (args.verbose) {
    fmt::print("{}", to_text(e));
  } else {
    int columns = terminal_columns();
    std::fputs(table_of(e, args.sort, args.wide ? 0 : columns, columns > 0).c_str(), stdout);
    print_machine(e);
    for (const std::string& note : e.notes) fmt::print("{}\n", note);
  }
  print_stats(e.stats);
}

int explain(const ExplainArgs& args) {
  if (is_script(args.model.file)) return explain_script(args);
  Options options = args.options;
  options.profile = true;
  auto ready = [&] {
    bool is_text = is_fx_text(args.model.file);
    return is_text ? make_ready_text(args.model.file, args.inputs, args.weights, options) : make_ready(args.model, options);
  };
  // The first run, with cold memory and late micro-kernels, goes to an executable of its own.
  Ready cold = ready();
  std::vector<Tensor> inputs = cold.inputs(args.inputs), outputs;
  cold.executable.run(inputs, outputs).check();
  Ready warm = ready();
  run_for(args, warm.executable, inputs);
  Explanation e = warm.executable.explanation().value();
  e.program = std::filesystem::path(args.model.file).filename().string();
  if (!args.model.method.empty()) e.program += " " + args.model.method;
  show_explanation(e, args);
  if (warm.program && !args.json && args.html.empty()) explain_exact(*warm.program, args, inputs);
  return 0;
}

} // namespace tenon::cli
