// A script of `tenon check`: what it gives, raises or is refused with, against what is stored beside it.
#include <filesystem>
#include <fstream>
#include <map>

#include <simdjson.h>

#include "autodiff/differentiate.h"
#include "base/check.h"
#include "cli/commands.h"
#include "cli/script_values.h"
#include "load/npz.h"

namespace tenon::cli {

namespace fs = std::filesystem;

namespace {

using Json = simdjson::dom::element;

// What is stored beside a script: all of it optional.
struct Stored {
  explicit Stored(const std::string& base) : base(base) {
    if (fs::exists(base + ".json")) info = parser.load(base + ".json").value();
    if (fs::exists(base + ".error.json")) refusal = refusal_parser.load(base + ".error.json").value();
  }

  std::string file(const char* ending) const { return fs::exists(base + ending) ? base + ending : ""; }
  /// What must be said by the error that is to come; none where results are to come.
  std::optional<std::string> words() const {
    for (auto [from, key] : {std::pair{&refusal, "message"}, {&info, "message"}, {&info, "raises"}}) {
      std::string_view text;
      if (*from && (*from)->at_key(key).get(text) == simdjson::SUCCESS && !text.empty()) return std::string(text);
    }
    return std::nullopt;
  }

  std::string base;
  simdjson::dom::parser parser, refusal_parser;
  std::optional<Json> info, refusal;
};

std::string differs(Json got, Json want) {
  double a = 0, b = 0;
  if (want.is_double() && got.get(a) == simdjson::SUCCESS && want.get(b) == simdjson::SUCCESS)
    return std::abs(a - b) <= 1e-10 * std::max({1.0, std::abs(a), std::abs(b)}) ? "" : fmt::format("{} instead of {}", a, b);
  simdjson::dom::array items, wanted;
  if (want.get(wanted) == simdjson::SUCCESS && got.get(items) == simdjson::SUCCESS) {
    if (items.size() != wanted.size()) return fmt::format("{} elements instead of {}", items.size(), wanted.size());
    for (size_t i = 0; i < items.size(); i++)
      if (std::string why = differs(items.at(i).value(), wanted.at(i).value()); !why.empty()) return fmt::format("[{}]: {}", i, why);
    return "";
  }
  simdjson::dom::object fields, wanted_fields;
  if (want.get(wanted_fields) == simdjson::SUCCESS && got.get(fields) == simdjson::SUCCESS) {
    for (auto [key, value] : wanted_fields) {
      Json found;
      if (fields.at_key(key).get(found) != simdjson::SUCCESS) return fmt::format("no {}", key);
      if (std::string why = differs(found, value); !why.empty()) return why;
    }
    return fields.size() == wanted_fields.size() ? "" : "more fields than expected";
  }
  std::string a_text = simdjson::minify(got), b_text = simdjson::minify(want);
  return a_text == b_text ? "" : fmt::format("{} instead of {}", a_text, b_text);
}

std::string compare_results(const ScriptResults& got, const Stored& stored, const Tolerance& tolerance) {
  std::map<std::string, Tensor> have(got.arrays.begin(), got.arrays.end());
  if (std::string file = stored.file(".expected.npz"); !file.empty())
    for (NpyArray& want : read_npz(file, NpyU2::AsBF16)) {
      auto it = have.find(want.name);
      if (want.name.starts_with("grad")) continue; // compare_gradients looks at them
      if (it == have.end()) return fmt::format("no {}", want.name);
      if (std::string why = compare(it->second, want.tensor, tolerance); !why.empty()) return fmt::format("{}: {}", want.name, why);
      have.erase(it);
    }
  if (!have.empty()) return fmt::format("{} is not expected", have.begin()->first);
  Json expected;
  if (!stored.info || stored.info->at_key("expected").get(expected) != simdjson::SUCCESS) return "";
  simdjson::dom::parser parser;
  return differs(parser.parse(got.json).value(), expected);
}

// Of the sum of all floating results, for the arguments that "wrt" names.
std::string compare_gradients(const LoadedScript& script, const Stored& stored, const CheckArgs& args) {
  simdjson::dom::array places;
  if (!stored.info || stored.info->at_key("wrt").get(places) != simdjson::SUCCESS) return "";
  std::vector<size_t> wrt;
  std::vector<std::string> names;
  for (Json place : places) wrt.push_back(place.get_uint64().value()), names.push_back(fmt::format("grad{}", wrt.back()));
  std::map<std::string, Tensor> wanted;
  for (NpyArray& a : read_npz(stored.base + ".expected.npz")) wanted.emplace(a.name, a.tensor);
  autodiff::Gradients gradients = autodiff::differentiate(script.program().graph, wrt);
  executor::GraphExecutor executor(std::move(gradients.both), {.interpret = args.options.interpret, .threads = args.options.threads});
  for (int call = 0; call < (args.options.interpret ? 1 : 3); call++) {
    std::vector<IValue> results = executor.run(script.arguments());
    results.erase(results.begin(), results.begin() + static_cast<int64_t>(gradients.results));
    for (auto& [name, got] : script_results(names, results).arrays) {
      auto it = wanted.find(name);
      std::string why = it == wanted.end() ? "none is stored" : compare(got, it->second, args.tolerance);
      if (!why.empty()) return fmt::format("{}: {}{}", name, why, call > 0 ? " (compiled)" : "");
    }
  }
  return "";
}

// The function or class that the first line names: "# entry: f".
std::string entry_of(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  constexpr std::string_view mark = "# entry: ";
  return line.starts_with(mark) ? line.substr(mark.size()) : "";
}

} // namespace

bool is_checked_script(const std::string& path) {
  std::string base = fs::path(path).replace_extension();
  bool stored = fs::exists(base + ".expected.npz") || fs::exists(base + ".error.json") || fs::exists(base + ".json");
  return stored && (path.ends_with(".ir") || (path.ends_with(".py") && !entry_of(path).empty()));
}

std::string check_script(const std::string& path, const CheckArgs& args) {
  Stored stored(fs::path(path).replace_extension());
  std::optional<std::string> words = stored.words();
  try {
    RunArgs run;
    run.model.file = path.ends_with(".py") ? path + ":" + entry_of(path) : path;
    run.inputs = stored.file(".inputs.npz"), run.json = stored.file(".json"), run.weights = stored.file(".weights.npz");
    run.options = args.options;
    LoadedScript script(run);
    // First the interpreter runs, then what is compiled.
    for (int call = 0; call < (args.options.interpret ? 1 : 3); call++) {
      ScriptResults results = script_results(script.run());
      if (words) return fmt::format("FAIL it is not refused with: {}", *words);
      if (std::string why = compare_results(results, stored, args.tolerance); !why.empty())
        return fmt::format("FAIL {}{}", why, call > 0 ? " (compiled)" : "");
    }
    std::string why = compare_gradients(script, stored, args);
    return why.empty() ? "PASS" : "FAIL " + why;
  } catch (const Error& e) {
    if (words)
      return std::string_view(e.what()).find(*words) != std::string_view::npos ? "PASS"
                                                                               : fmt::format("FAIL refused in other words: {}", e.what());
    return fmt::format("{} {}", e.kind == ErrorKind::Unsupported ? "UNSUPPORTED" : "FAIL", e.what());
  } catch (const std::exception& e) {
    return fmt::format("FAIL {}", e.what());
  }
}

} // namespace tenon::cli
