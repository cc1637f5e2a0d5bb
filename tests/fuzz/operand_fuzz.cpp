// Operands that do not go together: each operator of a folder's programs alone, with one dim or all dims of its operands unknown until the
// call, and then called with other sizes; with an operand of one dim more or less, of another dtype. Native code and the interpreter refuse
// the same calls and give the same for others.
//
//   operand_fuzz FOLDER [FIRST [STEP]]: every STEP-th case from FIRST on
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include <fmt/ranges.h>

#define DOCTEST_CONFIG_DISABLE // the harness asserts in unit tests
#include "load/load.h"
#include "tests/unit/graph_harness.h"

namespace fs = std::filesystem;
using namespace tenon;
using namespace tenon::test;

namespace {

int current = 0;
const char* current_text = "";

void report(int signal) { // async-signal-safe as far as a dying process needs
  char line[256];
  int n = std::snprintf(line, sizeof line, "signal %d at case %d, %s\n", signal, current, current_text);
  if (write(2, line, std::min(sizeof line - 1, static_cast<size_t>(n))) < 0) _exit(3);
  _exit(2);
}

struct Operand {
  ValueId value;
  DType dtype;
  std::vector<int64_t> sizes;
  std::vector<bool> unknown; // which dims are
};

// One node, its operands (each once) inputs of the program.
struct Case {
  const Node& node;
  std::vector<Operand> operands;
  std::string text;

  TestGraph program() const {
    TestGraph g;
    std::map<ValueId, V> inputs;
    for (const Operand& o : operands) {
      std::vector<Expr> sizes;
      for (size_t d = 0; d < o.sizes.size(); d++)
        sizes.push_back(o.unknown[d] ? g.symbol(fmt::format("s{}_{}", inputs.size(), d)) : g.b.integer(o.sizes[d]));
      inputs[o.value] = g.input(sizes, o.dtype);
    }
    ArgList args;
    for (const Arg& a : node.args) args.push_back(map_values(a, [&](ValueId v) -> Arg { return inputs.at(v); }));
    for (V v : g.b.call(node.op, args)) g.returns(v);
    return g;
  }

  // As they are, and with one size changed.
  std::vector<std::vector<Operand>> calls() const {
    std::vector<std::vector<Operand>> out{operands};
    for (size_t k = 0; k < operands.size(); k++)
      for (size_t d = 0; d < operands[k].sizes.size(); d++) {
        int64_t n = operands[k].sizes[d];
        if (!operands[k].unknown[d]) continue;
        for (int64_t size : std::set<int64_t>{n + 1, std::max<int64_t>(n - 1, 0), 1, 2 * n, 37})
          if (size != n) out.push_back(operands), out.back()[k].sizes[d] = size;
      }
    return out;
  }
};

Tensor input(const Operand& o) {
  bool whole = !is_float(o.dtype) && !is_complex(o.dtype);
  auto phase = static_cast<double>(o.value.index);
  return filled(o.dtype, o.sizes,
                [&](int64_t i) { return whole ? static_cast<double>(i % 2) : 0.6 + 0.3 * std::sin(static_cast<double>(i) + phase); });
}

bool is_plain(const Graph& g, const Arg& a) {
  if (auto* list = std::get_if<ArgList>(&a.v)) return std::ranges::all_of(*list, [&](const Arg& x) { return is_plain(g, x); });
  if (a.is<Expr>()) return a.get<Expr>()->is_const();
  if (!a.is<ValueId>()) return !a.is<TensorId>();
  const Type& t = g.type(a.get<ValueId>());
  return t.is_tensor() && std::ranges::all_of(t.sizes, [](Expr e) { return e->is_const(); });
}

std::vector<Operand> operands_of(const Graph& g, const Node& n) {
  std::vector<Operand> out;
  for (const Arg& a : n.args)
    for_each_value(a, [&](ValueId v) {
      if (std::ranges::find(out, v, &Operand::value) != out.end()) return;
      const Type& t = g.type(v);
      Operand& o = out.emplace_back(v, t.dtype, std::vector<int64_t>(), std::vector<bool>(t.rank()));
      for (Expr e : t.sizes) o.sizes.push_back(*const_int(e));
    });
  return out;
}

void add_cases(const Graph& g, const Node& n, std::vector<Case>& out) {
  std::vector<Operand> all = operands_of(g, n), operands = all;
  auto add = [&](size_t k, std::string_view what) {
    out.push_back({n, operands, fmt::format("{}: operand {} {}", n.op, k, what)});
    operands = all;
  };
  for (size_t k = 0; k < all.size(); k++) {
    Operand& o = operands[k];
    for (size_t d = 0; d < all[k].sizes.size(); d++) o.unknown[d] = true, add(k, fmt::format("with an unknown dim {}", d));
    o.sizes.insert(o.sizes.begin(), 2), o.unknown.push_back(false), add(k, "with a dim more");
    if (!all[k].sizes.empty()) o.sizes.erase(o.sizes.begin()), o.unknown.pop_back(), add(k, "with a dim less");
    if (!all[k].sizes.empty()) o.sizes.clear(), o.unknown.clear(), add(k, "without dims");
    for (DType t : {DType::F32, DType::I64, DType::Bool, DType::I16, DType::BF16, DType::C64})
      if (t != o.dtype) o.dtype = t, add(k, fmt::format("of {}", name_of(t)));
  }
  for (Operand& o : operands) o.unknown.assign(o.unknown.size(), true);
  add(0, "and all others with unknown dims");
}

std::vector<Case> cases_of(const Graph& g) {
  std::vector<Case> out;
  for (NodeId id : g.block(g.top()).nodes) {
    const Node& n = g.node(id);
    bool plain = std::ranges::all_of(n.args, [&](const Arg& a) { return is_plain(g, a); });
    if (n.def && n.blocks.empty() && n.op.dialect() != "prim" && plain) add_cases(g, n, out);
  }
  return out;
}

int compared = 0, refused = 0, unbuilt = 0; // calls that gave results, calls that both refuse, programs that a shape rule refuses

// Empty where both sides agree.
std::string compare(const Outcome& native, const Outcome& oracle) {
  for (auto& o : {&native, &oracle})
    if (o->error && o->error->kind == ErrorKind::Internal) return fmt::format("internal error: {}", o->error->what());
  if (native.error && oracle.error) return refused++, std::string();
  if (native.error) return fmt::format("native code alone: {}", native.error->what());
  if (oracle.error) return fmt::format("the interpreter alone: {}", oracle.error->what());
  compared++;
  if (native.outputs.size() != oracle.outputs.size()) return "another number of outputs";
  for (size_t i = 0; i < native.outputs.size(); i++)
    if (std::string d = difference(native.outputs[i], oracle.outputs[i], 1e-2); !d.empty()) return fmt::format("output {}: {}", i, d);
  return {};
}

// Empty where all calls agree.
std::string check(const Case& c) try {
  Program program = c.program().program();
  Result<Executable> native = program.compile({.threads = 1}), oracle = program.compile({.interpret = true});
  for (const std::vector<Operand>& operands : c.calls()) {
    std::vector<Tensor> inputs;
    for (const Operand& o : operands) inputs.push_back(input(o));
    std::string why = compare(outcome_of(native, inputs), outcome_of(oracle, inputs));
    if (why.empty()) continue;
    for (const Operand& o : operands) why += fmt::format(" {}", o.sizes);
    return why;
  }
  return {};
} catch (const Error& e) {
  if (e.kind == ErrorKind::Internal) return fmt::format("internal error: {}", e.what());
  return unbuilt++, std::string();
}

} // namespace

int main(int argc, char** argv) {
  if (argc < 2) return std::puts("operand_fuzz FOLDER [FIRST [STEP]]"), 1;
  for (int s : {SIGSEGV, SIGBUS, SIGFPE, SIGABRT, SIGALRM, SIGILL}) signal(s, report);
  int first = argc > 2 ? std::atoi(argv[2]) : 0, step = std::max(1, argc > 3 ? std::atoi(argv[3]) : 1), at = 0, run = 0, failed = 0;
  std::vector<fs::path> files;
  for (auto& e : fs::directory_iterator(argv[1]))
    if (e.path().extension() == ".pt2") files.push_back(e.path());
  std::ranges::sort(files);
  for (const fs::path& path : files) {
    LoadedProgram program = load_pt2(path.string());
    for (const Case& c : cases_of(program.graph)) {
      current = at++;
      if (current < first || (current - first) % step != 0) continue;
      run++, current_text = c.text.c_str();
      alarm(120);
      std::string why = check(c);
      if (why.empty()) continue;
      failed++;
      fmt::print("case {}, {}: {}: {}\n", current, path.filename().string(), c.text, why);
    }
  }
  fmt::print("{} of {} cases, {} of them failed; {} refused by a shape rule, {} calls refused, {} compared\n", run, at, failed, unbuilt,
             refused, compared);
  bool hollow = run >= 1000 && (compared < 2 * refused || unbuilt > run / 5); // refusing all is no agreement
  return failed > 0 || run == 0 || hollow;
}
