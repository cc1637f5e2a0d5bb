// The state of emit_steps: buffers of values, slots of sizes, the list that steps go to.
#pragma once
#include <unordered_set>

#include "compile/emit_steps.h"
#include "compile/slots.h"

namespace tenon {

class StepEmitter {
public:
  StepEmitter(const LoadedProgram& program, const std::vector<LoweredRegion>& regions, const SelectedKernels& selected,
              const Options& options, EmittedPlan& out);
  void run();

private:
  // Signature
  void add_inputs();
  void solve_sizes();
  bool solve_size(Expr size, InputDim& dim);
  InputSpec input_spec(const ProgramInput& in, bool is_fixed);
  void add_outputs();
  void note_sizes_in_code();
  void add_mutation(const ProgramOutput& spec, ValueId now);

  // Buffers
  int buffer_of(ValueId v);
  int buffer_or_scratch(ValueId v) { return v.valid() ? buffer_of(v) : -1; }
  int new_buffer(const Type& type, BufferPlace place, const std::string& name);
  std::vector<Slot> slots_of(const std::vector<Expr>& sizes);
  std::vector<Slot> scalars_of(const KernelUse& use);
  Slot slot(Expr e) {
    Slot s = slots_.of(e);
    waits_for_ = std::max(waits_for_, slots_.stage_of(s));
    return s;
  }
  /// Of sizes, and of what the program relies on: SlotTable::exactly.
  Slot exact_slot(Expr e) {
    Slot s = slots_.exactly(e);
    waits_for_ = std::max(waits_for_, slots_.stage_of(s));
    return s;
  }
  void define_part(ValueId v, const JoinedPart& part);
  bool define_in_place(NodeId id);
  int unviewed(int buffer) const;
  void define(ValueId v); // the value's buffer is written by the step appended next
  int define(const Type& type, const std::string& name);
  void define_result(NodeId id, const RegionKernel& kernel);
  void count_uses();
  bool dies_here(ValueId input, ValueId output);
  int scalar_buffer(const Arg& a);

  // Steps: each appends to the current list
  Step& append(NodeId id, decltype(Step::run) run);
  void build_block(BlockId block);
  void build_node(NodeId id);
  void build_library(NodeId id);
  int number_of(LibraryFn step);
  void build_collective(NodeId id);
  void build_wait(NodeId id);
  NodeId wait_of(NodeId id) const;
  void build_delegate(NodeId id);
  void build_item(NodeId id);
  void build_assert(NodeId id);
  void build_print(NodeId id);

  // Regions
  struct Region {
    const LoweredRegion& lowered;
    const SelectedRegion& selected;
  };
  Region region_of(NodeId id) const;
  void build_loops(NodeId id);
  void append_kernel(NodeId id, const RegionKernel& kernel, const KernelUse& use, const std::vector<int>& temporaries);
  void build_matmul(NodeId id);
  void build_conv(NodeId id);
  void build_attention(NodeId id);
  AttentionStep::Operand attention_operand(const AttentionOperand& operand);
  void build_fallback(NodeId id);
  void fill_tile(const RegionKernel& kernel, const KernelUse& use, TileKernel& to);
  TileKernel build_epilogue(NodeId id);
  std::vector<int> beside_of(NodeId id, const RegionKernel& kernel);

  // Control flow
  void copy_to(const Arg& from, int to);
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

  const LoadedProgram& program_;
  const Graph& g_;
  const std::vector<LoweredRegion>& regions_;
  const SelectedKernels& selected_;
  const Options& options_;
  EmittedPlan& out_;
  Plan& plan_;
  SlotTable slots_;
  std::unordered_map<NodeId, size_t> region_numbers_;
  std::unordered_map<ValueId, int> buffers_;
  std::unordered_map<ValueId, int> uses_; // how often the nodes and the results of the program name a value
  JoinedParts parts_;
  std::unordered_map<int, int> views_;             // buffers that are all of another one
  std::unordered_map<ValueId, int> bound_;         // results of loop bodies whose place is known before they are made
  std::unordered_set<const ExprNode*> in_code_;    // symbols that kernels get
  std::unordered_map<ValueId, WaitStep> requests_; // of results that a wait is to come for
  BlockId block_ = {};                             // that is being built
  std::vector<Step>* steps_ = nullptr;
  int scans_ = 0;            // depth of scans around the step being built
  int conditional_ = 0;      // depth of branches and loop bodies around the step being built
  int now_ = 0;              // number of the step being built
  int waits_for_ = 0;        // the last stage of the sizes that the node being built asked for
  std::vector<int> dynamic_; // to be allocated before the next step
};

} // namespace tenon
