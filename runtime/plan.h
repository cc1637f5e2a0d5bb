// The plan: what remains after compiling. Buffers, and a flat list of steps over them; steps of control flow own lists of
// their own. Plain data: code and packed weights have numbers, which a LinkedPlan gives addresses. It knows no graph.
#pragma once
#include <string>
#include <variant>
#include <vector>

#include "runtime/attention.h"
#include "runtime/conv.h"
#include "runtime/matmul.h"
#include "runtime/size_program.h"
#include "tenon/tensor.h"

namespace tenon {

using Slot = int32_t; // of the size program

enum class BufferPlace : uint8_t {
  Arena,    // planned memory, from its first to its last step
  Input,    // the caller's
  Output,   // fresh, given to the caller
  Constant, // held by the plan
  State,    // held by the executable, lives between calls
  Alias,    // a pointer that a step of control flow sets
  Dynamic,  // allocated while running: its size depends on data
  Part,     // memory of another buffer
};

struct PlanBuffer {
  std::string name = {};
  DType dtype = DType::F32;
  std::vector<Slot> sizes = {};
  BufferPlace place = BufferPlace::Arena;
  int index = 0;               // of the input, output, constant or state; of the buffer that a part lies in, which comes before it
  Slot offset = -1;            // Part: in bytes
  Slot bytes = -1;             // Arena, Output
  bool is_conditional = false; // made in a branch, which may not be taken
  int first = 0, last = 0;     // steps, in linear order, between which an arena buffer lives
};

struct KernelStep {
  std::vector<int> buffers; // -1: scratch
  std::vector<Slot> scalars;
  Slot iterations = -1, scratch_bytes = -1; // scratch: per worker, -1 for none
  Slot iteration_elements = -1;             // elements of one iteration
  Slot elements = -1;                       // of all that is written; with none there is nothing to do. -1: a number
  double element_ns = 0.1;                  // rough cost, for the size of parallel chunks
  int operations = 0;                       // per element, for reports
  int kernel = -1;                          // number of the compiled kernel
  std::vector<int> written = {};            // of the buffers
};

/// Epilogue of a contraction: a kernel that takes a tile of sums as its first buffer, and where the tile lies as its last
/// scalars.
struct TileKernel {
  std::vector<int> buffers; // the first is the tile
  std::vector<Slot> scalars;
  int kernel = -1; // -1: none
  std::vector<int> written = {};
  std::vector<int> beside; // buffers that lie as the contraction's result and are read or written where its tiles are
  bool operator==(const TileKernel&) const = default;
};

struct MatmulStep {
  int a = 0, b = -1, c = 0; // b: -1 where it is packed; c: -1 where the epilogue alone takes the sums
  DType a_type = DType::F32, b_type = DType::F32;
  Slot batch[2], m, n, k;
  Slot a_offset, a_row, a_k, a_batch[2]; // offsets: -1 for none
  Slot b_offset, b_k, b_n, b_batch[2];
  Slot c_row, c_batch[2];
  int family = -1;       // of micro-kernels
  int panel_vectors = 0; // of packed B; 0: as the sizes say
  int packed = -1;       // number of B's packed form; -1: it is not packed ahead of time
  int later = -1;        // number of the packed form that b, where it is stored, gives way to while calls go on; -1: it stays. Not in files
  int later_family = -1; // of micro-kernels
  int number = 0;        // of the frame's plans for products
  bool repeated = false; // in a scan
  TileKernel epilogue;
  bool operator==(const MatmulStep&) const = default;
};

struct ConvStep {
  int input = 0, output = 0; // output: -1 where the epilogue alone takes the sums
  Slot batch, in[3], out[3];
  Slot in_pixel, in_batch, out_pixel, out_batch; // strides
  int weight = -1;                               // a buffer; -1: the weights are packed
  int packed = -1;                               // number of the packed weights
  int packed_windows = -1;                       // and of those that serve where sizes do not suit Winograd
  Conv shape;                                    // types, channels, groups, kernel, stride, padding, dilation; without pointers
  int number = 0;                                // of the frame's plans for convolutions
  TileKernel epilogue;
  bool operator==(const ConvStep&) const = default;
};

struct AttentionStep {
  struct Operand {
    int buffer;
    Slot offset, batch[AttentionCall::most_digits], row, column;
    bool operator==(const Operand&) const = default;
  };
  Slot digits[AttentionCall::most_digits], rows, keys, depth, columns;
  Operand q, k, v;
  Slot upper = -1, lower = -1; // -1: no bound
  int64_t block_keys = 0;
  TileKernel score, finish; // buffers -1: rows of the tile, in the order of loops/from_attention.h
  bool operator==(const AttentionStep&) const = default;
};

struct LibraryStepCall {
  int function = -1; // number of the library step
  std::vector<int> inputs, outputs;
  std::vector<Slot> ints;
  std::vector<double> numbers;
  std::vector<std::string> texts;
  bool is_random = false; // each run of the step draws by a seed of its own
};

/// Begins a collective operation (runtime/collectives.h).
struct CollectiveStep {
  int function = -1; // number of the library step
  int input = -1, output = -1;
  std::vector<Slot> ints;
  std::vector<std::string> texts;
  int request = 0;   // number among the frame's
  bool waits = true; // the result is there when the step is done
};

/// The end of one.
struct WaitStep {
  int request = 0;
  int input = -1, output = -1; // in use until now
  std::string group;
};

/// Runs a node in the interpreter; outputs are in their buffers afterwards.
struct FallbackStep {
  int number = 0;
  std::vector<int> buffers = {}; // that the node reads and writes
  std::vector<int> written = {};
};

/// Writes to standard output: texts, and after each but the last the number of a slot.
struct PrintStep {
  struct Number {
    Slot slot;
    bool is_float;
  };
  std::vector<std::string> texts;
  std::vector<Number> numbers;
};

/// A sub-graph that a backend of the user runs.
struct DelegateStep {
  std::string backend;
  std::string operators; // that it stands for, for messages
  int bytes = -1;        // number of the constant that the backend made
  std::vector<int> inputs, outputs;
  std::vector<Slot> sizes; // of symbols that no operand has as a size
  int number = 0;          // among the plan's delegates
};

struct Step;

struct IfStep {
  int condition = -1; // Bool buffer, or
  Slot condition_slot = -1;
  std::vector<Step> branches[2];
};

struct CopyStep { // the whole buffer
  int from, to;
};

struct WhileStep {
  std::vector<Step> condition, body; // body ends with copies to the carried buffers
  int flag = -1;                     // Bool buffer that `condition` writes
  Slot flag_slot = -1;
};

struct ScanStep {
  struct Slice {
    int slice, whole; // the Alias buffer, and what it is a slice of along dim 0
    Slot stride;      // bytes
  };
  /// A value that a step hands to the next: in `next` it makes what the one after finds in `now`, Alias buffers both. It is a slice
  /// of a result, or lies in `last` and `spare` in turn.
  struct Carried {
    int now, next;
    int first, last;              // what the first step finds; where the last step's goes
    int spare = -1, stacked = -1; // a buffer; or the number of the slice
  };
  Slot steps;
  bool reverse = false;
  std::vector<Slice> slices;
  std::vector<Carried> carried;
  std::vector<Step> body;
};

/// Reads a 0-d buffer into a slot.
struct ItemStep {
  int buffer;
  Slot slot;
  bool is_float;
};

/// Writes the value of a slot to a 0-d buffer.
struct ScalarStep {
  Slot slot;
  int buffer;
  bool is_float;
};

struct AssertStep {
  Slot condition;
  std::string message;
  std::vector<std::pair<std::string, Slot>> values = {}; // sizes in the condition, for the message
};

struct Step {
  std::variant<KernelStep, MatmulStep, ConvStep, AttentionStep, LibraryStepCall, FallbackStep, IfStep, CopyStep, WhileStep, ScanStep,
               ItemStep, ScalarStep, AssertStep, PrintStep, DelegateStep, CollectiveStep, WaitStep>
      run;
  int binds = 0;                 // the size stage to run afterwards, 0: none
  std::vector<int> dynamic = {}; // buffers to allocate before the step (sizes known by now)
  std::string what = {};         // for explain: the operators
  std::string source = {};       // the source line
  std::string refused = {};      // for explain: why no better kernel computes it
  int number = 0;                // in linear order; steps owned by control flow come before it
  int waits_for = 0;             // the last stage of sizes that its own wait for; 0: they are known when inputs are bound
};

/// Calls f on every step, those that control flow owns behind it.
template <class Steps, class F> void for_each_step(Steps& steps, const F& f) {
  for (auto& s : steps) {
    f(s);
    if (auto* i = std::get_if<IfStep>(&s.run)) for_each_step(i->branches[0], f), for_each_step(i->branches[1], f);
    if (auto* w = std::get_if<WhileStep>(&s.run)) for_each_step(w->condition, f), for_each_step(w->body, f);
    if (auto* c = std::get_if<ScanStep>(&s.run)) for_each_step(c->body, f);
  }
}

/// A dimension of an input: what it binds, or must equal.
struct InputDim {
  enum class Kind : uint8_t { Bind, Equal } kind = Kind::Equal;
  Slot slot = -1;
  Slot equal = -1;                // what the size must be, where it is an expression
  int64_t lo = 0, hi = INT64_MAX; // Bind
  std::string text = {};          // "s77", "s77*2"
  bool in_code = false;           // generated code computes with it, and not only with how many iterations there are
};

struct InputSpec {
  std::string name = {};
  DType dtype = DType::F32;
  std::vector<InputDim> dims = {};
  int buffer = -1;
  bool is_number = false;
  Slot number_slot = -1; // a number binds this slot
  bool is_fixed = false; // a number fixed at export
  double fixed = 0;
};

struct OutputSpec {
  int buffer;
  std::vector<Slot> sizes = {}; // as the caller sees them
  std::vector<int> order = {};  // dims in the order of memory, outermost first; empty: row-major
  DType dtype;
  bool is_state = false; // written back to the state buffer `state` instead of being returned
  int state = -1;
  int input = -1;       // written back to the caller's input of that number
  int returned_as = -1; // the position among the caller's outputs
};

struct Plan {
  std::vector<PlanBuffer> buffers;
  std::vector<Step> steps;
  SizeProgram sizes;
  std::vector<InputSpec> inputs;
  std::vector<OutputSpec> outputs;
  std::vector<Tensor> constants;
  std::vector<Tensor> initial_state;
  std::vector<std::string> state_names;
  std::vector<std::string> kernels; // names of the compiled kernels, by their numbers
  std::vector<std::string> library; // names of the library steps (runtime/library_names.h); empty: of a custom operator
  std::vector<std::string> notes;   // for explain: which kernels of users took which nodes
  int num_steps = 0, fallback_steps = 0, num_matmuls = 0, num_convs = 0, num_delegates = 0, num_requests = 0;
  Caches caches;
  uint64_t seed = 0;
};

/// The slots that binding inputs or running steps writes; the others keep their initial values.
std::vector<bool> written_slots(const Plan& plan);
std::string to_string(const Plan& plan);

} // namespace tenon
