// What stands behind ir::Graph: the compiler's graph, who uses each value, where new nodes go.
#pragma once
#include <set>

#include "ir/verify.h"
#include "tenon/graph.h"

namespace tenon::ir {

struct GraphImpl {
  /// A user of values: a node, or what a block returns.
  struct User {
    bool is_block;
    uint32_t id;
    bool operator==(const User&) const = default;
  };
  struct Use {
    User user;
    size_t offset; // among the user's inputs
  };

  explicit GraphImpl(tenon::Graph graph, Dialect dialect);
  GraphImpl(const GraphImpl&) = default;

  // ---- reading
  ArgList& args(NodeId id) { return graph.node(id).args; }
  std::vector<ValueId> inputs(NodeId id) const;
  std::vector<ValueId> inputs(User user) const;
  size_t position(NodeId id) const; ///< in its block
  /// Whether `a` stands before `b`, as seen from the block of either; nodes of inner blocks stand where their owner does.
  bool precedes(NodeId a, NodeId b) const;
  std::string text(NodeId id) const; ///< one line, for messages
  const std::string& name(ValueId id) const { return graph.value(id).name; }
  template <class... A> [[noreturn]] void fail(NodeId id, fmt::format_string<A...> f, A&&... a) const {
    throw Error(ErrorKind::BadInput, fmt::format("{} in `{}`", fmt::format(f, std::forward<A>(a)...), text(id)), name_of_node(id));
  }
  std::string name_of_node(NodeId id) const;
  bool is_script() const { return dialect == Dialect::Script; }
  /// Of what the node calls, by its row or, in a script graph, by the types of its arguments; null where that is not known.
  const Schema* schema(NodeId id) const;
  /// The constant that a value is, or null.
  const tenon::Arg* constant(ValueId id) const;

  // ---- changing; uses are kept up to date
  void set_args(NodeId id, ArgList args);
  void set_returns(BlockId id, ArgList returns);
  /// Values that are listed in another order know their places.
  void number(const std::vector<ValueId>& values);
  void set_attributes(NodeId id, std::vector<Attribute> attributes);
  void replace_uses(ValueId from, ValueId to);
  void destroy(NodeId id);
  /// Nodes appended to the block of the insert point by `append` are moved to it.
  void insert(const std::function<void(BlockId)>& append);
  void move(NodeId id, BlockId block, size_t at);
  void set_insert_point(BlockId block, NodeId before); ///< at the end of the block where `before` is none, or was destroyed
  /// Of what stands at the insert point; none at the end of a block.
  std::shared_ptr<const Origin> origin_here() const { return insert_before.valid() ? graph.node(insert_before).origin : nullptr; }
  /// Arguments in schema order; `values` that are numbers become their expressions.
  ArgList schema_args(const OpDef& def, ArgList args, const std::vector<Attribute>& kwargs) const;
  const OpDef& choose_op(std::string_view name, const ArgList& args, const std::vector<Attribute>& kwargs) const;
  std::string unique_name(std::string name);

  // ---- script graphs
  /// A call, with what makes its arguments before it. Raw: an operator that is not known has no results yet.
  NodeId insert_script(std::string_view op, const std::vector<ir::Arg>& args, const std::vector<NamedArg>& kwargs, bool raw);
  ValueId insert_constant(const ir::Arg& constant);
  bool has_effect(NodeId id) const;

  // ---- between the two forms
  ir::Arg out(const tenon::Arg& a);
  tenon::Arg in(const ir::Arg& a);
  ir::Type out(const tenon::Type& t) const;
  tenon::Type in(const ir::Type& t);
  /// What a public type says of a value.
  struct Typed {
    tenon::Type type;
    TensorMeta meta;
  };
  Typed typed(const ir::Type& t);
  void set_type(ValueId id, Typed t);
  Expr size(const Size& s);

  ir::Graph* owner = nullptr;
  tenon::Graph graph;
  Dialect dialect;
  bool is_pattern = false; // types are not known
  BlockId insert_block;
  NodeId insert_before = {}; // invalid: at the end
  SideTable<NodeId, BlockId> block_of;
  SideTable<ValueId, BlockId> block_of_param;
  SideTable<ValueId, std::vector<Use>> uses;
  std::set<std::string> names;

private:
  void add_uses(User user);
  void remove_uses(User user);
  void note_block(BlockId id);
  void note_node(NodeId id, BlockId block);
  int next_number_ = 0; // of values without a name, in a script graph
};

/// Handles, made and opened.
struct Access {
  static Value value(GraphImpl* g, ValueId id) { return {g, id.index}; }
  static Node node(GraphImpl* g, NodeId id) { return {g, Node::Role::Call, id.index}; }
  static Node param(GraphImpl* g, ValueId id) { return {g, Node::Role::Param, id.index}; }
  static Node returns(GraphImpl* g, BlockId id) { return {g, Node::Role::Return, id.index}; }
  static Block block(GraphImpl* g, BlockId id) { return {g, id.index}; }
  static GraphImpl* graph(Value v) { return v.impl_; }
  static GraphImpl* graph(Node n) { return n.impl_; }
  static ValueId id(Value v) { return ValueId{v.id_}; }
  static NodeId id(Node n) { return NodeId{n.id_}; }
  static BlockId id(Block b) { return BlockId{b.id_}; }
  static bool is_call(Node n) { return n.role_ == Node::Role::Call; }
};

/// The dialect of that name; BadInput where there is none.
Dialect dialect_named(std::string_view name);
/// A graph as users see it.
ir::Graph public_graph(tenon::Graph graph, Dialect dialect);

} // namespace tenon::ir
