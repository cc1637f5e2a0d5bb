// Arguments of the benchmarks' programs: --name=value.
#pragma once
#include <cstring>
#include <initializer_list>
#include <stdexcept>
#include <string>

namespace tenon {

inline std::string argument(int argc, char** argv, const std::string& name, const char* otherwise) {
  std::string start = "--" + name + "=";
  for (int i = 1; i < argc; i++)
    if (std::strncmp(argv[i], start.c_str(), start.size()) == 0) return argv[i] + start.size();
  return otherwise;
}

/// Throws for an argument that is none of these.
inline void check_arguments(int argc, char** argv, std::initializer_list<const char*> names) {
  for (int i = 1; i < argc; i++) {
    bool known = false;
    for (const char* name : names) known |= std::string(argv[i]).starts_with("--" + std::string(name) + "=");
    if (known) continue;
    std::string all;
    for (const char* name : names) all += " --" + std::string(name) + "=...";
    throw std::invalid_argument(std::string("no such argument: ") + argv[i] + "; there are" + all);
  }
}

} // namespace tenon
