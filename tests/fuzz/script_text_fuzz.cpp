// libFuzzer entry for TorchScript's texts: graphs in both spellings, types, schemas. Byte 0 selects. They may only return or throw
// tenon::Error that is not internal; what was read prints to a text that reads back to itself, and code may be built of it.
//
//   mkdir corpus && (for f in tests/fixtures/scripts/*/*.ir; do (printf g; cat $f) > corpus/$(basename $f); done)
//   script_text_fuzz corpus
#include <cstdlib>

#include "executor/code.h"
#include "ir/schema.h"
#include "script/program.h"
#include "tests/fuzz/mutate_text.h"

using namespace tenon;

namespace {

// Not assert: it must hold in release builds too.
void hold(bool condition) {
  if (!condition) std::abort();
}

void read_graph(std::string_view text) {
  script::ScriptText read = script::parse_script(text);
  std::string printed = script::to_text(read.graph, read.spelling);
  hold(script::to_text(script::parse_script(printed).graph, read.spelling) == printed);
  executor::to_string(*executor::build_code(script::program_of_text(text).graph));
}

void read_type(std::string_view text) {
  ExprPool pool;
  Lexer lexer(text);
  std::string printed = to_string(script::parse_script_type(pool, lexer));
  Lexer again(printed);
  hold(to_string(script::parse_script_type(pool, again)) == printed);
}

void read_schema(std::string_view text) {
  std::string printed = to_string(parse_schema(text));
  hold(to_string(parse_schema(printed)) == printed);
}

const std::vector<std::string_view> words{"prim::If",
                                          "prim::Loop",
                                          "prim::Constant[value=1]",
                                          "prim::ListConstruct",
                                          "prim::TupleConstruct",
                                          "prim::TupleUnpack",
                                          "prim::ListUnpack",
                                          "prim::DictConstruct",
                                          "prim::Uninitialized",
                                          "prim::LoadWorld",
                                          "prim::unchecked_cast",
                                          "prim::isinstance[types=[int, str?]]",
                                          "aten::append",
                                          "aten::add",
                                          "block0():",
                                          "-> ()",
                                          "Tensor",
                                          "Dynamic",
                                          "int[]",
                                          "Dict(str, int)",
                                          "(int, str)",
                                          "NoneType",
                                          "Float(2, *)",
                                          "World",
                                          "Tuple",
                                          "annotate(List[int], [])",
                                          "return (",
                                          "Any",
                                          "int?",
                                          "Optional[Tensor]",
                                          "Union[int, str]",
                                          "t(a! -> *)",
                                          "*,",
                                          "...",
                                          "=None",
                                          "=[1, 2]",
                                          "%x",
                                          "# a.py:1:2",
                                          "{1}",
                                          "<Tensor>"};

} // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  return fuzz::mutate_text(data, size, max_size, seed, 1, words);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2 || size > 1 << 16) return 0;
  std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    switch (data[0]) {
    case 't': read_type(text); break;
    case 's': read_schema(text); break;
    default: read_graph(text); break;
    }
  } catch (const Error& e) {
    if (e.kind == ErrorKind::Internal) {
      fmt::print(stderr, "{}\n", e.what());
      std::abort();
    }
  }
  return 0;
}
