// What would make tenon faster on a machine.
#pragma once
#include <string>
#include <vector>

#include "base/machine.h"
#include "compile/host.h"

namespace tenon::cli {

struct Advice {
  std::string what, why, how; // how: a command, or the file to change
};
/// From what the system says, what code is generated for, the speeds measured ({} where none were), and the TENON_* variables that are set.
std::vector<Advice> advice_for(const MachineFacts& facts, const Host& host, const std::vector<HostSpeed>& speeds,
                               const std::vector<std::string>& variables);

} // namespace tenon::cli
