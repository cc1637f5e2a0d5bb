// What the CPU calls itself.
#pragma once
#include <cpuid.h>

#include <cstring>
#include <string>

namespace tenon {

/// "AMD EPYC 9R14"; empty where it does not say.
inline std::string cpu_name() {
  unsigned words[12] = {};
  for (unsigned i = 0; i < 3; i++)
    if (!__get_cpuid(0x80000002u + i, &words[4 * i], &words[4 * i + 1], &words[4 * i + 2], &words[4 * i + 3])) return {};
  char text[sizeof words + 1] = {};
  std::memcpy(text, words, sizeof words);
  std::string name = text;
  name.erase(0, name.find_first_not_of(' '));
  while (!name.empty() && name.back() == ' ') name.pop_back();
  return name;
}

} // namespace tenon
