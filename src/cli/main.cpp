// The tool `tenon`: subcommands and their options.
#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "cli/commands.h"

using namespace tenon;

namespace {

void add_options(CLI::App* app, Options& options) {
  app->add_option("--threads", options.threads, "threads of one call; 0: all cores")->check(CLI::NonNegativeNumber);
  app->add_flag("--interpret", options.interpret, "run in the reference interpreter");
  app->add_flag("--forbid-fallback", options.forbid_fallback, "an operator without native code is an error");
  app->add_option("--seed", options.seed, "seed of random operators");
  app->add_option("--isa", options.isa, "auto, avx2 or avx512")
      ->transform(CLI::CheckedTransformer(std::map<std::string, Isa>{{"auto", Isa::Auto}, {"avx2", Isa::Avx2}, {"avx512", Isa::Avx512}}));
}

int dispatch_command(int argc, char** argv) {
  CLI::App app("tenon: runs programs exported by torch.export as native code");
  app.require_subcommand(1);
  cli::RunArgs run_args;
  auto* run = app.add_subcommand("run", "run a program and print its outputs");
  run->add_option("model", run_args.model, "a .pt2")->required();
  run->add_option("--inputs", run_args.inputs, "inputs, an .npz; without: the archive's own examples");
  run->add_option("-o,--output", run_args.output, "write the outputs to an .npz");
  add_options(run, run_args.options);
  cli::CheckArgs check_args;
  auto* check = app.add_subcommand("check", "compare programs with the outputs stored beside them");
  check->add_option("paths", check_args.paths, ".pt2 files or folders of them")->required();
  check->add_flag("--json", check_args.json, "a JSON object a line");
  check->add_option("--rtol", check_args.tolerance.rtol);
  check->add_option("--atol", check_args.tolerance.atol);
  check->add_option("--jobs", check_args.jobs, "processes at once; 0: all cores");
  check->add_option("--timeout", check_args.timeout_seconds, "seconds for one program");
  add_options(check, check_args.options);
  cli::DumpArgs dump_args;
  auto* dump = app.add_subcommand("dump", "print a program after a stage");
  dump->add_option("model", dump_args.model, "a .pt2")->required();
  dump->add_option("--stage", dump_args.stage, "aten, edge, backend, loops, llvm, asm, plan")->required();
  add_options(dump, dump_args.options);
  cli::OptArgs opt_args;
  auto* opt = app.add_subcommand("opt", "run passes on a graph and print it");
  opt->add_option("--passes", opt_args.passes, "names of passes, in order")->delimiter(',');
  opt->add_option("file", opt_args.file, "a .pt2, or a graph as text; -: text from stdin")->required();
  CLI11_PARSE(app, argc, argv);
  if (run->parsed()) return cli::run(run_args);
  if (check->parsed()) return cli::check(check_args);
  if (opt->parsed()) return cli::opt(opt_args);
  return cli::dump(dump_args);
}

} // namespace

int main(int argc, char** argv) {
  try {
    return dispatch_command(argc, argv);
  } catch (const Error& e) {
    fmt::print(stderr, "tenon: {}: {}\n", e.kind == ErrorKind::Unsupported ? "unsupported" : e.kind == ErrorKind::Internal ? "internal error" : "error", e.what());
  } catch (const std::exception& e) {
    fmt::print(stderr, "tenon: internal error: {}\n", e.what());
  }
  return 1;
}
