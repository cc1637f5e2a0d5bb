// libFuzzer entry for the text parsers: graphs, FX text (torch's print of a graph, and its Python code), expressions. Byte 0 selects. They
// may only return or throw tenon::Error, and what was read prints to a text that reads back to itself; so does the graph that it became.
//
//   mkdir corpus && (for f in tests/golden/*.txt; do (printf g; sed 1d $f) > corpus/$(basename $f); done)
//   text_fuzz corpus
#include <cstdint>
#include <cstdlib>

#include "fx/from_graph.h"
#include "fx/python_module.h"
#include "fx/python_text.h"
#include "fx/text.h"
#include "fx/to_graph.h"
#include "ir/parse.h"
#include "ir/verify.h"

using namespace tenon;

namespace {

// Not assert: it must hold in release builds too.
void hold(bool condition) {
  if (!condition) std::abort();
}

void read_graph(std::string_view text) {
  Graph g = parse_graph(text).graph;
  std::string printed = to_string(g);
  hold(to_string(parse_graph(printed).graph) == printed);
  verify(g); // throws where the graph makes no sense
}

void hold_fx(const FxGraph& g) {
  std::string printed = to_string(g);
  hold(to_string(parse_fx(printed)) == printed);
}

// Names may be none of Python's, so that its code is refused.
void read_python(const FxGraph& g) {
  try {
    parse_fx(python_module(g, "Program", "text"));
    parse_fx(to_python(g, "Program"));
  } catch (const Error&) {}
}

void read_fx(std::string_view text) {
  FxGraph g = parse_fx(text);
  hold_fx(g);
  read_python(g);
  LoadedProgram p = program_of(g);
  to_string(p.graph);
  hold_fx(fx_of(p.graph));
  hold_fx(fx_of(p));
}

void read_expr(std::string_view text) {
  ExprPool pool;
  to_string(parse_expr(pool, text));
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2 || size > 1 << 16) return 0;
  std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    switch (data[0]) {
    case 'g': read_graph(text); break;
    case 'f': read_fx(text); break;
    default: read_expr(text); break;
    }
  } catch (const Error&) {}
  return 0;
}
