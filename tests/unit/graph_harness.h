// Small programs made with the Builder, run as native code and in the interpreter.
#pragma once
#include <doctest/doctest.h>

#include <functional>
#include <optional>

#include "ir/builder.h"
#include "ir/program.h"
#include "tenon/tenon.h"

namespace tenon::test {

struct TestGraph {
  LoadedProgram p;
  Builder b{p.graph, p.graph.top(), false};

  Expr symbol(const std::string& name, int64_t lo = 0);
  V input(std::vector<Expr> sizes, DType t = DType::F32);
  V input(std::initializer_list<int64_t> sizes, DType t = DType::F32);
  V buffer(const std::string& name, Tensor value);
  void mutates(const std::string& name, V now);
  void returns(const Arg& a);
  Program program() const;
};

/// A node with inner blocks: body(k, params) gives what block k returns.
std::vector<V> add_blocks(TestGraph& g, std::string_view op, ArgList args, const std::vector<Type>& types, int blocks,
                          const std::vector<Type>& params, const std::function<std::vector<V>(int, const std::vector<V>&)>& body);
V if_(TestGraph& g, V condition, const std::function<V()>& then, const std::function<V()>& otherwise, const Type& type);
std::vector<V> while_(TestGraph& g, const std::vector<V>& carried, const std::function<V(const std::vector<V>&)>& condition,
                      const std::function<std::vector<V>(const std::vector<V>&)>& body);

Tensor filled(DType t, std::vector<int64_t> sizes, const std::function<double(int64_t)>& value);
Tensor counting(DType t, std::vector<int64_t> sizes, double start = 0);
/// Of complex numbers both parts.
std::vector<double> numbers(const Tensor& t);

/// Empty where equal: integers exactly, floats within `tolerance` of the larger of 1 and the expected value.
std::string difference(const Tensor& got, const Tensor& want, double tolerance = 1e-4);

std::vector<Tensor> run(const Executable& exe, const std::vector<Tensor>& inputs);

/// What a call gives, be it refused in compiling or in the call.
struct Outcome {
  std::optional<Error> error;
  std::vector<Tensor> outputs;
};
Outcome outcome_of(Result<Executable>& exe, const std::vector<Tensor>& inputs);

/// Runs each set of inputs in turn in one Executable of either kind, for each of `options`; outputs must agree.
void compare_each(const TestGraph& g, const std::vector<std::vector<Tensor>>& calls, const std::vector<Options>& options);
void compare(const TestGraph& g, const std::vector<std::vector<Tensor>>& calls, const Options& options = {});

} // namespace tenon::test
