// Options of compiling and running.
#pragma once
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tenon/communicator.h"
#include "tenon/threads.h"

namespace tenon {

/// The vector instructions that generated code may use. Auto asks the CPU; the others mask features, for tests.
enum class Isa { Auto, Avx2, Avx512 };

/// What f32 matrix products and convolutions compute with. Strict: f32. BF16: both operands are rounded to bf16, sums stay f32.
/// Int8Weights: constant weights of linear layers become bytes with a scale for each output, everything else stays f32.
enum class Precision { Strict, BF16, Int8Weights };

/// Plans for exact sizes, of programs whose sizes vary. The code that serves all sizes serves from the first call; for sizes that most of
/// the time goes to, or for those of them that code depends on, the others being any, code for just these is made in the background, in a
/// thread of low priority that the process has one of, and takes over when it is ready. Results may then differ in the last bits.
/// Executables loaded from files have the plan for all sizes alone.
struct Specialization {
  /// Whether that happens by itself. If not, Executable::specialize asks for it. Not while steps are timed (Options::profile).
  /// It also says whether weights that the first call reads where they are stored may be packed by the calls behind it: these take
  /// some tenths longer until all are, those to come less time; results may then differ in the last bits.
  bool in_background = true;
  /// Plans for exact or partly fixed sizes that one executable holds; 0: none. The least used makes room for another.
  int most = 8;
  /// Bytes of code and packed weights of their own that all of them take, besides those that they share with the plan for all sizes.
  uint64_t most_bytes = uint64_t{64} << 20;
  /// Of the time spent in calls, the share that making plans in the background may take.
  double compile_share = 0.05;
};

struct Options {
  /// The most threads that one call uses, to compile or to run, the calling one included; 0 means all of the pool.
  int threads = 0;
  /// Where they come from; by default from the process's own pool, with a thread for each core the process may use.
  ThreadPool pool = {};
  Isa isa = Isa::Auto;
  /// Anything but Strict changes results: Program::error_of measures by how much. The interpreter is always strict.
  Precision precision = Precision::Strict;
  /// Kernels of the user (register_kernel) that compute what they can of the program, by name, or all of a namespace ("mine::*"); of
  /// several that take a node, the first. They see the operators of the program as it was loaded, before any is decomposed or fused:
  /// Executable::explain lists which nodes each took, and why not others. BadInput for names that are not registered. The interpreter does
  /// without.
  std::vector<std::string> kernels = {};
  /// Run everything in the reference interpreter: slow, for comparison.
  bool interpret = false;
  /// An operator that generated code does not cover is an Error(Unsupported) instead of an interpreted step.
  bool forbid_fallback = false;
  /// Every step is timed, for Executable::explain(); calls become slower.
  bool profile = false;
  /// Seed of the random operators.
  uint64_t seed = 0;
  /// A folder in which compiled programs are kept for later processes; empty: none. What is there for this program, these options, this
  /// machine and this build of tenon is loaded instead of compiled. Several processes may use it at once; entries that are damaged are
  /// made again, and a folder that cannot be written to is a folder that stays empty (ExecutableStats::cache tells). Whoever may write to
  /// it can have any code run: keep it private.
  std::string cache_folder = {};
  /// Entries used longest ago are removed where the folder becomes larger, in bytes.
  uint64_t cache_bytes = uint64_t{4} << 30;
  Specialization specialization = {};
  /// Backends that take their parts of the program before it is compiled, one after the other (Program::to_backend).
  std::vector<std::string> backends = {};
  /// Milliseconds after which Program::compile returns though the code is not ready. Until it is, calls run in the interpreter; one that is
  /// running then starts again in the code, so that it waits no longer than for compiling. Programs with state wait for the code. All other
  /// members of Executable wait, too; an error of compiling is given by the calls, and by Executable::wait.
  double compile_budget_ms = std::numeric_limits<double>::infinity();
  /// Of programs that were exported for several ranks: the group "0", which is that of all of them. Such programs have one plan
  /// for all sizes, unless Executable::specialize asks for others, so that all ranks compute what they share in the same way; they wait for
  /// their code, whatever compile_budget_ms says.
  Communicator communicator = {};
  /// Other groups that the program names. Those that this rank is not in may be left out.
  std::vector<ProcessGroup> groups = {};
};

} // namespace tenon
