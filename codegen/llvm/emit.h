// The emitter of one kernel: walks the loop IR once and writes LLVM IR. Private to codegen/llvm/emit*.cpp.
//
// Scopes. Every open loop, guard and statement is a Scope on a stack. The block of a scope stays open at its end until the
// scope is closed, so an expression is written where the deepest thing it depends on lives, whatever is open further in:
// loop-invariant code ends up before the loops without a pass. Branches into a loop are written when the loop is closed.
#pragma once
#include <algorithm>
#include <vector>

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include "codegen/llvm/vector_math.h"
#include "loops/kernel.h"

namespace tenon::emit {

/// A value and the scope it is available in.
struct Val {
  llvm::Value* v = nullptr;
  int scope = 0;
};

/// What a memoised value is of: `what` is an ExprNode or an llvm::Value, `view` tells which of its forms.
using Key = std::pair<const void*, unsigned>;
inline constexpr unsigned view_value = 0, view_base = 1, view_scale = 2, view_reciprocal = 3, view_splat = 1000, view_pointer = 1u << 20;

struct Scope {
  enum Kind : uint8_t {
    Enter, // runs once before a loop, where the loop runs at all
    Body,  // one iteration of a loop
    Guard, // a branch of a Select: loads and checks obey its condition
    Statement,
  };
  Kind kind;
  int owner;                                        // the scope whose block this one writes to: itself, or one further out
  llvm::BasicBlock* block = nullptr;                // of the owner
  llvm::Value *uniform = nullptr, *lanes = nullptr; // Guard: both must hold; scalar and per lane, null is true
  llvm::SmallVector<Key, 8> added = {};             // memoised values that end with the scope
};

/// How an expression moves with the vector axis.
struct Motion {
  enum Kind : uint8_t { Uniform, Constant, Linear, Other } kind = Uniform;
  int64_t step = 0; // Constant: per lane; Linear: a scalar expression per lane
};

/// The open loop that runs lane by lane.
struct VectorAxis {
  const ExprNode* axis = nullptr; // null: none is open
  unsigned width = 1;
  Val base = {};       // the axis in lane 0
  Val mask = {};       // active lanes; null: all
  unsigned factor = 1; // divides `base`: a power of two
  Val left = {};       // with a mask: how many lanes are active, the first ones
};

/// A tile of the open vector loop and the loop around it.
struct OpenTile {
  using Vectors = llvm::SmallVector<llvm::Value*, 16>; // by the position along the outer axis
  const ExprNode* axis = nullptr;                      // of the outer loop; null: none is open
  unsigned count = 1, now = 0;                         // positions, and the one being written
  llvm::DenseMap<const ExprNode*, Vectors> loads;
  llvm::DenseMap<const Store*, Vectors> stores; // values to be stored
};

/// A way through a loop: `width` values at once, from `begin` to `end`.
struct Piece {
  unsigned width;
  bool masked, once, guarded; // guarded: may have nothing to do
  llvm::Value *begin, *end;
};

struct AccumulatorState {
  unsigned width;
  llvm::Value *value, *position; // position: ArgMax and ArgMin
};
struct OpenAccumulator {
  Accumulator what;
  bool per_lane; // the region runs once for each lane of an open loop
  llvm::SmallVector<AccumulatorState, 2> states;
};
using StateKey = std::pair<int, unsigned>; // register, width
using StateKeys = llvm::SmallVector<StateKey, 4>;
using StateValues = llvm::SmallVector<AccumulatorState, 4>;

/// Stable, for the handful of terms of a sum.
template <class T, class Less> void sort_few(llvm::SmallVectorImpl<T>& v, Less less) {
  for (auto it = v.begin(); it != v.end(); ++it) std::rotate(std::upper_bound(v.begin(), it, *it, less), it, it + 1);
}

class KernelEmitter {
public:
  KernelEmitter(const Kernel& kernel, llvm::Module& module, const Target& target, const std::string& name);
  void run();

private:
  // emit.cpp: the function, scopes, statements
  void load_arguments();
  int push(Scope::Kind kind, llvm::BasicBlock* block);
  void pop();
  int top() const { return static_cast<int>(scopes_.size()) - 1; }
  int place(int scope) const;
  int at(int scope);
  void done(int scope);
  Val remember(Key key, Val v);
  const Val* recall(Key key) const;
  void statements(const std::vector<Stmt>& body);
  void statement(const Stmt& s);
  void store(const Store& s);

  // emit_loop.cpp
  struct Widths {
    unsigned lanes, native, masked;
  };
  void loop(const Loop& l);
  llvm::SmallVector<Piece, 4> pieces(const Loop& l, llvm::Value* extent);
  llvm::SmallVector<Piece, 4> constant_pieces(const Loop& l, int64_t extent);
  void run(const Loop& l, llvm::ArrayRef<Piece> pieces);
  void rolled(const Loop& l, const Piece& p);
  void once(const Loop& l, const Piece& p);
  void run_body(const Loop& l, const Piece& p, llvm::Value* base);
  void close_branch(const Piece& p, llvm::BasicBlock* body, llvm::BasicBlock* exit);
  llvm::SmallVector<unsigned, 4> widths(const Loop& l);
  bool unrolls(const Loop& l) const;
  size_t weight(const std::vector<Stmt>& body) const;
  Widths loop_widths(const Loop& l);
  void parallel_loop();

  // emit_reduce.cpp
  void region(const ReduceRegion& r);
  void accumulate(const Accumulate& a);
  AccumulatorState& state(StateKey key);
  AccumulatorState identity(const Accumulator& a, unsigned width);
  AccumulatorState combine(const Accumulator& a, const AccumulatorState& x, const AccumulatorState& y, bool ordered);
  llvm::Value* combine_values(const Accumulator& a, llvm::Value* x, llvm::Value* y);
  AccumulatorState halve(const Accumulator& a, const AccumulatorState& s);
  Val result(const OpenAccumulator& a);
  void modified(const std::vector<Stmt>& body, unsigned width, StateKeys& out);
  void modified(const Loop& l, unsigned width, StateKeys& out);
  StateValues states(const StateKeys& keys);
  StateValues open_phis(const StateKeys& keys, llvm::BasicBlock* at);
  void add_incoming(const StateValues& phis, const StateValues& values, llvm::BasicBlock* from);
  StateKeys long_sums(const StateKeys& keys) const;
  int64_t steps_of(const std::vector<Stmt>& body) const;
  bool may_sum_long(const std::vector<Stmt>& body) const;
  int64_t block_of(const Loop& l, const Piece& p);
  void sum_in_blocks(const Loop& l, const Piece& p, int64_t steps);
  void add_blocks(const StateKeys& keys);
  Val converted(Val v, llvm::Type* element);
  Val sum_of_blocks(Val rest, Val blocks);
  void merge(const StateKeys& keys, const StateValues& before, llvm::BasicBlock* skipped, llvm::BasicBlock* ran, llvm::BasicBlock* exit);

  // emit_tile.cpp
  using Vectors = OpenTile::Vectors;
  void tiles(const Loop& l);
  template <class F> void steps(Val end, unsigned step, const F& body);
  void tile(const Loop& l, const Loop& in, Val other, Val base, unsigned factor);
  bool turns(Expr offset);
  void load_turned(const ExprNode& n);
  void store_turned(const Store& s);
  void turn(const Turn& t);
  llvm::Value* pick(llvm::ArrayRef<llvm::Value*> from, llvm::function_ref<unsigned(unsigned)> element);

  // emit_expr.cpp
  Val value(Expr e);
  Val base(Expr e);   // of lane 0, a scalar; the expression must move by steps
  Val stride(Expr e); // per lane, of a Linear or Constant one
  Val sum_or_product(const ExprNode& n, bool of_base);
  Val leaf(const ExprNode& n);
  Val moving_index(const ExprNode& n, Motion m);
  Val compare_moving(const ExprNode& n);
  Val cast_moving(const ExprNode& n);
  Val operation(const ExprNode& n);
  Val quotient_of_sum(const ExprNode& n);
  Val quotient_by_reduced(const ExprNode& n);
  Val select(const ExprNode& n);
  Val guarded(Expr branch, Val condition, bool sense, int scope);
  Val checked(const ExprNode& n);
  Val widened(Val v, unsigned width);
  Motion motion(const ExprNode& n);
  Motion motion_of(const ExprNode& n);
  Motion motion_of_division(const ExprNode& n);
  int64_t known_factor(const ExprNode& n) const;
  int scope_of(const ExprNode& n) const;
  uint8_t traits(const ExprNode& n);
  bool needs_guard(Expr condition, Expr branch);
  int guard_scope() const;
  llvm::Value* lane_numbers(llvm::Type* element, int64_t step, unsigned width);

  // emit_memory.cpp
  struct Mask {
    llvm::Value *uniform = nullptr, *lanes = nullptr;
    int scope = 0;
  };
  struct Terms {
    llvm::SmallVector<Expr, 4> uniform, moving;
  };
  Mask mask();
  llvm::Value* lanes_of(const Mask& m); // both parts as one, null for all
  Val buffer_pointer(int buffer);
  Val pointer(int buffer, Expr offset);
  Val add_offsets(int buffer, Val p, llvm::ArrayRef<Expr> terms, bool of_base);
  std::pair<Val, Val> lane_places(int buffer, Expr offset);
  Val lane_pointers(int buffer, Expr offset);
  Val load(const ExprNode& n);
  llvm::Value* load_scalar(int buffer, llvm::Value* p, const Mask& m);
  llvm::Value* load_contiguous(int buffer, llvm::Value* p, const Mask& m);
  llvm::Value* load_pieces(int buffer, llvm::Value* p, llvm::FixedVectorType* type, llvm::Value* mask);
  llvm::Value* load_spread(int buffer, llvm::Value* first, int64_t step, const Mask& m);
  llvm::Value* safe_pointer(llvm::Value* p, llvm::Value* condition);
  llvm::Value* from_memory(DType type, llvm::Value* v);
  llvm::Value* to_memory(DType type, llvm::Value* v);
  // Inputs are not written while a kernel runs.
  template <class T> T* mark(int buffer, T* load) {
    if (kernel_.buffers[static_cast<size_t>(buffer)].kind == BufferKind::Input)
      load->setMetadata(llvm::LLVMContext::MD_invariant_load, empty_);
    return load;
  }
  void store_first(llvm::Value* x, llvm::Value* p);
  void store_value(int buffer, Expr offset, Val v);
  bool streams(int buffer, Expr offset, llvm::Type* type) const;

  // emit_fetch.cpp
  Val row_distance(Expr offset);
  void fetch_next_row(int buffer, Expr offset, Val p, bool written);
  void fetch_read(const ExprNode& load, Val p);
  void fetch_written(int buffer, Expr offset, Val p);

  // emit_gather.cpp
  struct Nearness {
    llvm::Value *first, *ahead, *span, *near;
  };
  llvm::Value* gather(int buffer, llvm::Value* pointers, const Mask& m);
  bool may_be_near(int buffer, Expr offset, const Mask& m);
  Nearness nearness(Val index, unsigned part);
  llvm::Value* load_near(int buffer, llvm::Value* base, const Nearness& n);
  Val gather_near(int buffer, Val base, Val index);

  llvm::Type* vector_of(llvm::Type* element, unsigned width) { return width > 1 ? llvm::FixedVectorType::get(element, width) : element; }
  vmath::Emitter math() { return {b_, target_, kernel_.flushes_denormals}; }
  llvm::BasicBlock* new_block(const char* name) { return llvm::BasicBlock::Create(context_, name, function_); }
  llvm::BasicBlock*& block() { return scopes_[static_cast<size_t>(scopes_.back().owner)].block; }

  const Kernel& kernel_;
  llvm::Module& module_;
  llvm::LLVMContext& context_;
  const Target& target_;
  llvm::IRBuilder<> b_;
  llvm::Function* function_;
  llvm::MDNode* empty_;
  llvm::GlobalVariable* zeros_ = nullptr;

  std::vector<Scope> scopes_;
  llvm::DenseMap<Key, Val> memo_;
  llvm::DenseMap<int, Val> registers_;
  llvm::DenseMap<int, Val> exact_;            // F32 sums among them, in F64
  llvm::DenseMap<const ExprNode*, Val> axes_; // open scalar loops
  llvm::DenseMap<int, OpenAccumulator> open_;
  VectorAxis vector_;
  OpenTile tile_;
  const Loop* untiled_ = nullptr;                  // a loop of tiles that is being written without them
  llvm::DenseMap<const ExprNode*, Motion> motion_; // while vector_ is open
  llvm::DenseMap<const ExprNode*, uint8_t> traits_;
  llvm::DenseMap<const Loop*, Widths> widths_;
  std::vector<llvm::Value*> buffers_;
  std::vector<Val> scratch_;
  bool streams_ = false; // there are stores past the caches
  struct Passes {
    unsigned first, second;
  };
  unsigned pass_ = 0;                              // the statement of the outermost loop's body
  llvm::DenseMap<const ExprNode*, Passes> passes_; // that load contiguously
  unsigned unrolled_ = 1;                          // product of the counts of open unrolled loops
};

} // namespace tenon::emit
