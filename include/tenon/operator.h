// Operators of TorchScript that are registered at run time: functions on a stack of values, of any types that a schema has. They are called
// from source (torch.ops.my.op(x, 3)), IR text (my::op(%x, %n)) and graphs. What exported programs and scripts share, functions on
// dense tensors with a shape rule and formulas that fuse, custom_op.h registers; scripts call those in the same way.
#pragma once
#include <functional>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "tenon/graph.h"
#include "tenon/ivalue.h"

namespace tenon {

/// Takes its arguments off the stack, the last one on top, and pushes its results. It may throw; several threads may call it at once.
using Operation = std::function<void(Stack&)>;
/// Makes the operation for a node, whose attributes it may read, when a program is compiled. The node is good during the call.
using MakeOperation = std::function<Operation(const ir::Node&)>;

/// An operator in a table of a shared library.
struct OperatorDef {
  const char* schema = nullptr; ///< "my::scale(Tensor x, int n=1) -> Tensor", "my::scale.list(Tensor[] xs) -> Tensor[]"
  Operation (*make)(const ir::Node& node) = nullptr;
};

/// Makes an operator known to programs compiled from now on, in the whole process. Its arguments are checked against the schema, defaults
/// filled in, and so are its results. Errors: BadInput for a schema that is wrong, a name without a namespace of its own, and one that has
/// a meaning already. Thread-safe.
TENON_API Status register_operator(std::string_view schema, MakeOperation make);
TENON_API Status register_operator(std::string_view schema, Operation operation);

/// Removes the values on top of the stack, the last one being on top. Throws Error(BadInput) where there are fewer, or they are of other
/// types.
template <class... T> void pop(Stack& stack, T&... values) {
  if (stack.size() < sizeof...(T)) throw Error(ErrorKind::BadInput, "more values are popped than the stack has");
  size_t at = stack.size() - sizeof...(T);
  ((values = stack[at++].to<T>()), ...);
  stack.resize(stack.size() - sizeof...(T));
}
template <class T> T pop(Stack& stack) {
  T value{};
  pop(stack, value);
  return value;
}

/// A C++ value as one of a program: vectors are lists, an empty optional is None.
template <class T> IValue to_value(T v) { return IValue(std::move(v)); }
template <class T> IValue to_value(std::optional<T> v) { return v ? to_value(std::move(*v)) : IValue(); }
template <class T> IValue to_value(std::vector<T> list) {
  std::vector<IValue> items;
  for (auto&& e : list) items.push_back(to_value(T(std::move(e))));
  return IValue::list(std::move(items));
}
template <class... T> void push(Stack& stack, T... values) { (stack.push_back(to_value(std::move(values))), ...); }

namespace detail {

TENON_API Status register_typed(std::string_view schema, size_t args, size_t results, Operation operation);

template <class F> struct Signature : Signature<decltype(&F::operator())> {};
template <class R, class... A> struct Signature<R (*)(A...)> {
  static constexpr size_t args = sizeof...(A);
  using Args = std::tuple<std::decay_t<A>...>;
  using Result = R;
};
template <class C, class R, class... A> struct Signature<R (C::*)(A...) const> : Signature<R (*)(A...)> {};
template <class C, class R, class... A> struct Signature<R (C::*)(A...)> : Signature<R (*)(A...)> {};

template <class T> struct CountResults : std::integral_constant<size_t, 1> {};
template <> struct CountResults<void> : std::integral_constant<size_t, 0> {};
template <class... T> struct CountResults<std::tuple<T...>> : std::integral_constant<size_t, sizeof...(T)> {};

} // namespace detail

/// The same with a function of C++ values (IValue::to has the types): [](Tensor x, int64_t n) { ... return y; }. Several results are a
/// tuple.
template <class F>
  requires(!std::is_invocable_v<F&, Stack&> && !std::is_invocable_v<F&, const ir::Node&>)
Status register_operator(std::string_view schema, F f) {
  using S = detail::Signature<F>;
  using R = typename S::Result;
  return detail::register_typed(schema, S::args, detail::CountResults<R>::value, [f](Stack& stack) {
    typename S::Args args;
    std::apply([&](auto&... a) { pop(stack, a...); }, args);
    if constexpr (std::is_void_v<R>) std::apply(f, std::move(args));
    else if constexpr (requires { std::tuple_size<R>::value; })
      std::apply([&](auto&&... r) { push(stack, std::move(r)...); }, std::apply(f, std::move(args)));
    else push(stack, std::apply(f, std::move(args)));
  });
}

} // namespace tenon

extern "C" {
/// What a shared library exports for load_op_library (custom_op.h): its operators, and how many.
TENON_API const tenon::OperatorDef* tenon_operators(size_t* count);
}
