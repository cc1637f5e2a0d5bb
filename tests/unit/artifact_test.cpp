// Compiled programs in files: the same results from what was written, and an error for what was damaged; the cache of them.
#include "artifact/artifact.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "artifact/cache.h"
#include "cli/compare.h"
#include "load/npz.h"
#include "tests/unit/graph_harness.h"

namespace tenon::artifact_test {
using namespace tenon::test;

namespace fs = std::filesystem;

namespace {

/// A folder that goes with the test.
struct Folder {
  fs::path path;
  Folder() {
    std::string name = (fs::temp_directory_path() / "tenon-test-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()));
    path = name;
  }
  ~Folder() { fs::remove_all(path); }
  std::string file(const std::string& name) const { return (path / name).string(); }
  size_t entries() const { return static_cast<size_t>(std::distance(fs::directory_iterator(path), fs::directory_iterator())); }
};

bool same_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); i++) {
    if (a[i].dtype() != b[i].dtype() || a[i].sizes() != b[i].sizes()) return false;
    size_t bytes = static_cast<size_t>(a[i].numel()) * size_of(a[i].dtype());
    if (bytes > 0 && std::memcmp(a[i].data(), b[i].data(), bytes) != 0) return false;
  }
  return true;
}

std::vector<Tensor> inputs_of(const fs::path& file, const Program& program) {
  std::vector<Tensor> in;
  for (NpyArray& a : read_npz(file.string(), NpyU2::AsBF16)) in.push_back(std::move(a.tensor));
  for (size_t i = 0; i < std::min(in.size(), program.inputs().size()); i++)
    if (is_float8(program.inputs()[i].dtype)) in[i] = cli::as_float8(in[i], program.inputs()[i].dtype);
  return in;
}

std::string described(const std::vector<ArgInfo>& infos) {
  std::string text;
  for (const ArgInfo& i : infos) {
    text += fmt::format("{} {} {}:", i.name, name_of(i.dtype), i.is_number);
    for (const std::string& s : i.sizes) text += " " + s;
    text += '\n';
  }
  return text;
}

Tensor weights(int64_t rows, int64_t columns) {
  return filled(DType::F32, {rows, columns}, [](int64_t i) { return 0.01 * static_cast<double>(i % 37) - 0.2; });
}

// A product by weights, an epilogue, a library step, a state.
TestGraph program_with_weights() {
  TestGraph g;
  Expr rows = g.symbol("s0");
  V x = g.input({rows, g.b.integer(24)}), w = g.buffer("w", weights(24, 40)), count = g.buffer("count", counting(DType::F32, {1}));
  V y = g.b.call1("aten::relu.default", {g.b.call1("aten::mm.default", {x, w})});
  g.mutates("count", count + 1.0);
  g.returns(y + count);
  g.returns(g.b.call1("aten::cumsum.default", {y, 0}));
  return g;
}

/// That program as a cache may keep it, and a call of it.
struct CacheCase {
  Program program;
  Tensor x;
  std::vector<Tensor> want;
};

CacheCase cache_case() {
  TestGraph g = program_with_weights();
  g.p.fingerprint = "one";
  CacheCase c{g.program(), counting(DType::F32, {5, 24}), {}};
  c.want = run(c.program.compile({.threads = 1}).value(), {c.x});
  return c;
}

std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc).write(text.data(), static_cast<std::streamsize>(text.size()));
}

/// Whether f gives 0 in a process of its own.
template <class F> bool holds_in_child(const F& f) {
  pid_t child = fork();
  if (child == 0) _exit(f());
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

} // namespace

TEST_CASE("compiled files: every fixture runs bit for bit as it was compiled") {
  Folder folder;
  std::string path = folder.file("program.tenon");
  int written = 0;
  for (const char* part : {"programs", "control", "quantized", "operators"})
    for (auto& entry : fs::directory_iterator(fs::path(TENON_FIXTURES) / part)) {
      fs::path inputs = fs::path(entry.path()).replace_extension(".inputs.npz");
      if (entry.path().extension() != ".pt2" || !fs::exists(inputs)) continue;
      CAPTURE(entry.path().string());
      Program program = Program::load(entry.path().string()).value();
      program.save_compiled(path, {.threads = 2}).check();
      Executable direct = program.compile({.threads = 2}).value(), read = Executable::load(path, {.threads = 2}).value();
      std::vector<Tensor> in = inputs_of(inputs, program), again = inputs_of(inputs, program);
      CHECK(same_bits(run(read, again), run(direct, in)));
      CHECK(same_bits(again, in)); // those that the program changes
      CHECK(read.explain() == direct.explain());
      CHECK(described(read.inputs()) == described(program.inputs()));
      CHECK(described(read.outputs()) == described(program.outputs()));
      written++;
    }
  CHECK(written > 40);
}

TEST_CASE("compiled files: sizes, state, names; nothing is compiled") {
  Folder folder;
  std::string path = folder.file("program.tenon");
  Program program = program_with_weights().program();
  program.save_compiled(path).check();
  Executable direct = program.compile().value();
  Executable read = Executable::load(path).value();
  uint64_t code = Executable::pieces_of_code();
  for (int64_t rows : {1, 7, 0, 64, 131}) {
    Tensor x = counting(DType::F32, {rows, 24}, -5);
    CHECK(same_bits(run(read, {x}), run(direct, {x})));
  }
  CHECK(Executable::pieces_of_code() == code);
  CHECK(numbers(read.state().at(0).tensor) == numbers(direct.state().at(0).tensor));
  fs::remove(path); // the mapping stays
  CHECK(same_bits(run(read, {counting(DType::F32, {3, 24})}), run(direct, {counting(DType::F32, {3, 24})})));
}

TEST_CASE("compiled files: damage is an error, wherever it is") {
  Folder folder;
  std::string path = folder.file("program.tenon"), damaged = folder.file("damaged.tenon");
  program_with_weights().program().save_compiled(path).check();
  std::string text = text_of(path);
  auto refused = [&](const std::string& bytes) {
    write_text(damaged, bytes);
    auto loaded = Executable::load(damaged);
    return !loaded && loaded.error().kind != ErrorKind::Internal;
  };
  CHECK(refused(""));
  CHECK(refused("TENON"));
  for (size_t n = 0; n < text.size(); n += 509) CHECK(refused(text.substr(0, n)));
  CHECK(refused(text + '\0'));
  size_t data = 4096, unused = 40; // the header's bytes, and its page
  for (size_t at = 0; at < text.size(); at += at < unused ? 1 : 97) {
    if (at >= 12 && at < 16) continue; // reserved
    if (at >= unused && at < data) continue;
    std::string changed = text;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    CAPTURE(at);
    CHECK(refused(changed));
  }
  CHECK(!Executable::load(folder.file("missing.tenon")));
  CHECK(!Executable::load(folder.path.string()));
}

TEST_CASE("compiled files: another machine's, and programs that have no form in a file") {
  Folder folder;
  std::string path = folder.file("program.tenon");
  program_with_weights().program().save_compiled(path, {.isa = Isa::Avx2}).check();
  artifact::Loaded loaded = artifact::load(path, Workers(1));
  CHECK(loaded.description.isa == Isa::Avx2);
  loaded.description.target = "a vax";
  artifact::write(path, loaded.description, *loaded.plan);
  auto refused = Executable::load(path);
  REQUIRE(!refused);
  CHECK(refused.error().kind == ErrorKind::Unsupported);
  CHECK(std::string(refused.error().what()).find("a vax") != std::string::npos);
  Status unwritten = program_with_weights().program().save_compiled(folder.file("none/program.tenon"));
  CHECK(!unwritten.ok());
}

TEST_CASE("cache: compiled once, found by others, made again where damaged") {
  Folder folder;
  TestGraph g = program_with_weights();
  g.p.fingerprint = "one";
  Program program = g.program();
  Options options{.threads = 2, .cache_folder = folder.file("cache")};
  Tensor x = counting(DType::F32, {5, 24});
  Executable first = program.compile(options).value();
  CHECK(first.stats().cache == CacheUse::Stored);
  std::vector<Tensor> want = run(first, {x});
  uint64_t code = Executable::pieces_of_code();
  Executable second = program.compile(options).value();
  CHECK(second.stats().cache == CacheUse::Found);
  CHECK(same_bits(run(second, {x}), want));
  CHECK(Executable::pieces_of_code() - code < 64); // micro-kernels alone

  Options other = options;
  other.seed = 7;
  CHECK(program.compile(other).value().stats().cache == CacheUse::Stored);
  g.p.fingerprint = "two";
  CHECK(g.program().compile(options).value().stats().cache == CacheUse::Stored);
  CHECK(program.transform([](const std::string& text) { return text; }).value().compile(options).value().stats().cache == CacheUse::Stored);

  for (auto& entry : fs::directory_iterator(options.cache_folder)) {
    std::string text = text_of(entry.path().string());
    text[text.size() - 5] ^= 1;
    write_text(entry.path().string(), text);
  }
  Executable again = program.compile(options).value();
  CHECK(again.stats().cache == CacheUse::Stored);
  CHECK(same_bits(run(again, {x}), want));
  CHECK(program.compile(options).value().stats().cache == CacheUse::Found);
}

TEST_CASE("cache: bounded, and what a killed process left behind goes") {
  Folder folder;
  TestGraph g = program_with_weights();
  Options options{.threads = 1, .cache_folder = folder.path.string(), .cache_bytes = 1};
  write_text(folder.file("0123.tenon.17.0.new"), "unfinished");
  fs::last_write_time(folder.file("0123.tenon.17.0.new"), fs::file_time_type::clock::now() - std::chrono::hours(2));
  write_text(folder.file("somebody.txt"), "else's");
  for (const char* name : {"one", "two", "three"}) {
    g.p.fingerprint = name;
    CHECK(g.program().compile(options).value().stats().cache == CacheUse::Stored);
    CHECK(folder.entries() == 2);
  }
  CHECK(g.program().compile(options).value().stats().cache == CacheUse::Found);
  CHECK(fs::exists(folder.file("somebody.txt")));
}

TEST_CASE("cache: a folder that cannot be written to, a full disk") {
  Folder folder;
  auto [program, x, want] = cache_case();
  write_text(folder.file("file"), "");
  Executable exe = program.compile({.threads = 1, .cache_folder = folder.file("file/cache")}).value();
  CHECK(exe.stats().cache == CacheUse::Failed);
  CHECK(same_bits(run(exe, {x}), want));
  // A limit on the sizes of files stands for the full disk.
  CHECK(holds_in_child([&] {
    signal(SIGXFSZ, SIG_IGN);
    rlimit limit{2048, 2048};
    setrlimit(RLIMIT_FSIZE, &limit);
    Executable full = program.compile({.threads = 1, .cache_folder = folder.file("full")}).value();
    return full.stats().cache == CacheUse::Failed && same_bits(run(full, {x}), want) ? 0 : 1;
  }));
  CHECK(fs::is_empty(folder.file("full")));
}

TEST_CASE("cache: many at once") {
  Folder folder;
  auto [program, x, want] = cache_case();
  auto damage = [&](const std::string& name) { // by another file in its place: one that is mapped must not change
    std::error_code gone;
    for (auto at = fs::directory_iterator(folder.path, gone); !gone && at != fs::directory_iterator(); at.increment(gone)) {
      if (at->path().extension() != ".tenon") continue;
      write_text(folder.file(name), "TENON damaged");
      fs::rename(folder.file(name), at->path(), gone);
    }
  };
  auto use = [&](int rounds, const std::string& name) {
    for (int i = 0; i < rounds; i++) {
      Executable exe =
          program.compile({.threads = 1, .cache_folder = folder.path.string(), .cache_bytes = i % 3 == 0 ? 1u : 1u << 30}).value();
      if (exe.stats().cache == CacheUse::Failed || !same_bits(run(exe, {x}), want)) return 1;
      if (i % 4 == 3) damage(name);
    }
    return 0;
  };
  pid_t child = fork();
  if (child == 0) _exit(use(12, "child"));
  CHECK(use(12, "parent") == 0);
  int status = 1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
}

} // namespace tenon::artifact_test
