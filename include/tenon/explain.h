// What an executable does, step by step, as data: what Executable::explain() and the pages of `tenon explain` show.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tenon/program.h"

namespace tenon {

/// A place in the Python code that was exported: the innermost frame outside of torch, where one was recorded.
struct SourceLine {
  std::string module = {}; ///< as named_modules() has it: "layers.0"; empty: the program's own
  std::string file = {}, function = {};
  int line = 0; ///< from 1 on; 0: not known
};

/// Memory that steps read and write.
struct ExplainedBuffer {
  enum class Place {
    Temporary, ///< of one call
    Input,
    Output,
    Constant, ///< weights and what was folded from them
    State,    ///< lives between calls
  };
  std::string name = {}; ///< may be empty
  DType dtype = DType::F32;
  /// By the symbols of Program::inputs(): "s0", "16"; "?" where it depends on data.
  std::vector<std::string> sizes = {};
  /// In the last run that was timed; -1: there was none.
  int64_t bytes = -1;
  Place place = Place::Temporary;
};

struct ExplainedStep {
  enum class Kind { Loops, Matmul, Conv, Attention, Library, Backend, Interpreter, Control, Plan };
  int number = 0; ///< in the order of the plan
  int owner = -1; ///< index of the step of control flow that runs it; -1: none
  Kind kind = Kind::Loops;
  std::string operators = {}; ///< those fused into it: "matmul: mm full add relu"
  std::string code = {};      ///< what computes it
  std::string detail = {};    ///< sizes of the last run, and what was chosen for them; empty without a timed run
  std::string refused = {};   ///< why no better kernel computes it, or why it did not fuse; empty: nothing was refused
  std::vector<SourceLine> source = {};
  int more_sources = 0;                     ///< lines that are not in `source`
  std::vector<int> reads = {}, writes = {}; ///< indices of buffers

  int64_t calls = 0;           ///< that were timed; what follows is 0 without
  double us = 0;               ///< microseconds of a call, mean; of control flow with all that it runs
  double share = 0;            ///< of the time of all steps, 0 to 1
  double bytes = 0, flops = 0; ///< of a call: what it must at least read and write, and compute
  double memory_us = 0;        ///< that moving `bytes` takes this machine at best
  double arithmetic_us = 0;    ///< that `flops` take at best; 0 where no matrix kernel computes them
  double bound_us() const { return memory_us > arithmetic_us ? memory_us : arithmetic_us; }
  /// How many times the bound it takes; 0 where there is none.
  double times_bound() const { return bound_us() > 0 ? us / bound_us() : 0; }
};

/// What the machine can do at best with the threads of the executable, measured.
struct MachineLimits {
  struct Peak {
    std::string kernels; ///< a family of matrix kernels: "f32_avx512"
    double gflops = 0;
  };
  std::string cpu = {}; ///< as it calls itself
  int threads = 1;
  double gbytes_per_s = 0;      ///< read and written by a copy of more than the caches hold; 0: not measured
  std::vector<Peak> peaks = {}; ///< of the families that steps use
};

struct Explanation {
  std::string program = {}; ///< a name for people; may be empty
  /// In the order in which they run; what control flow runs stands behind it.
  std::vector<ExplainedStep> steps = {};
  std::vector<ExplainedBuffer> buffers = {};
  int64_t runs = 0; ///< that were timed
  double us = 0;    ///< of all steps, a run
  MachineLimits machine;
  MemoryFormula memory;
  ExecutableStats stats;
  std::vector<VariantInfo> variants = {}; ///< plans besides the one that `steps` are of
  std::vector<std::string> notes = {};    ///< which kernels of the user took which nodes
};

/// A few lines for each step.
TENON_API std::string to_text(const Explanation& explanation);
/// One object: docs/explain.md has its members.
TENON_API std::string to_json(const Explanation& explanation);
/// A page for a browser, whole: it loads nothing.
TENON_API std::string to_html(const Explanation& explanation);

} // namespace tenon
