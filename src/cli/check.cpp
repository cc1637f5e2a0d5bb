// `tenon check`: every program against what torch stored. Each runs in a process of its own, so that a crash or a hang
// costs that program alone.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>
#include <thread>

#include <fmt/ranges.h>

#include "base/check.h"
#include "base/numeric.h"
#include "cli/commands.h"
#include "cli/print.h"
#include "cli/progress_line.h"
#include "load/npz.h"

namespace tenon::cli {

namespace fs = std::filesystem;

namespace {

std::vector<Tensor> read_arrays(const std::string& path) {
  std::vector<Tensor> out;
  for (auto& a : read_npz(path, NpyU2::AsBF16)) out.push_back(a.tensor);
  return out;
}

std::string stem(const std::string& pt2) { return pt2.substr(0, pt2.size() - 4); }

// One pair of inputs and expected outputs; empty where it passes.
std::string check_size(const Program& program, const Executable& exe, const CheckArgs& args, const std::string& prefix) {
  std::vector<Tensor> inputs = read_inputs(prefix + ".inputs.npz", program.inputs()), outputs;
  uint64_t code = Executable::pieces_of_code();
  exe.run(inputs, outputs).check();
  if (Executable::pieces_of_code() != code)
    return fmt::format("{} pieces of code were compiled during the call", Executable::pieces_of_code() - code);
  std::vector<Tensor> expected = read_arrays(prefix + ".expected.npz");
  if (outputs.size() != expected.size()) return fmt::format("{} outputs instead of {}", outputs.size(), expected.size());
  for (size_t i = 0; i < outputs.size(); i++)
    if (std::string why = compare(outputs[i], expected[i], args.tolerance); !why.empty()) return fmt::format("out{}: {}", i, why);
  return {};
}

// "PASS", "FAIL why" or "UNSUPPORTED op, op".
std::string check_program(const std::string& path, const CheckArgs& args) {
  try {
    Program program = Program::load(path).value();
    if (auto missing = program.unsupported(); !missing.empty()) return fmt::format("UNSUPPORTED {}", fmt::join(missing, ", "));
    Executable exe = program.compile(args.options).value();
    int sizes = 0;
    for (int k = 1;; k++) {
      std::string prefix = k == 1 ? stem(path) : fmt::format("{}.{}", stem(path), k);
      if (!fs::exists(prefix + ".inputs.npz")) break;
      // Stored outputs are those of fresh state; without state one Executable serves all sizes.
      if (sizes > 0 && exe.stats().state_bytes > 0) exe = program.compile(args.options).value();
      if (std::string why = check_size(program, exe, args, prefix); !why.empty())
        return fmt::format("FAIL {}{}", why, k > 1 ? fmt::format(" (size {})", k) : "");
      sizes++;
    }
    return sizes ? "PASS" : "FAIL there is no " + stem(path) + ".inputs.npz";
  } catch (const Error& e) {
    return fmt::format("{} {}", e.kind == ErrorKind::Unsupported ? "UNSUPPORTED" : "FAIL", e.what());
  } catch (const std::exception& e) {
    return fmt::format("FAIL {}", e.what());
  }
}

struct Job {
  std::string path;
  int pipe = -1;
  Clock::time_point start;
  std::string text;
};

class Runner {
public:
  explicit Runner(const CheckArgs& args) : args_(args), line_(args.quiet) {}

  void run(const std::vector<std::string>& paths) {
    if (args_.options.communicator) return run_here(paths);
    int jobs = args_.jobs > 0 ? args_.jobs : static_cast<int>(std::thread::hardware_concurrency());
    size_t next = 0;
    while (next < paths.size() || !running_.empty()) {
      while (next < paths.size() && static_cast<int>(running_.size()) < jobs) start(paths[next++]);
      wait_some();
      line_.show(fmt::format("checking: {} of {}", done, paths.size()));
    }
    line_.erase();
  }
  /// All results as one JSON object.
  std::string json() const {
    JsonObject o;
    o.json("programs", "[" + entries_ + "]").count("passed", static_cast<uint64_t>(passed)).count("failed", static_cast<uint64_t>(failed));
    return o.count("unsupported", static_cast<uint64_t>(unsupported)).str();
  }

  int passed = 0, failed = 0, unsupported = 0, done = 0;

private:
  // With other ranks, and so in the process that they know. What fails on one of them ends all.
  void run_here(const std::vector<std::string>& paths) {
    for (const std::string& path : paths) {
      require_input(path.ends_with(".pt2"), "{} is no program for several ranks", path);
      report({path, -1, {}, check_program(path, args_)});
    }
  }

  void start(const std::string& path) {
    int ends[2];
    require(pipe(ends) == 0, "no pipe");
    std::fflush(stdout);
    pid_t pid = fork();
    require(pid >= 0, "cannot start a process");
    if (pid == 0) {
      close(ends[0]);
      std::string line = path.ends_with(".pt2") ? check_program(path, args_) : check_script(path, args_);
      for (char& c : line)
        if (c == '\n') c = ' ';
      ssize_t n = write(ends[1], line.data(), line.size());
      _exit(n == static_cast<ssize_t>(line.size()) ? 0 : 1);
    }
    close(ends[1]);
    running_[pid] = {path, ends[0], Clock::now(), {}};
  }

  void wait_some() {
    std::vector<pollfd> fds;
    for (auto& [pid, job] : running_) fds.push_back({job.pipe, POLLIN, 0});
    poll(fds.data(), fds.size(), 200);
    size_t i = 0;
    std::vector<pid_t> ended;
    for (auto& [pid, job] : running_) {
      bool ready = fds[i++].revents != 0, late = std::chrono::duration<double>(Clock::now() - job.start).count() > args_.timeout_seconds;
      if (late) kill(pid, SIGKILL);
      if (!ready && !late) continue;
      char buffer[4096];
      ssize_t n = late ? 0 : read(job.pipe, buffer, sizeof buffer);
      if (n > 0) {
        job.text.append(buffer, static_cast<size_t>(n));
        continue;
      }
      int status = 0;
      waitpid(pid, &status, 0);
      close(job.pipe);
      if (late) job.text = fmt::format("FAIL no result after {} s", args_.timeout_seconds);
      else if (WIFSIGNALED(status)) job.text = fmt::format("FAIL crashed: {}", strsignal(WTERMSIG(status)));
      else if (job.text.empty()) job.text = "FAIL ended without a result";
      report(job);
      ended.push_back(pid);
    }
    for (pid_t p : ended) running_.erase(p);
  }

  void report(const Job& job) {
    done++;
    size_t space = job.text.find(' ');
    std::string verdict = job.text.substr(0, space), why = space == job.text.npos ? "" : job.text.substr(space + 1);
    (verdict == "PASS" ? passed : verdict == "FAIL" ? failed : unsupported)++;
    std::string name = job.path.ends_with(".pt2") ? fs::path(job.path).stem() : fs::path(job.path).filename();
    if (args_.json) {
      double seconds = std::chrono::duration<double>(Clock::now() - job.start).count();
      JsonObject o;
      o.text("name", name).text("file", job.path).text("verdict", verdict).text("why", why).number("seconds", seconds, 3);
      entries_ += (entries_.empty() ? "" : ", ") + o.str();
      return;
    }
    line_.erase();
    fmt::print("{} {}{}{}\n", verdict, name, why.empty() ? "" : " ", why);
    std::fflush(stdout);
  }

  const CheckArgs& args_;
  StatusLine line_;
  std::string entries_; // of the JSON object
  std::map<pid_t, Job> running_;
};

} // namespace

std::vector<Tensor> read_inputs(const std::string& path, const std::vector<ArgInfo>& infos) {
  std::vector<Tensor> out = read_arrays(path);
  auto& wanted = infos;
  for (size_t i = 0; i < std::min(out.size(), wanted.size()); i++)
    if (is_float8(wanted[i].dtype)) out[i] = as_float8(out[i], wanted[i].dtype);
  return out;
}

int check(const CheckArgs& args) {
  std::vector<std::string> programs;
  for (auto& p : args.paths) {
    if (!fs::is_directory(p)) {
      require_input(fs::exists(p), "cannot open '{}': No such file or directory", p);
      require_input(p.ends_with(".pt2") || is_checked_script(p), "{} is neither a folder nor a .pt2, nor a script with stored results", p);
      programs.push_back(p);
      continue;
    }
    for (auto& e : fs::directory_iterator(p))
      if (std::string path = e.path(); is_checked_script(path) || (path.ends_with(".pt2") && fs::exists(stem(path) + ".inputs.npz")))
        programs.push_back(path);
  }
  std::sort(programs.begin(), programs.end());
  Runner runner(args);
  runner.run(programs);
  if (args.json) fmt::print("{}\n", runner.json());
  else fmt::print("{} passed, {} failed, {} unsupported\n", runner.passed, runner.failed, runner.unsupported);
  return runner.failed + runner.unsupported == 0 && !programs.empty() ? 0 : 1;
}

} // namespace tenon::cli
