// A shared library of TorchScript's operators, as a user would write one: tests open it by name.
#include "tenon/operator.h"

using namespace tenon;

namespace {

Operation make_repeat(const ir::Node&) {
  return [](Stack& stack) {
    std::vector<std::string> words, all;
    int64_t times = 0;
    pop(stack, words, times);
    for (int64_t i = 0; i < times; i++) all.insert(all.end(), words.begin(), words.end());
    push(stack, all);
  };
}

Operation make_offset(const ir::Node& node) {
  int64_t by = node.i("by");
  return [by](Stack& stack) { push(stack, pop<int64_t>(stack) + by); };
}

} // namespace

extern "C" const OperatorDef* tenon_operators(size_t* count) {
  static const OperatorDef table[] = {{"library::repeat(str[] words, int times) -> str[]", make_repeat},
                                      {"library::offset(int n) -> int", make_offset}};
  *count = std::size(table);
  return table;
}
