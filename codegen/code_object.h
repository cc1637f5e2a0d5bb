// Object code of one function.
#pragma once
#include <string>
#include <vector>

namespace tenon {

struct CodeObject {
  std::string name; // of the function
  std::vector<char> bytes;
};

} // namespace tenon
