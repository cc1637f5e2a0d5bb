// Lifter: runs a script graph on what is known of its values, and writes down what is left to do (lift.h).
#pragma once
#include <map>
#include <set>
#include <unordered_map>

#include "builtins/resolve.h"
#include "executor/lift.h"
#include "executor/lift_values.h"

namespace tenon::executor {

class Lifter {
public:
  Lifter(const Graph& script, Sizes sizes) : script_(script), b_(out_.program.graph, BlockId{0}, false), sizes_(sizes) {}
  Lifted run(std::span<const IValue> args);

private:
  // ---- arguments and results (lift.cpp)
  Lift argument(const IValue& v, const std::vector<uint32_t>& path);
  Lift tensor_argument(const Tensor& t, const std::vector<uint32_t>& path);
  Lift number_argument(const IValue& v, const std::vector<uint32_t>& path);
  Expr size_symbol(int64_t size);
  Recipe recipe(const Lift& v);
  size_t output(ValueId v);
  void add_writes();

  // ---- values
  const Lift& of(ValueId v) const { return env_.at(v); }
  Lift make(V v) { return {std::make_shared<TensorState>(TensorState{.value = v.id, .depth = depth_})}; }
  static Lift number(Expr e) { return {NumberState{e}}; }
  Lift list(Lifts items) { return {std::make_shared<ListState>(ListState{.items = std::move(items), .depth = depth_})}; }
  static Lift tuple(Lifts items) { return {TupleState{std::make_shared<const Lifts>(std::move(items))}}; }
  Lift lifted(const IValue& v);                                        ///< of a constant
  std::optional<IValue> known(const Lift& v) const;                    ///< the value, where it is known now
  Expr expression(const Lift& v);                                      ///< of a number
  V value_of(const Lift& v);                                           ///< of a tensor, as it is now
  V as_tensor(const Lift& v);                                          ///< of a tensor, or of a number as one of rank 0
  Lift item(V tensor, int64_t lo = INT64_MIN, int64_t hi = INT64_MAX); ///< a number read from a tensor of one element
  const Lifts& elements(const ListP& list);                            ///< rows become slices
  [[noreturn]] void refuse(const std::string& what) const;

  // ---- nodes (lift_nodes.cpp, lift_numbers.cpp, lift_lists.cpp, lift_tensors.cpp)
  void run_block(BlockId block);
  void run_node(NodeId id);
  bool run_prim(const Node& n);
  bool run_list(const Node& n);
  bool run_number(const Node& n);
  bool run_query(const Node& n); ///< of a tensor: sizes, dtype, its one number
  void run_call(const Node& n);
  void fold(const Node& n, const Resolved& r, const Lifts& args);
  Lift passed(const Passed& p, const SchemaArg& schema, const Node& n);
  Arg arg(const SchemaArg& schema, const Lift& v);
  void call_operator(const Node& n, const Resolved& r, const Lifts& args);
  void write_result(const Node& n, const Resolved& r, const Lifts& args);
  void bind_results(const Node& n, const Resolved& r, const Lifts& args, const Values& results);
  bool stack_rows(const Node& n);
  bool writes_in_place() const;
  void bind(const Node& n, Lift v) {
    if (!n.outputs.empty()) env_[n.outputs.at(0)] = std::move(v);
  }
  Lift slice_of(const RowsState& rows, const Lift& index);

  // ---- writes to tensors
  V read(TensorState& t);
  void write(const TensorP& t, V value);

  // ---- control flow (lift_control.cpp, lift_loops.cpp)
  /// What a block changes of the values outside of it: put back at its end.
  struct Scope {
    std::map<TensorP, TensorState> written = {}; ///< as they were
    std::vector<std::pair<ListP, Lift>> appended = {};
    bool is_scan = false;
    std::vector<std::pair<ValueId, ValueId>> slices = {}; ///< of a scan: tensors that it runs over, and their slices
    Expr length = {};                                     ///< of a scan
    BlockId block = {};
  };
  void run_if(const Node& n);
  bool run_assertion(const Node& n, const Lift& condition);
  void run_loop(const Node& n);
  bool unroll(const Node& n, Lifts& carried, Lift& go_on, int64_t& done);
  void run_scan(const Node& n, Lifts& carried, Expr trip);
  void run_while(const Node& n, Lifts& carried, const Lift& go_on, Expr trip, int64_t done);
  void flatten(const Lift& v, std::vector<V>& out);
  void fix(const Lift& v);
  bool may_be_copy(const OpDef& def, const TensorP& base, const Type& result) const;
  static bool makes_row_major(const OpDef& def, const Lifts& args);
  Lift as_state(const Lift& v);
  Lift as_numbers(const Type& type, const Lift& v);
  Arg side_of(const Lift& v) const;
  Lift rebuilt(const Lift& like, std::span<const V> values, size_t& next);
  /// What an If gives, as far as it is known: by its condition, of what each branch returns, `output` makes its outputs.
  struct Merge {
    Expr condition;
    std::vector<std::pair<Arg, Arg>> sides;
    std::function<V(Type)> output;
  };
  Lift merged(const Lift& a, const Lift& b, Merge& m);
  bool is_visible(Expr e, int depth) const; ///< at that depth: not read from a tensor further inside
  std::map<TensorP, ValueId> leave(Scope& scope);
  struct Round;
  Round first_round(const Node& n, const Lifts& carried);
  void enter(const Node& n, const Round& r, std::span<const V> params);
  std::vector<V> round_results(const Node& n, const Round& r);
  bool is_complete(const Node& n, Round& r, const std::map<TensorP, ValueId>& written, NodeId id);
  void finish(const Round& r, Lifts& carried, std::span<const V> results);
  void close_scan(NodeId id, const Scope& scope, const Round& r, const std::vector<V>& results, const std::vector<V>& stacks);

  const Graph& script_;
  Lifted out_;
  Builder b_;
  Sizes sizes_;
  int depth_ = 0;
  size_t nodes_ = 0; ///< run so far
  std::unordered_map<ValueId, Lift> env_;
  std::vector<Scope*> scopes_;
  std::map<int64_t, Expr> symbols_;                  ///< equal sizes are one symbol
  std::unordered_map<const ExprNode*, int> read_at_; ///< the depth of symbols read from tensors
  std::map<ValueId, size_t> outputs_;
  std::vector<TensorP> arguments_; ///< by parameter
  std::set<size_t> viewed_;        ///< parameters that there are views of
  bool has_writes_ = false;
};

} // namespace tenon::executor
