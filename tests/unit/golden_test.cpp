// Golden tests: tests/golden/*.txt hold passes, a graph, `---`, and the graph expected. TENON_BLESS=1 writes the second half.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/env.h"
#include "compile/compile.h"
#include "ir/parse.h"
#include "ir/pass_runner.h"

namespace tenon::golden_test {

namespace {

struct Golden {
  std::vector<Pass> passes;
  std::string graph, expected;
};

Golden read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  Golden g;
  size_t line = text.find('\n'), cut = text.find("\n---\n");
  REQUIRE_MESSAGE((text.starts_with("passes: ") && cut != text.npos), path.string());
  std::string names = text.substr(8, line - 8);
  for (size_t at = 0; at <= names.size();) {
    size_t end = std::min(names.find(',', at), names.size());
    g.passes.push_back(find_pass(names.substr(at, end - at)));
    at = end + 1;
  }
  g.graph = text.substr(line + 1, cut - line);
  g.expected = text.substr(cut + 5);
  return g;
}

std::string run(const std::vector<Pass>& passes, LoadedProgram& program) {
  PassRunner runner(PassOptions{.verify = true});
  runner.check = verify_program;
  verify_program(program);
  runner.run(program, passes);
  return to_string(program.graph);
}

} // namespace

TEST_CASE("golden texts of passes") {
  std::vector<std::filesystem::path> files;
  for (auto& entry : std::filesystem::directory_iterator(std::filesystem::path(TENON_FIXTURES).parent_path() / "golden"))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  REQUIRE(files.size() > 10);
  for (auto& path : files) {
    INFO(path.filename().string());
    Golden g = read(path);
    LoadedProgram program = program_of(parse_graph(g.graph).graph);
    std::string got = run(g.passes, program);
    if (env_flag("TENON_BLESS")) {
      std::ifstream in(path, std::ios::binary);
      std::string text{std::istreambuf_iterator<char>(in), {}};
      std::ofstream(path, std::ios::binary) << text.substr(0, text.find("\n---\n") + 5) << got;
      g.expected = got;
    }
    CHECK(got == g.expected);
    CHECK(to_string(parse_graph(got).graph) == got);
    // Each does nothing the second time.
    for (const Pass& p : g.passes) {
      INFO(p.name);
      CHECK_FALSE(p.run(program));
    }
    CHECK(to_string(program.graph) == got);
  }
}

} // namespace tenon::golden_test
