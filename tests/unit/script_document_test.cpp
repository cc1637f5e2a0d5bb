#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "script/text.h"

namespace tenon::script_document_test {

namespace {

std::string text_of(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

} // namespace

// `tenon check tests/fixtures/scripts` holds what they give to torch's numbers.
TEST_CASE("the graphs of the document of 2018 print back as they are spelled") {
  size_t count = 0;
  for (auto& entry : std::filesystem::directory_iterator(TENON_FIXTURES "/scripts/document")) {
    if (entry.path().extension() != ".ir") continue;
    std::string text = text_of(entry.path());
    script::ScriptText read = script::parse_script(text);
    CHECK(read.spelling == script::Spelling::Of2018);
    CHECK(script::to_text(read.graph, script::Spelling::Of2018) == text);
    std::string today = script::to_text(read.graph);
    CHECK(script::to_text(script::parse_script(today).graph) == today);
    count++;
  }
  CHECK(count == 6);
}

} // namespace tenon::script_document_test
