// `tenon completion`: scripts for shells, from the parser. Which values an option takes stands in its type name: words, files, folders.
#include <fmt/ranges.h>

#include "base/check.h"
#include "cli/documents.h"

namespace tenon::cli {

namespace {

bool takes_value(const CLI::Option& o) { return o.get_items_expected_max() > 0; }
bool is_file(std::string_view type) { return type.starts_with("FILE") || type.starts_with("MODEL") || type == "PATH"; }

/// All spellings of an option: "-o --output".
std::vector<std::string> spellings(const CLI::Option& o) {
  std::vector<std::string> out;
  for (auto& s : o.get_snames()) out.push_back("-" + s);
  for (auto& l : o.get_lnames()) out.push_back("--" + l);
  return out;
}

/// The values of the first positional argument, if they are words.
std::vector<std::string> positional_words(const CLI::App& command) {
  for (const CLI::Option* o : options_of(command))
    if (!o->nonpositional()) return words_of(o->get_type_name());
  return {};
}
bool takes_files(const CLI::App& command) {
  for (const CLI::Option* o : options_of(command))
    if (!o->nonpositional() && is_file(o->get_type_name())) return true;
  return false;
}

// In a word of a shell, in single quotes.
std::string in_quotes(std::string_view text) {
  std::string out = "'";
  for (char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

std::string bash_values(const CLI::Option& o) {
  std::string type = o.get_type_name();
  if (auto words = words_of(type); !words.empty()) return fmt::format("COMPREPLY=($(compgen -W '{}' -- \"$cur\"))", fmt::join(words, " "));
  if (type == "FOLDER") return "compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- \"$cur\")";
  if (is_file(type)) return "compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")";
  return "";
}

// A line for each option that takes a value, then the options, then what stands alone.
std::string bash_command(const CLI::App& command) {
  std::vector<std::string> all;
  std::string values;
  for (const CLI::Option* o : options_of(command)) {
    std::vector<std::string> names = spellings(*o);
    all.insert(all.end(), names.begin(), names.end());
    if (takes_value(*o) && o->nonpositional())
      values += fmt::format("        {}) {}; return;;\n", fmt::join(names, "|"), bash_values(*o).empty() ? ":" : bash_values(*o));
  }
  std::string rest = "return";
  if (auto words = positional_words(command); !words.empty())
    rest = fmt::format("COMPREPLY=($(compgen -W '{}' -- \"$cur\"))", fmt::join(words, " "));
  else if (takes_files(command)) rest = "compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")";
  return fmt::format("    {})\n      case $prev in\n{}      esac\n      if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W '{}' -- "
                     "\"$cur\")); else {}; fi;;\n",
                     command.get_name(), values, fmt::join(all, " "), rest);
}

std::string bash(const CLI::App& app) {
  std::vector<std::string> names;
  std::string cases;
  for (const CLI::App* c : commands_of(app)) names.push_back(c->get_name()), cases += bash_command(*c);
  return fmt::format(R"(# Completions of tenon for bash: tenon completion bash wrote this.
_tenon() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} equals=
  COMPREPLY=()
  # --name=value comes as three words.
  if [[ $cur == = ]]; then cur= equals=1; elif [[ $prev == = ]]; then prev=${{COMP_WORDS[COMP_CWORD-2]}} equals=1; fi
  if [[ $COMP_CWORD -eq 1 ]]; then COMPREPLY=($(compgen -W '{} --help --version' -- "$cur")); return; fi
  case ${{COMP_WORDS[1]}} in
{}  esac
}}
complete -F _tenon tenon
)",
                     fmt::join(names, " "), cases);
}

// "[help]" of zsh: brackets and colons have a meaning there.
std::string zsh_text(std::string_view text) {
  std::string out;
  for (char c : text) out += c == '[' || c == ']' || c == ':' || c == '\\' ? std::string{'\\', c} : std::string(1, c);
  return out;
}
std::string zsh_values(const std::string& type) {
  if (auto words = words_of(type); !words.empty()) return fmt::format("({})", fmt::join(words, " "));
  return type == "FOLDER" ? "_files -/" : is_file(type) ? "_files" : "";
}

std::string zsh_command(const CLI::App& command) {
  std::string lines;
  for (const CLI::Option* o : options_of(command)) {
    std::string value = fmt::format("{}:{}", zsh_text(o->get_type_name()), zsh_values(o->get_type_name()));
    if (!o->nonpositional()) lines += fmt::format(" \\\n        {}", in_quotes("*:" + value));
    for (const std::string& name : spellings(*o)) {
      std::string tail = takes_value(*o) ? ":" + value : "";
      lines +=
          fmt::format(" \\\n        {}", in_quotes(fmt::format("{}{}[{}]{}", name, takes_value(*o) && name.starts_with("--") ? "=" : "",
                                                               zsh_text(o->get_description()), tail)));
    }
  }
  return fmt::format("      {})\n        _arguments -s{};;\n", command.get_name(), lines);
}

std::string zsh(const CLI::App& app) {
  std::string names, cases;
  for (const CLI::App* c : commands_of(app)) {
    names += fmt::format("    {}\n", in_quotes(c->get_name() + ":" + c->get_description()));
    cases += zsh_command(*c);
  }
  return fmt::format(R"(#compdef tenon
# Completions of tenon for zsh: tenon completion zsh wrote this.
_tenon() {{
  local -a commands=(
{}  )
  if (( CURRENT == 2 )); then
    _describe command commands
  else
    local command=$words[2]
    shift words
    (( CURRENT-- ))
    case $command in
{}    esac
  fi
}}
if [[ $funcstack[1] == _tenon ]]; then _tenon "$@"; else compdef _tenon tenon; fi
)",
                     names, cases);
}

std::string fish(const CLI::App& app) {
  std::string out = "# Completions of tenon for fish: tenon completion fish wrote this.\ncomplete -c tenon -f\n";
  for (const CLI::App* c : commands_of(app)) {
    std::string in = in_quotes("__fish_seen_subcommand_from " + c->get_name());
    out += fmt::format("complete -c tenon -n __fish_use_subcommand -a {} -d {}\n", c->get_name(), in_quotes(c->get_description()));
    if (takes_files(*c)) out += fmt::format("complete -c tenon -n {} -F\n", in);
    if (auto words = positional_words(*c); !words.empty())
      out += fmt::format("complete -c tenon -n {} -a {}\n", in, in_quotes(fmt::format("{}", fmt::join(words, " "))));
    for (const CLI::Option* o : options_of(*c)) {
      if (!o->nonpositional()) continue;
      out += fmt::format("complete -c tenon -n {}", in);
      for (auto& s : o->get_snames()) out += " -s " + s;
      for (auto& l : o->get_lnames()) out += " -l " + l;
      std::string type = o->get_type_name();
      if (auto words = words_of(type); !words.empty()) out += " -x -a " + in_quotes(fmt::format("{}", fmt::join(words, " ")));
      else if (type == "FOLDER") out += " -x -a '(__fish_complete_directories)'";
      else if (is_file(type)) out += " -r -F";
      else if (takes_value(*o)) out += " -x";
      out += " -d " + in_quotes(o->get_description()) + "\n";
    }
  }
  return out;
}

} // namespace

std::string completion(const CLI::App& app, std::string_view shell) {
  if (shell == "bash") return bash(app);
  if (shell == "zsh") return zsh(app);
  if (shell == "fish") return fish(app);
  bad_input("completion of no shell {}", shell);
}

} // namespace tenon::cli
