// Explanations as data, and what is made of them.
#include <algorithm>
#include <map>

#include <doctest/doctest.h>
#include <simdjson.h>

#include "cli/commands.h"
#include "compile/parse_sources.h"
#include "pages/layout.h"
#include "pages/pages.h"
#include "tenon/tenon.h"

namespace tenon::explain_test {

namespace {

Explanation explained(const std::string& name, bool profile = true) {
  Program program = Program::load(TENON_FIXTURES + std::string("/programs/") + name + ".pt2").value();
  Executable exe = program.compile({.profile = profile}).value();
  std::vector<Tensor> inputs = program.example_inputs().value(), outputs;
  for (int i = 0; i < 3; i++) exe.run(inputs, outputs).check();
  return exe.explanation().value();
}

// A chain of steps, each of which reads what one made `back` steps before, too.
Explanation chain(int steps, int back) {
  Explanation e;
  for (int i = 0; i <= steps; i++) e.buffers.push_back({.name = "b" + std::to_string(i), .sizes = {"4"}});
  e.buffers[0].place = ExplainedBuffer::Place::Input;
  e.buffers.back().place = ExplainedBuffer::Place::Output;
  for (int i = 0; i < steps; i++) {
    ExplainedStep s{.number = i, .operators = "step"};
    s.reads = {i}, s.writes = {i + 1};
    if (i >= back) s.reads.push_back(i - back);
    e.steps.push_back(s);
  }
  return e;
}

} // namespace

TEST_CASE("an explanation says what steps read and write, cost, and come from") {
  Explanation e = explained("mlp");
  REQUIRE(e.steps.size() == 4);
  CHECK(e.runs == 3);
  CHECK(e.machine.gbytes_per_s > 0);
  REQUIRE(!e.machine.peaks.empty());
  CHECK(e.machine.peaks[0].gflops > 0);
  double share = 0;
  for (const ExplainedStep& s : e.steps) {
    CHECK(s.calls == 3);
    CHECK(s.bytes > 0);
    CHECK(s.bound_us() > 0);
    CHECK(!s.source.empty());
    share += s.share;
  }
  CHECK(share == doctest::Approx(1));
  const ExplainedStep& first = e.steps[0];
  CHECK(first.kind == ExplainedStep::Kind::Matmul);
  REQUIRE(first.source.size() == 2);
  CHECK(first.source[0].module == "layers.0");
  CHECK(first.source[0].file == "export.py");
  CHECK(first.source[0].function == "forward");
  CHECK(first.source[0].line > 0);
  // The chain of values: the first step reads the input, others what the one before wrote.
  auto place = [&](int b) { return e.buffers.at(static_cast<size_t>(b)).place; };
  CHECK(std::ranges::any_of(first.reads, [&](int b) { return place(b) == ExplainedBuffer::Place::Input; }));
  for (size_t i = 1; i < 4; i++) CHECK(std::ranges::any_of(e.steps[i].reads, [&](int b) { return b == e.steps[i - 1].writes.at(0); }));
  const ExplainedBuffer& made = e.buffers.at(static_cast<size_t>(first.writes.at(0)));
  CHECK(made.sizes == std::vector<std::string>{"s77", "32"});
  CHECK(made.bytes == 4 * 32 * 4);
  CHECK(e.stats.steps == 4);
}

TEST_CASE("without timed runs there are steps and symbols, and no times") {
  Explanation e = explained("cond", false);
  CHECK(e.runs == 0);
  auto branch = std::ranges::find(e.steps, ExplainedStep::Kind::Control, &ExplainedStep::kind);
  REQUIRE(branch != e.steps.end());
  int index = static_cast<int>(branch - e.steps.begin());
  CHECK(std::ranges::count(e.steps, index, &ExplainedStep::owner) == 11);
  for (const ExplainedStep& s : e.steps) CHECK((s.calls == 0 && s.us == 0));
  for (const ExplainedBuffer& b : e.buffers) CHECK(b.bytes == -1);
  simdjson::dom::parser parser;
  CHECK(parser.parse(to_json(e)).error() == simdjson::SUCCESS);
  CHECK(!cli::table_of(e, "", 0, true).empty());
}

TEST_CASE("the interpreter has no steps") {
  Program program = Program::load(TENON_FIXTURES + std::string("/programs/mlp.pt2")).value();
  Executable exe = program.compile({.interpret = true}).value();
  Explanation e = exe.explanation().value();
  CHECK(e.steps.empty());
  CHECK(exe.explain() == "everything runs in the interpreter\n");
  CHECK(to_html(e).find("everything runs in the interpreter") != std::string::npos);
}

TEST_CASE("JSON has what the structs have, and pages hold no end of a script") {
  Explanation e = explained("mlp");
  e.program = "a </script><!-- \"b\" & c";
  simdjson::dom::parser parser;
  simdjson::dom::element json = parser.parse(to_json(e));
  CHECK(std::string_view(json["program"]) == e.program);
  CHECK(json["steps"].get_array().size() == 4);
  CHECK(double(json["steps"].at(0)["share"]) == doctest::Approx(e.steps[0].share).epsilon(1e-4));
  CHECK(std::string_view(json["buffers"].at(0)["dtype"]).size() > 1);
  std::string page = to_html(e);
  CHECK(page.find("</script><!--") == std::string::npos);
  CHECK(page.find("&lt;/script>") != std::string::npos); // the title
  CHECK(page.find("{{") == std::string::npos);
  CHECK(page.find("http://") == page.find("http://www.w3.org/2000/svg")); // a name, which nothing is loaded from
  CHECK(page.find("https://") == std::string::npos);
}

TEST_CASE("texts of sources are read back") {
  Sources s = parse_sources("layers.0, File \"a b.py\", line 57, in forward; head; File \"c.py\", line 3, in <lambda>; and 12 more");
  REQUIRE(s.lines.size() == 3);
  CHECK(s.more == 12);
  CHECK((s.lines[0].module == "layers.0" && s.lines[0].file == "a b.py" && s.lines[0].line == 57 && s.lines[0].function == "forward"));
  CHECK((s.lines[1].module == "head" && s.lines[1].file.empty() && s.lines[1].line == 0));
  CHECK((s.lines[2].module.empty() && s.lines[2].function == "<lambda>"));
  CHECK(parse_sources("").lines.empty());
}

TEST_CASE("layouts: values go down, nothing covers another, however many steps") {
  for (auto [steps, back] : {std::pair(1, 1), std::pair(30, 3), std::pair(2000, 8), std::pair(2000, 200)}) {
    Layout l = layout_of(chain(steps, back));
    CHECK(l.nodes.size() == static_cast<size_t>(steps) + 2);
    std::map<int, double> height;
    std::multimap<double, double> rows;
    for (auto& n : l.nodes) {
      height[n.id] = n.y;
      for (auto [at, end] = rows.equal_range(n.y); at != end; ++at) CHECK(std::abs(at->second - n.x) >= Layout::node_width);
      rows.emplace(n.y, n.x);
      CHECK((n.x >= 0 && n.x + Layout::node_width <= l.width && n.y + Layout::node_height <= l.height));
    }
    CHECK(l.edges.size() >= static_cast<size_t>(steps));
    for (auto& e : l.edges) CHECK(height[e.from] < height[e.to]);
  }
}

TEST_CASE("tables are cut to a width, and sorted") {
  Explanation e = explained("llama_block");
  std::string table = cli::table_of(e, "time", 80, true);
  size_t lines = 0;
  for (size_t at = 0, end; (end = table.find('\n', at)) != table.npos; at = end + 1, lines++) {
    auto bytes = std::string_view(table).substr(at, end - at);
    CHECK(std::ranges::count_if(bytes, [](char c) { return (c & 0xc0) != 0x80; }) <= 80);
  }
  CHECK(lines == e.steps.size() + 1);
  auto slowest = std::ranges::max_element(e.steps, {}, &ExplainedStep::us);
  std::string second = table.substr(table.find('\n') + 1);
  CHECK(second.starts_with(std::to_string(slowest->number) + " "));
  std::string wide = cli::table_of(e, "", 0, false);
  for (const ExplainedStep& s : e.steps) CHECK(wide.find(s.operators) != std::string::npos);
}

} // namespace tenon::explain_test
