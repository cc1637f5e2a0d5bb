// Random programs run in two ways that have to give the same.
#pragma once
#include <cmath>
#include <functional>

#include "executor/graph_executor.h"
#include "executor/interpreter.h"
#include "script/script.h"
#include "tests/fuzz/script_generator.h"

namespace tenon::fuzz {

/// One way to run a program; what it raises is part of what it does.
using ScriptRunner = std::function<std::vector<IValue>(const script::ScriptProgram&, std::vector<IValue>)>;

/// Instruction by instruction.
inline std::vector<IValue> run_interpreted(const script::ScriptProgram& p, std::vector<IValue> inputs) {
  return executor::run(executor::build_code(p.graph), std::move(inputs));
}
/// The same of the graph's text, read back.
inline std::vector<IValue> run_reread(const script::ScriptProgram& p, std::vector<IValue> inputs) {
  return run_interpreted(script::program_of_text(script::to_text(p.graph)), std::move(inputs));
}

/// By the graph executor's plans, where it makes some.
inline std::vector<IValue> run_planned(const script::ScriptProgram& p, std::vector<IValue> inputs) {
  executor::GraphExecutor executor(Graph(p.graph), {.calls_before_plan = 0, .threads = 1});
  return executor.run(std::move(inputs));
}

inline bool close(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= 1e-4 * std::max(1.0, std::abs(b));
}

/// Where two values differ; empty where they do not. Tensors are of f32.
inline std::string difference(const IValue& a, const IValue& b) {
  using Tag = IValue::Tag;
  if (a.tag() != b.tag()) return fmt::format("{} instead of {}", name_of(a.tag()), name_of(b.tag()));
  if (a.is(Tag::List) || a.is(Tag::Tuple)) {
    auto& x = a.is(Tag::List) ? a.to_list() : a.to_tuple();
    auto& y = b.is(Tag::List) ? b.to_list() : b.to_tuple();
    if (x.size() != y.size()) return fmt::format("{} elements instead of {}", x.size(), y.size());
    for (size_t i = 0; i < x.size(); i++)
      if (std::string why = difference(x[i], y[i]); !why.empty()) return fmt::format("[{}]: {}", i, why);
    return "";
  }
  bool same = a.is(Tag::Double) ? close(a.to_double(), b.to_double()) : equal(a, b);
  if (a.is(Tag::Tensor)) {
    Tensor x = a.to_tensor().contiguous(), y = b.to_tensor().contiguous();
    same = x.dtype() == DType::F32 && y.dtype() == DType::F32 && std::ranges::equal(x.sizes(), y.sizes());
    for (int64_t i = 0; same && i < x.numel(); i++) same = close(x.data_as<float>()[i], y.data_as<float>()[i]);
  }
  return same ? "" : fmt::format("{} instead of {}", str(a), str(b));
}

/// Arguments of a program of the seed; made anew for each run, since programs write to them.
inline std::vector<IValue> arguments(uint64_t seed) {
  auto tensor = [&](float from) {
    Tensor t(DType::F32, {2, 3});
    for (int i = 0; i < 6; i++) t.data_as<float>()[i] = from + 0.5f * static_cast<float>(i);
    return t;
  };
  return {static_cast<int64_t>(seed % 7), 0.25 * static_cast<double>(seed % 5), seed % 2 == 0, tensor(-1),
          tensor(0.25f * static_cast<float>(seed % 4))};
}

/// What a run gave, or what it said where it failed.
inline std::pair<std::vector<IValue>, std::string> outcome(const ScriptRunner& run, const script::ScriptProgram& p, uint64_t seed) {
  try {
    return {run(p, arguments(seed)), ""};
  } catch (const Error& e) {
    return {{}, e.what()};
  }
}

/// Empty where both runs of the seed's program end alike; else the program and how they differ.
inline std::string compare_runs(uint64_t seed, const ScriptRunner& run, const ScriptRunner& reference) {
  std::string source = ScriptGenerator(seed).program();
  script::ScriptProgram p = script::compile_script(source, "random.py", "f");
  auto [got, failed] = outcome(run, p, seed);
  auto [wanted, refused] = outcome(reference, p, seed);
  std::string why =
      failed != refused ? fmt::format("error '{}' instead of '{}'", failed, refused) : difference(IValue::list(got), IValue::list(wanted));
  return why.empty() ? "" : fmt::format("seed {}: {}\n{}", seed, why, source);
}

} // namespace tenon::fuzz
