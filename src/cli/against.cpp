// `tenon bench --against`: other engines beside tenon. What drives them is Python (src/cli/against), whose text is in the tool; it measures
// tenon by calling the tool again.
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fmt/core.h>

#include "against_files.h"
#include "artifact/artifact.h"
#include "base/check.h"
#include "cli/commands.h"
#include "load/npz.h"

extern char** environ;

namespace tenon::cli {

namespace {

namespace fs = std::filesystem;

/// A folder that goes away with everything in it.
struct Folder {
  Folder() {
    std::string name = (fs::temp_directory_path() / "tenon-against-XXXXXX").string();
    require_input(mkdtemp(name.data()) != nullptr, "cannot make a folder in {}", fs::temp_directory_path().string());
    path = name;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  Folder(const Folder&) = delete;
  fs::path path;
};

// The options of this process for the program itself, in the order given: those of the comparison are left out.
std::vector<std::string> program_options() {
  constexpr std::string_view values[] = {"--against", "--python", "--rounds", "--html", "--inputs", "--seconds", "--history", "--trace"};
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> kept;
  bool after_command = false;
  for (std::string word; std::getline(file, word, '\0');) {
    std::string_view name = std::string_view(word).substr(0, word.find('='));
    bool is_ours = std::ranges::find(values, name) != std::end(values);
    if (is_ours && name == word) std::getline(file, word, '\0'); // its value
    if (after_command && !is_ours && word != "--json" && word != "--quiet") kept.push_back(word);
    after_command = after_command || word == "bench";
  }
  return kept;
}

int run_program(const std::vector<std::string>& words) {
  std::vector<char*> argv;
  for (const std::string& w : words) argv.push_back(const_cast<char*>(w.c_str()));
  argv.push_back(nullptr);
  pid_t child = 0;
  int failed = posix_spawnp(&child, argv[0], nullptr, nullptr, argv.data(), environ);
  require_input(failed == 0, "cannot run {}: {}", words[0], std::strerror(failed));
  // An interrupt reaches both: the child ends its own, then the folder goes.
  std::signal(SIGINT, SIG_IGN);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

} // namespace

int bench_against(const BenchArgs& args) {
  require_input(!is_script(args.model.file) && !artifact::is_artifact(args.model.file) && args.model.method.empty(),
                "--against compares a .pt2 of one program: {} is none", args.model.file);
  require_input(args.rounds > 0, "--rounds: at least one");
  Folder folder;
  for (auto& [name, text] : against_files) std::ofstream(folder.path / name, std::ios::binary) << text;
  std::string inputs = args.inputs;
  if (inputs.empty()) {
    std::vector<std::pair<std::string, Tensor>> arrays;
    for (const Tensor& t : load(args.model).example_inputs().value()) arrays.emplace_back(fmt::format("arg{}", arrays.size()), t);
    write_npz(inputs = folder.path / "inputs.npz", arrays);
  }
  std::vector<std::string> words = {args.python.empty() ? "python3" : args.python,
                                    folder.path / "against.py",
                                    "--against",
                                    args.against,
                                    "--folder",
                                    folder.path,
                                    "--model",
                                    fs::absolute(args.model.file),
                                    "--inputs",
                                    fs::absolute(inputs),
                                    "--seconds",
                                    fmt::format("{}", args.seconds),
                                    "--rounds",
                                    std::to_string(args.rounds),
                                    "--threads",
                                    std::to_string(args.options.threads)};
  if (args.json) words.push_back("--json");
  if (!args.html.empty()) words.insert(words.end(), {"--html", args.html});
  words.insert(words.end(), {"--", fs::read_symlink("/proc/self/exe")});
  for (std::string& word : program_options()) words.push_back(std::move(word));
  return run_program(words);
}

} // namespace tenon::cli
