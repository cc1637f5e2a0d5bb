// What torch printed of the fixtures' programs (tests/fixtures/fx_texts.py): read, printed back, and run beside the .pt2.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "api/impl.h"
#include "base/strided.h"
#include "cli/compare.h"
#include "fx/text.h"
#include "fx/to_graph.h"
#include "ir/parse.h"
#include "load/load.h"

namespace tenon::fx_fixture_test {

namespace fs = std::filesystem;

namespace {

std::string read_text(const fs::path& path) {
  std::ifstream in(path);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

// The program of a text: that of its name, or what it was before it was lowered or unlifted.
LoadedProgram load_program(std::string name) {
  for (;; name.resize(name.rfind('.'))) {
    for (const char* folder : {"/programs/", "/control/", "/quantized/", "/fx/"})
      if (std::string path = std::string(TENON_FIXTURES) + folder + name + ".pt2"; fs::exists(path)) return load_pt2(path);
    require_input(name.find('.') != name.npos, "no program");
  }
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

// A text's graph as a program, and what it is called with. `typed`: inputs have the types of the text.
struct Called {
  Graph graph;
  std::vector<Tensor> inputs = {};
  bool typed = false;
};

void add_input(Called& c, ToGraph& to, FxNode& placeholder, uint32_t place, const Tensor& t) {
  if (!c.typed) placeholder.val = FxVal::one(type_of(c.graph.pool(), t));
  to.add_param(c.graph.top(), place);
  c.inputs.push_back(copy_of(t));
}

// Gives the graph the weights that its nodes read by name: those of a module, and the parts of tensor subclasses, which the program
// has as inputs of their own. The targets of these.
std::set<std::string> give_weights(FxGraph& fx, const LoadedProgram& p) {
  std::set<std::string> parts;
  for (const FxNode& n : fx.nodes) {
    if (auto weight = p.weights.find(n.target); n.kind == FxKind::GetAttr && weight != p.weights.end()) fx.tensors.insert(*weight);
    auto part = subclass_part(fx, n);
    for (auto& [target, tensor] : p.weights) {
      std::string name = "p_" + target;
      size_t last = std::min(name.rfind('.'), name.size());
      std::replace(name.begin(), name.begin() + static_cast<ptrdiff_t>(last), '.', '_');
      if (part && name == part->name) fx.tensors.emplace(name, tensor), parts.insert(target);
    }
  }
  return parts;
}

// The text's placeholders in the order of the program's signature: weights become inputs, numbers stay what they were given. Of a
// module's graph they are the user's inputs alone.
LoadedProgram with_inputs(FxGraph fx, const LoadedProgram& p, const std::vector<Tensor>& given, Called& c) {
  std::set<std::string> parts = give_weights(fx, p);
  ToGraph to(c.graph, fx);
  std::vector<uint32_t> places = to.placeholders();
  size_t next = 0, place = 0;
  bool lifted = places.size() + parts.size() == p.inputs.size();
  for (const ProgramInput& in : p.inputs) {
    bool is_user = in.kind == InputKind::User, is_fixed = in.kind == InputKind::Fixed || in.kind == InputKind::Token;
    if ((!lifted && !is_user && in.kind != InputKind::Fixed) || parts.contains(in.target)) continue;
    require_input(place < places.size(), "too few placeholders");
    uint32_t at = places[place++];
    bool is_fixed_number = in.kind == InputKind::Fixed && !in.fixed.is_none() && !in.fixed.is<std::string>();
    if (is_fixed_number) next++;
    if (is_fixed) {
      to.bind(at, in.fixed);
      continue;
    }
    Tensor t = is_user ? given.at(next++) : p.weights.at(in.target);
    if (is_user && !p.graph.type(in.value).is_tensor() && !c.typed)
      to.bind(at, is_float(t.dtype()) ? Arg(*t.data_as<double>()) : Arg(*t.data_as<int64_t>()));
    else add_input(c, to, fx.nodes[at], at, t);
  }
  require_input(place == places.size(), "{} placeholders, {} inputs", places.size(), place);
  to.add_nodes(c.graph.top());
  c.graph.block(c.graph.top()).returns = to.results();
  return program_of(std::move(c.graph));
}

std::vector<Tensor> run(LoadedProgram program, std::span<const Tensor> inputs) {
  std::vector<Tensor> outputs;
  Program(std::make_shared<Program::Impl>(Program::Impl{std::move(program), {}}))
      .compile({.interpret = true})
      .value()
      .run(inputs, outputs)
      .check();
  return outputs;
}

void check_same(const Tensor& a, const Tensor& b, bool exactly) {
  require_input(a.dtype() == b.dtype() && a.sizes() == b.sizes(), "another dtype or size");
  if (exactly) CHECK(std::memcmp(a.contiguous().data(), b.contiguous().data(), static_cast<size_t>(a.numel()) * size_of(a.dtype())) == 0);
  else CHECK(cli::compare(a, b, {}).empty());
}

// Results of the text are those of the program, before which it may return changed buffers. Bit by bit; torch's decompositions
// round otherwise.
void check_runs(const std::string& name, FxGraph fx, bool typed) {
  LoadedProgram p = load_program(name);
  std::vector<Tensor> given = load_example_inputs(p);
  Called called{.graph = Graph(fx.pool), .typed = typed};
  bool lowered = name.ends_with(".core") || name.ends_with(".edge");
  LoadedProgram from_text = with_inputs(std::move(fx), p, given, called);
  std::vector<Tensor> got = run(std::move(from_text), called.inputs);
  std::vector<Tensor> want = run(std::move(p), given);
  require_input(got.size() >= want.size(), "{} results, not {}", got.size(), want.size());
  got.erase(got.begin(), got.end() - static_cast<ptrdiff_t>(want.size()));
  for (size_t i = 0; i < want.size(); i++) check_same(got[i], want[i], !lowered);
}

// What a graph and its Python code have in common: inputs stand first, are called by their targets, and have no types.
std::string skeleton(FxGraph g) {
  std::string inputs, rest;
  auto strip = [](auto& self, FxGraph& graph) -> void {
    for (FxNode& n : graph.nodes) {
      if (n.kind == FxKind::Placeholder) n.name = n.target;
      n.val.reset();
    }
    for (FxGraph& m : graph.modules) self(self, m);
  };
  strip(strip, g);
  std::istringstream lines(to_string(g));
  for (std::string line; std::getline(lines, line);) (line.find("] = placeholder[") != line.npos ? inputs : rest) += line + "\n";
  return inputs + rest;
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
    if (entry.path().extension() != ".fx") continue;
    std::string name = entry.path().stem().string(), text = read_text(entry.path());
    INFO(name);
    seen++;
    try {
      CHECK(to_string(parse_fx(text)) == text);
      check_runs(name, parse_fx(text), false);
      CHECK_MESSAGE(!expected.contains(name), "remove from tests/expected/fx_texts.txt: ", name);
    } catch (const Error& e) {
      CHECK_MESSAGE(expected.contains(name), name, ": ", std::string(e.what()));
    }
  }
  CHECK(seen >= 120);
}

TEST_CASE("torch's Python code of a graph is that graph, and runs by the types in it") {
  int seen = 0;
  for (auto& entry : fs::directory_iterator(std::string(TENON_FIXTURES) + "/fx")) {
    bool readable = entry.path().extension() == ".readable";
    if (!readable && entry.path().extension() != ".code") continue;
    std::string name = entry.path().stem().string();
    INFO(name);
    seen++;
    try {
      FxGraph graph = parse_fx(read_text(fs::path(entry.path()).replace_extension(".fx"))), code = parse_fx(read_text(entry.path()));
      CHECK(skeleton(code) == skeleton(std::move(graph)));
      if (readable) check_runs(name, std::move(code), true);
    } catch (const Error& e) {
      FAIL_CHECK(name, ": ", std::string(e.what()));
    }
  }
  CHECK(seen >= 240);
}

} // namespace tenon::fx_fixture_test
