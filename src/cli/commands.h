// The subcommands of the tool; each returns the process's exit code.
#pragma once
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "cli/compare.h"
#include "tenon/tenon.h"

namespace tenon::cli {

using Clock = std::chrono::steady_clock;
inline double ms_since(Clock::time_point t) { return std::chrono::duration<double, std::milli>(Clock::now() - t).count(); }

struct CheckArgs {
  std::vector<std::string> paths; // .pt2 files, scripts (NAME.py, NAME.ir) or folders of them
  bool json = false;
  Options options;
  Tolerance tolerance;
  int jobs = 0; // 0: all cores
  bool quiet = false;
  double timeout_seconds = 300;
};
int check(const CheckArgs& args);

/// A file, and the name of one of its programs where it has several.
struct Model {
  std::string file, method;
};
/// Of a .pt2.
Program load(const Model& model);
/// In names of files, {rank} stands for the rank of a process among several.
void put_rank(const Options& options, std::initializer_list<std::string*> names);
/// Whether any of the ranks wants to go on: all of them do then.
bool goes_on(const Options& options, bool mine);

struct RunArgs {
  Model model;
  std::string inputs, weights, output;
  std::string json; // of scripts: what an .npz cannot hold
  Options options;
  bool as_json = false; // what is printed
};
int run(const RunArgs& args);
/// Whether it is a script, FILE.py:entry, or the text of its graph, FILE.ir.
bool is_script(std::string_view file);
int run_script(const RunArgs& args);
/// Whether `check` has something to compare it with: results, or an error. Of a .py the first line is "# entry: NAME".
bool is_checked_script(const std::string& path);
/// "PASS", "FAIL why" or "UNSUPPORTED why".
std::string check_script(const std::string& path, const CheckArgs& args);

struct GradArgs {
  RunArgs run;
  std::vector<size_t> wrt;              // arguments
  std::vector<std::string> wrt_weights; // names in the state_dict; "all"
};
/// Gradients of the sum of a script's floating results.
int grad(const GradArgs& args);

struct CompileArgs {
  Model model;
  std::string output;
  Options options;
  bool json = false;
};
int compile(const CompileArgs& args);

/// CPU time used and boot-clock time at entry to main: from them `bench` knows when the process began.
struct ProcessStart {
  double cpu_ms, main_ms;
};
ProcessStart process_start();

struct BenchArgs {
  Model model = {};
  std::string inputs = {}, json_args = {}, weights = {}; // the last two of scripts
  double seconds = 1;
  bool json = false;
  std::string against = {}, python = {};           // other engines, "ort,eager"; the interpreter that has them
  int rounds = 3;                                  // that they take turns in
  std::string html = {}, trace = {}, history = {}; // files: a page, a Perfetto trace, a line of JSON for each time that bench was run
  ProcessStart start = {};
  Options options = {};
};
int bench(const BenchArgs& args);
int bench_against(const BenchArgs& args);
int bench_script(const BenchArgs& args);

struct DumpArgs {
  Model model;
  std::string stage, edge_types;          // an edge.yaml
  std::string inputs, json_args, weights; // of scripts
  Options options;
};
int dump(const DumpArgs& args);
/// Of a script: its graph ("script"), its instructions ("code"), and what it becomes for these arguments ("aten", "edge", "backend").
int dump_script(const DumpArgs& args);

struct ExplainArgs {
  Model model;
  std::string inputs, json_args, weights; // the last two of scripts
  double seconds = 0.2;
  std::string sort = {};              // "time" and the like; empty: in the order of the plan
  bool wide = false, verbose = false; // nothing is cut; some lines for each step
  bool json = false;
  std::string html = {}; // a page to be written
  Options options = {};
};
int explain(const ExplainArgs& args);
int explain_script(const ExplainArgs& args);
/// In the form that is asked for.
void show_explanation(const Explanation& explanation, const ExplainArgs& args);
/// The steps as a table, `columns` wide (0: as wide as it is), with bars for shares of time where it has room for them.
std::string table_of(const Explanation& explanation, const std::string& sort, int columns, bool bars);
/// The file gets the text, whole or not at all. Throws BadInput with the system's reason.
void write_file(const std::string& path, std::string_view text);

struct OpsArgs {
  bool edge_yaml = false;                // the dtype constraints of the Edge operators instead
  bool markdown = false;                 // as a table for docs/operators.md
  std::vector<std::string> allowed = {}; // an Edge operator and its argument: the dtypes allowed
  bool json = false;
};
int ops(const OpsArgs& args);

struct OptArgs {
  std::vector<std::string> passes;
  std::string file;            // a .pt2, or a graph as text (ours or FX's); "-": text from stdin
  std::string output = {};     // a .pt2 to be written
  bool fx = false;             // print FX text
  bool contiguous = false;     // refuse a graph with values in another memory format
  std::string edge_types = {}; // an edge.yaml that Edge graphs are held to
  bool json = false;           // the text in an object, with what each pass did
};
int opt(const OptArgs& args);

struct ShowArgs {
  Model model;                // a .pt2; for `python` also the text of an FX graph
  std::string output;         // FILE.py, beside which FILE.npz gets the weights; empty: standard output, and no weights
  bool python = false;        // as a module of torch
  std::string stage = "aten"; // without: what the program says of itself, and its graph after this stage
  bool json = false;
};
int show(const ShowArgs& args);
/// The graph of a script: FILE.py:entry, FILE.ir.
int show_script(const ShowArgs& args);
int show_python(const ShowArgs& args);

struct DoctorArgs {
  bool json = false, measure = true;
};
/// What the machine has, and what would make tenon faster on it.
int doctor(const DoctorArgs& args);
/// Of tenon, LLVM and the CPU.
int version(bool as_json);

/// Whether a file is a graph as torch prints it, or Python code of one, by what its name ends in.
bool is_fx_text(std::string_view path);
/// A file as text; "-": standard input.
std::string read_file(const std::string& path);

/// Inputs from an .npz, in its order. Floats of 8 bits are bytes there.
std::vector<Tensor> read_inputs(const std::string& path, const std::vector<ArgInfo>& inputs);

/// What is to be run: a .pt2, compiled now, or a program that `tenon compile` wrote.
struct Ready {
  Executable executable;
  std::optional<Program> program; // of a .pt2
  double load_ms = 0, compile_ms = 0;

  /// From the file, or the examples of the archive.
  std::vector<Tensor> inputs(const std::string& file) const;
};
Ready make_ready(const Model& model, const Options& options);
/// The same of the text of an FX graph. Placeholders without a type take it from the arrays of `inputs`, in their order; `weights` has
/// what get_attr nodes read, by name. Both are .npz files, or "" for none.
Ready make_ready_text(const std::string& file, const std::string& inputs, const std::string& weights, const Options& options);

} // namespace tenon::cli
