// Executable::call: nested arguments and results as torch has them (tests/fixtures/calls.py), and what it says of wrong ones.
#include <doctest/doctest.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <thread>

#include "api/impl.h"
#include "expr/eval.h"
#include "load/json.h"

namespace tenon::structured_call_test {

using json::Element;
namespace fs = std::filesystem;

namespace {

const std::string folder = TENON_FIXTURES "/calls/";

// Complex numbers are pairs.
size_t parts_of(DType t) { return is_complex(t) ? 2 : 1; }
DType part_of(DType t) { return t == DType::C64 ? DType::F32 : t; }

Tensor read_tensor(Element e) {
  DType dtype{};
  for (int i = 0; i < num_dtypes; i++)
    if (name_of(DType(i)) == json::text(e, "tensor")) dtype = DType(i);
  std::vector<int64_t> sizes;
  for (Element s : json::array(json::get(e, "sizes"))) sizes.push_back(json::integer(s));
  Tensor t(dtype, sizes);
  auto data = json::array(json::get(e, "data"));
  REQUIRE(data.size() == static_cast<size_t>(t.numel()) * parts_of(dtype));
  dispatch(part_of(dtype), [&]<class T>(T) {
    size_t i = 0;
    for (Element x : data) t.data_as<T>()[i++] = convert<T>(x.get_double().value());
  });
  return t;
}

Tree read_tree(Element e);

std::vector<Tree> read_trees(Element list) {
  std::vector<Tree> out;
  for (Element e : json::array(list)) out.push_back(read_tree(e));
  return out;
}

std::vector<Tree::Entry> read_entries(Element list) {
  std::vector<Tree::Entry> out;
  for (Element e : json::array(list)) {
    std::vector<Tree> pair = read_trees(e);
    out.emplace_back(pair.at(0), pair.at(1));
  }
  return out;
}

Tree read_container(Element e) {
  auto [kind, value] = *json::object(e).begin();
  if (kind == "tensor") return read_tensor(e);
  if (kind == "float") return std::stod(std::string(json::text(value)));
  if (kind == "enum") return Tree::Word{std::string(json::text(value))};
  if (kind == "tuple") return Tree::tuple(read_trees(value));
  if (kind == "list") return Tree::list(read_trees(value));
  if (kind == "deque") return Tree::deque(read_trees(value));
  if (kind == "dict") return Tree::dict(read_entries(value));
  if (kind == "OrderedDict") return Tree::ordered_dict(read_entries(value));
  if (kind == "defaultdict") return Tree::default_dict(read_entries(value));
  std::string name(json::text(value));
  if (kind == "namedtuple") return Tree::named_tuple(name, read_entries(json::get(e, "fields")));
  if (kind == "dataclass") return Tree::dataclass(name, read_entries(json::get(e, "fields")));
  REQUIRE(kind == "object");
  return Tree::object(name, read_trees(json::get(e, "children")));
}

Tree read_tree(Element e) {
  if (e.is_null()) return nullptr;
  if (e.is_bool()) return json::boolean(e);
  if (e.is_int64()) return json::integer(e);
  if (e.is_double()) return e.get_double().value();
  return e.is_string() ? Tree(std::string(json::text(e))) : read_container(e);
}

std::vector<NamedTree> read_named(Element object) {
  std::vector<NamedTree> out;
  for (auto [name, value] : json::object(object)) out.emplace_back(std::string(name), read_tree(value));
  return out;
}

bool is_near(double a, double b, double tolerance) {
  return a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= tolerance * (1 + std::abs(b));
}

std::string tensor_difference(const Tensor& got, const Tensor& want) {
  if (got.dtype() != want.dtype() || got.sizes() != want.sizes()) return "is another type";
  Tensor dense = got.contiguous();
  double tolerance = got.dtype() == DType::BF16 ? 1e-2 : 1e-5;
  return dispatch(part_of(got.dtype()), [&]<class T>(T) -> std::string {
    for (size_t i = 0; i < static_cast<size_t>(want.numel()) * parts_of(want.dtype()); i++) {
      double a = convert<double>(dense.data_as<T>()[i]), b = convert<double>(want.data_as<T>()[i]);
      if (!is_near(a, b, tolerance)) return fmt::format("has {} at {}, not {}", a, i, b);
    }
    return "";
  });
}

// The first difference, with its path; empty where there is none. Of classes, None fields come last in what tenon gives.
std::string difference(const Tree& got, const Tree& want, const std::string& path) {
  if (got.kind() != want.kind()) return fmt::format("{}: {}, not {}", path, got.to_string(), want.to_string());
  if (auto* tensor = got.as<Tensor>(); tensor && want.as<Tensor>()) {
    std::string what = tensor_difference(*tensor, want.tensor());
    return what.empty() ? "" : path + " " + what;
  }
  if (auto *a = got.as<double>(), *b = want.as<double>(); a && b) return is_near(*a, *b, 1e-12) ? "" : path + ": another float";
  if (got.is_leaf()) return got.to_string() == want.to_string() ? "" : path + ": " + got.to_string() + ", not " + want.to_string();
  bool in_order = got.kind() != Tree::Kind::Object;
  if (got.size() != want.size() || (got.type() != want.type() && got.type() != "torch.Size"))
    return path + ": " + got.to_string() + ", not " + want.to_string();
  for (size_t i = 0; i < want.size(); i++) {
    bool has_keys = !want.keys().empty();
    const Tree* child = has_keys ? got.find(want.keys()[i]) : &got.children()[i];
    if (!child || (has_keys && in_order && got.keys()[i].to_string() != want.keys()[i].to_string())) return path + ": other keys";
    std::string inner = difference(*child, want.children()[i], fmt::format("{}[{}]", path, i));
    if (!inner.empty()) return inner;
  }
  return "";
}

// A program, its executables, and what torch computed.
struct Fixtures {
  simdjson::dom::parser parser{};
  Element root;
  Fixtures() { REQUIRE(!parser.load(folder + "calls.json").get(root)); }
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (auto [name, calls] : json::object(root)) out.emplace_back(name);
    return out;
  }
  simdjson::dom::array calls(const std::string& name) const { return json::array(json::get(root, name)); }
};

Program load(const std::string& name) { return Program::load(folder + name + ".pt2").value(); }

std::string run_call(const Executable& exe, Element call) {
  std::vector<Tree> args = read_trees(json::get(call, "args"));
  std::vector<NamedTree> kwargs = read_named(json::get(call, "kwargs"));
  Result<Tree> result = exe.call(args, kwargs);
  if (!result) return result.error().what();
  std::string what = difference(*result, read_tree(json::get(call, "result")), "result");
  auto after = json::find(call, "after");
  if (!after || !what.empty()) return what;
  what = difference(Tree::tuple(args), Tree::tuple(read_trees(json::get(*after, "args"))), "args");
  std::vector<NamedTree> changed = read_named(json::get(*after, "kwargs"));
  for (size_t i = 0; i < kwargs.size() && what.empty(); i++) what = difference(kwargs[i].second, changed[i].second, kwargs[i].first);
  return what;
}

void run_calls(const Executable& exe, const Fixtures& fixtures, const std::string& name, const char* how) {
  int number = 0;
  for (Element call : fixtures.calls(name)) {
    std::string what = run_call(exe, call);
    CHECK_MESSAGE(what.empty(), name, " ", how, ", call ", number++, ": ", what);
  }
}

struct CompiledFile {
  std::string path = (fs::temp_directory_path() / fmt::format("tenon-call-{}.tenon", getpid())).string();
  CompiledFile(const Program& program) { program.save_compiled(path).check(); }
  ~CompiledFile() { fs::remove(path); }
};

Tensor ones(std::vector<int64_t> sizes, DType dtype = DType::F32) {
  Tensor t(dtype, std::move(sizes));
  dispatch(dtype, [&]<class T>(T) { std::fill_n(t.data_as<T>(), t.numel(), convert<T>(1.0)); });
  return t;
}

std::string error_of(const Executable& exe, const std::vector<Tree>& args, const std::vector<NamedTree>& kwargs = {}) {
  Result<Tree> result = exe.call(args, kwargs);
  if (result) return "no error: " + result->to_string();
  CHECK(result.error().kind == ErrorKind::BadInput);
  return result.error().what();
}

Executable compiled(const std::string& name) { return load(name).compile().value(); }

} // namespace

TEST_CASE("nested calls give what torch gives: compiled, interpreted, and from a file") {
  Fixtures fixtures;
  CHECK(fixtures.names().size() >= 60);
  for (const std::string& name : fixtures.names()) {
    Program program = load(name);
    run_calls(program.compile().value(), fixtures, name, "compiled");
    run_calls(program.compile({.interpret = true}).value(), fixtures, name, "interpreted");
    CompiledFile file(program);
    Executable loaded = Executable::load(file.path).value();
    run_calls(loaded, fixtures, name, "from a file");
    CHECK(loaded.in_spec().to_string() == program.in_spec().to_string());
    CHECK(loaded.out_spec().to_string() == program.out_spec().to_string());
  }
}

TEST_CASE("dicts are taken in any order and kind, positional arguments by name, classes by the last part of their name") {
  Tensor x = ones({2}), y = ones({2});
  x.data_as<float>()[0] = 5;
  auto first = [](Result<Tree> r) { return r.value().tensor().data_as<float>()[0]; };
  Executable dict = compiled("dict_in");
  CHECK(first(dict.call({Tree::dict({{"y", y}, {"x", x}})})) == 4);
  CHECK(first(dict.call({Tree::ordered_dict({{"y", y}, {"x", x}})})) == 4);
  CHECK(first(dict.call({}, {{"d", Tree::default_dict({{"x", x}, {"y", y}})}})) == 4);
  Executable order = compiled("keyword_order"); // x - a*b
  CHECK(first(order.call({x}, {{"b", x}, {"a", y}})) == 0);
  CHECK(first(order.call({}, {{"a", y}, {"b", y}, {"x", x}})) == 4);
  Tree swapped = compiled("named").call({Tree::named_tuple("Point", {{"y", y}, {"x", x}})}).value();
  CHECK(swapped.type() == "shapes.Point");
  CHECK(swapped["y"].tensor().data_as<float>()[0] == 4);
  CHECK(swapped[0].tensor().data_as<float>()[0] == 1);
  Tree batch = compiled("dataclass_none").call({Tree::dataclass("Batch", {{"scale", 1.0}, {"ids", ones({3}, DType::I64)}})}).value();
  CHECK(batch.to_string() == "Batch(ids=i64[3], scale=1.0, mask=None)");
}

TEST_CASE("a wrong structure is told with its path") {
  Tensor x = ones({2});
  Executable dict = compiled("dict_in"), pair = compiled("tuple_in"), named = compiled("named"), kind = compiled("dict_int");
  CHECK(error_of(dict, {Tree::dict({{"x", x}})}) == "args[0]: expected dict with the keys 'x', 'y', got dict with the keys 'x'");
  CHECK(error_of(dict, {Tree::dict({{"x", x}, {"z", x}})}) ==
        "args[0]: expected dict with the keys 'x', 'y', got dict with the keys 'x', 'z'");
  CHECK(error_of(dict, {}, {{"d", Tree::list({x, x})}}) == "kwargs['d']: expected dict with the keys 'x', 'y', got list of 2");
  CHECK(error_of(dict, {x}) == "args[0]: expected dict with the keys 'x', 'y', got f32[2]");
  CHECK(error_of(kind, {Tree::dict({{"3", x}, {"1", x}})}) == "args[0]: expected dict with the keys 3, 1, got dict with the keys '3', '1'");
  CHECK(error_of(kind, {Tree::dict({{3, x}, {true, x}})}) == "args[0]: expected dict with the keys 3, 1, got dict with the keys 3, True");
  CHECK(error_of(pair, {Tree::list({x, x})}) == "args[0]: expected tuple of 2, got list of 2");
  CHECK(error_of(pair, {Tree::tuple({x})}) == "args[0]: expected tuple of 2, got tuple of 1");
  CHECK(error_of(pair, {Tree::tuple({x, nullptr})}) == "args[0][1]: expected f32[3], got None");
  CHECK(error_of(named, {Tree::tuple({x, x})}) == "args[0]: expected Point with the fields 'x', 'y', got tuple of 2");
  CHECK(error_of(named, {Tree::named_tuple("Line", {{"x", x}, {"y", x}})}) ==
        "args[0]: expected Point with the fields 'x', 'y', got Line with the fields 'x', 'y'");
  CHECK(error_of(named, {Tree::named_tuple("Point", {{"x", x}})}) ==
        "args[0]: expected Point with the fields 'x', 'y', got Point with the fields 'x'");
  CHECK(error_of(named, {Tree::named_tuple("Point", {{"x", x}, {"y", ones({3})}})}) == "args[0].y: expected f32[2], got f32[3]");
  Executable batch = compiled("dataclass_none");
  CHECK(error_of(batch, {Tree::dataclass("Batch", {{"ids", ones({3}, DType::I64)}, {"mask", x}, {"scale", 1.0}})}) ==
        "args[0].mask: the program was exported for None, not f32[2]");
  CHECK(error_of(batch, {Tree::dataclass("Batch", {{"ids", ones({3}, DType::I64)}, {"size", 3}, {"scale", 1.0}})}) ==
        "args[0]: expected Batch with the fields 'ids', 'scale', 'mask', got Batch with the fields 'ids', 'size', 'scale'");
  CHECK(error_of(compiled("registered"), {Tree::object("Pair", {x, Tree::dict({{"b", x}})})}) ==
        "args[0][1]: expected dict with the keys 'a', got dict with the keys 'b'");
}

TEST_CASE("missing, unknown and doubled arguments are told by name") {
  Tensor x = ones({2});
  Executable order = compiled("keyword_order");
  CHECK(error_of(order, {x}, {{"a", x}}) == "kwargs['b'] is missing");
  CHECK(error_of(order, {}, {{"a", x}, {"b", x}}) == "args[0], or kwargs['x'], is missing");
  CHECK(error_of(order, {x}, {{"a", x}, {"b", x}, {"c", x}}) == "kwargs['c']: the program has no argument of this name");
  CHECK(error_of(order, {x}, {{"a", x}, {"b", x}, {"a", x}}) == "kwargs['a'] is given twice");
  CHECK(error_of(order, {x}, {{"x", x}, {"a", x}, {"b", x}}) == "kwargs['x'] is given twice: it is args[0]");
  CHECK(error_of(order, {x, x}, {{"b", x}}) == "2 positional arguments are given, the program takes 1");
}

TEST_CASE("values fixed at export are compared, and leaves are of their types") {
  Tensor x = ones({2});
  Executable strings = compiled("strings"), ints = compiled("int_fixed"), floats = compiled("float_fixed"), flags = compiled("bool_fixed"),
             free = compiled("int_free"), none = compiled("optional");
  Tree fast = Tree::dict({{"name", "fast"}});
  CHECK(error_of(strings, {x, "mean"}, {{"mode", fast}}) ==
        "args[1]: the program was exported for the string 'sum', not the string 'mean'");
  CHECK(error_of(strings, {x, "sum"}, {{"mode", Tree::dict({{"name", nullptr}})}}) ==
        "kwargs['mode']['name']: the program was exported for the string 'fast', not None");
  CHECK(error_of(ints, {x, 4}) == "args[1]: the program was exported for the int 3, not the int 4");
  CHECK(error_of(ints, {x, 3.0}) == "args[1]: the program was exported for the int 3, not the float 3.0");
  CHECK(error_of(flags, {x, 1}, {{"inverse", false}}) == "args[1]: the program was exported for the bool True, not the int 1");
  CHECK(error_of(floats, {x, 0.5}, {{"scale", 1.0}}) == "kwargs['scale']: the program was exported for the float nan, not the float 1.0");
  CHECK(floats.call({x, 0.5}, {{"scale", NAN}}).ok());
  CHECK(error_of(none, {x, x, x}) == "args[1]: the program was exported for None, not f32[2]");
  CHECK(error_of(free, {x, 2.0}) == "args[1]: expected int, got the float 2.0");
  CHECK(error_of(free, {x, true}) == "args[1]: expected int, got the bool True");
  CHECK(error_of(free, {x, ones({}, DType::I64)}) == "args[1]: expected int, got i64[]");
  CHECK(error_of(free, {2, 2}) == "args[0]: expected f32[2], got the int 2");
  CHECK(error_of(free, {Tensor(), 2}) == "args[0]: the tensor has no memory");
  CHECK(error_of(free, {ones({2}, DType::F64), 2}) == "args[0]: expected f32[2], got f64[2]");
  CHECK(error_of(free, {ones({2, 1}), 2}) == "args[0]: expected f32[2], got f32[2, 1]");
}

TEST_CASE("what the export assumed of sizes inside classes is checked") {
  auto has_guard = [](const std::string& error) { return error.find("the program was exported for inputs with") != std::string::npos; };
  auto batch = [](int64_t ids, int64_t mask) {
    return Tree::dataclass("Batch", {{"ids", ones({ids}, DType::I64)}, {"mask", ones({mask})}, {"scale", 1.0}});
  };
  auto point = [](int64_t x, int64_t y) { return Tree::list({Tree::named_tuple("Point", {{"x", ones({x})}, {"y", ones({y})}})}); };
  Executable dataclass = compiled("guarded_dataclass"), tuple = compiled("guarded_tuple");
  CHECK(dataclass.call({batch(8, 9)}).ok());
  CHECK(error_of(dataclass, {batch(1, 9)}) == "args[0].mask: size 9 of dim 0 must be 2 (s21 + 1)");
  CHECK(tuple.call({}, {{"p", point(8, 16)}}).ok());
  CHECK(has_guard(error_of(tuple, {}, {{"p", point(1, 16)}})));
}

TEST_CASE("specs tell the structure, with what is fixed") {
  CHECK(load("everything").in_spec().to_string() ==
        "((f32[s50, 4], {'mask': None, 'opts': {'mode': 'mean', 'eps': 0.25}}), "
        "{'state': Point(x=f32[s50], y=[f32[s50], None]), 'extra': OrderedDict({'n': 3, 'flag': False})})");
  CHECK(load("int_free").in_spec().to_string() == "((f32[2], int), {})");
  CHECK(load("numbers_out").out_spec().to_string() == "{'int': 3, 'float': 0.1, 'bool': True, 'none': None, 'text': \"it's\", "
                                                      "'sizes': (2, 3), 'big': 1099511627776, 'huge': 1e+300, 'x': f32[2, 3]}");
  CHECK(load("registered_context").in_spec()[0][0].context() == "{\"factor\": 3}");
  CHECK(load("dict_enum").out_spec().to_string() == "{Color.BLUE: f32[2]}");
  CHECK(load("cache").out_spec().to_string() ==
        "(f32[1, 2, 1, 3], Cache(key_cache=[f32[1, 2, s10 + 1, 3]], value_cache=[f32[1, 2, s10 + 1, 3]]))");
}

TEST_CASE("a program from text takes its inputs as positional arguments") {
  std::vector<ArgInfo> inputs(2, {.dtype = DType::F32, .sizes = {"2"}});
  Program program = Program::parse(R"(graph():
    %x : [num_users=1] = placeholder[target=x]
    %y : [num_users=1] = placeholder[target=y]
    %sub : [num_users=1] = call_function[target=torch.ops.aten.sub.Tensor](args = (%x, %y), kwargs = {})
    return (sub,))",
                                   inputs)
                        .value();
  CHECK(program.in_spec().to_string() == "((f32[2], f32[2]), {})");
  Executable exe = program.compile().value();
  Tree result = exe.call({ones({2}), ones({2})}).value();
  CHECK(result.to_string() == "(f32[2],)");
  CHECK(result[0].tensor().data_as<float>()[1] == 0);
  CHECK(error_of(exe, {ones({2})}) == "args[1] is missing");
}

TEST_CASE("threads call one executable with numbers and structures of their own") {
  Executable exe = compiled("int_free_nested"); // d.x * d.n + k
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; t++)
    threads.emplace_back([&, t] {
      for (int i = 1; i <= 50; i++) {
        int n = t * 100 + i;
        Tree out = exe.call({Tree::dict({{"n", n}, {"x", ones({2})}})}, {{"k", Tree::list({t})}}).value();
        wrong += out["sum"].tensor().data_as<float>()[1] != static_cast<float>(n + t) || out["n"].get<int64_t>() != n + t;
      }
    });
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
}

} // namespace tenon::structured_call_test
