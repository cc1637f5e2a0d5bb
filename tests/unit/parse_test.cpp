// Program::parse: programs from FX text, with the types and weights that it leaves out.
#include <doctest/doctest.h>

#include "load_samples.h"
#include "tenon/tenon.h"

namespace tenon::parse_test {

namespace {

constexpr std::string_view linear = R"(graph():
    %x : [num_users=1] = placeholder[target=x]
    %weight : [num_users=1] = get_attr[target=weight]
    %mm : [num_users=1] = call_function[target=torch.ops.aten.mm.default](args = (%x, %weight), kwargs = {})
    %sym_size_int : [num_users=1] = call_function[target=torch.ops.aten.sym_size.int](args = (%x, 0), kwargs = {})
    %mul : [num_users=1] = call_function[target=operator.mul](args = (%sym_size_int, 2), kwargs = {})
    return (mm, mul))";

Tensor counting(std::vector<int64_t> sizes) {
  Tensor t(DType::F32, sizes);
  for (int64_t i = 0; i < t.numel(); i++) t.data_as<float>()[i] = static_cast<float>(i);
  return t;
}

std::string parse_error(std::string_view text, const std::vector<ArgInfo>& inputs, const std::vector<NamedTensor>& weights = {}) {
  auto program = Program::parse(text, inputs, weights);
  if (program) return "";
  CHECK(program.error().kind == ErrorKind::BadInput);
  return program.error().what();
}

} // namespace

TEST_CASE("a text without types runs for any sizes, given those of its inputs and its weights") {
  std::vector<ArgInfo> inputs = {{.dtype = DType::F32, .sizes = {"s0", "2"}}};
  std::vector<NamedTensor> weights = {{"weight", counting({2, 3})}};
  Executable exe = Program::parse(linear, inputs, weights).value().compile().value();
  CHECK(exe.inputs()[0].name == "x");
  for (int64_t rows : {1, 0, 5}) {
    std::vector<Tensor> outputs, given = {counting({rows, 2})};
    exe.run(given, outputs).check();
    REQUIRE(outputs.size() == 2);
    CHECK(outputs[0].sizes() == std::vector<int64_t>{rows, 3});
    for (int64_t r = 0; r < rows; r++)
      for (int64_t c = 0; c < 3; c++) {
        float want = static_cast<float>(2 * r * c + (2 * r + 1) * (3 + c));
        CHECK(outputs[0].data_as<float>()[r * 3 + c] == want);
      }
    CHECK(*outputs[1].data_as<int64_t>() == 2 * rows);
  }
}

TEST_CASE("the smallest graph is its output") {
  Program program = Program::parse("graph():\n    return ()").value();
  std::vector<ir::Node> nodes = program.graph().value().fxNodes();
  REQUIRE(nodes.size() == 1);
  CHECK(nodes[0].op() == "output");
  for (bool interpret : {false, true}) {
    std::vector<Tensor> outputs(1), inputs;
    program.compile({.interpret = interpret}).value().run(inputs, outputs).check();
    CHECK(outputs.empty());
  }
}

TEST_CASE("numbers are inputs, too") {
  std::vector<ArgInfo> inputs = {{.dtype = DType::F32, .sizes = {"3"}}, {.dtype = DType::F64, .is_number = true}};
  auto program = Program::parse(R"(graph():
    %x : [num_users=1] = placeholder[target=x]
    %k : [num_users=1] = placeholder[target=k]
    %mul : [num_users=1] = call_function[target=torch.ops.aten.mul.Tensor](args = (%x, %k), kwargs = {})
    return (mul,))",
                                inputs);
  Tensor factor(DType::F64, {});
  *factor.data_as<double>() = 2.5;
  std::vector<Tensor> outputs, given = {counting({3}), factor};
  program.value().compile().value().run(given, outputs).check();
  CHECK(outputs.at(0).data_as<float>()[2] == 5);
}

TEST_CASE("assertions, whose results nothing reads, stay and end the call") {
  std::vector<ArgInfo> inputs = {{.dtype = DType::F32, .sizes = {"s0"}}};
  Program program = Program::parse(R"(graph():
    %x : [num_users=2] = placeholder[target=x]
    %sum_1 : [num_users=1] = call_function[target=torch.ops.aten.sum.default](args = (%x,), kwargs = {})
    %gt : [num_users=1] = call_function[target=torch.ops.aten.gt.Scalar](args = (%sum_1, 2), kwargs = {})
    %_assert_async : [num_users=0] = call_function[target=torch.ops.aten._assert_async.msg](args = (%gt, too little), kwargs = {})
    return (x,))",
                                   inputs)
                        .value();
  for (bool interpret : {false, true}) {
    Executable exe = program.compile({.interpret = interpret}).value();
    std::vector<Tensor> outputs;
    CHECK(exe.run(std::vector{counting({3})}, outputs).ok());
    Status status = exe.run(std::vector{counting({2})}, outputs);
    REQUIRE_FALSE(status.ok());
    CHECK(has(status.error().what(), "too little"));
  }
}

TEST_CASE("the documents' spellings are read") {
  std::vector<ArgInfo> inputs = {{.dtype = DType::F32, .sizes = {"2"}}, {.dtype = DType::Bool, .sizes = {}}};
  auto run = [&](std::string_view text) {
    Tensor flag(DType::Bool, {});
    *flag.data_as<bool>() = true;
    std::vector<Tensor> outputs, given = {counting({2}), flag};
    Program::parse(text, inputs).value().compile().value().run(given, outputs).check();
    return outputs.at(0).data_as<float>()[1];
  };
  CHECK(run(R"(graph():
  %ph_0 : [#users=1] = placeholder[target = ph_0](args = ())
  %k = placeholder [target=k](args = (None,))
  %add1 = call_function [target = torch.op.aten.add.Tensor](args = (%ph_0, 1), kwargs = {"alpha": 2})
  output[](args = (%add1,)))") == 3);
  CHECK(run(R"(graph():
      %x_1: [num_users=1] = placeholder [target=x_1]
      %y_1: [num_users=1] = placeholder [target=y_1]
      %true_graph_0: [num_users=1] = get_attr [target=true_graph_0]
      %false_graph_0: [num_users=1] = get_attr [target=false_graph_0](args = ())
      %conditional: [num_users=1] = call_function [target=torch.ops.higher_order.cond] (args = (%y_1, %true_graph_0, %false_graph_0, [%x_1]), kwargs = {})
      return conditional

true_graph_0 = graph():
  %x : [#users=1] = placeholder[target=x]
  %mul : [#users=1] = call_function[target=torch.ops.aten.mul.Tensor](args = (%x, 7), kwargs = {})
  return mul

false_graph_0 = graph():
  %x : [#users=1] = placeholder[target=x]
  %cos : [#users=1] = call_function[target=torch.ops.aten.cos.default](args = (%x,), kwargs = {})
  return [cos])") == 7);
}

TEST_CASE("what a text lacks is named") {
  std::vector<ArgInfo> inputs = {{.dtype = DType::F32, .sizes = {"s0", "2"}}};
  CHECK(has(parse_error(linear, inputs), "%weight reads weight: no such weight is given"));
  std::vector<NamedTensor> weights = {{"weight", counting({2, 3})}};
  CHECK(has(parse_error(linear, {}, weights), "%x has no type"));
  CHECK(has(parse_error(linear, {inputs[0], inputs[0]}, weights), "1 placeholders, 2 inputs are given"));
  CHECK(!parse_error(linear, {{.dtype = DType::F32, .sizes = {"s0 +"}}}, weights).empty());
  CHECK(has(parse_error(linear, {{.dtype = DType::F32, .sizes = {"-2", "2"}}}, weights), "a size of -2"));
  CHECK(has(parse_error(linear, {{.dtype = DType::Bool, .is_number = true}}, weights), "a number is I64 or F64"));
  CHECK(has(parse_error(linear, inputs, {{"weight", counting({3, 3})}}), "aten::mm"));
  CHECK(has(parse_error("graph():\n    %x", inputs), "line 2"));
  CHECK(has(parse_error(R"(graph():
    %x : [num_users=1] = placeholder[target=x]
    %add : [num_users=1] = call_function[target=torch.ops.aten.add.Tensor](args = (%x, %x), kwargs = {"al pha": 2})
    return add)",
                        inputs),
            "no name"));
}

} // namespace tenon::parse_test
