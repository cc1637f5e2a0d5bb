#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

#include "executor/interpreter.h"
#include "script/script.h"

namespace tenon::script_programs_test {

namespace {

std::vector<std::string> split(const std::string& text, const std::string& by) {
  std::vector<std::string> out;
  for (size_t at = 0;;) {
    size_t end = text.find(by, at);
    out.push_back(text.substr(at, end == text.npos ? end : end - at));
    if (end == text.npos) return out;
    at = end + by.size();
  }
}
std::string text_of(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

// As results.py writes it: "= " and the string that f() gives, "! " and the words of an error, "+" where f has parameters and compiles.
std::string answer(const std::string& program, const std::string& expected) {
  constexpr std::string_view head =
      "import math\nimport torch\nimport torch.nn.functional as F\nfrom torch import Tensor\nfrom typing import *\n";
  try {
    script::ScriptProgram p = script::compile_script(std::string(head) + program, "program.py", "f");
    if (!p.params.empty()) return "+";
    return "= " + executor::run(executor::build_code(p.graph), {}).at(0).to_string();
  } catch (const Error& e) {
    bool refused =
        expected.starts_with("! ") && std::string_view(e.what()).find(std::string_view(expected).substr(2)) != std::string_view::npos;
    return refused ? expected : fmt::format("! {}", e.what());
  }
}

} // namespace

TEST_CASE("scripts: programs give and say what torch does") {
  for (const char* name : {"values", "refusals"}) {
    std::string path = fmt::format("{}/scripts/{}", TENON_FIXTURES, name);
    std::vector<std::string> programs = split(text_of(path + ".py"), "\n---\n"), results = split(text_of(path + ".txt"), "\n");
    REQUIRE(results.size() == programs.size() + 1);
    for (size_t i = 0; i < programs.size(); i++) {
      INFO("program ", i, " of ", name, ":\n", programs[i]);
      CHECK(answer(programs[i], results[i]) == results[i]);
    }
  }
}

TEST_CASE("scripts: what grows without bounds is refused") {
  std::string tuples = "def f(n: int) -> str:\n    y0 = (n, n)\n", returns = "def f(n: int) -> str:\n";
  for (int i = 1; i < 60; i++) tuples += fmt::format("    y{} = (y{}, y{})\n", i, i - 1, i - 1);
  for (int i = 0; i < 1200; i++) returns += fmt::format("    if n == {}:\n        return 'a'\n", i);
  CHECK(answer(tuples + "    return str(y59)\n", "! a tuple of too many elements") == "! a tuple of too many elements");
  CHECK(answer(returns + "    return 'b'\n", "! nested too deeply") == "! nested too deeply");
  std::string classes = "class P0(NamedTuple):\n    x: int\n";
  for (int i = 1; i < 40; i++) classes += fmt::format("class P{}(NamedTuple):\n    x: P{}\n    y: P{}\n", i, i - 1, i - 1);
  CHECK(answer(classes + "def f(x: P39) -> str:\n    return ''\n", "! a type of too many parts") == "! a type of too many parts");
  std::string within = "class P(NamedTuple):\n    x: int\n    y: P\n";
  CHECK(answer(within + "def f(x: P) -> str:\n    return ''\n", "! Unknown type name 'P'") == "! Unknown type name 'P'");
  CHECK(answer("def f() -> str:\n    x: List[Any] = [1]\n    x.append(x)\n    return str(x)\n", "! RecursionError") == "! RecursionError");
}

} // namespace tenon::script_programs_test
