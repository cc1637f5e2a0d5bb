// A loaded program, and its compiled form.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/error.h"
#include "tenon/options.h"
#include "tenon/signature.h"
#include "tenon/tensor.h"
#include "tenon/tree.h"

namespace tenon {

/// What Options::cache_folder did: nothing (there is none, or the program has no form in a file), had the program, got it now, or could not
/// be written to.
enum class CacheUse { None, Found, Stored, Failed };

/// What one run cost, and how the program is executed.
struct ExecutableStats {
  double compile_ms = 0;
  int kernels_compiled = 0; ///< distinct machine-code kernels, those that came with the library among them
  int steps = 0;            ///< steps of the plan
  int fallback_steps = 0;   ///< steps that run in the interpreter
  int delegate_steps = 0;   ///< steps that backends run
  size_t state_bytes = 0;   ///< buffers that live between calls
  size_t arena_bytes = 0;   ///< peak planned memory of the last bound sizes
  CacheUse cache = CacheUse::None;
  bool is_compiling = false; ///< calls run in the interpreter, until there is code (Options::compile_budget_ms); the rest is not known yet
};

/// Bytes as expressions over the sizes that Program::inputs() names, such as "max(s77*4096, s77*s27*12 + 64)", for any sizes.
struct MemoryFormula {
  /// The most that is alive at once. Laid out it takes little more, or less where convolutions run side by side, a few rows at a time.
  std::string temporaries;
  std::string results; ///< of all outputs together
  int uncounted = 0;   ///< buffers in neither, because their sizes depend on data
};

/// Memory that a run takes beside inputs, weights and state, in bytes. Buffers whose sizes depend on data are in none of the numbers,
/// nor is what library steps (sort, FFT, linear algebra) and interpreted steps take for themselves.
struct MemoryUse {
  size_t temporaries = 0; ///< as laid out in the one block of a call
  size_t alive = 0;       ///< the most of them that is alive at once: MemoryFormula::temporaries for these sizes
  size_t scratch = 0;     ///< of all workers
  size_t results = 0;
};

/// A buffer or weight of a program, by its qualified name.
struct NamedTensor {
  std::string name;
  Tensor tensor;
};

/// A keyword argument.
using NamedTree = std::pair<std::string, Tree>;

class Executable;
struct Explanation;
namespace ir {
class PassManager;
}

/// A program as loaded: graph, weights, calling convention. Immutable; safe to share between threads.
class TENON_API Program {
public:
  /// Maps a .pt2 that torch.export.save wrote; the file must not change while the Program or its Executables live.
  static Result<Program> load(const std::string& path);
  /// One program of an archive that has several (torch.export.pt2_archive: package_pt2), by its name. They share the file's mapped weights.
  static Result<Program> load(const std::string& path, const std::string& method);
  /// The names of the programs in an archive; "model" for that of torch.export.save.
  static Result<std::vector<std::string>> methods(const std::string& path);
  /// The only program of an archive in memory; `bytes` must outlive the Program and its Executables.
  static Result<Program> load(std::span<const std::byte> bytes, std::string name);

  /// A program from its graph in the schema of torch.export's archives (models/NAME.json there), in memory. `weights` are its parameters,
  /// buffers and constants by name; their memory is shared, and must not change. Errors: those of load; BadInput for a weight that is
  /// missing, there twice, or of another dtype or size.
  static Result<Program> load_graph(std::string_view json, std::span<const NamedTensor> weights = {});

  /// A program from the text that torch.fx prints of an exported graph (src/fx/text.h). All placeholders are inputs; where the text
  /// gives no types, `inputs` has one for each placeholder, whose sizes may be symbols ("s0"), and names do not count. `weights` are what
  /// get_attr nodes read, by their target. Errors: BadInput with the line for a text that is none, for a missing type or weight.
  static Result<Program> parse(std::string_view fx, std::span<const ArgInfo> inputs = {}, std::span<const NamedTensor> weights = {});

  /// Flattened user inputs (None and strings left out) and outputs, in order.
  const std::vector<ArgInfo>& inputs() const;
  const std::vector<ArgInfo>& outputs() const;
  /// How forward's arguments nest, ((positional...), {keyword: ...}), and its result: trees of ArgInfos, and of the values that were fixed
  /// at export (None, strings, numbers). Numbers that are fixed are among inputs() and outputs() all the same.
  const Tree& in_spec() const;
  const Tree& out_spec() const;
  /// The example inputs stored in the archive, flattened; an Error where the archive holds none.
  Result<std::vector<Tensor>> example_inputs() const;
  /// Overloads that nothing here can run; empty when the program is supported.
  std::vector<std::string> unsupported() const;

  /// Its graph as loaded ("aten") or after a stage ("edge", "backend"); a copy, to read or change. Errors: BadInput for another name, those
  /// of compile.
  Result<ir::Graph> graph(std::string_view stage = "aten") const;
  /// All inputs and outputs of the graph as loaded, with their kinds and names.
  ir::GraphSignature signature() const;
  /// Parameters and persistent buffers by their qualified names, in alphabetical order: views of the mapped file, not to be written.
  std::vector<NamedTensor> state_dict() const;
  /// The same of constant tensors, and of buffers that are not persistent.
  std::vector<NamedTensor> constants() const;
  /// The program with other weights in the place of those named; others stay. Errors: BadInput for a name that is neither in state_dict()
  /// nor in constants(), or is there twice, and for another dtype or size; Unsupported where the graph is Edge already.
  Result<Program> with_state_dict(std::span<const NamedTensor> weights) const;
  /// The symbols of sizes, with their bounds.
  std::vector<ir::RangeConstraint> range_constraints() const;
  /// Dimensions of inputs that have the size of an earlier one.
  std::vector<ir::EqualityConstraint> equality_constraints() const;
  /// Modules of the source; empty where the program is no file of torch.export.
  const std::vector<ir::ModuleCall>& module_call_graph() const;
  /// Of the torch that exported it; empty where it is not told.
  const std::string& torch_version() const;

  /// Compiles for this machine. Errors: Unsupported lists all missing operators at once.
  Result<Executable> compile(const Options& options = {}) const;
  /// Compiles into a file that Executable::load runs on machines of this kind, without compiling or this archive. It is written under
  /// another name and takes the place of `path` when it is whole. Custom operators that have a function are called by it, and must be
  /// registered where it is loaded, as backends must. Errors: those of compile; Unsupported where a step has no form in a file
  /// (those of the interpreter); BadInput with the system's reason where it cannot be written.
  Status save_compiled(const std::string& path, const Options& options = {}) const;
  /// Writes the program as a .pt2 that torch.export.load and Program::load read, with its weights. The file appears under its name when it
  /// is whole. Errors: Unsupported names what has no form in ATen: Edge graphs, operators of edge:: and tenon::, objects,
  /// effects; BadInput with the system's reason where it cannot be written.
  Status save(const std::string& path) const;
  /// How far results under `options` are from those of tenon's own code in strict f32, for these inputs: the largest |difference| of an
  /// output over the largest magnitude in it. Compiles and runs both; 1 stands for all that is not finite in one alone. Errors: those of
  /// compile and run.
  Result<double> error_of(const Options& options, std::span<const TensorView> inputs) const;
  /// A pass of the user: `pass` gets the text of the Edge graph (what dump("edge") gives; src/ir/parse.h has its grammar) and
  /// returns another. Parameters and results must stay what they were. Errors: BadInput for a text that is no Edge graph.
  Result<Program> transform(const std::function<std::string(const std::string&)>& pass) const;
  /// The same by passes on its graph, of the dialect that they are for. Errors: BadInput names the pass, and the node where one is wrong.
  Result<Program> transform(const ir::PassManager& passes) const;
  /// Whether the program's Edge graph keeps to the dtype constraints of its operators: those that `edge_yaml` (in the language of
  /// ExecuTorch's edge.yaml) has for them, tenon's own (edge_types_yaml) for operators that it leaves out. Errors: BadInput with the first
  /// node that does not, its argument, the dtype, and what is allowed, or with the line of `edge_yaml` that is wrong; those of compile.
  Status check_edge_types(std::string_view edge_yaml = {}) const;
  /// The program with the parts that a registered backend takes as delegates of it (backend.h): nodes prim::Delegate of its Edge graph,
  /// each with the sub-graph in a block, which the interpreter runs. An Edge graph is functional: a delegate reads state as an operand, and
  /// a new value of state is a result that tenon writes. Errors: BadInput where there is no such backend, or it has no preprocess; of what
  /// preprocess throws, which names the backend and the nodes.
  Result<Program> to_backend(const std::string& backend) const;
  /// The program as text after a stage: aten, core (core ATen, as torch's run_decompositions gives), edge, backend; regions (their loops),
  /// kernels (which ones regions run), loops (of the distinct kernels), plan (steps and buffers); llvm and asm, which alone generate code.
  /// BadInput for another name.
  Result<std::string> dump(std::string_view stage, const Options& options = {}) const;

  struct Impl;
  explicit Program(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  const Impl& impl() const { return *impl_; }

private:
  std::shared_ptr<const Impl> impl_;
};

/// Whether programs may call the operator, by its overload's name: "aten::add.Tensor", "aten::relu". Custom ones that are registered
/// count.
TENON_API bool is_supported(std::string_view overload);

/// A plan of an executable: the one for all sizes, one for exact sizes, or one for some that are fixed where only those change the code.
struct VariantInfo {
  /// The sizes it is for, by the program's symbols: "s0 = 8, s1 = 128", others being any; empty: all.
  std::string guard;
  uint64_t calls = 0;
  /// Microseconds of its calls, mean of those that were timed (some are); 0 where none was.
  double mean_us = 0;
  /// What calls of its sizes took that a plan for more sizes served, for as many elements.
  double generic_us = 0;
  /// Code and packed weights of its own; 0 for the plan for all sizes.
  size_t bytes = 0;
  double compile_ms = 0;
};

/// Inputs and outputs of an Executable, which it keeps alive, bound for repeated runs. It has temporaries of its own. Not for several
/// threads at once; several BoundCalls may run at once.
class TENON_API BoundCall {
public:
  /// On what the memory holds now. Errors: those that depend on values, and on sizes that do.
  Status run() const;

  struct Impl;
  explicit BoundCall(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

private:
  std::shared_ptr<Impl> impl_;
};

/// Native code for a Program. run() and call() may be called from many threads at once; calls of a program with state take turns.
class TENON_API Executable {
public:
  /// What Program::save_compiled wrote. Its weights are mapped, and shared by all processes that do so; the file may be replaced or
  /// removed, but must not be changed. Of the options threads and profile count; the others are the file's. The file holds machine code:
  /// load it only from where you would load a library. Errors: BadInput for a file that is missing, damaged, or of another version, and for
  /// Options::interpret; Unsupported where it was compiled for another kind of machine.
  static Result<Executable> load(const std::string& path, const Options& options = {});

  /// Flattened user inputs and outputs, as Program's.
  const std::vector<ArgInfo>& inputs() const;
  const std::vector<ArgInfo>& outputs() const;
  const Tree& in_spec() const;
  const Tree& out_spec() const;
  /// Calls the program as Python would call the module: arguments nest as in_spec() says, results as out_spec() does, and positional
  /// arguments may be given by the name that forward has for them. Dicts of all kinds stand for each other, whatever the order of their
  /// keys; sequences and classes are those of the export. A field of a dataclass that was None may be left out. Numbers are passed as
  /// numbers; values that were fixed at export are compared. Inputs that the program changes in place hold their new values in the
  /// caller's tensors, results are tensors of their own. Errors: BadInput names the leaf by its path ("kwargs['mask'][1]"), and those of
  /// run().
  Result<Tree> call(const std::vector<Tree>& args, const std::vector<NamedTree>& kwargs = {}) const;
  /// Runs on `inputs`, in the order of Program::inputs(). On success `outputs` holds dense tensors in the order of
  /// Program::outputs(), each with its dims in memory as ArgInfo::dim_order says, and inputs that the program changes in place hold their
  /// new values. Tensors that `outputs` holds before are let go once the inputs are found right, even if the run fails then: their memory
  /// serves again, unless an input lies in it or another Tensor shares it. Inputs may have any strides and alignment. Errors: BadInput for
  /// a wrong count, rank, dtype or size; the message names the input, the dimension and the range allowed.
  Status run(std::span<const TensorView> inputs, std::vector<Tensor>& outputs) const;
  Status run(std::span<const Tensor> inputs, std::vector<Tensor>& outputs) const;
  /// The same into memory of the caller: a view for each output, of its dtype and sizes, with any strides that keep its elements
  /// apart. It may overlap inputs. Errors: also BadInput for an output that does not fit, which is then not written, or partly.
  Status run(std::span<const TensorView> inputs, std::span<const TensorView> outputs) const;
  /// Inputs and outputs checked once, for repeated runs on the same memory, which must stay. Errors: those of run(); Unsupported where
  /// the program is interpreted.
  Result<BoundCall> bind(std::span<const TensorView> inputs, std::span<const TensorView> outputs) const;
  /// Buffers that the program changes, copies of what they hold now; empty where it has no state.
  std::vector<NamedTensor> state() const;
  /// Gives buffers new values; others stay as they are. Errors: BadInput for an unknown name, another dtype or size: then
  /// nothing is changed.
  Status set_state(std::span<const NamedTensor> state);
  /// All buffers as the archive has them.
  void reset_state();
  /// Another Executable on the same machine code, with a state of its own that starts as this one's is now.
  Executable copy() const;
  ExecutableStats stats() const;
  /// Compiles for exactly the inputs' sizes, in the calling thread; from then on such calls run that code, until other sizes take its place
  /// (Specialization). Only the data of numbers is read; that of others may be null. Errors: those of run() that depend on sizes, those of
  /// Program::compile, BadInput where Specialization's bounds leave no room, Unsupported where sizes do not vary, or where the program is
  /// interpreted or comes from a file.
  Status specialize(std::span<const TensorView> inputs) const;
  /// Waits until nothing is compiled in the background. Errors: those of Program::compile, where it was not waited for.
  Status wait() const;
  /// The plan for all sizes, then those for exact sizes, then those that fix some. Calls are counted where sizes vary and
  /// Specialization::in_background is set, or there are exact plans; those that are running or have just run may be missing.
  std::vector<VariantInfo> variants() const;
  /// Pieces of machine code that the process has made so far, for all its Executables. Compiling adds to it, in the background too; a
  /// run() never does, whatever its sizes.
  static uint64_t pieces_of_code();
  /// What a run will take, for any sizes. Errors: Unsupported where the program is interpreted.
  Result<MemoryFormula> memory_formula() const;
  /// What a run on inputs of these sizes will take, without running. Only the data of numbers is read; that of others may be null.
  /// Errors: those of run() that depend on sizes, and Unsupported where the program is interpreted.
  Result<MemoryUse> memory(std::span<const TensorView> inputs) const;
  /// Regions, kernels chosen and refused, source lines, memory; with Options::profile also bytes, flops and times of the runs so far.
  std::string explain() const;
  /// The same as data (tenon/explain.h). Errors: those of Program::compile, where it was not waited for.
  Result<Explanation> explanation() const;

  struct Impl;
  explicit Executable(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  Impl& impl() const { return *impl_; }

private:
  std::shared_ptr<Impl> impl_;
};

} // namespace tenon
