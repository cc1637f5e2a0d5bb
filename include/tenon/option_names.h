// Options by name, as the tool, the C API and configuration files give them.
#pragma once
#include <span>
#include <string_view>

#include "tenon/error.h"
#include "tenon/options.h"

namespace tenon {

/// A member of Options that has a text: all but `pool`.
struct OptionInfo {
  enum class Kind { Flag, Value, List };
  std::string_view name; ///< "compile-budget"
  Kind kind;             ///< a list gets an element each time it is set
  std::string_view help;
  std::string_view value = {}; ///< what a value looks like: "auto|avx2|avx512", "COUNT", "NUMBER", "FOLDER", "NAME"; of flags empty
};

/// All of them. Thread-safe.
TENON_API std::span<const OptionInfo> option_infos();

/// Sets an option from text: a number, a word, a name; flags take "1", "true", "" and "0", "false". Underscores in the name stand for
/// hyphens. Errors: BadInput for a name that there is not, with those that there are, and for a value that does not fit, with those that
/// do.
TENON_API Status set_option(Options& options, std::string_view name, std::string_view value);

} // namespace tenon
