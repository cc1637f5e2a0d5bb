// What torch printed of the fixtures' programs (tests/fixtures/fx_texts.py): read, printed back, and run beside the .pt2.
#include <doctest/doctest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "api/impl.h"
#include "base/strided.h"
#include "fx/text.h"
#include "fx/to_graph.h"
#include "ir/parse.h"
#include "load/load.h"

using namespace tenon;
namespace fs = std::filesystem;

namespace {

std::string read_text(const fs::path& path) {
  std::ifstream in(path);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

// The program of that name, from either folder.
LoadedProgram load_program(const std::string& name) {
  std::string folder = fs::exists(TENON_FIXTURES + ("/programs/" + name + ".pt2")) ? "/programs/" : "/control/";
  return load_pt2(TENON_FIXTURES + folder + name + ".pt2");
}

// Of its own memory: programs change their inputs.
Tensor copy_of(const Tensor& t) {
  Tensor copy(t.dtype(), t.sizes());
  copy_strided(t.view(), copy.data());
  return copy;
}

Type type_of(ExprPool& pool, const Tensor& t) {
  std::vector<Expr> sizes;
  for (int64_t s : t.sizes()) sizes.push_back(pool.integer(s));
  return Type::tensor(t.dtype(), std::move(sizes));
}

// The text's placeholders in the order of the program's signature: weights become inputs, numbers stay what they were given.
LoadedProgram with_inputs(FxGraph fx, const LoadedProgram& p, const std::vector<Tensor>& given, std::vector<Tensor>& inputs) {
  Graph g(fx.pool);
  ToGraph to(g, fx);
  std::vector<uint32_t> places = to.placeholders();
  REQUIRE(places.size() == p.inputs.size());
  size_t next = 0;
  for (size_t i = 0; i < places.size(); i++) {
    const ProgramInput& in = p.inputs[i];
    FxNode& placeholder = fx.nodes[places[i]];
    bool is_user = in.kind == InputKind::User,
         is_fixed_number = in.kind == InputKind::Fixed && !in.fixed.is_none() && !in.fixed.is<std::string>();
    if (is_fixed_number) next++;
    if (in.kind == InputKind::Fixed || in.kind == InputKind::Token) {
      to.bind(places[i], in.fixed);
      continue;
    }
    Tensor t = is_user ? given.at(next++) : p.weights.at(in.target);
    if (is_user && !p.graph.type(in.value).is_tensor()) {
      bool real = is_float(t.dtype());
      to.bind(places[i], real ? Arg(*t.data_as<double>()) : Arg(*t.data_as<int64_t>()));
      continue;
    }
    placeholder.val = FxVal::one(type_of(*fx.pool, t));
    to.add_param(g.top(), places[i]);
    inputs.push_back(copy_of(t));
  }
  to.add_nodes(g.top());
  g.block(g.top()).returns = to.results();
  return program_of(std::move(g));
}

std::vector<Tensor> run(LoadedProgram program, std::span<const Tensor> inputs) {
  std::vector<Tensor> outputs;
  Program(std::make_shared<Program::Impl>(Program::Impl{std::move(program), {}, {}}))
      .compile({.interpret = true})
      .value()
      .run(inputs, outputs)
      .check();
  return outputs;
}

void check_same(const Tensor& a, const Tensor& b) {
  REQUIRE(a.dtype() == b.dtype());
  REQUIRE(a.sizes() == b.sizes());
  CHECK(std::memcmp(a.contiguous().data(), b.contiguous().data(), static_cast<size_t>(a.numel()) * size_of(a.dtype())) == 0);
}

// Results of the text are those of the program, bit by bit; what it returns of changed buffers has no part in the program's.
void check_runs(const std::string& name, const std::string& text) {
  LoadedProgram p = load_program(name);
  std::vector<Tensor> given = load_example_inputs(p);
  std::vector<Tensor> inputs;
  LoadedProgram from_text = with_inputs(parse_fx(text), p, given, inputs);
  std::vector<bool> is_result; // of what is not None
  auto& returns = p.graph.block(p.graph.top()).returns;
  for (size_t i = 0; i < returns.size(); i++)
    if (!returns[i].is_none()) is_result.push_back(p.outputs[i].kind == OutputKind::User);
  std::vector<Tensor> all = run(std::move(from_text), inputs), got;
  REQUIRE(all.size() == is_result.size());
  for (size_t i = 0; i < all.size(); i++)
    if (is_result[i]) got.push_back(all[i]);
  std::vector<Tensor> want = run(std::move(p), given);
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < want.size(); i++) check_same(got[i], want[i]);
}

} // namespace

namespace {

// The texts that do not run, from tests/expected/fx_texts.txt.
std::set<std::string> read_expected() {
  std::ifstream in(std::string(TENON_FIXTURES) + "/../expected/fx_texts.txt");
  std::set<std::string> names;
  for (std::string line; std::getline(in, line);)
    if (!line.empty() && line[0] != '#') names.insert(line);
  return names;
}

} // namespace

TEST_CASE("what torch prints of programs comes back unchanged and runs as they do") {
  std::set<std::string> expected = read_expected();
  int seen = 0;
  for (auto& entry : fs::directory_iterator(std::string(TENON_FIXTURES) + "/fx")) {
    std::string name = entry.path().stem().string(), text = read_text(entry.path());
    INFO(name);
    seen++;
    try {
      CHECK(to_string(parse_fx(text)) == text);
      check_runs(name, text);
      CHECK_MESSAGE(!expected.contains(name), "remove from tests/expected/fx_texts.txt: ", name);
    } catch (const Error& e) {
      CHECK_MESSAGE(expected.contains(name), std::string(e.what()));
    }
  }
  CHECK(seen >= 50);
}
