// Options of the tool's commands, with errors in plain words. What a value looks like stands in the option's type name ("COUNT", "FILE",
// "FOLDER", "avx2|avx512"): the help, the completions of shells and the manual page are made of it.
#pragma once
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

namespace tenon::cli {

struct Range {
  double low = 0, high = std::numeric_limits<double>::infinity();
};
/// A number within a range; of an integral type a whole one. Anything else is an Error(BadInput) that tells the range.
CLI::Option* add_number(CLI::App* command, const std::string& flags, double& to, const char* value, const char* help, Range range = {});
CLI::Option* add_number(CLI::App* command, const std::string& flags, int& to, const char* value, const char* help, Range range = {});
/// Whole numbers, separated by commas.
CLI::Option* add_numbers(CLI::App* command, const std::string& flags, std::vector<size_t>& to, const char* value, const char* help);
/// One of "a|b|c".
CLI::Option* add_word(CLI::App* command, const std::string& flags, std::string& to, const char* words, const char* help);
/// A text that is taken as it is: "FILE", "FOLDER", "NAME".
CLI::Option* add_text(CLI::App* command, const std::string& flags, std::string& to, const char* value, const char* help);
CLI::Option* add_flag(CLI::App* command, const std::string& flags, bool& to, const char* help);

/// The words of a type name "a|b|c"; none where it is no list of words.
std::vector<std::string> words_of(std::string_view type_name);
/// "--name" of an option, "NAME" of a positional one.
std::string name_of(const CLI::Option& option);
/// The commands of the tool, or options of a command, in their order.
std::vector<const CLI::App*> commands_of(const CLI::App& app);
std::vector<const CLI::Option*> options_of(const CLI::App& command);

/// -1, or the exit code where nothing is to be run (--help). Throws Error(BadInput).
int parse(CLI::App& app, int argc, char** argv);

} // namespace tenon::cli
