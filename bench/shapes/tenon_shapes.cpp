// A program whose sizes change from call to call: `tenon_shapes NAME.pt2 NAME.sizes` calls it with each tuple of sizes several times, then
// with tuples in random order, then beside builds of single sizes. It writes all times as one line of JSON; table.py says what they mean.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>
#include <random>
#include <sstream>
#include <unistd.h>

#include "bench/arguments.h"
#include "tenon/tenon.h"

namespace tenon::bench {
namespace {

using Tuple = std::vector<int64_t>;

struct Input {
  DType dtype;
  double low, high; // values are at least `low` and below `high`
  std::vector<std::string> dims;
};

/// What NAME.sizes says; export.py describes its lines.
struct Sizes {
  std::vector<std::string> names;
  std::vector<Input> inputs;
  std::vector<Tuple> sample, tuples;
};

DType dtype_of(const std::string& name) {
  for (int i = 0; i < num_dtypes; i++)
    if (name_of(static_cast<DType>(i)) == name) return static_cast<DType>(i);
  throw Error(ErrorKind::BadInput, "no dtype is called " + name);
}

Sizes read_sizes(const std::string& path) {
  Sizes out;
  std::ifstream file(path);
  if (!file) throw Error(ErrorKind::BadInput, "cannot read it", path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string what, word;
    words >> what;
    if (what == "names") {
      while (words >> word) out.names.push_back(word);
    } else if (what == "input") {
      Input& in = out.inputs.emplace_back();
      words >> word >> in.low >> in.high;
      in.dtype = dtype_of(word);
      while (words >> word) in.dims.push_back(word);
    } else {
      Tuple& t = (what == "static" ? out.sample : out.tuples).emplace_back();
      for (int64_t n; words >> n;) t.push_back(n);
      if (t.size() != out.names.size()) throw Error(ErrorKind::BadInput, "as many sizes as names are expected: " + line, path);
    }
  }
  return out;
}

double now() { return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

long rss_kb() {
  long all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

/// Inputs of any of the tuples: views into values that are drawn once.
class Inputs {
public:
  explicit Inputs(const Sizes& sizes) : sizes_(sizes), shapes_(sizes.inputs.size()) {
    std::mt19937 random(1);
    for (const Input& in : sizes.inputs) {
      int64_t most = 0;
      for (const auto* tuples : {&sizes.tuples, &sizes.sample})
        for (const Tuple& t : *tuples) most = std::max(most, numel(shape(in, t)));
      Tensor& values = values_.emplace_back(in.dtype, Tuple{most});
      std::uniform_real_distribution<double> draw(in.low, in.high);
      for (int64_t i = 0; i < most; i++) {
        if (in.dtype == DType::F32) values.data_as<float>()[i] = static_cast<float>(draw(random));
        else if (in.dtype == DType::I64) values.data_as<int64_t>()[i] = static_cast<int64_t>(std::floor(draw(random)));
        else throw Error(ErrorKind::Unsupported, "inputs are f32 or i64");
      }
    }
  }
  /// They hold until the next call.
  const std::vector<TensorView>& of(const Tuple& tuple) {
    views_.clear();
    for (size_t i = 0; i < shapes_.size(); i++) {
      shapes_[i] = shape(sizes_.inputs[i], tuple);
      views_.push_back({values_[i].dtype(), values_[i].data(), shapes_[i], {}});
    }
    return views_;
  }

private:
  Tuple shape(const Input& in, const Tuple& tuple) const {
    Tuple out;
    for (const std::string& d : in.dims) {
      auto name = std::find(sizes_.names.begin(), sizes_.names.end(), d);
      out.push_back(name == sizes_.names.end() ? std::stoll(d) : tuple[static_cast<size_t>(name - sizes_.names.begin())]);
    }
    return out;
  }
  static int64_t numel(const Tuple& shape) {
    int64_t n = 1;
    for (int64_t s : shape) n *= s;
    return n;
  }
  const Sizes& sizes_;
  std::vector<Tensor> values_;
  std::vector<Tuple> shapes_;
  std::vector<TensorView> views_;
};

/// A compiled program and what its calls hold.
struct Running {
  Executable exe;
  std::vector<Tensor> outputs = {};
  double call(const std::vector<TensorView>& inputs) {
    double start = now();
    exe.run(inputs, outputs).check();
    return now() - start;
  }
};

Running load(const std::string& path, const Options& options) { return {Program::load(path).value().compile(options).value()}; }

/// What a series of calls took, and the resident memory after each. The memory for it is there from the start.
struct Record {
  std::vector<double> us;
  std::vector<long> kb;
  explicit Record(size_t calls) : us(calls), kb(calls) {}
  std::string text(const std::string& name) const {
    return fmt::format(R"("{}_us":[{:.1f}],"{}_kb":[{}])", name, fmt::join(us, ","), name, fmt::join(kb, ","));
  }
};

/// Every tuple `repeats` times, by groups of 8 in turns: what a call finds in the caches is the same each time. In the record a tuple's
/// calls stand together.
Record call_tuples(Running& program, const Sizes& sizes, Inputs& inputs, size_t repeats) {
  constexpr size_t group = 8;
  size_t n = sizes.tuples.size();
  Record out(n * repeats);
  for (size_t first = 0; first < n; first += group)
    for (size_t k = 0; k < repeats; k++)
      for (size_t i = first; i < std::min(first + group, n); i++) {
        out.us[i * repeats + k] = program.call(inputs.of(sizes.tuples[i]));
        out.kb[i * repeats + k] = rss_kb();
      }
  return out;
}

/// `calls` calls, each of a tuple at random, within `seconds`; `which` gets the tuples' numbers.
Record churn(Running& program, const Sizes& sizes, Inputs& inputs, size_t calls, double seconds, std::vector<size_t>& which) {
  Record out(calls);
  which.assign(calls, 0);
  std::mt19937 random(2);
  double until = now() + seconds * 1e6;
  size_t i = 0;
  for (; i < calls && now() < until; i++) {
    which[i] = random() % sizes.tuples.size();
    out.us[i] = program.call(inputs.of(sizes.tuples[which[i]]));
    out.kb[i] = rss_kb();
  }
  which.resize(i), out.us.resize(i), out.kb.resize(i);
  return out;
}

/// As many calls in runs of one size, for what scatters though no size changes; `which` gets the tuples' numbers.
std::vector<double> steady(Running& program, const Sizes& sizes, Inputs& inputs, size_t calls, double seconds, std::vector<size_t>& which) {
  size_t runs = std::min<size_t>(8, sizes.tuples.size());
  std::vector<double> us;
  which.clear();
  for (size_t run = 0; run < runs; run++) {
    size_t k = (run * sizes.tuples.size() + sizes.tuples.size() / 2) / runs;
    double until = now() + seconds * 1e6 / static_cast<double>(runs);
    for (size_t i = 0; i < calls / runs && now() < until; i++) which.push_back(k), us.push_back(program.call(inputs.of(sizes.tuples[k])));
  }
  return us;
}

/// The best times of the program, of the build of one size, and of the program's own plan for that size, called in turns.
std::string against_static(Running& program, Inputs& inputs, const Tuple& tuple, const std::string& path, const Options& options,
                           double seconds) {
  Running alone = load(path, options), exact{program.exe.copy()};
  exact.exe.specialize(inputs.of(tuple)).check();
  Running* all[] = {&program, &alone, &exact};
  double best[] = {1e30, 1e30, 1e30};
  double until = now() + seconds * 1e6;
  for (int round = 0; round < 3 || now() < until; round++)
    for (int turn = 0; turn < 3; turn++)
      for (int k = 0; k < 4; k++) {
        int which = (round + turn) % 3;
        double time = all[which]->call(inputs.of(tuple));
        if (k) best[which] = std::min(best[which], time); // the first finds the others' weights in the caches
      }
  VariantInfo plan = exact.exe.variants().back();
  return fmt::format(R"([[{}],{:.1f},{:.1f},{:.1f},{:.1f},{}])", fmt::join(tuple, ","), best[0], best[1], best[2], plan.compile_ms,
                     plan.bytes);
}

/// "name=value,name=value" over the fields of Options that change how fast programs run.
void set_options(Options& options, const std::string& text) {
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    if (part == "isa=avx2") options.isa = Isa::Avx2;
    else if (part == "isa=avx512") options.isa = Isa::Avx512;
    else if (part == "precision=bf16") options.precision = Precision::BF16;
    else if (part == "precision=int8-weights") options.precision = Precision::Int8Weights;
    else if (part == "background=off") options.specialization.in_background = false;
    else throw Error(ErrorKind::BadInput, "no such option: " + part);
  }
}

void run(int argc, char** argv) {
  if (argc < 3 || argv[1][0] == '-' || argv[2][0] == '-')
    throw Error(ErrorKind::BadInput, "usage: tenon_shapes NAME.pt2 NAME.sizes [--threads=2] [--tuples=N] [--repeats=4] [--churn=CALLS] "
                                     "[--churn-seconds=S] [--static=N] [--static-seconds=S] [--options=...]");
  auto number = [&](const char* name, const char* otherwise) { return std::stod(argument(argc, argv, name, otherwise)); };
  std::filesystem::path path = argv[1];
  Sizes sizes = read_sizes(argv[2]);
  sizes.tuples.resize(std::min(sizes.tuples.size(), static_cast<size_t>(number("tuples", "1e9"))));
  sizes.sample.resize(std::min(sizes.sample.size(), static_cast<size_t>(number("static", "1e9"))));
  Options options{.threads = static_cast<int>(number("threads", "2"))};
  set_options(options, argument(argc, argv, "options", ""));
  Inputs inputs(sizes);

  double start = now();
  Running program = load(path, options);
  if (!sizes.tuples.empty()) program.call(inputs.of(sizes.tuples[0]));
  double first = now() - start;
  uint64_t code = Executable::pieces_of_code();
  auto repeats = static_cast<size_t>(number("repeats", "4"));
  Record called = call_tuples(program, sizes, inputs, repeats);
  std::vector<size_t> which;
  size_t calls = sizes.tuples.empty() ? 0 : static_cast<size_t>(number("churn", "1000"));
  Record churned = churn(program, sizes, inputs, calls, number("churn-seconds", "1e9"), which);
  code = Executable::pieces_of_code() - code;
  std::vector<size_t> kept;
  std::vector<double> kept_us = steady(program, sizes, inputs, calls, number("churn-seconds", "1e9"), kept);
  std::string alone;
  options.specialization.in_background = false;
  if (!sizes.sample.empty()) program = load(path, options);
  for (const Tuple& t : sizes.sample) {
    std::string file = path.parent_path() / fmt::format("{}.{}.pt2", path.stem().string(), fmt::join(t, "_"));
    alone += (alone.empty() ? "" : ",") + against_static(program, inputs, t, file, options, number("static-seconds", "1"));
  }
  fmt::print(
      R"({{"engine":"tenon","program":"{}","threads":{},"first_ms":{:.1f},"compiles":{},"repeats":{},{},"churn":[{}],{},"steady":[{}],"steady_us":[{:.1f}],"static":[{}]}})"
      "\n",
      path.stem().string(), options.threads, first / 1e3, code, repeats, called.text("tuple"), fmt::join(which, ","), churned.text("churn"),
      fmt::join(kept, ","), fmt::join(kept_us, ","), alone);
}

} // namespace
} // namespace tenon::bench

int main(int argc, char** argv) {
  try {
    tenon::bench::run(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}
