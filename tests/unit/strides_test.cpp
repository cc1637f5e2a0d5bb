// Results lie in memory as eager's do (tests/fixtures/strides.py): in native code and in the interpreter, in memory of the library's and of
// the caller's. Those of eager with gaps or overlaps come row-major.
#include <doctest/doctest.h>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>

#include "base/strided.h"
#include "ir/dim_order.h"
#include "ir/parse.h"
#include "load/npz.h"
#include "tenon/tenon.h"
#include "tests/unit/load_samples.h"

namespace tenon::strides_test {

namespace {

using Numbers = std::vector<int64_t>;

std::string folder() { return TENON_FIXTURES + std::string("/strides/"); }

Numbers numbers(const std::string& line, std::string_view key) {
  size_t at = line.find(key);
  REQUIRE(at != line.npos);
  std::istringstream in(line.substr(at + key.size()));
  Numbers out;
  char c;
  int64_t n;
  for (in >> c; in >> n; in >> c) out.push_back(n);
  return out;
}

bool is_dense(const Numbers& sizes, const Numbers& strides) {
  Numbers dims(sizes.size());
  std::iota(dims.begin(), dims.end(), 0);
  std::erase_if(dims, [&](int64_t d) { return sizes[static_cast<size_t>(d)] == 1; });
  std::sort(dims.begin(), dims.end(),
            [&](int64_t a, int64_t b) { return strides[static_cast<size_t>(a)] < strides[static_cast<size_t>(b)]; });
  int64_t expect = 1;
  for (int64_t d : dims) {
    if (strides[static_cast<size_t>(d)] != expect) return false;
    expect *= sizes[static_cast<size_t>(d)];
  }
  return true;
}

/// What eager gave of each result of a program: sizes and strides; of a number nothing.
struct Layout {
  Numbers sizes, strides;
};
std::vector<Layout> layouts(const std::string& program) {
  std::ifstream in(folder() + "strides.txt");
  std::vector<Layout> out;
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(program + " ")) continue;
    bool number = line.ends_with("a number");
    out.push_back(number ? Layout{} : Layout{numbers(line, "sizes "), numbers(line, "strides ")});
  }
  return out;
}

void check_layouts(const std::string& program, const std::vector<Tensor>& results) {
  std::vector<Layout> eager = layouts(program);
  REQUIRE(eager.size() == results.size());
  for (size_t i = 0; i < results.size(); i++) {
    INFO(program << " " << i);
    REQUIRE(results[i].sizes() == eager[i].sizes);
    Numbers want = is_dense(eager[i].sizes, eager[i].strides) ? eager[i].strides : contiguous_strides(eager[i].sizes);
    CHECK_MESSAGE(is_layout(eager[i].sizes, results[i].strides(), want), show_sizes(results[i].strides()), " is not ", show_sizes(want));
  }
}

bool same_elements(const Tensor& a, const Tensor& b) {
  Tensor x = a.contiguous(), y = b.contiguous();
  return x.sizes() == y.sizes() && std::memcmp(x.data(), y.data(), static_cast<size_t>(x.numel()) * size_of(x.dtype())) == 0;
}

/// Memory for a result with a gap behind each element of its last dim.
Tensor with_gaps(const Tensor& like) {
  Numbers sizes = like.sizes(), strides = contiguous_strides(sizes);
  for (int64_t& s : strides) s *= 2;
  Tensor memory(like.dtype(), {2 * std::max<int64_t>(like.numel(), 1)});
  return Tensor(like.dtype(), sizes, strides, memory.storage(), memory.data());
}

/// The same results in memory that the caller gives: row-major, as eager lays it out, and with gaps.
void check_into_memory(const Executable& exe, const std::vector<TensorView>& inputs, const std::vector<Tensor>& results) {
  for (int kind : {0, 1, 2}) {
    INFO("memory of kind " << kind);
    std::vector<Tensor> memory;
    std::vector<TensorView> views;
    for (const Tensor& r : results) {
      Tensor own(r.dtype(), r.sizes());
      memory.push_back(kind == 0 ? own : kind == 2 ? with_gaps(r) : Tensor(r.dtype(), r.sizes(), r.strides(), own.storage(), own.data()));
    }
    for (const Tensor& t : memory) views.push_back(t.view());
    if (kind == 0)
      for (TensorView& v : views) v.strides = {};
    exe.run(inputs, views).check();
    for (size_t i = 0; i < results.size(); i++) CHECK_MESSAGE(same_elements(memory[i], results[i]), i);
    if (auto bound = exe.bind(inputs, views)) {
      for (const Tensor& t : memory) std::memset(t.data(), 0, static_cast<size_t>(t.numel()) * size_of(t.dtype()));
      bound.value().run().check();
      for (size_t i = 0; i < results.size(); i++) CHECK_MESSAGE(same_elements(memory[i], results[i]), i);
    }
  }
}

} // namespace

TEST_CASE("results lie in memory as eager's") {
  for (std::string name : {"permuted", "formats", "parts", "memory", "channels_last_net", "row_major_net", "depth_net", "heads"}) {
    Program program = Program::load(folder() + name + ".pt2").value();
    for (bool interpret : {false, true}) {
      INFO(name << (interpret ? ", interpreted" : ""));
      Executable exe = program.compile({.threads = 2, .interpret = interpret}).value();
      std::vector<Tensor> inputs = program.example_inputs().value(), results, again;
      exe.run(inputs, results).check();
      check_layouts(name, results);
      exe.run(inputs, again).check();
      std::vector<const void*> places;
      for (const Tensor& t : again) places.push_back(t.data());
      exe.run(inputs, again).check(); // takes the memory of those before
      for (size_t i = 0; i < results.size(); i++) CHECK(same_elements(again[i], results[i]));
      check_layouts(name, again);
      std::vector<TensorView> views;
      for (const Tensor& t : inputs) views.push_back(t.view());
      check_into_memory(exe, views, results);
    }
  }
}

TEST_CASE("programs and compiled files say the order of dims") {
  Program program = Program::load(folder() + "permuted.pt2").value();
  CHECK(program.outputs().at(0).dim_order == std::vector<int>{1, 2, 0});
  CHECK(program.outputs().at(3).dim_order.empty());
  CHECK(program.outputs().at(0).sizes == std::vector<std::string>{"4", program.outputs().at(3).sizes.at(2), "5"});
  Program changed = program.transform([](const std::string& text) { return text; }).value();
  for (size_t i = 0; i < program.outputs().size(); i++) {
    CHECK(changed.outputs().at(i).sizes == program.outputs()[i].sizes);
    CHECK(changed.outputs()[i].dim_order == program.outputs()[i].dim_order);
  }
  std::string path = std::filesystem::temp_directory_path() / fmt::format("tenon-strides-{}.tenon", getpid());
  program.save_compiled(path).check();
  Executable exe = Executable::load(path).value();
  std::remove(path.c_str());
  std::vector<Tensor> inputs = program.example_inputs().value(), results;
  exe.run(inputs, results).check();
  check_layouts("permuted", results);
  CHECK(exe.outputs().at(0).dim_order == std::vector<int>{1, 2, 0});
}

TEST_CASE("a convolution's channels-last result is returned as it lies") {
  std::string plan = Program::load(folder() + "channels_last_net.pt2").value().dump("plan").value();
  std::string copy = "# loops: to_layout\n"; // of the input alone
  size_t first = plan.find(copy);
  REQUIRE_MESSAGE(first != plan.npos, plan);
  CHECK_MESSAGE(plan.find(copy, first + 1) == plan.npos, plan);
}

TEST_CASE("texts without strides: what operators say of memory") {
  // The order of dims of `call`, of %x : Float(2, 3, 4, 5) and of what was computed of it channels-last.
  auto order = [](const std::string& call) {
    std::string text = "graph():\n"
                       "    %x : Float(2, 3, 4, 5) [num_users=1] = placeholder[target=x]\n"
                       "    %last : [num_users=1] = call_function[target=torch.ops.aten.contiguous.default](args = (%x,), kwargs = "
                       "{memory_format: torch.channels_last})\n"
                       "    %y : [num_users=1] = call_function[target=torch.ops." +
                       call + ")\n    return (y,)";
    Program program = Program::parse(text).value();
    std::vector<Tensor> inputs{Tensor(DType::F32, {2, 3, 4, 5})}, native, interpreted;
    std::fill_n(inputs[0].data_as<float>(), 120, 1.5f);
    program.compile().value().run(inputs, native).check();
    program.compile({.interpret = true}).value().run(inputs, interpreted).check();
    CHECK(native.at(0).strides() == interpreted.at(0).strides());
    const std::vector<int>& o = program.outputs().at(0).dim_order;
    CHECK(is_layout(native[0].sizes(), native[0].strides(), dense_strides(native[0].sizes(), o)));
    return show_sizes({o.begin(), o.end()});
  };
  CHECK(order("aten.relu.default](args = (%x,), kwargs = {}") == "");
  CHECK(order("aten.relu.default](args = (%last,), kwargs = {}") == "0,2,3,1");
  CHECK(order("aten.add.Tensor](args = (%last, %last), kwargs = {}") == "0,2,3,1");
  CHECK(order("aten.clone.default](args = (%last,), kwargs = {}") == "0,2,3,1");
  CHECK(order("aten.clone.default](args = (%last,), kwargs = {memory_format: torch.contiguous_format}") == "");
  CHECK(order("aten.clone.default](args = (%x,), kwargs = {memory_format: torch.channels_last}") == "0,2,3,1");
  CHECK(order("aten._to_copy.default](args = (%x,), kwargs = {dtype: torch.float64, memory_format: torch.channels_last}") == "0,2,3,1");
  CHECK(order("aten._to_copy.default](args = (%last,), kwargs = {dtype: torch.float64}") == "0,2,3,1");
  CHECK(order("aten.zeros_like.default](args = (%last,), kwargs = {}") == "0,2,3,1");
  CHECK(order("aten.zeros_like.default](args = (%x,), kwargs = {memory_format: torch.channels_last}") == "0,2,3,1");
  CHECK(order("aten.contiguous.default](args = (%last,), kwargs = {}") == "");
  CHECK(order("aten.permute.default](args = (%x, [0, 2, 3, 1]), kwargs = {}") == "0,3,1,2");
  CHECK(order("aten.permute.default](args = (%last, [0, 2, 3, 1]), kwargs = {}") == "");
  CHECK(order("aten.transpose.int](args = (%x, 1, -1), kwargs = {}") == "0,3,2,1");
  CHECK(order("dim_order_ops._to_dim_order_copy.default](args = (%x,), kwargs = {dim_order: [0, 2, 3, 1]}") == "0,2,3,1");
  CHECK(order("dim_order_ops._to_dim_order_copy.default](args = (%last,), kwargs = {dim_order: [0, 1, 2, 3]}") == "");
  CHECK(order("dim_order_ops._clone_dim_order.default](args = (%x,), kwargs = {dim_order: [3, 2, 1, 0]}") == "3,2,1,0");
  auto wrong =
      Program::parse("graph():\n    %x : Float(2, 3) [num_users=1] = placeholder[target=x]\n"
                     "    %y : [num_users=1] = call_function[target=torch.ops.dim_order_ops._to_dim_order_copy.default](args = (%x,), "
                     "kwargs = {dim_order: [0, 0]})\n    return (y,)");
  REQUIRE(!wrong.ok());
  CHECK_MESSAGE(has(wrong.error().what(), "%y: dim_order_ops::_to_dim_order_copy.default: dim_order is no permutation"),
                wrong.error().what());
}

TEST_CASE("orders of dims") {
  auto order = [](const std::string& type) {
    ParsedGraph g = parse_graph("symbol s in [0, 99]\ngraph(%x : " + type + "):\n  return (%x)\n");
    std::vector<int> o = dim_order(g.graph.type(g.graph.block(g.graph.top()).params[0]));
    return show_sizes({o.begin(), o.end()});
  };
  CHECK(order("Float(2, 3)") == "");
  CHECK(order("Float(2, 3, strides=[3, 1])") == "");
  CHECK(order("Float(2, 3, strides=[1, 2])") == "1,0");
  CHECK(order("Float(2, 3, 4, 5, strides=[60, 1, 15, 3])") == "0,2,3,1");
  CHECK(order("Float(s, 3, 4, 5, strides=[60, 1, 15, 3])") == "0,2,3,1");
  CHECK(order("Float(2, 3, s, 5, strides=[15*s, 1, 15, 3])") == "0,2,3,1");
  CHECK(order("Float(2, 3, s, 5, strides=[15*max(s, 1), 1, 15, 3])") == "0,2,3,1"); // as torch writes what may be empty
  CHECK(order("Float(4, 6, strides=[1, max(4, 1)])") == "1,0");
  CHECK(order("Float(2, 1, 4, 5, strides=[20, 1, 5, 1])") == ""); // dims of size 1 make no order
  CHECK(order("Float(2, 3, strides=[0, 1])") == "");
  CHECK(order("Float(2, 3, strides=[6, 2])") == "");
  CHECK(order("Float(2, 3, strides=[1, 4])") == "");
  CHECK(order("Float(1, 1, strides=[7, 9])") == "");
  CHECK(order("Float()") == "");
}

TEST_CASE("what is recorded of tensors besides their types") {
  Program program = Program::load(TENON_FIXTURES + std::string("/programs/mlp.pt2")).value();
  CHECK(program.inputs().at(0).device == "cpu");
  CHECK(!program.inputs().at(0).requires_grad);
  std::string text = "graph(%x : Float(2, 3, strides=[1, 2], requires_grad=1, device=cuda:1)):\n"
                     "  %y : Float(2, 3, requires_grad=1, device=cpu) = aten::relu.default(%x)\n"
                     "  return (%y)\n";
  Graph g = parse_graph(text).graph;
  CHECK(to_string(g) == text);
  const TensorMeta& meta = g.value(g.block(g.top()).params[0]).meta;
  CHECK((meta.requires_grad && meta.device == Device::Cuda && meta.device_index == 1));
  CHECK(has(error_thrown_by([] { parse_graph("graph(%x : Float(2, device=cuda:x)):\n  return (%x)\n"); }), "no such device: cuda:x"));
}

} // namespace tenon::strides_test
