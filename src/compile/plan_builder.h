// The state of build_plan: buffers of values, slots of sizes, kernels by their text.
#pragma once
#include <map>

#include "backend/attention.h"
#include "backend/contract.h"
#include "compile/build_plan.h"
#include "compile/pack_weights.h"
#include "compile/slots.h"
#include "loops/from_region.h"

namespace tenon {

struct CompiledKernel;

class PlanBuilder {
public:
  PlanBuilder(LoadedProgram& program, const Options& options, LargeMemory packed, Jit& jit, Compiled& out, LinkedPlan& linked,
              const LinkedPlan* shared);
  void run(Keep keep);

private:
  // Signature
  void add_inputs();
  void solve_sizes();
  bool solve_size(Expr size, InputDim& dim);
  InputSpec input_spec(const ProgramInput& in, bool is_fixed);
  void add_outputs();
  void add_mutation(const ProgramOutput& spec, ValueId now);

  // Buffers
  int buffer_of(ValueId v);
  int new_buffer(const Type& type, BufferPlace place, const std::string& name);
  std::vector<Slot> slots_of(const std::vector<Expr>& sizes);
  void use(int buffer);
  Slot slot(Expr e) {
    Slot s = slots_.of(e);
    waits_for_ = std::max(waits_for_, slots_.stage_of(s));
    return s;
  }

  // Steps: each appends to the current list
  void build_block(BlockId block);
  void build_node(NodeId id);
  void build_loops(NodeId id);
  void append_kernel(NodeId id, const RegionKernel& kernel, const std::vector<int>& temporaries);
  void build_matmul(NodeId id);
  void build_conv(NodeId id);
  void build_attention(NodeId id);
  AttentionStep::Operand attention_operand(const AttentionOperand& operand);
  void build_library(NodeId id);
  int number_of(LibraryFn step);
  void count_uses();
  bool dies_here(ValueId input, ValueId output);
  void build_fallback(NodeId id);
  void build_if(NodeId id);
  struct BranchSize {
    Expr values[2];
    int stage, buffer;
    Slot slot;
  };
  std::vector<BranchSize> branch_sizes(NodeId id);
  void build_while(NodeId id);
  void build_scan(NodeId id);
  std::vector<int> scan_results(NodeId id, ScanStep& s, Expr steps);
  int add_slice(ScanStep& s, const Type& slice, const Type& type, int whole, Expr steps);
  void check_sizes(Expr fits);
  void build_item(NodeId id);
  void build_assert(NodeId id);
  void build_print(NodeId id);
  Step& append(NodeId id, decltype(Step::run) run);
  void note_parts();
  void define_part(ValueId v, ValueId whole, Expr offset);
  void define(ValueId v); // the value's buffer is written by the step appended next
  int define(const Type& type, const std::string& name);
  int scalar_buffer(const Arg& a);
  void copy_to(const Arg& from, int to);
  void define_result(NodeId id, const RegionKernel& kernel);
  std::vector<int> beside_of(NodeId id, const RegionKernel& kernel);
  TileKernel build_epilogue(NodeId id);

  // Kernels
  enum class Heat : uint8_t { Cold, Unknown, Hot, Tile }; // how long a kernel runs; Tile: an epilogue
  int add_kernel(const Kernel& kernel, Heat heat, std::vector<Slot>& scalars);
  Heat heat_of(Expr elements, int weight) const;
  void share_kernels();
  std::vector<CompiledKernel> compile_kernels(Keep keep, const Together& together);
  void link_kernels(const std::vector<CompiledKernel>& compiled);
  int pack_constant(const Tensor& weights, const MatmulOperand& b, int64_t slices, Matmul& shape);
  void pack_constant(const Tensor& weights, const Type& out, ConvStep& step);
  void pack_weights(const Together& together);
  void share_constants();

  LoadedProgram& program_;
  const Graph& g_;
  Options options_;
  Jit& jit_;
  Compiled& out_;
  LinkedPlan& linked_;
  const LinkedPlan* shared_; // another plan of the program, or null
  Plan& plan_;
  SlotTable slots_;
  Workers packers_;
  int vector_bytes_ = 64;
  int64_t streamed_bytes_ = INT64_MAX; // results that would push all else out of the caches
  std::unordered_map<ValueId, int> buffers_;
  SideTable<ValueId, int> uses_{0}; // how often the nodes and the results of the program name a value
  struct Part {
    ValueId whole;
    Expr offset; // elements
  };
  std::unordered_map<ValueId, Part> parts_; // values that lie in the memory of one they are joined to
  std::unordered_map<ValueId, int> bound_;  // results of loop bodies whose place is known before they are made
  std::vector<Step>* steps_ = nullptr;
  int scans_ = 0;                      // depth of scans around the step being built
  int conditional_ = 0;                // depth of branches and loop bodies around the step being built
  int now_ = 0;                        // number of the step being built
  int waits_for_ = 0;                  // the last stage of the sizes that the node being built asked for
  std::vector<int> dynamic_;           // to be allocated before the next step
  std::map<std::string, int> kernels_; // text -> number
  std::vector<Heat> heat_;             // of the kernels
  PackRequests weights_;
};

} // namespace tenon
