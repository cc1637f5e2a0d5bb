// What an observer hears of loads and compilations; what a misspelt word was meant to be.
#include <doctest/doctest.h>

#include <map>
#include <set>
#include <thread>

#include "base/similar.h"
#include "base/stage.h"
#include "tenon/tenon.h"

namespace tenon::progress_test {

namespace {

std::string mlp() { return std::string(TENON_FIXTURES) + "/programs/mlp.pt2"; }

} // namespace

TEST_CASE("an observer hears of each stage, its parts and its end") {
  std::map<std::string, std::pair<size_t, size_t>> parts; // done, total
  int open = 0, deepest = 0;
  {
    ReportProgress report([&](const Progress& p) {
      std::string name(p.stage);
      if (p.is_over) open--;
      else if (p.done == 0) deepest = std::max(deepest, ++open);
      if (!p.is_over) parts[name] = {p.done, p.total};
      CHECK(p.done <= std::max(p.total, p.done));
    });
    Program program = Program::load(mlp()).value();
    CHECK(parts.contains("reading"));
    Executable exe = program.compile({.threads = 2}).value();
  }
  CHECK(open == 0);
  CHECK(deepest >= 2);
  for (const char* name : {"compiling", "to_edge", "fuse", "kernels"}) CHECK_MESSAGE(parts.contains(name), name);
  CHECK(parts["kernels"].first == parts["kernels"].second);
  CHECK(parts["kernels"].second > 0);
}

TEST_CASE("a stage ends where an error does, and who does not observe hears nothing") {
  int open = 0, heard = 0;
  ReportProgress outer([&](const Progress&) { heard++; });
  {
    ReportProgress report([&](const Progress& p) { open += p.is_over ? -1 : p.done == 0; });
    CHECK(!Program::load("no/such.pt2"));
    CHECK(!Program::load(std::string(TENON_FIXTURES) + "/programs/mlp.expected.npz"));
    std::thread([] { CHECK(Program::load(mlp())); }).join();
  }
  CHECK(open == 0);
  CHECK(heard == 0);
  CHECK(Program::load(mlp()));
  CHECK(heard == 2); // the outer one again: the beginning and the end of reading
}

TEST_CASE("parts are counted by all threads") {
  size_t last = 0;
  ReportProgress report([&](const Progress& p) { last = p.done; });
  {
    Stage stage("parts", 400);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; t++)
      threads.emplace_back([&] {
        for (int i = 0; i < 100; i++) stage.part_done();
      });
    for (auto& t : threads) t.join();
  }
  CHECK(last == 400);
}

TEST_CASE("a word with few mistakes is recognised") {
  std::string_view words[] = {"threads", "isa", "precision", "--output", "run", "grad"};
  CHECK(similar_word("thraeds", words) == "threads");
  CHECK(similar_word("precission", words) == "precision");
  CHECK(similar_word("--ouput", words) == "--output");
  CHECK(similar_word("rnu", words) == "run");
  CHECK(similar_word("thr", words) == "threads"); // the beginning of one
  CHECK(similar_word("elephant", words).empty());
  CHECK(similar_word("", words).empty());
  CHECK(did_you_mean("isb", words) == "; did you mean isa?");
  CHECK(did_you_mean("elephant", words).empty());
}

} // namespace tenon::progress_test
