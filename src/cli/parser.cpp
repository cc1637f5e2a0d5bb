// The parser's exceptions are those of CLI11: which option is concerned, and what was meant, is found from the parser's state.
#include "cli/parser.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/ranges.h>

#include "base/check.h"
#include "base/similar.h"

namespace tenon::cli {

namespace {

/// Names as did_you_mean takes them, and what holds their text.
struct Names {
  std::vector<std::string> texts;
  std::vector<std::string_view> views() const { return {texts.begin(), texts.end()}; }
};

std::string text_of(const Range& r) {
  if (std::isinf(r.high)) return r.low == 0 ? "that is not negative" : fmt::format("of at least {}", r.low);
  return fmt::format("from {} to {}", r.low, r.high);
}

std::string bare(const std::string& flags) { // "wrt-weights" of "--wrt-weights", "output" of "-o,--output"
  size_t dashes = flags.rfind("--");
  return flags.substr(dashes == flags.npos ? 0 : dashes + 2);
}

template <class T> T number_of(const std::string& name, const std::string& text, const Range& range) {
  T value{};
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  bool fits = code == std::errc() && end == text.data() + text.size() && static_cast<double>(value) >= range.low &&
              static_cast<double>(value) <= range.high;
  require_input(fits, "option {} cannot be '{}': it is {} {}", name, text, std::is_integral_v<T> ? "a whole number" : "a number",
                text_of(range));
  return value;
}

template <class T>
CLI::Option* add_checked(CLI::App* command, const std::string& flags, T& to, const char* value, const char* help, Range range) {
  auto set = [&to, range, name = bare(flags)](const std::string& text) { to = number_of<T>(name, text, range); };
  return command->add_option_function<std::string>(flags, set, help)->type_name(value);
}

} // namespace

CLI::Option* add_number(CLI::App* command, const std::string& flags, double& to, const char* value, const char* help, Range range) {
  return add_checked(command, flags, to, value, help, range);
}
CLI::Option* add_number(CLI::App* command, const std::string& flags, int& to, const char* value, const char* help, Range range) {
  range.high = std::min(range.high, static_cast<double>(std::numeric_limits<int>::max()));
  return add_checked(command, flags, to, value, help, range);
}
CLI::Option* add_numbers(CLI::App* command, const std::string& flags, std::vector<size_t>& to, const char* value, const char* help) {
  auto set = [&to, name = bare(flags)](const std::vector<std::string>& texts) {
    to.clear();
    for (const std::string& t : texts) to.push_back(number_of<size_t>(name, t, {}));
  };
  return command->add_option_function<std::vector<std::string>>(flags, set, help)->type_name(value)->delimiter(',');
}
CLI::Option* add_word(CLI::App* command, const std::string& flags, std::string& to, const char* words, const char* help) {
  auto set = [&to, words, name = bare(flags)](const std::string& text) {
    Names known{words_of(words)};
    if (std::ranges::find(known.texts, text) == known.texts.end())
      bad_input("option {} cannot be '{}': it is one of {}{}", name, text, fmt::join(known.texts, ", "), did_you_mean(text, known.views()));
    to = text;
  };
  return command->add_option_function<std::string>(flags, set, help)->type_name(words);
}
CLI::Option* add_text(CLI::App* command, const std::string& flags, std::string& to, const char* value, const char* help) {
  return command->add_option(flags, to, help)->type_name(value);
}
CLI::Option* add_flag(CLI::App* command, const std::string& flags, bool& to, const char* help) {
  return command->add_flag(flags, to, help)->disable_flag_override();
}

std::vector<std::string> words_of(std::string_view type_name) {
  std::vector<std::string> words;
  if (type_name.find('|') == type_name.npos) return words;
  for (size_t begin = 0; begin <= type_name.size();) {
    size_t end = std::min(type_name.find('|', begin), type_name.size());
    words.emplace_back(type_name.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

std::string name_of(const CLI::Option& option) {
  if (option.nonpositional()) return (option.get_lnames().empty() ? "-" + option.get_snames()[0] : "--" + option.get_lnames()[0]);
  std::string name = option.get_name(true);
  std::ranges::transform(name, name.begin(), [](char c) { return static_cast<char>(std::toupper(c)); });
  return name;
}

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}
std::vector<const CLI::Option*> options_of(const CLI::App& command) {
  return command.get_options([](const CLI::Option*) { return true; });
}

namespace {

Names names_of_commands(const CLI::App& app) {
  Names names;
  for (const CLI::App* c : commands_of(app)) names.texts.push_back(c->get_name());
  return names;
}
Names names_of_options(const CLI::App& command) {
  Names names;
  for (const CLI::Option* o : options_of(command))
    if (o->nonpositional()) names.texts.push_back(name_of(*o));
  return names;
}

const CLI::App* parsed_command(const CLI::App& app) {
  for (const CLI::App* c : commands_of(app))
    if (c->parsed()) return c;
  return nullptr;
}

std::string unknown_option(const CLI::App& command, std::string_view whose, const std::string& given) {
  std::string name = given.substr(0, given.find('='));
  return fmt::format("{} has no option {}{}", whose, name, did_you_mean(name, names_of_options(command).views()));
}

std::string no_command(const CLI::App& app, const std::vector<std::string>& rest) {
  Names known = names_of_commands(app);
  for (const std::string& word : rest)
    if (word.starts_with('-') && word.size() > 1) return unknown_option(app, "tenon", word);
  if (rest.empty()) return fmt::format("no command is given; there are {}", fmt::join(known.texts, ", "));
  return fmt::format("there is no command {}{}", rest[0], there_are(rest[0], known.views()));
}

/// An option that was given without a value, with too few, or more than once.
std::string wrong_count(const CLI::App& command, std::string_view message) {
  for (const CLI::Option* o : options_of(command)) {
    std::string name = name_of(*o);
    if (!o->nonpositional()) continue;
    if (message.starts_with(bare(name) + " was given a disallowed flag")) return fmt::format("option {} takes no value", name);
    if (!message.starts_with(name + ":") && message.find(name + " ") == message.npos) continue;
    if (static_cast<int>(o->count()) > o->get_items_expected_max()) return fmt::format("option {} is given more than once", name);
    int n = o->get_items_expected_min();
    return fmt::format("option {} needs {}: {}", name, n == 1 ? "a value" : fmt::format("{} values", n), o->get_type_name());
  }
  return std::string(message);
}

std::string missing(const CLI::App& command) {
  for (const CLI::Option* o : options_of(command))
    if (o->get_required() && o->count() == 0)
      return fmt::format("tenon {} needs {}: {}", command.get_name(), name_of(*o), o->get_description());
  return "";
}

std::string plain_words(const CLI::App& app, const CLI::ParseError& e) {
  const CLI::App* command = parsed_command(app);
  std::vector<std::string> rest = (command ? command : &app)->remaining();
  if (!command) return no_command(app, rest);
  if (!app.remaining().empty()) return unknown_option(app, "tenon", app.remaining()[0]);
  for (const std::string& word : rest)
    if (word.starts_with('-') && word.size() > 1) return unknown_option(*command, "tenon " + command->get_name(), word);
  std::string_view message = e.what();
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&e)) return wrong_count(*command, message);
  if (std::string text = missing(*command); dynamic_cast<const CLI::RequiredError*>(&e) && !text.empty()) return text;
  if (!rest.empty()) return fmt::format("tenon {}: '{}' is an argument too many", command->get_name(), rest.back());
  return std::string(message);
}

} // namespace

int parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    return -1;
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e); // --help
    const CLI::App* command = parsed_command(app);
    bad_input("{} (`tenon {}--help` tells more)", plain_words(app, e), command ? command->get_name() + " " : "");
  }
}

} // namespace tenon::cli
