// Texts that are made of the parser.
#pragma once
#include "cli/parser.h"

namespace tenon::cli {

/// A script of completions for bash, zsh or fish.
std::string completion(const CLI::App& app, std::string_view shell);
/// The manual page tenon.1, in the language of man.
std::string man_page(const CLI::App& app);

} // namespace tenon::cli
