// Programs ready to run, and what they run on; `tenon compile`.
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

#include <fmt/core.h>

#include "artifact/artifact.h"
#include "base/check.h"
#include "cli/commands.h"
#include "cli/print.h"
#include "load/npz.h"

namespace tenon::cli {

bool is_fx_text(std::string_view path) {
  for (std::string_view end : {".fx", ".py", ".code", ".readable"})
    if (path.ends_with(end)) return true;
  return false;
}

std::string read_file(const std::string& path) {
  if (path == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  std::ifstream in(path, std::ios::binary);
  require_input(in.good(), "cannot open '{}': {}", path, std::strerror(errno));
  return {std::istreambuf_iterator<char>(in), {}};
}

void put_rank(const Options& options, std::initializer_list<std::string*> names) {
  constexpr std::string_view mark = "{rank}";
  for (std::string* name : names)
    for (size_t at; options.communicator && (at = name->find(mark)) != name->npos;)
      name->replace(at, mark.size(), std::to_string(options.communicator.rank()));
}

bool goes_on(const Options& options, bool mine) { return options.communicator ? options.communicator.maximum(mine).value() != 0 : mine; }

Program load(const Model& model) {
  return model.method.empty() ? Program::load(model.file).value() : Program::load(model.file, model.method).value();
}

Ready make_ready(const Model& model, const Options& options) {
  auto begin = Clock::now();
  if (artifact::is_artifact(model.file)) {
    require_input(model.method.empty(), "{} is a compiled program: it has no others", model.file);
    Executable exe = Executable::load(model.file, options).value();
    return {.executable = std::move(exe), .program = {}, .load_ms = ms_since(begin), .compile_ms = 0};
  }
  Program program = load(model);
  double load_ms = ms_since(begin);
  begin = Clock::now();
  Executable exe = program.compile(options).value();
  return {.executable = std::move(exe), .program = std::move(program), .load_ms = load_ms, .compile_ms = ms_since(begin)};
}

Ready make_ready_text(const std::string& file, const std::string& inputs, const std::string& weights, const Options& options) {
  auto begin = Clock::now();
  std::string text = read_file(file);
  std::vector<ArgInfo> types;
  if (!inputs.empty())
    for (const NpyArray& a : read_npz(inputs, NpyU2::AsBF16)) {
      types.push_back({.name = a.name, .dtype = a.tensor.dtype()});
      for (int64_t s : a.tensor.sizes()) types.back().sizes.push_back(std::to_string(s));
    }
  std::vector<NamedTensor> named;
  if (!weights.empty())
    for (NpyArray& a : read_npz(weights, NpyU2::AsBF16)) named.push_back({a.name, std::move(a.tensor)});
  Program program = Program::parse(text, types, named).value();
  double load_ms = ms_since(begin);
  begin = Clock::now();
  Executable exe = program.compile(options).value();
  return {.executable = std::move(exe), .program = std::move(program), .load_ms = load_ms, .compile_ms = ms_since(begin)};
}

std::vector<Tensor> Ready::inputs(const std::string& file) const {
  if (!file.empty()) return read_inputs(file, executable.inputs());
  require_input(program.has_value(), "a compiled program holds no example inputs: give --inputs");
  return program->example_inputs().value();
}

int compile(const CompileArgs& args) {
  Program program = load(args.model);
  auto begin = Clock::now();
  program.save_compiled(args.output, args.options).check();
  double ms = ms_since(begin);
  if (args.json) {
    auto bytes = static_cast<uint64_t>(std::filesystem::file_size(args.output));
    fmt::print("{}\n", JsonObject().text("file", args.output).count("bytes", bytes).number("ms", ms, 1).str());
  } else fmt::print("{} is written: {:.0f} ms\n", args.output, ms);
  return 0;
}

} // namespace tenon::cli
