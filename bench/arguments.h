// Arguments of the benchmarks' programs: --name=value.
#pragma once
#include <cstring>
#include <string>

namespace tenon {

inline std::string argument(int argc, char** argv, const std::string& name, const char* otherwise) {
  std::string start = "--" + name + "=";
  for (int i = 1; i < argc; i++)
    if (std::strncmp(argv[i], start.c_str(), start.size()) == 0) return argv[i] + start.size();
  return otherwise;
}

} // namespace tenon
