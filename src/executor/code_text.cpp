// Code as text: one instruction a line.
#include <fmt/format.h>

#include "executor/code.h"

namespace tenon::executor {

namespace {

constexpr std::string_view names[] = {"Jump",   "JumpUnless", "LoopTest", "Again",    "Return",  "Load",    "Move",  "Drop",  "Builtin",
                                      "Tensor", "List",       "Tuple",    "Dict",     "Unpack",  "Element", "Raise", "Print", "Check",
                                      "Unwrap", "AddInt",     "SubInt",   "MulInt",   "LtInt",   "LeInt",   "GtInt", "GeInt", "EqInt",
                                      "NeInt",  "AddFloat",   "SubFloat", "MulFloat", "LtFloat", "GtFloat", "And",   "Or",    "Not"};
static_assert(std::size(names) == static_cast<size_t>(OpCode::Not) + 1);

std::string subject(const Code& c, const Instruction& i) {
  switch (i.code) {
  case OpCode::Jump:
  case OpCode::JumpUnless:
  case OpCode::LoopTest:
  case OpCode::Again: return fmt::format(" -> {}", i.target);
  case OpCode::Load: return " " + repr(c.constants.at(i.target));
  case OpCode::Builtin: return " " + c.builtins.at(i.target).op->signature.name;
  case OpCode::Tensor: return " " + c.tensor_ops.at(i.target)->name();
  default: return "";
  }
}

} // namespace

// "  12  r4 = AddInt r1 r2!": the mark is on what is read for the last time.
std::string to_string(const Code& code) {
  std::string out = fmt::format("{} registers, {} parameters\n", code.num_registers, code.num_params);
  for (size_t k = 0; k < code.instructions.size(); k++) {
    const Instruction& i = code.instructions[k];
    out += fmt::format("{:4}  ", k);
    for (uint32_t r = 0; r < i.results; r++) out += fmt::format("{}r{}", r ? ", " : "", code.operands[i.operands + r]);
    out += fmt::format("{}{}{}", i.results ? " = " : "", names[static_cast<size_t>(i.code)], subject(code, i));
    for (uint32_t a = 0; a < i.args; a++) {
      uint32_t r = code.operands[i.operands + i.results + a];
      out += fmt::format(" r{}{}", r & ~last_use, r & last_use ? "!" : "");
    }
    out += '\n';
  }
  return out;
}

} // namespace tenon::executor
