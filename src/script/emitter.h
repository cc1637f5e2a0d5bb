// From the syntax tree to the graph, in SSA as it goes: a branch or loop body has a frame of variables, and what it changed becomes outputs
// of its node. `break`, `continue` and `return` are variables too ("$break:3"): behind a statement that may have left, the rest of a block
// stands in a prim::If on them; so the graph has no jumps. Calls of functions and methods are inlined.
#pragma once
#include <deque>
#include <set>
#include <span>

#include "ops/call_names.h"
#include "ops/names.h"
#include "script/evaluator.h"
#include "script/program.h"
#include "script/values.h"

namespace tenon::script {

/// How a block ends.
enum class Flow : uint8_t {
  Falls,  ///< behind its last statement
  Exits,  ///< by return, break or continue, on all paths
  Maybe,  ///< on some; the flags say which
  Throws, ///< never
};

struct Variable {
  Sugared value;
  std::optional<Type> narrow = {};     // its type on the paths that go on, where others have left with a wider one
  std::optional<ValueId> refined = {}; // what it is a refinement of
};

struct Frame {
  Frame* parent = nullptr;
  BlockId block;
  bool transparent = false; // its statements belong to the block around it
  bool boundary = false;    // flags of exits outside of it are not set: a function or a loop begins here
  std::map<std::string, Variable> vars = {};
  std::map<std::string, std::string> errors = {}; // why a name is not defined
};

struct Named {
  Range range;
  ValueId value;
  std::string name = {}; // of a keyword argument
};
using NamedValues = std::vector<Named>;

/// What is known of variables where a condition holds, and where it does not.
using Refinements = std::map<std::string, Type>;
struct Condition {
  ValueId value;
  Refinements when_true = {}, when_false = {};
  std::optional<bool> known = {};
};

/// A function being inlined.
struct Activation {
  FunctionRef fn;
  std::string prefix; // of the names of its variables: "3:"
  std::optional<Type> declared = {}, merged = {};
  std::vector<int> loops = {}; // ids of the loops around; 0: an unrolled one
};

struct CallArgs {
  std::vector<std::pair<Range, Sugared>> positional;
  std::vector<std::pair<std::string, std::pair<Range, Sugared>>> keywords;
};

/// A default as a value that a caller passes. Throws Error(BadInput) for lists and dicts, which calls would share.
IValue default_ivalue(const Constant& c, Range at, const Type& wanted);

class Emitter {
public:
  Emitter(Graph& graph, std::vector<std::string>& weights) : g(graph), weights(weights) {}

  /// The entry's parameters become the graph's, its body the top block. Returns the parameters.
  std::vector<ScriptParam> emit_entry(const FunctionRef& fn);
  /// A call appended to a block of a graph that exists; gives its result.
  ValueId emit_into(BlockId block, const FunctionRef& fn, std::span<const ValueId> args);

private:
  using Rest = std::function<Flow()>;

  // emitter.cpp: nodes, constants, frames.
  NodeId node(Range at, OpId op, ArgList args, std::vector<Type> types);
  ValueId one(Range at, OpId op, ArgList args, Type type) { return g.node(node(at, op, std::move(args), {std::move(type)})).outputs[0]; }
  ValueId constant(Range at, Arg value, Type type);
  ValueId none(Range at) { return constant(at, {}, Type::simple(TypeKind::None)); }
  ValueId integer(Range at, int64_t v) { return constant(at, v, Type::simple(TypeKind::Int)); }
  ValueId boolean(Range at, bool v) { return constant(at, v, Type::simple(TypeKind::Bool)); }
  ValueId text(Range at, std::string v) { return constant(at, std::move(v), Type::simple(TypeKind::String)); }
  ValueId uninitialized(Range at, const Type& type) { return one(at, prim::Uninitialized, {}, type); }
  ValueId cast(Range at, ValueId v, const Type& type);
  std::shared_ptr<const Origin> origin(Range at);
  const Type& type(ValueId v) const { return g.type(v); }
  bool is_empty_literal(ValueId v) const;
  std::string repr(ValueId v) const; // its type as messages have it
  template <class F> void within(BlockId block, Frame& frame, const F& f);

  // environment.cpp
  std::string key(const std::string& name) const { return stack.back().prefix + name; }
  Variable* lookup(const std::string& key, Frame* from);
  Variable* lookup_flag(const std::string& key, Frame* from);
  const std::string* lookup_error(const std::string& key);
  Frame* outer_scope(Frame* f);
  void assign_value(Range at, const std::string& name, Sugared value, const std::optional<Type>& annotated = {});
  void assign_key(Range at, const std::string& name, const std::string& key, Sugared value, const std::optional<Type>& annotated);
  void set_flag(Range at, const std::string& flag);
  std::optional<ValueId> simple(const Sugared& s) const;
  void refine(Range at, const Refinements& r);
  std::string flag(const char* kind, int loop = 0) const;
  Sugared global_of(Range at, const std::string& name, const Scope& scope);
  Sugared named(const Exp& e, const std::string& name);
  Sugared of_path(Range at, const std::string& path);
  Sugared of_constant(Range at, const Constant& c);

  // constants.cpp: what __init__ left, as values.
  ValueId emit_constant(Range at, const Constant& c);
  ValueId emit_tensor(Range at, const TensorConstant& t);
  ValueId emit_deferred(Range at, const Deferred& d);
  Sugared attribute(Range at, const InstanceP& self, const std::string& name);
  template <class F> ValueId at_top(const F& f);
  void register_mutable_attributes(const InstanceP& self);

  // emit_statement.cpp
  Flow statements(std::span<const std::shared_ptr<const Statement>> list);
  Flow statement(const Statement& s);
  Flow go_on(Flow so_far, Range at, const Rest& rest);
  Flow emit_return(Range at, const Return& r);
  Flow emit_raise(Range at, const Raise& r);
  Flow emit_assert(Range at, const Assert& a);
  Flow emit_break(Range at, bool is_break);

  // emit_if.cpp
  struct Branch {
    BlockId block;
    Frame frame;
    Flow flow = Flow::Falls;
  };
  Flow emit_if(Range at, const Condition& c, const Rest& then, const Rest& otherwise, const Rest* rest, bool& consumed);
  Flow emit_if(Range at, const If& s, const Rest* rest, bool& consumed);
  Flow guarded(Range at, const Rest& rest);
  void run(Branch& b, const Rest& f);
  void merge(Range at, NodeId n, Branch& t, Branch& f);
  void merge_variable(Range at, NodeId n, Branch& t, Branch& f, const std::string& key);
  std::optional<ValueId> branch_value(Branch& b, const std::string& key);
  void give(Range at, NodeId n, Branch& t, Branch& f, const std::string& key, std::optional<ValueId> tv, std::optional<ValueId> fv,
            const Type& type, const std::optional<Type>& narrow);

  // emit_loop.cpp
  struct Looping;
  using Bind = std::function<void(ValueId)>;
  Flow emit_loop(Range at, ValueId trip, const Exp* condition, const Stmts& body, const Exp* target, const Bind& bind);
  void close_loop(Range at, Looping& l, Flow flow, const Exp* condition);
  Flow emit_while(Range at, const While& s);
  Flow emit_for(Range at, const For& s);
  Flow unrolled(Range at, const For& s, const std::vector<Sugared>& items, size_t from);
  /// The parts of what a loop runs over: its length, and the element at an index.
  struct Iteration {
    ValueId length;
    std::function<Sugared(ValueId)> element;
  };
  Iteration iteration(Range at, const Sugared& s);
  Iteration range_iteration(Range at, const std::vector<Sugared>& args);
  std::optional<std::vector<Sugared>> unrolled_items(Range at, const Sugared& s);
  ValueId emit_comprehension(Range at, const Comprehension& c, const std::optional<Type>& hint);
  void bind_hidden(const Exp& target, const Sugared& value);
  ValueId unrolled_comprehension(Range at, const Comprehension& c, const std::vector<Sugared>& items, const std::optional<Type>& hint);

  // emit_assign.cpp
  void emit_assign(const Statement& s, const Assign& a);
  void assign_to(const Exp& target, const Sugared& value, const std::optional<Type>& annotated = {});
  void assign_tuple(const Exp& target, const TupleLit& t, const Sugared& value);
  void assign_subscript(const Exp& target, const Subscript& s, ValueId value);
  void emit_augmented(const Statement& s, const AugAssign& a);
  void emit_delete(const Exp& target);
  ValueId augmented(Range at, const std::string& op, ValueId left, Range right_at, ValueId right);

  // emit_subscript.cpp
  ValueId emit_subscript(const Exp& e, const Subscript& s);
  Sugared sugared_subscript(const Exp& e, const Subscript& s);
  ValueId slice(const Exp& e, ValueId of, const Slice& s);
  ValueId slice_tuple(const Exp& e, ValueId of, const Slice& s);
  ValueId index_tuple(const Exp& e, ValueId of, const Exp& index);
  /// Ints, slices, None and ... of an index applied as views; what is left are tensors, by dim.
  struct IndexPart {
    const Exp* e;
    std::optional<ValueId> value; // none of a slice and of ...
  };
  std::vector<IndexPart> index_parts(Range at, const Exps& indices);
  std::pair<ValueId, std::vector<std::optional<ValueId>>> views(Range at, ValueId of, const Exps& indices);
  ValueId tensor_index(Range at, ValueId of, const std::vector<std::optional<ValueId>>& tensors);
  ValueId index_list(Range at, const std::vector<std::optional<ValueId>>& tensors);
  std::optional<int64_t> constant_int(ValueId v) const;

  // emit_condition.cpp
  Condition condition(const Exp& e);
  Condition logical(const Exp& e, const Logical& l);
  Condition is_none(const Exp& e, const Binary& b);
  Condition isinstance(const Exp& e, const Call& c);
  Condition hasattr(const Exp& e, const Call& c);
  ValueId to_bool(Range at, ValueId v);
  void class_types(const Exp& e, std::vector<Type>& out, bool& any_list, bool& any_tuple, bool& any_dict);

  // emit_expression.cpp
  ValueId expression(const Exp& e, const std::optional<Type>& hint = {});
  Sugared sugared(const Exp& e, const std::optional<Type>& hint = {});
  ValueId as_value(Range at, const Sugared& s);
  ValueId emit_unary(const Exp& e, const Unary& u);
  ValueId emit_binary(const Exp& e, const Binary& b);
  ValueId emit_ternary(const Exp& e, const Ternary& t, const std::optional<Type>& hint);
  ValueId emit_list(const Exp& e, const ListLit& l, const std::optional<Type>& hint);
  ValueId emit_dict(const Exp& e, const DictLit& d, const std::optional<Type>& hint);
  Sugared attribute_of(Range at, const Sugared& s, const std::string& name);
  Sugared attribute_of_value(Range at, ValueId v, const std::string& name);
  Sugared method_of_module(Range at, const InstanceP& self, const std::string& name);
  /// The value as one of another type where it may stand for it: None for an optional, a tuple for a list.
  ValueId convert(Range at, ValueId v, const Type& to, bool implicit = false);

  // emit_call.cpp
  Sugared emit_call(const Exp& e, const Call& c, const std::optional<Type>& hint);
  CallArgs arguments(const Call& c);
  Sugared call(Range at, const Sugared& callee, const CallArgs& args, const std::optional<Type>& hint);
  Sugared call_operator(Range at, const Operator& op, const CallArgs& args);
  Sugared inline_call(Range at, const FunctionRef& fn, const CallArgs& args);
  std::string header_of(const FunctionRef& fn);
  void bind_params(Range at, const FunctionRef& fn, const CallArgs& args, Frame& frame);
  ValueId default_of(const Param& p, const FunctionRef& fn, const Type& type);
  ValueId body_result(Range at, Flow flow, Frame& frame);
  Type param_type(const Param& p, const FunctionRef& fn);
  std::vector<ValueId> emit_op(Range at, OpId name, const NamedValues& args);
  ValueId op(Range at, OpId name, const std::vector<ValueId>& args);
  std::vector<ValueId> emit_values(Range at, OpId name, const std::vector<ValueId>& args);
  std::vector<std::string> result_names(const std::vector<ValueId>& results) const;
  ValueId pack_results(Range at, const std::vector<ValueId>& results);
  std::optional<std::vector<ValueId>> of_tensors(Range at, OpId name, const NamedValues& args);
  Sugared make_named_tuple(Range at, const ClassRef& cls, const Type& type, const CallArgs& args);

  // emit_form.cpp: functions the compiler knows.
  std::optional<Sugared> form_of_syntax(const Exp& e, const Call& c, const Sugared& callee, const std::optional<Type>& hint);
  Sugared call_form(Range at, const std::string& name, const CallArgs& args, const std::optional<Type>& hint);
  ValueId cast_form(Range at, const std::string& name, const std::vector<ValueId>& args);
  ValueId list_form(Range at, const CallArgs& args, const std::optional<Type>& hint);
  ValueId tolist(Range at, ValueId of, const Type& to);
  Sugared getattr_form(const Exp& e, const Call& c);
  ValueId dict_form(Range at, const CallArgs& args, const std::optional<Type>& hint);

  Graph& g;
  std::vector<std::string>& weights;
  Evaluator evaluator;
  Frame* frame = nullptr;
  std::deque<Activation> stack;                    // those below stay where they are
  std::set<std::string> mutable_attributes;        // names that methods assign to
  std::map<std::string, ValueId> attribute_values; // by "path.name": weights, and attributes made once
  std::set<ValueId> inferred;                      // tensors by want of an annotation
  std::map<const void*, std::vector<Type>> constant_lists;
  std::vector<std::pair<size_t, std::shared_ptr<const Origin>>> origins;
  Frame root;
  size_t num_before = 0; // nodes at the begin of the top block that attributes took
  int counter = 0;
  bool tracks_gradients = true; // not within torch.no_grad(): nodes get the attribute `no_grad`
  int nesting = 0;              // of blocks
  bool hiding = false;          // names are assigned to without a look at those outside
};

template <class F> void Emitter::within(BlockId block, Frame& inner, const F& f) {
  if (nesting >= 1000) fail(stack.back().fn.def->range, "blocks nested too deeply: each early return nests what stands behind it");
  nesting++;
  Frame* outer = frame;
  inner.block = block;
  if (!inner.parent) inner.parent = outer;
  frame = &inner;
  f();
  frame = outer;
  nesting--;
}

} // namespace tenon::script
