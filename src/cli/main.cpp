// The tool `tenon`: subcommands and their options.
#include <algorithm>
#include <functional>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "cli/commands.h"
#include "tenon/option_names.h"

using namespace tenon;

namespace {

void add_option(CLI::App* app, Options& options, const OptionInfo& info) {
  std::string flag = "--" + std::string(info.name), help(info.help);
  auto set = [&options, name = info.name](const std::string& value) { set_option(options, name, value).check(); };
  switch (info.kind) {
  case OptionInfo::Kind::Flag: app->add_flag_callback(flag, [set] { set("true"); }, help); break;
  case OptionInfo::Kind::Value: app->add_option_function<std::string>(flag, set, help); break;
  case OptionInfo::Kind::List:
    app->add_option_function<std::vector<std::string>>(
           flag, [set](const std::vector<std::string>& values) { std::ranges::for_each(values, set); }, help)
        ->allow_extra_args(false);
  }
}

void add_options(CLI::App* app, Options& options) {
  app->add_option_function<std::vector<std::string>>(
         "--ops",
         [](const std::vector<std::string>& libraries) {
           for (auto& path : libraries) load_op_library(path).check();
         },
         "a shared library of custom operators and kernels; may be given again")
      ->allow_extra_args(false);
  app->add_option_function<std::vector<std::string>>(
         "--backend",
         [&options](const std::vector<std::string>& backends) {
           for (auto& name : backends)
             for (auto& b : name.ends_with(".so") ? load_backend_library(name).value() : std::vector{name}) options.backends.push_back(b);
         },
         "a backend, or a shared library of backends, that takes its part of the program; may be given again")
      ->allow_extra_args(false);
  for (const OptionInfo& info : option_infos())
    if (info.name != "backend") add_option(app, options, info);
}

constexpr const char* method_help = "which program of an archive of several";

CLI::App* add_model(CLI::App& app, const char* name, const char* what, cli::Model& model, Options& options) {
  CLI::App* command = app.add_subcommand(name, what);
  command->add_option("model", model.file, "a .pt2")->required();
  command->add_option("--method", model.method, method_help);
  add_options(command, options);
  return command;
}

constexpr const char* edge_types_help = "dtype constraints that Edge graphs are held to, a file as ops --edge-yaml writes it";
constexpr const char* inputs_help = "inputs, an .npz; without: the archive's own examples";

void add_script_files(CLI::App* command, std::string& json, std::string& weights) {
  command->add_option("--args", json, "arguments of a script that an .npz cannot hold, a JSON file");
  command->add_option("--weights", weights, "what get_attr nodes of an FX text read, or a module's state_dict: an .npz with their names");
}

// Each command adds itself to the parser, with what to call once its options are read.
struct Command {
  CLI::App* app;
  std::function<int()> run;
};

Command run_command(CLI::App& app, cli::RunArgs& args) {
  auto* run = add_model(
      app, "run",
      "run a program, a .pt2, a compiled one, an FX text (.fx, .py), a script (FILE.py:entry) or its graph (.ir), and print its outputs",
      args.model, args.options);
  run->add_option("--inputs", args.inputs, inputs_help);
  add_script_files(run, args.json, args.weights);
  run->add_option("-o,--output", args.output, "write the outputs to an .npz");
  return {run, [&] { return cli::run(args); }};
}

Command grad_command(CLI::App& app, cli::GradArgs& args) {
  auto* grad = app.add_subcommand("grad", "gradients of the sum of all floating results of a script (FILE.py:entry) or its graph (.ir)");
  grad->add_option("file", args.run.model.file, "FILE.py:entry or FILE.ir")->required();
  grad->add_option("--wrt", args.wrt, "the arguments to differentiate, by place: 0,2")->delimiter(',');
  grad->add_option("--wrt-weights", args.wrt_weights, "the weights to differentiate, by name: fc.weight,fc.bias; or all")->delimiter(',');
  grad->add_option("--inputs", args.run.inputs, "the arguments, an .npz: arg0, arg1 ...");
  grad->add_option("--args", args.run.json, "arguments that an .npz cannot hold, a JSON file");
  grad->add_option("--weights", args.run.weights, "a module's state_dict, an .npz");
  grad->add_option("-o,--output", args.run.output, "write grad0 ... and grad.NAME ... to an .npz");
  return {grad, [&] { return cli::grad(args); }};
}

Command compile_command(CLI::App& app, cli::CompileArgs& args) {
  auto* compile = add_model(app, "compile", "compile a program into a file that loads without compiling", args.model, args.options);
  compile->add_option("-o,--output", args.output, "the file, MODEL.tenon by custom")->required();
  return {compile, [&] { return cli::compile(args); }};
}

Command check_command(CLI::App& app, cli::CheckArgs& args) {
  auto* check = app.add_subcommand("check", "compare programs with the outputs stored beside them");
  check->add_option("paths", args.paths, ".pt2 files, scripts with stored results (NAME.py, NAME.ir), or folders of these")->required();
  check->add_flag("--json", args.json, "a JSON object a line");
  check->add_option("--rtol", args.tolerance.rtol, "relative tolerance, instead of the dtype's own");
  check->add_option("--atol", args.tolerance.atol, "absolute tolerance, times the largest element");
  check->add_option("--jobs", args.jobs, "processes at once; 0: all cores");
  check->add_option("--timeout", args.timeout_seconds, "seconds for one program");
  add_options(check, args.options);
  return {check, [&] { return cli::check(args); }};
}

Command bench_command(CLI::App& app, cli::BenchArgs& args) {
  auto* bench = add_model(app, "bench", "measure loading, compiling and running", args.model, args.options);
  bench->add_option("--inputs", args.inputs, inputs_help);
  bench->add_option("--seconds", args.seconds, "how long to run")->check(CLI::Range(0.0, 3600.0));
  bench->add_flag("--json", args.json, "one JSON object");
  auto* against =
      bench->add_option("--against", args.against,
                        "engines of Python packages to measure beside: any of ort,openvino,eager,inductor,aoti,executorch, or FILE.py");
  bench->add_option("--python", args.python, "the interpreter that has their packages; without: python3")->needs(against);
  bench->add_option("--rounds", args.rounds, "how often they take turns")->needs(against);
  bench->add_option("--html", args.html, "write the comparison as a page for a browser")->needs(against);
  add_script_files(bench, args.json_args, args.weights);
  return {bench, [&] { return cli::bench(args); }};
}

Command dump_command(CLI::App& app, cli::DumpArgs& args) {
  auto* dump = add_model(app, "dump", "print a program after a stage", args.model, args.options);
  dump->add_option("--stage", args.stage,
                   "aten, core, edge, backend, regions, kernels, loops, plan, llvm or asm; of scripts script, code, aten, edge or backend")
      ->required();
  dump->add_option("--edge-types", args.edge_types, edge_types_help);
  dump->add_option("--inputs", args.inputs, "of a script: what it is called with, an .npz");
  add_script_files(dump, args.json_args, args.weights);
  return {dump, [&] { return cli::dump(args); }};
}

Command explain_command(CLI::App& app, cli::ExplainArgs& args) {
  auto* explain = add_model(app, "explain", "each step: its code, bytes, flops, time and source line", args.model, args.options);
  explain->add_option("--inputs", args.inputs, inputs_help);
  explain->add_option("--seconds", args.seconds, "how long to run")->check(CLI::Range(0.0, 3600.0));
  add_script_files(explain, args.json_args, args.weights);
  return {explain, [&] { return cli::explain(args); }};
}

Command opt_command(CLI::App& app, cli::OptArgs& args) {
  auto* opt = app.add_subcommand("opt", "run passes on a graph and print it, or write it");
  opt->add_option("--passes", args.passes, "names of passes, in order")->delimiter(',');
  opt->add_option("file", args.file, "a .pt2, or a graph as text, ours or FX's; -: text from stdin")->required();
  opt->add_option("-o,--output", args.output, "write it as a .pt2 instead");
  opt->add_option("--edge-types", args.edge_types, edge_types_help);
  opt->add_flag("--fx", args.fx, "print the text of torch.fx");
  opt->add_flag("--contiguous", args.contiguous, "refuse a graph with values that are not in contiguous format");
  return {opt, [&] { return cli::opt(args); }};
}

Command show_command(CLI::App& app, cli::ShowArgs& args) {
  auto* show = app.add_subcommand("show", "a program's signature, sizes, weights and graph; or the program as source");
  show->add_option("file", args.model.file,
                   "a .pt2, or the text of an FX graph: torch's print of it, or its Python code; -: text from stdin")
      ->required();
  show->add_option("--method", args.model.method, method_help);
  show->add_option("--stage", args.stage, "the graph after this stage: aten (the default), edge or backend");
  show->add_flag("--json", args.json, "one JSON object");
  show->add_flag("--python", args.python, "as a Python module that torch runs, with its weights in an .npz");
  show->add_option("-o,--output", args.output, "FILE.py; weights go to FILE.npz");
  return {show, [&] { return cli::show(args); }};
}

Command ops_command(CLI::App& app, cli::OpsArgs& args) {
  auto* ops = app.add_subcommand("ops", "the operators that are supported, and how each runs");
  ops->add_flag("--edge-yaml", args.edge_yaml, "the dtype constraints of the Edge operators, as ExecuTorch's edge.yaml writes them");
  ops->add_option("--allowed", args.allowed, "the dtypes that an argument of an Edge operator may have: edge::sigmoid self")->expected(2);
  ops->add_flag("--markdown", args.markdown, "as docs/operators.md");
  return {ops, [&] { return cli::ops(args); }};
}

// Parsing errors as any other: one line, exit code 1.
int parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    return -1;
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e); // --help
    throw Error(ErrorKind::BadInput, fmt::format("{} (`tenon --help` lists the commands)", e.what()));
  }
}

int dispatch_command(int argc, char** argv, cli::ProcessStart start) {
  CLI::App app("tenon: runs programs exported by torch.export as native code");
  app.require_subcommand(1);
  cli::RunArgs run;
  cli::CheckArgs check;
  cli::BenchArgs bench{.start = start};
  cli::DumpArgs dump;
  cli::ExplainArgs explain;
  cli::OptArgs opt;
  cli::OpsArgs ops;
  cli::ShowArgs show;
  cli::CompileArgs compile;
  cli::GradArgs grad;
  Command commands[] = {
      run_command(app, run),         check_command(app, check), bench_command(app, bench), dump_command(app, dump),
      explain_command(app, explain), opt_command(app, opt),     ops_command(app, ops),     compile_command(app, compile),
      show_command(app, show),       grad_command(app, grad),
  };
  if (int code = parse(app, argc, argv); code >= 0) return code;
  for (Command& c : commands)
    if (c.app->parsed()) return c.run();
  return 1;
}

int fail(std::string_view kind, std::string message) {
  std::replace(message.begin(), message.end(), '\n', ' ');
  fmt::print(stderr, "tenon: {}: {}\n", kind, message);
  return 1;
}

} // namespace

int main(int argc, char** argv) {
  cli::ProcessStart start = cli::process_start();
  try {
    return dispatch_command(argc, argv, start);
  } catch (const Error& e) {
    return fail(e.kind == ErrorKind::Unsupported ? "unsupported" : e.kind == ErrorKind::Internal ? "internal error" : "error", e.what());
  } catch (const std::exception& e) {
    return fail("internal error", e.what());
  }
}
