// Graphs of TorchScript written as C++ expressions: operators on Vars record nodes.
//   Script f = trace([](Var x, Var w) { return tanh(matmul(x, w)) + 1; }, {ir::Type::partial(DType::F32, 2), ir::Type::partial(DType::F32,
//   2)});
#pragma once
#include <array>
#include <tuple>
#include <type_traits>

#include "tenon/script.h"

namespace tenon {

class Var;
template <class T>
concept VarOperand = std::constructible_from<ir::Arg, const T&>;
template <class A, class B>
concept VarOperands = (std::same_as<A, Var> || std::same_as<B, Var>) && VarOperand<A> && VarOperand<B>;

/// A keyword argument of Var::call.
inline ir::NamedArg kw(std::string name, ir::Arg value) { return {std::move(name), std::move(value)}; }

/// A value of a script graph: a tensor, number, list or tuple. Functions and operators on Vars insert nodes where the graph's insert point
/// is; numbers, texts, None and tensors beside them become constants. Comparisons give Vars, too: C++ cannot branch on one, as its value is
/// not known yet; loops and branches over what C++ knows are unrolled as they run. Throws Error(BadInput) where an operator does not take
/// its arguments, listing the candidates. As ir::Value, good while the graph lives.
class TENON_API Var {
public:
  Var() = default;
  Var(ir::Value value) : value_(value) {}
  operator ir::Value() const { return value_; }
  ir::Value value() const { return value_; }
  ir::Graph& graph() const { return value_.owningGraph(); }
  ir::Type type() const { return value_.type(); } ///< what shape analysis knows of it

  /// Any operator: one of torch's without a namespace, "softmax"; "my::op". Positional arguments, then those by kw(). One of them at least
  /// is a Var, or a list with one.
  template <class... A> static Var call(std::string_view op, const A&... args) {
    Given given;
    (given.add(args), ...);
    return record(op, std::move(given));
  }
  /// The same for operators with several results.
  template <class... A> static std::vector<Var> calls(std::string_view op, const A&... args) {
    Given given;
    (given.add(args), ...);
    return record_all(op, std::move(given));
  }

  /// A tensor's slice of dim 0, a list's or tuple's element.
  Var operator[](int64_t i) const;
  Var operator[](const Var& i) const;
  /// The size of a dim as a Var, and as a number where the type has it; that throws where it has not.
  Var size(int64_t dim) const { return call("size", *this, dim); }
  int64_t known_size(int64_t dim) const;
  /// The elements of a list of known length, or of a tuple.
  std::vector<Var> unpack(size_t count) const;
  std::vector<Var> unbind(int64_t dim = 0) const; ///< the dim's size must be known
  std::vector<Var> chunk(int64_t chunks, int64_t dim = 0) const;

  Var t() const { return call("t", *this); }
  Var view(const std::vector<int64_t>& sizes) const { return call("view", *this, sizes); }
  Var reshape(const std::vector<int64_t>& sizes) const { return call("reshape", *this, sizes); }
  Var permute(const std::vector<int64_t>& dims) const { return call("permute", *this, dims); }
  Var transpose(int64_t a, int64_t b) const { return call("transpose", *this, a, b); }
  Var unsqueeze(int64_t dim) const { return call("unsqueeze", *this, dim); }
  Var squeeze(int64_t dim) const { return call("squeeze", *this, dim); }
  Var slice(int64_t dim, int64_t start, int64_t end, int64_t step = 1) const { return call("slice", *this, dim, start, end, step); }
  Var to(DType dtype) const { return call("to", *this, dtype); }
  Var operator-() const { return call("neg", *this); }
  Var operator~() const { return call("bitwise_not", *this); }

  /// a OP b as Python has it, where either may be a number.
  static Var binary(std::string_view op, ir::Arg a, ir::Arg b);

  // Found by their arguments alone: they hide no function of that name.
  friend Var operator&(const Var& a, const Var& b) { return Var::call("__and__", a, b); }
  friend Var operator|(const Var& a, const Var& b) { return Var::call("__or__", a, b); }
  friend Var abs(const Var& x) { return Var::call("abs", x); }
  friend Var exp(const Var& x) { return Var::call("exp", x); }
  friend Var log(const Var& x) { return Var::call("log", x); }
  friend Var sqrt(const Var& x) { return Var::call("sqrt", x); }
  friend Var rsqrt(const Var& x) { return Var::call("rsqrt", x); }
  friend Var sin(const Var& x) { return Var::call("sin", x); }
  friend Var cos(const Var& x) { return Var::call("cos", x); }
  friend Var tanh(const Var& x) { return Var::call("tanh", x); }
  friend Var sigmoid(const Var& x) { return Var::call("sigmoid", x); }
  friend Var relu(const Var& x) { return Var::call("relu", x); }
  friend Var gelu(const Var& x) { return Var::call("gelu", x); }
  friend Var silu(const Var& x) { return Var::call("silu", x); }
  friend Var erf(const Var& x) { return Var::call("erf", x); }
  friend Var softmax(const Var& x, int64_t dim) { return Var::call("softmax", x, dim); }
  friend Var log_softmax(const Var& x, int64_t dim) { return Var::call("log_softmax", x, dim); }
  friend Var matmul(const Var& a, const Var& b) { return Var::call("matmul", a, b); }
  friend Var mm(const Var& a, const Var& b) { return Var::call("mm", a, b); }
  friend Var bmm(const Var& a, const Var& b) { return Var::call("bmm", a, b); }
  friend Var linear(const Var& x, const Var& weight) { return Var::call("linear", x, weight); }
  friend Var linear(const Var& x, const Var& weight, const Var& bias) { return Var::call("linear", x, weight, bias); }
  template <VarOperand T> friend Var pow(const Var& x, const T& exponent) { return Var::call("pow", x, exponent); }
  friend Var maximum(const Var& a, const Var& b) { return Var::call("maximum", a, b); }
  friend Var minimum(const Var& a, const Var& b) { return Var::call("minimum", a, b); }
  template <VarOperand A, VarOperand B> friend Var where(const Var& condition, const A& a, const B& b) {
    return Var::call("where", condition, a, b);
  }
  friend Var sum(const Var& x) { return Var::call("sum", x); }
  friend Var sum(const Var& x, const std::vector<int64_t>& dims, bool keepdim = false) { return Var::call("sum", x, dims, keepdim); }
  friend Var mean(const Var& x) { return Var::call("mean", x); }
  friend Var mean(const Var& x, const std::vector<int64_t>& dims, bool keepdim = false) { return Var::call("mean", x, dims, keepdim); }
  friend Var cat(const std::vector<Var>& tensors, int64_t dim = 0) { return Var::call("cat", tensors, dim); }
  friend Var stack(const std::vector<Var>& tensors, int64_t dim = 0) { return Var::call("stack", tensors, dim); }

  struct Given {
    std::vector<ir::Arg> args = {};
    std::vector<ir::NamedArg> kwargs = {};
    void add(const ir::NamedArg& a) { kwargs.push_back(a); }
    template <VarOperand T> void add(const T& a) { args.emplace_back(a); }
  };

private:
  static Var record(std::string_view op, Given given);
  static std::vector<Var> record_all(std::string_view op, Given given);
  ir::Value value_;
};

template <class A, class B>
  requires VarOperands<A, B>
Var operator+(const A& a, const B& b) {
  return Var::binary("add", ir::Arg(a), ir::Arg(b));
}
template <class A, class B>
  requires VarOperands<A, B>
Var operator-(const A& a, const B& b) {
  return Var::binary("sub", ir::Arg(a), ir::Arg(b));
}
template <class A, class B>
  requires VarOperands<A, B>
Var operator*(const A& a, const B& b) {
  return Var::binary("mul", ir::Arg(a), ir::Arg(b));
}
template <class A, class B>
  requires VarOperands<A, B>
Var operator/(const A& a, const B& b) {
  return Var::binary("div", ir::Arg(a), ir::Arg(b));
}
template <class A, class B>
  requires VarOperands<A, B>
Var operator%(const A& a, const B& b) {
  return Var::binary("remainder", ir::Arg(a), ir::Arg(b));
}
template <class A, class B>
  requires VarOperands<A, B>
Var operator<(const A& a, const B& b) {
  return Var::binary("lt", ir::Arg(a), ir::Arg(b));
}
template <class A, class B>
  requires VarOperands<A, B>
Var operator<=(const A& a, const B& b) {
  return Var::binary("le", ir::Arg(a), ir::Arg(b));
}
template <class A, class B>
  requires VarOperands<A, B>
Var operator>(const A& a, const B& b) {
  return Var::binary("gt", ir::Arg(a), ir::Arg(b));
}
template <class A, class B>
  requires VarOperands<A, B>
Var operator>=(const A& a, const B& b) {
  return Var::binary("ge", ir::Arg(a), ir::Arg(b));
}
template <class A, class B>
  requires VarOperands<A, B>
Var operator==(const A& a, const B& b) {
  return Var::binary("eq", ir::Arg(a), ir::Arg(b));
}
template <class A, class B>
  requires VarOperands<A, B>
Var operator!=(const A& a, const B& b) {
  return Var::binary("ne", ir::Arg(a), ir::Arg(b));
}
namespace detail {

inline constexpr size_t most_vars = 12;
/// How many Vars F takes; most_vars + 1: none of these numbers.
template <class F, size_t N = 0> consteval size_t count_vars() {
  if constexpr (N > most_vars) return N;
  else if constexpr ([]<size_t... I>(std::index_sequence<I...>) {
                       return std::is_invocable_v<F&, std::tuple_element_t<I, std::array<Var, N>>...>;
                     }(std::make_index_sequence<N>()))
    return N;
  else return count_vars<F, N + 1>();
}

TENON_API ir::Arg returned_tuple(ir::Graph& graph, std::vector<ir::Arg> items);
/// What is traced, as the graph returns it.
template <class T> ir::Arg returned(ir::Graph& g, const T& v) {
  if constexpr (std::same_as<T, Var>) return v.value();
  else if constexpr (requires { std::tuple_size<T>::value; })
    return returned_tuple(g, std::apply([&](auto&... e) { return std::vector<ir::Arg>{returned(g, e)...}; }, v));
  else return g.insertConstant(ir::Arg(v));
}

TENON_API ir::Graph inputs_graph(const std::vector<ir::Type>& types);
[[noreturn]] TENON_API void wrong_count(size_t takes, size_t types);

} // namespace detail

/// Calls `f` once on Vars of the given types, and gives the graph that it recorded: a parameter for each type, and one result, which f
/// returns: a Var, a constant, a vector of Vars (a list), a pair or tuple of any of these (a tuple). f takes as many Vars as there are
/// types, or one `const std::vector<Var>&`. Types that are partial or full are propagated: Var::type tells, and the graph's text. Throws
/// Error(BadInput).
template <class F> ir::Graph trace_graph(F&& f, const std::vector<ir::Type>& types) {
  ir::Graph g = detail::inputs_graph(types);
  std::vector<ir::Value> inputs = g.inputs();
  std::vector<Var> vars(inputs.begin(), inputs.end());
  if constexpr (std::is_invocable_v<F&, const std::vector<Var>&> && !std::is_invocable_v<F&, Var>)
    g.registerOutput(detail::returned(g, f(vars)));
  else {
    constexpr size_t count = detail::count_vars<F>();
    static_assert(count <= detail::most_vars, "the function takes Vars, or a vector of them");
    if (count != types.size()) detail::wrong_count(count, types.size());
    [&]<size_t... I>(std::index_sequence<I...>) {
      g.registerOutput(detail::returned(g, f(vars[I]...)));
    }(std::make_index_sequence<count>());
  }
  return g;
}

/// The same as a program. Arguments must be of the given types.
template <class F> Script trace(F&& f, const std::vector<ir::Type>& types) { return Script::from(trace_graph(f, types)).value(); }

} // namespace tenon
