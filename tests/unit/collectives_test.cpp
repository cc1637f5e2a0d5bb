// Programs of several ranks, which are threads here: collectives over dtypes, sizes and ranks, in code and in the interpreter; ranks that
// fail, disagree or are late.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <thread>

#include <fmt/format.h>

#include "base/numeric.h"
#include "runtime/communicator.h"
#include "tenon/tenon.h"

namespace tenon::collectives_test {

namespace {

/// Runs f(rank's end) in a thread for each rank.
void on_ranks(const std::vector<Communicator>& ranks, const std::function<void(const Communicator&)>& f) {
  std::vector<std::thread> threads;
  for (const Communicator& c : ranks) threads.emplace_back([&] { f(c); });
  for (std::thread& t : threads) t.join();
}

std::string graph(std::string_view body) { return fmt::format("graph():\n    %x : [num_users=1] = placeholder[target=x]\n{}", body); }
std::string call(std::string_view result, std::string_view op, std::string_view args) {
  return fmt::format("    %{} : [num_users=1] = call_function[target=torch.ops.{}.default](args = ({}), kwargs = {{}})\n", result, op,
                     args);
}
std::string collective(std::string_view op, std::string_view args) {
  return graph(call("y", fmt::format("_c10d_functional.{}", op), fmt::format("%x, {}", args)) +
               call("z", "_c10d_functional.wait_tensor", "%y,") + "    return (z,)");
}

Program parse(std::string_view text, DType dtype, std::vector<std::string> sizes) {
  return Program::parse(text, std::vector<ArgInfo>{{.name = "x", .dtype = dtype, .sizes = std::move(sizes)}}).value();
}

// Why a program is none; empty where it is one.
std::string refusal_of(std::string_view text, DType dtype, std::vector<std::string> sizes) {
  auto program = Program::parse(text, std::vector<ArgInfo>{{.name = "x", .dtype = dtype, .sizes = std::move(sizes)}});
  return program ? "" : program.error().what();
}

// Small numbers, exact in all types: other ones for each rank.
double number(int rank, int64_t i) { return static_cast<double>((i * 7 + rank * 3) % 5 + (i + rank) % 2); }
Tensor filled(DType dtype, int64_t rows, int rank) {
  Tensor t(dtype, {rows, 3});
  dispatch(dtype, [&]<class T>(T) {
    for (int64_t i = 0; i < t.numel(); i++) t.data_as<T>()[i] = convert<T>(number(rank, i));
  });
  return t;
}

double reduced(std::string_view op, int ranks, int64_t i, DType dtype) {
  auto value = [&](int r) { return dtype == DType::Bool ? number(r, i) != 0 : number(r, i); };
  double v = value(0);
  for (int r = 1; r < ranks; r++) {
    double x = value(r);
    v = op == "sum" || op == "avg" ? v + x : op == "product" ? v * x : op == "min" ? std::min(v, x) : std::max(v, x);
  }
  if (op == "avg") v /= ranks;
  return dtype == DType::Bool ? v != 0 : v;
}

double at(const Tensor& t, int64_t i) {
  return dispatch(t.dtype(), [&]<class T>(T) { return convert<double>(t.data_as<T>()[i]); });
}

bool is_float_like(DType t) { return is_float(t) || is_complex(t); }

void check_reductions(const std::vector<Communicator>& ranks, DType dtype, int64_t rows, const Options& given) {
  int n = static_cast<int>(ranks.size());
  for (std::string_view op : {"sum", "avg", "product", "min", "max"}) {
    std::string text = collective("all_reduce", fmt::format("'{}', '0'", op));
    if ((op == "avg" && !is_float_like(dtype)) || (is_complex(dtype) && op != "sum" && op != "avg")) {
      CHECK(!refusal_of(text, dtype, {"s0", "3"}).empty());
      continue;
    }
    Program reduce = parse(text, dtype, {"s0", "3"});
    Program scatter =
        parse(collective("reduce_scatter_tensor", fmt::format("'{}', {}, '0'", op, n)), dtype, {fmt::format("{}", rows * n), "3"});
    on_ranks(ranks, [&](const Communicator& c) {
      Options options = given;
      options.communicator = c, options.threads = 1;
      std::vector<Tensor> out;
      reduce.compile(options).value().run(std::vector{filled(dtype, rows, c.rank())}, out).check();
      int64_t wrong = 0;
      double slack = dtype == DType::BF16 ? 0.01 : dtype == DType::F16 ? 1e-3 : 1e-6;
      auto differs = [&](double got, double want) { return std::abs(got - want) > slack * std::abs(want); };
      for (int64_t i = 0; i < rows * 3; i++) wrong += differs(at(out[0], i), reduced(op, n, i, dtype));
      scatter.compile(options).value().run(std::vector{filled(dtype, rows * n, c.rank())}, out).check();
      for (int64_t i = 0; i < rows * 3; i++) wrong += differs(at(out[0], i), reduced(op, n, c.rank() * rows * 3 + i, dtype));
      CHECK_MESSAGE(wrong == 0, name_of(dtype), " ", std::string(op), " of ", rows, " rows on rank ", c.rank(), " of ", n);
    });
  }
}

void check_moves(const std::vector<Communicator>& ranks, DType dtype, int64_t rows, const Options& given) {
  int n = static_cast<int>(ranks.size());
  std::string parts;
  for (int r = 0; r < n; r++) parts += fmt::format("{}{}", r ? ", " : "", rows);
  Program gather = parse(collective("all_gather_into_tensor", fmt::format("{}, '0'", n)), dtype, {"s0", "3"});
  Program broadcast = parse(collective("broadcast", fmt::format("{}, '0'", n - 1)), dtype, {"s0", "3"});
  Program exchange =
      parse(collective("all_to_all_single", fmt::format("[{0}], [{0}], '0'", parts)), dtype, {fmt::format("{}", rows * n), "3"});
  on_ranks(ranks, [&](const Communicator& c) {
    Options options = given;
    options.communicator = c, options.threads = 1;
    std::vector<Tensor> out;
    int64_t part = rows * 3, wrong = 0;
    auto same = [&](const Tensor& t, int64_t i, int rank, int64_t j) {
      Tensor want = filled(dtype, rows * n, rank);
      size_t size = size_of(dtype);
      return std::memcmp(t.data_as<char>() + static_cast<size_t>(i) * size, want.data_as<char>() + static_cast<size_t>(j) * size, size) ==
             0;
    };
    gather.compile(options).value().run(std::vector{filled(dtype, rows, c.rank())}, out).check();
    for (int64_t i = 0; i < part * n; i++) wrong += !same(out[0], i, static_cast<int>(i / part), i % part);
    broadcast.compile(options).value().run(std::vector{filled(dtype, rows, c.rank())}, out).check();
    for (int64_t i = 0; i < part; i++) wrong += !same(out[0], i, n - 1, i);
    exchange.compile(options).value().run(std::vector{filled(dtype, rows * n, c.rank())}, out).check();
    for (int64_t i = 0; i < part * n; i++) wrong += !same(out[0], i, static_cast<int>(i / part), c.rank() * part + i % part);
    CHECK_MESSAGE(wrong == 0, name_of(dtype), ", ", rows, " rows on rank ", c.rank(), " of ", n);
  });
}

std::vector<std::string> errors_of(const std::vector<Communicator>& ranks, const std::function<Status(const Communicator&)>& f) {
  std::vector<std::string> errors(ranks.size());
  on_ranks(ranks, [&](const Communicator& c) {
    Status s = f(c);
    errors[static_cast<size_t>(c.rank())] = s.ok() ? "" : s.error().what();
  });
  return errors;
}

constexpr DType reducible[] = {DType::Bool, DType::U8,   DType::I8,  DType::I16, DType::I32, DType::I64, DType::U64,
                               DType::F16,  DType::BF16, DType::F32, DType::F64, DType::C64, DType::C128};

} // namespace

TEST_CASE("collectives over ranks, dtypes and sizes") {
  for (int n : {1, 2, 3, 4}) {
    std::vector<Communicator> ranks = Communicator::local(n, 60).value();
    for (DType dtype : reducible) {
      if (dtype == DType::Bool && n == 4) continue;
      for (int64_t rows : n == 2 ? std::vector<int64_t>{0, 1, 5, 33} : std::vector<int64_t>{3}) {
        check_reductions(ranks, dtype, rows, {});
        if (dtype != DType::Bool) check_moves(ranks, dtype, rows, {});
      }
    }
    for (DType dtype : {DType::F32, DType::BF16, DType::I64}) {
      check_reductions(ranks, dtype, 3, {.interpret = true});
      check_moves(ranks, dtype, 3, {.interpret = true});
    }
  }
}

TEST_CASE("extremes of floats are NaN where an element is") {
  std::vector<float> a{NAN, 1, 2}, b{1, NAN, 3};
  for (tenon_reduction r : {TENON_MIN, TENON_MAX}) {
    std::vector<float> out = b;
    combine(r, DType::F32, a.data(), out.data(), 3);
    CHECK((std::isnan(out[0]) && std::isnan(out[1]) && !std::isnan(out[2])));
  }
}

TEST_CASE("a collective is neither dropped nor merged, and stays in its order") {
  // The second is not read, the third equals the first.
  std::string text = graph(call("a", "_c10d_functional.all_reduce", "%x, 'sum', '0'") + call("wa", "_c10d_functional.wait_tensor", "%a,") +
                           call("b", "_c10d_functional.all_gather_into_tensor", "%x, 2, '0'") +
                           call("c", "_c10d_functional.all_reduce", "%x, 'sum', '0'") + call("wc", "_c10d_functional.wait_tensor", "%c,") +
                           "    return (wa, wc)");
  Program program = parse(text, DType::F32, {"4"});
  std::string plan = program.dump("plan").value();
  size_t a = plan.find("begin all_reduce"), b = plan.find("all_gather", a), c = plan.find("begin all_reduce", b);
  CHECK((a != plan.npos && b != plan.npos && c != plan.npos));
}

TEST_CASE("steps run between the begin of a collective and its end") {
  std::string text = graph(call("a", "_c10d_functional.all_reduce", "%x, 'sum', '0'") + call("w", "_c10d_functional.wait_tensor", "%a,") +
                           call("y", "aten.cumsum", "%w, 0") + call("z", "aten.cumsum", "%x, 0") + "    return (y, z)");
  Program program = parse(text, DType::F32, {"4"});
  std::string plan = program.dump("plan").value();
  size_t begin = plan.find("begin all_reduce"), between = plan.find("cumulate", begin), end = plan.find("wait for request");
  CHECK((begin < between && between < end));
  std::vector<Communicator> ranks = Communicator::local(2).value();
  on_ranks(ranks, [&](const Communicator& c) {
    Tensor x(DType::F32, {4});
    for (int i = 0; i < 4; i++) x.data_as<float>()[i] = static_cast<float>(c.rank() + 1);
    std::vector<Tensor> out;
    program.compile({.communicator = c}).value().run(std::vector{x}, out).check();
    CHECK(out[0].data_as<float>()[3] == 12);
    CHECK(out[1].data_as<float>()[3] == static_cast<float>(4 * (c.rank() + 1)));
  });
}

TEST_CASE("results of collectives that are read before a wait, joined, written or carried by a loop") {
  std::string in_place = graph(call("y", "aten.neg", "%x,") + call("r", "_c10d_functional.all_reduce_", "%y, 'sum', '0'") +
                               call("w", "_c10d_functional.wait_tensor", "%r,") + "    return (y,)");
  std::string joined = graph(call("a", "_c10d_functional.all_reduce", "%x, 'sum', '0'") + call("w", "_c10d_functional.wait_tensor", "%a,") +
                             call("y", "aten.cat", "[%w, %x], 0") + call("z", "aten.cat", "[%w, %x], 1") + "    return (y, z)");
  std::vector<Communicator> ranks = Communicator::local(2, 20).value();
  on_ranks(ranks, [&](const Communicator& c) {
    std::vector<Tensor> out;
    Tensor x = filled(DType::F32, 40, c.rank());
    parse(in_place, DType::F32, {"40", "3"}).compile({.communicator = c}).value().run(std::vector{x}, out).check();
    for (int64_t i = 0; i < 120; i++) REQUIRE(at(out[0], i) == -reduced("sum", 2, i, DType::F32));
    parse(joined, DType::F32, {"40", "3"}).compile({.communicator = c}).value().run(std::vector{x}, out).check();
    for (int64_t i = 0; i < 120; i++) REQUIRE(at(out[0], i) == reduced("sum", 2, i, DType::F32));
    for (int64_t i = 0; i < 120; i++) REQUIRE(at(out[1], i / 3 * 6 + i % 3) == reduced("sum", 2, i, DType::F32));
  });
}

TEST_CASE("groups of ranks by their names") {
  Program program = parse(collective("all_reduce", "'sum', 'pair'"), DType::F32, {"2", "3"});
  std::vector<Communicator> ranks = Communicator::local(4, 20).value();
  on_ranks(ranks, [&](const Communicator& c) {
    bool low = c.rank() < 2;
    std::vector<Tensor> out;
    Options options{.communicator = c, .groups = {{"pair", low ? std::vector{1, 0} : std::vector{2, 3}}}};
    program.compile(options).value().run(std::vector{filled(DType::F32, 2, c.rank())}, out).check();
    CHECK(at(out[0], 1) == number(low ? 0 : 2, 1) + number(low ? 1 : 3, 1));
    CHECK(c.maximum(c.rank()).value() == 3);
  });
  CHECK(program.compile({.communicator = ranks[0]}).error().what() ==
        std::string(
            "_c10d_functional::all_reduce.default: the program communicates in group 'pair', whose ranks Options::groups does not tell"));
}

TEST_CASE("programs that communicate say what they need") {
  Program gather = parse(collective("all_gather_into_tensor", "3, '0'"), DType::F32, {"2", "3"});
  CHECK(gather.compile().error().what() == std::string("the program communicates with other ranks: it needs Options::communicator"));
  std::vector<Communicator> two = Communicator::local(2).value();
  std::string why = gather.compile({.communicator = two[0]}).error().what();
  CHECK(why == "_c10d_functional::all_gather_into_tensor.default: the program was exported for 3 ranks of group '0', which has 2");
  CHECK(refusal_of(collective("all_reduce", "'median', '0'"), DType::F32, {"2", "3"}).find("no reduction is called 'median'") !=
        std::string::npos);
  why = refusal_of(collective("reduce_scatter_tensor", "'sum', 2, '0'"), DType::F32, {"3", "3"});
  CHECK_MESSAGE(why.find("3 rows are not shared out among 2 ranks") != std::string::npos, why);
  Options options;
  CHECK(!set_option(options, "communicator", "nobody").ok());
  CHECK(!set_option(options, "communicator", "./missing.so").ok());
  CHECK(!set_option(options, "group", "pair").ok());
  CHECK(set_option(options, "group", "pair=0,1").ok());
}

TEST_CASE("a rank that fails does not hang the others") {
  Program program = parse(collective("all_reduce", "'sum', '0'"), DType::F32, {"s0", "3"});
  std::vector<Communicator> ranks = Communicator::local(3, 60).value();
  auto errors = errors_of(ranks, [&](const Communicator& c) {
    std::vector<Tensor> out;
    Tensor wrong(DType::F64, {2, 3});
    return program.compile({.communicator = c}).value().run(std::vector{c.rank() == 1 ? wrong : filled(DType::F32, 2, c.rank())}, out);
  });
  CHECK(errors[1].find("dtype") != std::string::npos);
  for (int r : {0, 2})
    CHECK_MESSAGE(errors[static_cast<size_t>(r)].find("rank 1 failed: ") != std::string::npos, errors[static_cast<size_t>(r)]);
  std::vector<Tensor> out; // and every later call is an error
  CHECK(!program.compile({.communicator = ranks[0]}).value().run(std::vector{filled(DType::F32, 2, 0)}, out).ok());
}

TEST_CASE("ranks that disagree, and ranks that are late, are named") {
  Program program = parse(collective("all_reduce", "'sum', '0'"), DType::F32, {"s0", "3"});
  auto run = [&](const Communicator& c, int64_t rows) {
    std::vector<Tensor> out;
    return program.compile({.communicator = c}).value().run(std::vector{filled(DType::F32, rows, c.rank())}, out);
  };
  auto errors = errors_of(Communicator::local(2, 60).value(), [&](const Communicator& c) { return run(c, 2 + c.rank()); });
  for (auto& e : errors)
    CHECK_MESSAGE((e.find("all_reduce (sum) of 6 f32 on rank 0") != e.npos || e.find("all_reduce (sum) of 9 f32 on rank 1") != e.npos), e);
  errors = errors_of(Communicator::local(3, 0.2).value(), [&](const Communicator& c) { return c.rank() == 2 ? Status() : run(c, 2); });
  for (size_t r : {0u, 1u})
    CHECK_MESSAGE(errors[r].find("s for rank 2 in operation 0, all_reduce (sum) of 6 f32") != std::string::npos, errors[r]);
}

TEST_CASE("many threads may call one executable of a rank") {
  Program program = parse(collective("all_reduce", "'sum', '0'"), DType::F32, {"s0", "3"});
  std::vector<Communicator> ranks = Communicator::local(2, 60).value();
  on_ranks(ranks, [&](const Communicator& c) {
    Executable exe = program.compile({.communicator = c}).value();
    auto calls = [&] {
      for (int i = 0; i < 50; i++) {
        std::vector<Tensor> out;
        exe.run(std::vector{filled(DType::F32, 4, c.rank())}, out).check();
        REQUIRE(at(out[0], 1) == reduced("sum", 2, 1, DType::F32));
      }
    };
    std::thread other(calls);
    calls();
    other.join();
  });
}

} // namespace tenon::collectives_test
