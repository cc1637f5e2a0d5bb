// libFuzzer entry for the script compiler: any text is compiled from a function or class in it, or refused; the graph prints to a text that
// reads back to itself, code is built of it, and runs for some thousand jumps on inputs of the parameters' types. Nothing but
// tenon::Error that is not internal may come of it.
//
//   mkdir corpus && cp tests/fixtures/scripts/*/*.py corpus
//   script_fuzz corpus
#include <cstdlib>

#include "builtins/dict.h"
#include "executor/interpreter.h"
#include "script/script.h"
#include "tests/fuzz/mutate_text.h"

using namespace tenon;

namespace {

void hold(bool condition) {
  if (!condition) std::abort();
}

// The name behind the last "def" or "class" at the begin of a line, or what the first line says: "# entry: f".
std::string entry_of(std::string_view text) {
  std::string name;
  for (size_t at = 0; at < text.size();) {
    std::string_view line = text.substr(at, text.find('\n', at) - at);
    at += line.size() + 1;
    for (std::string_view mark : {"# entry: ", "def ", "class "})
      if (line.starts_with(mark)) {
        name = line.substr(mark.size());
        name = name.substr(0, name.find_first_of("(: \r"));
        if (mark.starts_with('#')) return name;
      }
  }
  return name;
}

// A value of the type, small and the same every time.
IValue sample(const Type& t) {
  switch (t.kind) {
  case TypeKind::Int: return int64_t{3};
  case TypeKind::Number:
  case TypeKind::Float: return 1.5;
  case TypeKind::Bool: return true;
  case TypeKind::String: return "ab";
  case TypeKind::Complex: return std::complex<double>(1, 2);
  case TypeKind::Device: return IValue("cpu", IValue::Tag::Device);
  case TypeKind::Tensor:
  case TypeKind::Dynamic: {
    Tensor x(DType::F32, {2, 3});
    for (int i = 0; i < 6; i++) x.data_as<float>()[i] = 0.5f * static_cast<float>(i) - 1;
    return x;
  }
  case TypeKind::List: return IValue::list({sample(t.element()), sample(t.element())});
  case TypeKind::Optional:
  case TypeKind::Union: return sample(t.element());
  case TypeKind::Tuple: {
    std::vector<IValue> items;
    for (const Type& e : t.elements()) items.push_back(sample(e));
    return IValue::tuple(std::move(items));
  }
  case TypeKind::Dict: {
    IValue d = IValue::dict();
    d.to_dict().set(sample(t.element(0)), sample(t.element(1)));
    return d;
  }
  default: return {};
  }
}

void run(const Graph& g) {
  std::shared_ptr<const executor::Code> code = executor::build_code(g);
  std::vector<IValue> inputs;
  for (ValueId v : g.block(g.top()).params) inputs.push_back(sample(g.type(v)));
  executor::Interpreter(code, std::move(inputs)).run(2000);
}

const std::vector<std::string_view> words{"def",
                                          "return",
                                          "if",
                                          "else:",
                                          "elif",
                                          "for",
                                          "in",
                                          "while",
                                          "break",
                                          "continue",
                                          "pass",
                                          "and",
                                          "or",
                                          "not",
                                          "is None",
                                          "is not None",
                                          "assert",
                                          "raise",
                                          "range(3)",
                                          "zip",
                                          "enumerate",
                                          "len",
                                          "List[int]",
                                          "Optional[int]",
                                          "Dict[str, int]",
                                          "Tuple[int, str]",
                                          "Tensor",
                                          "torch.zeros(2)",
                                          "None",
                                          "True",
                                          "int",
                                          "float",
                                          "str",
                                          "bool",
                                          "lambda",
                                          "self",
                                          "self.x",
                                          "class",
                                          "nn.Module",
                                          "__init__",
                                          "forward",
                                          "super().__init__()",
                                          "[",
                                          "]",
                                          "(",
                                          ")",
                                          "{",
                                          "}",
                                          ":",
                                          "::-1",
                                          "**",
                                          "//",
                                          "%",
                                          "==",
                                          "+=",
                                          "->",
                                          "*",
                                          "...",
                                          "f'{x}'",
                                          "'''",
                                          "\"",
                                          "#",
                                          "\\",
                                          "@",
                                          "isinstance(x, int)",
                                          "torch.jit.annotate",
                                          "[i for i in range(3)]",
                                          "x",
                                          "y",
                                          "i",
                                          "Any",
                                          "Union[int, str]",
                                          "del",
                                          "with",
                                          "import",
                                          "from",
                                          "print",
                                          "1",
                                          "0",
                                          "-1",
                                          "0.5",
                                          "1j",
                                          "\n",
                                          "\n    ",
                                          "nn.Linear(2, 2)",
                                          "nn.ModuleList",
                                          ".append(",
                                          ".items()",
                                          "NamedTuple",
                                          "# type: (int) -> int",
                                          "Final"};

} // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  return fuzz::mutate_text(data, size, max_size, seed, 0, words);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 1 << 16) return 0;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    script::ScriptProgram p = script::compile_script(text, "fuzz.py", entry_of(text));
    std::string printed = script::to_text(p.graph);
    hold(script::to_text(script::parse_script(printed).graph) == printed);
    run(p.graph);
  } catch (const Error& e) {
    if (e.kind == ErrorKind::Internal) {
      fmt::print(stderr, "{}\n", e.what());
      std::abort();
    }
  }
  return 0;
}
