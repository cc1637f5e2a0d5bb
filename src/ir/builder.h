// Builder: appends operator calls to a block. It fills defaults, infers output types from the rows, promotes dtypes and,
// in edge and core mode, decomposes composites at once, so whoever builds with it can speak plain ATen.
#pragma once
#include <initializer_list>

#include "ir/op.h"

namespace tenon {

class Builder;

/// A value with the builder it belongs to: arithmetic on it appends operators.
class V {
public:
  V() = default;
  V(Builder* b, ValueId id) : id(id), b_(b) {}
  ValueId id;
  operator ValueId() const { return id; }
  operator Arg() const { return Arg(id); }
  explicit operator bool() const { return id.valid(); }
  const Type& type() const;
  DType dtype() const { return type().dtype; }
  const std::vector<Expr>& sizes() const { return type().sizes; }
  size_t rank() const { return type().rank(); }
  Expr size(int64_t dim) const; ///< negative dims count from the end
  Builder& builder() const { return *b_; }

private:
  Builder* b_ = nullptr;
};

/// The results of a call.
struct Values : std::vector<V> {
  using std::vector<V>::vector;
  Values(V v) : std::vector<V>{v} {}
};

V operator+(V a, V b);
V operator-(V a, V b);
V operator*(V a, V b);
V operator/(V a, V b);
V operator+(V a, const Arg& b);
V operator-(V a, const Arg& b);
V operator*(V a, const Arg& b);
V operator/(V a, const Arg& b);
V operator-(V a);

class Builder {
public:
  /// Appends to `block` of `graph`. Edge mode: only Edge operators are appended.
  Builder(Graph& graph, BlockId block, bool edge) : graph_(graph), block_(block), edge_(edge) {}

  Graph& graph() { return graph_; }
  ExprPool& pool() { return graph_.pool(); }
  BlockId block() const { return block_; }
  void set_block(BlockId b) { block_ = b; }
  bool edge() const { return edge_; }
  /// Edge mode: whether composites that are `late` stay whole. They do, but where they are taken apart.
  void keep_late(bool keep) { keeps_late_ = keep; }
  /// Core mode, for one that is not in edge mode: what is no operator of core ATen is taken apart.
  void to_core() { core_ = true; }
  /// Nodes appended from now on carry this origin.
  void set_origin(std::shared_ptr<const Origin> origin) { origin_ = std::move(origin); }
  const std::shared_ptr<const Origin>& origin() const { return origin_; }

  /// Calls an operator: positional arguments, then keywords. `hint`: output types for data-dependent rows.
  Values call(std::string_view op, ArgList args, std::vector<Attribute> keywords = {}, const std::vector<Type>* hint = nullptr);
  /// The same for a single result.
  V call1(std::string_view op, ArgList args, std::vector<Attribute> keywords = {}) {
    return call(op, std::move(args), std::move(keywords)).at(0);
  }
  /// Arguments complete, in schema order.
  Values call_full(const OpDef& def, ArgList args, const std::vector<Type>* hint = nullptr);
  /// A call on the real parts, and on the imaginary parts, of complex arguments.
  Values by_parts(const OpDef& def, const ArgList& args);

  V wrap(ValueId id) { return {this, id}; }
  V input(const Call& c, std::string_view name) { return wrap(c.value(name)); }
  /// A 0-d constant, or a tensor filled with a value.
  V scalar(const Arg& value, DType dtype);
  V full(std::vector<Expr> sizes, const Arg& value, DType dtype);
  V constant(Tensor tensor, std::string name = {});
  V to(V x, DType dtype); ///< x itself where it has that dtype. Complex numbers do not become real ones: that is real()
  V expand(V x, std::vector<Expr> sizes);
  V reshape(V x, std::vector<Expr> sizes);
  V permute(V x, std::vector<int64_t> order);
  V transpose(V x, int64_t d0, int64_t d1);
  V slice(V x, int64_t dim, Expr start, Expr length, int64_t step = 1);
  V select(V x, int64_t dim, Expr index);
  V unsqueeze(V x, int64_t dim);
  V squeeze(V x, int64_t dim);
  V where(V condition, const Arg& a, const Arg& b);
  V sum(V x, std::vector<int64_t> dims, bool keepdim);
  V mean(V x, std::vector<int64_t> dims, bool keepdim);
  V matmul(V a, V b);
  V arange(Expr end, DType dtype);
  /// The parts of a complex tensor, and a complex tensor of parts. A real tensor has itself as its real part.
  V real(V x);
  V imag(V x);
  V complex(V re, V im);
  /// A prim::Scan over dim 0 of xs, all of one length: `body` takes the carried values and a slice of each x, and returns the
  /// carried values anew, then what is stacked. Gives the last carried values, then the stacks.
  using ScanBody = std::function<std::vector<V>(const std::vector<V>& carried, const std::vector<V>& slices)>;
  std::vector<V> scan(const std::vector<V>& carried, const std::vector<V>& xs, bool reverse, const ScanBody& body);
  Expr integer(int64_t v) { return pool().integer(v); }

private:
  bool stays(const OpDef& def, const ArgList& args) const { return keeps_late_ && def.late && def.late(Call(graph_, def, args)); }
  Values append(const OpDef& def, ArgList args, std::vector<Type> types);
  Values call_core(const OpDef& def, const ArgList& args);
  Values append_pointwise(const OpDef& def, ArgList args);
  Values append_float8(const OpDef& def, ArgList args, DType output);
  Values call_complex(const OpDef& def, ArgList args, const std::vector<Type>* hint);

  Graph& graph_;
  BlockId block_;
  bool edge_, core_ = false, keeps_late_ = true;
  std::shared_ptr<const Origin> origin_;
};

/// The decomposition of a call as a graph of its own: a parameter for each value among the arguments, in order; the results
/// are returned.
Graph written_out(const Graph& graph, const OpDef& def, const ArgList& args);
/// Whether core ATen has the call as it is: torch tags the operator core, or nothing takes it apart.
bool stays_in_core(const Graph& graph, const OpDef& def, const ArgList& args);
/// Output types of a call by its row: infer, or promotion and broadcasting, or the types of its decomposition.
std::vector<Type> infer_types(const Graph& graph, const OpDef& def, const ArgList& args);

} // namespace tenon
