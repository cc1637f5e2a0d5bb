// The tool `tenon`: subcommands and their options.
#include <algorithm>
#include <functional>

#include <fmt/core.h>

#include "cli/commands.h"
#include "cli/documents.h"
#include "cli/parser.h"
#include "cli/progress_line.h"
#include "tenon/option_names.h"

using namespace tenon;

namespace {

void add_option(CLI::App* app, Options& options, const OptionInfo& info) {
  std::string flag = "--" + std::string(info.name), help(info.help);
  auto set = [&options, name = info.name](const std::string& value) { set_option(options, name, value).check(); };
  switch (info.kind) {
  case OptionInfo::Kind::Flag: app->add_flag_callback(flag, [set] { set("true"); }, help)->disable_flag_override(); break;
  case OptionInfo::Kind::Value: app->add_option_function<std::string>(flag, set, help)->type_name(std::string(info.value)); break;
  case OptionInfo::Kind::List:
    app->add_option_function<std::vector<std::string>>(
           flag, [set](const std::vector<std::string>& values) { std::ranges::for_each(values, set); }, help)
        ->allow_extra_args(false)
        ->type_name(std::string(info.value));
  }
}

void add_options(CLI::App* app, Options& options) {
  app->add_option_function<std::vector<std::string>>(
         "--ops",
         [](const std::vector<std::string>& libraries) {
           for (auto& path : libraries) load_op_library(path).check();
         },
         "a shared library of custom operators and kernels; may be given again")
      ->allow_extra_args(false)
      ->type_name("FILE");
  app->add_option_function<std::vector<std::string>>(
         "--backend",
         [&options](const std::vector<std::string>& backends) {
           for (auto& name : backends)
             for (auto& b : name.ends_with(".so") ? load_backend_library(name).value() : std::vector{name}) options.backends.push_back(b);
         },
         "a backend, or a shared library of backends, that takes its part of the program; may be given again")
      ->allow_extra_args(false)
      ->type_name("FILE-OR-NAME");
  for (const OptionInfo& info : option_infos())
    if (info.name != "backend") add_option(app, options, info);
}

constexpr const char* method_help = "which program of an archive of several";
constexpr const char* json_help = "one JSON object";

CLI::App* add_model(CLI::App& app, const char* name, const char* what, cli::Model& model, Options& options) {
  CLI::App* command = app.add_subcommand(name, what);
  cli::add_text(command, "model", model.file, "MODEL", "a .pt2")->required();
  cli::add_text(command, "--method", model.method, "NAME", method_help);
  add_options(command, options);
  return command;
}

constexpr const char* edge_types_help = "dtype constraints that Edge graphs are held to, a file as ops --edge-yaml writes it";
constexpr const char* inputs_help = "inputs, an .npz; without: the archive's own examples";

void add_script_files(CLI::App* command, std::string& json, std::string& weights) {
  cli::add_text(command, "--args", json, "FILE", "arguments of a script that an .npz cannot hold, a JSON file");
  cli::add_text(command, "--weights", weights, "FILE",
                "what get_attr nodes of an FX text read, or a module's state_dict: an .npz with their names");
}

// Each command adds itself to the parser, with what to call once its options are read.
struct Command {
  CLI::App* app;
  std::function<int()> run;
  bool loads = false; // something that may take long: it has --quiet
};

Command run_command(CLI::App& app, cli::RunArgs& args) {
  auto* run = add_model(
      app, "run",
      "run a program, a .pt2, a compiled one, an FX text (.fx, .py), a script (FILE.py:entry) or its graph (.ir), and print its outputs",
      args.model, args.options);
  cli::add_text(run, "--inputs", args.inputs, "FILE", inputs_help);
  add_script_files(run, args.json, args.weights);
  cli::add_text(run, "-o,--output", args.output, "FILE", "write the outputs to an .npz");
  cli::add_flag(run, "--json", args.as_json, json_help);
  return {run,
          [&] {
            cli::put_rank(args.options, {&args.model.file, &args.inputs, &args.weights, &args.output});
            return cli::run(args);
          },
          true};
}

Command grad_command(CLI::App& app, cli::GradArgs& args) {
  auto* grad = app.add_subcommand("grad", "gradients of the sum of all floating results of a script (FILE.py:entry) or its graph (.ir)");
  cli::add_text(grad, "file", args.run.model.file, "FILE", "FILE.py:entry or FILE.ir")->required();
  cli::add_numbers(grad, "--wrt", args.wrt, "PLACES", "the arguments to differentiate, by place: 0,2");
  grad->add_option("--wrt-weights", args.wrt_weights, "the weights to differentiate, by name: fc.weight,fc.bias; or all")
      ->delimiter(',')
      ->type_name("NAMES");
  cli::add_text(grad, "--inputs", args.run.inputs, "FILE", "the arguments, an .npz: arg0, arg1 ...");
  cli::add_text(grad, "--args", args.run.json, "FILE", "arguments that an .npz cannot hold, a JSON file");
  cli::add_text(grad, "--weights", args.run.weights, "FILE", "a module's state_dict, an .npz");
  cli::add_text(grad, "-o,--output", args.run.output, "FILE", "write grad0 ... and grad.NAME ... to an .npz");
  cli::add_flag(grad, "--json", args.run.as_json, json_help);
  return {grad, [&] { return cli::grad(args); }};
}

Command compile_command(CLI::App& app, cli::CompileArgs& args) {
  auto* compile = add_model(app, "compile", "compile a program into a file that loads without compiling", args.model, args.options);
  cli::add_text(compile, "-o,--output", args.output, "FILE", "the file, MODEL.tenon by custom")->required();
  cli::add_flag(compile, "--json", args.json, json_help);
  return {compile,
          [&] {
            cli::put_rank(args.options, {&args.model.file, &args.output});
            return cli::compile(args);
          },
          true};
}

Command check_command(CLI::App& app, cli::CheckArgs& args) {
  auto* check = app.add_subcommand("check", "compare programs with the outputs stored beside them");
  check->add_option("paths", args.paths, ".pt2 files, scripts with stored results (NAME.py, NAME.ir), or folders of these")
      ->required()
      ->type_name("PATH");
  cli::add_flag(check, "--json", args.json, "one JSON object, when all are done");
  cli::add_number(check, "--rtol", args.tolerance.rtol, "NUMBER", "relative tolerance, instead of the dtype's own");
  cli::add_number(check, "--atol", args.tolerance.atol, "NUMBER", "absolute tolerance, times the largest element");
  cli::add_number(check, "--jobs", args.jobs, "COUNT", "processes at once; 0: all cores");
  cli::add_number(check, "--timeout", args.timeout_seconds, "SECONDS", "for one program");
  cli::add_flag(check, "--quiet", args.quiet, "say nothing of progress");
  add_options(check, args.options);
  return {check, [&] {
            for (std::string& path : args.paths) cli::put_rank(args.options, {&path});
            return cli::check(args);
          }};
}

constexpr cli::Range run_seconds{0, 3600};

Command bench_command(CLI::App& app, cli::BenchArgs& args) {
  auto* bench = add_model(app, "bench", "measure loading, compiling and running", args.model, args.options);
  cli::add_text(bench, "--inputs", args.inputs, "FILE", inputs_help);
  cli::add_number(bench, "--seconds", args.seconds, "SECONDS", "how long to run", run_seconds);
  cli::add_flag(bench, "--json", args.json, json_help);
  auto* against =
      cli::add_text(bench, "--against", args.against, "ENGINES",
                    "engines of Python packages to measure beside: any of ort,openvino,eager,inductor,aoti,executorch, or FILE.py");
  cli::add_text(bench, "--python", args.python, "FILE", "the interpreter that has their packages; without: python3")->needs(against);
  cli::add_number(bench, "--rounds", args.rounds, "N", "how often they take turns", {1, 1000})->needs(against);
  cli::add_text(bench, "--html", args.html, "FILE",
                "write a page for a browser: steps on the machine's roofline, latencies, history; or the comparison");
  cli::add_text(bench, "--history", args.history, "FILE",
                "add the figures as a line of JSON; the page shows those of this program and machine");
  cli::add_text(bench, "--trace", args.trace, "FILE", "write a trace of loading, compiling and some runs, for ui.perfetto.dev");
  add_script_files(bench, args.json_args, args.weights);
  return {bench,
          [&] {
            cli::put_rank(args.options, {&args.model.file, &args.inputs, &args.weights});
            return cli::bench(args);
          },
          true};
}

Command dump_command(CLI::App& app, cli::DumpArgs& args) {
  auto* dump = add_model(app, "dump", "print a program after a stage", args.model, args.options);
  cli::add_word(dump, "--stage", args.stage, "aten|core|edge|backend|regions|kernels|loops|plan|llvm|asm|script|code",
                "after which; of scripts script, code, aten, edge or backend")
      ->required();
  cli::add_text(dump, "--edge-types", args.edge_types, "FILE", edge_types_help);
  cli::add_text(dump, "--inputs", args.inputs, "FILE", "of a script: what it is called with, an .npz");
  add_script_files(dump, args.json_args, args.weights);
  return {dump, [&] { return cli::dump(args); }, true};
}

Command explain_command(CLI::App& app, cli::ExplainArgs& args) {
  auto* explain = add_model(app, "explain", "each step: its time, code, bytes, flops and source line", args.model, args.options);
  cli::add_text(explain, "--inputs", args.inputs, "FILE", inputs_help);
  cli::add_number(explain, "--seconds", args.seconds, "SECONDS", "how long to run", run_seconds);
  cli::add_word(explain, "--sort", args.sort, "number|time|bytes|flops|bound|loss|kernel|operators|source", "the order of the table");
  cli::add_flag(explain, "--wide", args.wide, "cut nothing to the width of the terminal");
  cli::add_flag(explain, "--verbose", args.verbose, "some lines for each step instead of a table");
  cli::add_flag(explain, "--json", args.json, json_help);
  cli::add_text(explain, "--html", args.html, "FILE", "write a page for a browser");
  add_script_files(explain, args.json_args, args.weights);
  return {explain,
          [&] {
            cli::put_rank(args.options, {&args.model.file, &args.inputs, &args.weights});
            return cli::explain(args);
          },
          true};
}

Command opt_command(CLI::App& app, cli::OptArgs& args) {
  auto* opt = app.add_subcommand("opt", "run passes on a graph and print it, or write it");
  opt->add_option("--passes", args.passes, "names of passes, in order")->delimiter(',')->type_name("NAMES");
  cli::add_text(opt, "file", args.file, "FILE", "a .pt2, or a graph as text, ours or FX's; -: text from stdin")->required();
  cli::add_text(opt, "-o,--output", args.output, "FILE", "write it as a .pt2 instead");
  cli::add_text(opt, "--edge-types", args.edge_types, "FILE", edge_types_help);
  cli::add_flag(opt, "--fx", args.fx, "print the text of torch.fx");
  cli::add_flag(opt, "--contiguous", args.contiguous, "refuse a graph with values that are not in contiguous format");
  cli::add_flag(opt, "--json", args.json, "one JSON object, with the text and which passes changed something");
  return {opt, [&] { return cli::opt(args); }};
}

Command show_command(CLI::App& app, cli::ShowArgs& args) {
  auto* show = app.add_subcommand("show", "a program's signature, sizes, weights and graph; or the program as source");
  cli::add_text(show, "file", args.model.file, "FILE",
                "a .pt2, or the text of an FX graph: torch's print of it, or its Python code; -: text from stdin")
      ->required();
  cli::add_text(show, "--method", args.model.method, "NAME", method_help);
  cli::add_word(show, "--stage", args.stage, "aten|edge|backend", "the graph after this stage; without: aten");
  cli::add_flag(show, "--json", args.json, json_help);
  cli::add_flag(show, "--python", args.python, "as a Python module that torch runs, with its weights in an .npz");
  cli::add_text(show, "-o,--output", args.output, "FILE", "FILE.py; weights go to FILE.npz");
  return {show, [&] { return cli::show(args); }};
}

Command ops_command(CLI::App& app, cli::OpsArgs& args) {
  auto* ops = app.add_subcommand("ops", "the operators that are supported, and how each runs");
  cli::add_flag(ops, "--edge-yaml", args.edge_yaml, "the dtype constraints of the Edge operators, as ExecuTorch's edge.yaml writes them");
  ops->add_option("--allowed", args.allowed, "the dtypes that an argument of an Edge operator may have: edge::sigmoid self")
      ->expected(2)
      ->type_name("OPERATOR ARGUMENT");
  cli::add_flag(ops, "--markdown", args.markdown, "as docs/operators.md");
  cli::add_flag(ops, "--json", args.json, json_help);
  return {ops, [&] { return cli::ops(args); }};
}

Command doctor_command(CLI::App& app, cli::DoctorArgs& args) {
  auto* doctor = app.add_subcommand("doctor", "what this machine has, and what would make tenon faster on it");
  doctor->add_flag_callback("--no-measure", [&args] { args.measure = false; }, "only ask the system")->disable_flag_override();
  cli::add_flag(doctor, "--json", args.json, json_help);
  return {doctor, [&] { return cli::doctor(args); }};
}

Command version_command(CLI::App& app, bool& as_json) {
  auto* version = app.add_subcommand("version", "the versions of tenon and LLVM, the CPU, and the code that is made for it");
  cli::add_flag(version, "--json", as_json, json_help);
  return {version, [&] { return cli::version(as_json); }};
}

Command completion_command(CLI::App& app, std::string& shell) {
  auto* completion = app.add_subcommand("completion", "a script that completes commands and options in a shell");
  cli::add_word(completion, "shell", shell, "bash|zsh|fish", "the shell")->required();
  return {completion, [&] { return std::fputs(cli::completion(app, shell).c_str(), stdout) < 0; }};
}

Command man_command(CLI::App& app) {
  auto* man = app.add_subcommand("man", "the manual page, in the language of man");
  return {man, [&] { return std::fputs(cli::man_page(app).c_str(), stdout) < 0; }};
}

// `tenon --version --json` is `tenon version --json`.
void name_version(int argc, char** argv) {
  static char version[] = "version";
  if (argc > 1 && (std::string_view(argv[1]) == "--version" || std::string_view(argv[1]) == "-V")) argv[1] = version;
}

int dispatch_command(int argc, char** argv, cli::ProcessStart start) {
  CLI::App app("tenon: runs programs exported by torch.export as native code", "tenon");
  app.require_subcommand(1);
  bool unused = false; // name_version sees to it
  cli::add_flag(&app, "-V,--version", unused, "what `tenon version` prints");
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
  cli::DoctorArgs doctor;
  std::string shell;
  bool json_version = false, quiet = false;
  Command commands[] = {
      run_command(app, run),          check_command(app, check), bench_command(app, bench),   dump_command(app, dump),
      explain_command(app, explain),  opt_command(app, opt),     ops_command(app, ops),       compile_command(app, compile),
      show_command(app, show),        grad_command(app, grad),   doctor_command(app, doctor), version_command(app, json_version),
      completion_command(app, shell), man_command(app),
  };
  for (Command& c : commands)
    if (c.loads) cli::add_flag(c.app, "--quiet", quiet, "say nothing of progress");
  name_version(argc, argv);
  if (int code = cli::parse(app, argc, argv); code >= 0) return code;
  for (Command& c : commands)
    if (c.app->parsed()) {
      cli::ProgressLine progress(quiet || !c.loads);
      return c.run();
    }
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
