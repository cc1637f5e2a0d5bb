// Reverse-mode derivatives: the programs of fixtures/gradients, their gradients compared with torch's and with finite differences.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "autodiff/activity.h"
#include "autodiff/differentiate.h"
#include "autodiff/passes.h"
#include "executor/interpreter.h"
#include "load/npz.h"
#include "script/script.h"
#include "script/text.h"

namespace tenon::gradients_test {
using namespace tenon::autodiff;

namespace {

std::string text_of(const std::string& path) {
  std::ifstream in(path);
  REQUIRE(in);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

const std::string folder = std::string(TENON_FIXTURES) + "/gradients/";

Tensor copy_of(const Tensor& t) {
  Tensor from = t.contiguous(), to(t.dtype(), t.sizes());
  std::memcpy(to.data(), from.data(), static_cast<size_t>(t.numel()) * size_of(t.dtype()));
  return to;
}

double at(const Tensor& t, int64_t i) { return t.dtype() == DType::F32 ? t.data_as<float>()[i] : t.data_as<double>()[i]; }

/// What the gradients are of: cos(0.7 * k + 1) times the k-th element of each floating result.
double weight(int64_t k) { return std::cos(0.7 * static_cast<double>(k) + 1); }
Tensor weights_like(const Tensor& t) {
  Tensor w(t.dtype(), t.sizes());
  for (int64_t i = 0; i < w.numel(); i++) {
    if (w.dtype() == DType::F32) w.data_as<float>()[i] = static_cast<float>(weight(i));
    else if (w.dtype() == DType::F64) w.data_as<double>()[i] = weight(i);
    else std::memset(w.data_as<char>() + static_cast<size_t>(i) * size_of(w.dtype()), 0, size_of(w.dtype()));
  }
  return w;
}

/// A list is one target: the sum of its elements.
void add_targets(const IValue& v, std::vector<Tensor>& targets) {
  if (v.is(IValue::Tag::Tensor)) targets.push_back(v.to_tensor().contiguous());
  else if (v.is(IValue::Tag::Tuple))
    for (const IValue& e : v.to_tuple()) add_targets(e, targets);
  else if (v.is(IValue::Tag::List)) {
    Tensor sum(DType::F64, {});
    *sum.data_as<double>() = 0;
    for (const IValue& e : v.to_list()) {
      Tensor t = e.to_tensor().contiguous();
      for (int64_t i = 0; i < t.numel(); i++) *sum.data_as<double>() += at(t, i);
    }
    targets.push_back(sum);
  }
}

struct Case {
  std::string name;
  script::ScriptProgram program;
  std::vector<Tensor> args;
  std::vector<size_t> wrt;
  std::vector<Tensor> expected; // by torch; may be none
};

std::vector<IValue> inputs_of(const Case& c) {
  std::vector<IValue> inputs;
  for (const Tensor& t : c.args) inputs.emplace_back(copy_of(t));
  return inputs;
}

std::vector<Tensor> gradients_of(const Case& c) {
  Gradients g = differentiate(c.program.graph, c.wrt);
  std::vector<IValue> kept = executor::run(executor::build_code(g.forward), inputs_of(c));
  std::vector<Tensor> targets;
  for (size_t i = 0; i < g.results; i++) add_targets(kept[i], targets);
  REQUIRE(targets.size() == g.targets);
  kept.erase(kept.begin(), kept.begin() + static_cast<int64_t>(g.results));
  for (const Tensor& t : targets) kept.emplace_back(weights_like(t));
  std::vector<Tensor> out;
  for (const IValue& v : executor::run(executor::build_code(g.backward), std::move(kept))) out.push_back(v.to_tensor().contiguous());
  return out;
}

double value_of(const std::shared_ptr<const executor::Code>& code, std::vector<IValue> inputs) {
  std::vector<Tensor> targets;
  for (const IValue& v : executor::run(code, std::move(inputs))) add_targets(v, targets);
  double sum = 0;
  for (const Tensor& t : targets)
    if (t.dtype() == DType::F64 || t.dtype() == DType::F32)
      for (int64_t i = 0; i < t.numel(); i++) sum += at(t, i) * weight(i);
  return sum;
}

bool close(const Tensor& a, const Tensor& b, double tolerance) {
  if (a.sizes() != b.sizes() || a.dtype() != b.dtype()) return false;
  double most = 1;
  for (int64_t i = 0; i < b.numel(); i++) most = std::max(most, std::fabs(at(b, i)));
  for (int64_t i = 0; i < a.numel(); i++)
    if (!(std::fabs(at(a, i) - at(b, i)) <= tolerance * most)) return false;
  return true;
}

/// By differences; of f64 programs.
Tensor differences(const Case& c, size_t arg) {
  auto code = executor::build_code(c.program.graph);
  Tensor out(DType::F64, c.args[arg].sizes());
  constexpr double step = 1e-6;
  for (int64_t i = 0; i < out.numel(); i++) {
    double sides[2];
    for (int side : {0, 1}) {
      std::vector<IValue> inputs = inputs_of(c);
      inputs[arg].to_tensor().data_as<double>()[i] += side ? step : -step;
      sides[side] = value_of(code, std::move(inputs));
    }
    out.data_as<double>()[i] = (sides[1] - sides[0]) / (2 * step);
  }
  return out;
}

std::vector<Case> cases() {
  std::map<std::string, Tensor> arrays;
  for (NpyArray& a : read_npz(folder + "torch.npz")) arrays.emplace(std::move(a.name), std::move(a.tensor));
  std::string source;
  for (auto& file : std::filesystem::directory_iterator(folder))
    if (file.path().extension() == ".py") source += text_of(file.path());
  std::vector<Case> out;
  for (size_t at = source.find("\ndef "); at != source.npos; at = source.find("\ndef ", at + 1)) {
    Case c;
    c.name = source.substr(at + 5, source.find('(', at) - at - 5);
    size_t end = source.find("\ndef ", at + 1);
    std::string imports = "import torch\nfrom torch import Tensor\nfrom typing import Dict, List, Optional\n";
    try {
      c.program = script::compile_script(imports + source.substr(at, end - at), c.name + ".py", c.name);
    } catch (const Error& e) {
      FAIL_CHECK(fmt::format("{}: {}", c.name, e.what()));
      continue;
    }
    for (size_t i = 0; i < c.program.params.size(); i++) {
      c.args.push_back(arrays.at(fmt::format("{}.arg{}", c.name, i)));
      auto grad = arrays.find(fmt::format("{}.grad{}", c.name, i));
      if (grad != arrays.end()) c.wrt.push_back(i), c.expected.push_back(grad->second);
    }
    if (c.wrt.empty())
      for (size_t i = 0; i < c.args.size(); i++)
        if (c.args[i].dtype() == DType::F64) c.wrt.push_back(i);
    out.push_back(std::move(c));
  }
  return out;
}

/// Whether differences say nothing: what rounds to f32, has ties, or stops gradients by its meaning.
bool is_kinked(const std::string& name) {
  static const std::set<std::string> names{"detach_0", "float_0", "to_0", "pow_mixed_0", "softmax_2", "ties_0", "embedding_1", "no_grad_0"};
  return names.contains(name);
}

} // namespace

TEST_CASE("each row with a derivative is called by a program of the fixture") {
  std::set<std::string> called;
  std::function<void(const Graph&, const Activity&, BlockId)> look = [&](const Graph& g, const Activity& activity, BlockId b) {
    for (NodeId n : g.block(b).nodes) {
      if (const Resolved* r = activity.resolved(n); r && r->def) called.insert(r->def->signature.name);
      for (BlockId inner : g.node(n).blocks) look(g, activity, inner);
    }
  };
  for (const Case& c : cases()) {
    Graph expanded = expand(c.program.graph, c.wrt);
    for (const Graph* g : {&c.program.graph, &std::as_const(expanded)}) look(*g, Activity(*g, {}), g->top());
  }
  std::string missing;
  for (const OpDef* def : all_ops())
    if (const Derivative* d = derivative_of(*def); d && !d->stops() && !called.contains(def->signature.name))
      missing += def->signature.name + "\n";
  CHECK(missing == text_of(folder + "uncalled.txt"));
}

TEST_CASE("gradients are torch's and those of finite differences") {
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    std::vector<Tensor> got;
    try {
      got = gradients_of(c);
      for (size_t k = 0; k < c.expected.size(); k++)
        CHECK(close(got[k], c.expected[k].contiguous(), c.args[c.wrt[k]].dtype() == DType::F32 ? 1e-4 : 1e-8));
      for (size_t k = 0; k < c.wrt.size(); k++)
        if (c.args[c.wrt[k]].dtype() == DType::F64 && !is_kinked(c.name)) CHECK(close(got[k], differences(c, c.wrt[k]), 1e-4));
    } catch (const Error& e) {
      FAIL_CHECK(fmt::format("{}: {}", c.name, e.what()));
    }
  }
}

namespace {

script::ScriptProgram compiled(const std::string& source) {
  return script::compile_script("import torch\nfrom typing import List\n" + source, "f.py", "f");
}
Gradients of_source(const std::string& source, std::vector<size_t> wrt = {0}) { return differentiate(compiled(source).graph, wrt); }
size_t kept_by(const std::string& source, std::vector<size_t> wrt = {0}) {
  Gradients g = of_source(source, std::move(wrt));
  return g.forward.block(g.forward.top()).returns.size() - g.results;
}
std::string error_of(const std::string& source, std::vector<size_t> wrt = {0}) {
  try {
    of_source(source, std::move(wrt));
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

} // namespace

TEST_CASE("the forward pass keeps what the backward pass reads, and no more") {
  CHECK(kept_by("def f(x):\n    return -x\n") == 1);             // x, for zeros' sake
  CHECK(kept_by("def f(x):\n    return x.tanh().exp()\n") == 3); // both results
  CHECK(kept_by("def f(x, y):\n    return x * y\n") == kept_by("def f(x, y):\n    z = x.exp() * 2\n    return x * y\n")); // z is not needed
}

TEST_CASE("what cannot be differentiated is refused by name and place") {
  CHECK(error_of("def f(x):\n    return torch.fft.fft(x).abs()\n").find("aten::fft_fft has no derivative\n  at f.py:4:") == 0);
  CHECK(error_of("def f(x, n: int):\n    return x * n\n", {1}) == "input 1 is no tensor, but of type int");
  CHECK(error_of("def f(x):\n    return x\n", {1}) == "there is no input 1: the program has 1");
  CHECK(error_of("def f(x):\n    return [[x]]\n") == "the gradient of a result of type List[List[Tensor]]");
  CHECK(error_of("def f(x):\n    y = x * 2\n    z = y.detach()\n    z.add_(1)\n    return y + z\n")
            .find("aten::detach of memory that is written in place") == 0);
  CHECK(error_of("def f(x):\n    return (x > 1).sum() + x.argmax()\n").empty()); // no gradient flows
}

TEST_CASE("gradients of a graph that is given as text") {
  script::ScriptProgram p = script::program_of_text(R"(graph(%x : Float(*), %n : int):
  %c : bool = prim::Constant[value=1]()
  %y : Tensor = prim::Loop(%n, %c, %x)
    block0(%i : int, %s : Tensor):
      %t : Tensor = aten::mul(%s, %x)
      -> (%c, %t)
  return (%y))");
  std::vector<size_t> wrt{0};
  Gradients g = differentiate(p.graph, wrt);
  Tensor x(DType::F64, {2});
  x.data_as<double>()[0] = 2, x.data_as<double>()[1] = -1;
  auto code = executor::build_code(g.both);
  for (int64_t n : {0, 1, 4}) {
    std::vector<IValue> out = executor::run(code, {IValue(x), IValue(n)});
    REQUIRE(out.size() == 2);
    for (int64_t i : {0, 1})
      CHECK(at(out[1].to_tensor(), i) == doctest::Approx(static_cast<double>(n + 1) * std::pow(at(x, i), n))); // x^(n+1)
  }
}

} // namespace tenon::gradients_test
