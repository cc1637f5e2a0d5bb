// The one table of the TENON_* environment variables: what exists, and what each does. Those that only change how much is
// told or checked are read here; none changes what a program computes.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tenon {

struct EnvVariable {
  std::string_view name, what;
};
std::span<const EnvVariable> env_variables();
/// The value of a variable of the table; none where it is unset or empty.
std::optional<std::string> env_text(std::string_view name);
/// Set, and not "0".
bool env_flag(std::string_view name);

} // namespace tenon
