// IValues and dicts; the table of TorchScript's operators beside torch's list of them (tests/fixtures/builtins/schemas.txt). What
// torch has and src/builtins has not is listed with reasons in tests/expected/builtins.txt, which may only shrink.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <thread>

#include "builtins/builtin.h"
#include "builtins/dict.h"
#include "builtins/resolve.h"

namespace tenon::builtins_test {

namespace {
std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(std::string(TENON_FIXTURES) + path);
  REQUIRE(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);)
    if (!line.empty() && line[0] != '#') lines.push_back(line);
  return lines;
}
} // namespace

TEST_CASE("builtins: every schema is torch's own, and what is missing is known") {
  std::map<std::string, size_t> torch; // by their order
  for (auto& line : lines_of("/builtins/schemas.txt")) torch.emplace(line, torch.size());
  auto left = lines_of("/../expected/builtins.txt");
  std::set<std::string> missing(left.begin(), left.end()), rows;
  for (auto& row : builtins::all_rows()) {
    bool own = row.schema.starts_with("aten::_gradient_"); // of backward passes
    CHECK_MESSAGE((own || torch.contains(row.schema)), "torch has no " << row.schema);
    CHECK_MESSAGE(rows.insert(row.schema).second, "twice: " << row.schema);
    CHECK_MESSAGE(!missing.contains(row.schema), "there is a row now, remove from tests/expected/builtins.txt: " << row.schema);
    CHECK((row.run != nullptr));
  }
  for (auto& [schema, place] : torch) CHECK_MESSAGE((rows.contains(schema) || missing.contains(schema)), "no row " << schema);
  for (auto& schema : missing) CHECK_MESSAGE(torch.contains(schema), "torch has none such: " << schema);
}

// The first overload that takes the arguments is meant, so their order says which one that is.
TEST_CASE("builtins: overloads of a name are tried in torch's order") {
  std::map<std::string, size_t> place;
  for (auto& line : lines_of("/builtins/schemas.txt")) place.emplace(line, place.size());
  std::map<std::string, std::string> last;
  for (auto* op : all_builtins()) {
    std::string name = op->schema.substr(0, op->schema.find_first_of(".(")), &before = last[name];
    if (name == "aten::eq" || name == "aten::ne" || name == "aten::__contains__") continue; // no two take the same
    CHECK_MESSAGE((before.empty() || place[before] < place[op->schema]), "torch tries " << op->schema << " before " << before);
    before = op->schema;
  }
}

TEST_CASE("builtins: found by name, with the schema that the text says") {
  CHECK(all_builtins().size() == builtins::all_rows().size());
  for (auto* op : all_builtins()) {
    auto found = find_builtins(op->schema.substr(0, op->schema.find_first_of(".(")));
    CHECK_MESSAGE(std::ranges::count(found, op) == 1, op->schema);
    CHECK(op->schema.starts_with(op->signature.name.substr(0, op->signature.name.rfind(".default"))));
  }
  auto divmod = find_builtins("aten::divmod");
  REQUIRE(divmod.size() == 4);
  CHECK(divmod[0]->schema == "aten::divmod.int(int x, int y) -> (int, int)");
  CHECK(divmod[0]->signature.returns.size() == 2);
  CHECK(find_builtins("aten::divmo").empty());
  CHECK(find_builtins("").empty());
}

TEST_CASE("builtins: pure are those on numbers and strings without effect") {
  auto pure = [](std::string_view name) { return is_pure(*find_builtins(name)[0]); };
  for (auto name : {"aten::sub", "aten::sqrt", "aten::upper", "aten::frexp", "aten::__range_length", "aten::device"})
    CHECK_MESSAGE(pure(name), name);
  for (auto name : {"aten::append", "aten::split", "aten::keys", "aten::dict", "aten::warn", "prim::TimePoint", "aten::tensor",
                    "aten::__is__", "prim::dtype"})
    CHECK_MESSAGE(!pure(name), name);
}

TEST_CASE("ivalue: copies show one list, moves leave None") {
  IValue a = IValue::list({int64_t{1}});
  IValue b = a;
  b.to_list().push_back(2);
  CHECK(str(a) == "[1, 2]");
  CHECK(a.same(b));
  IValue c = std::move(b);
  CHECK(b.is_none());
  CHECK(b.same(IValue()));
  IValue& itself = c;
  c = itself;
  CHECK(str(c) == "[1, 2]");
  CHECK_FALSE(IValue::list().same(IValue::list()));
  CHECK(IValue(1.5).same(IValue(1.5)));
  CHECK_FALSE(IValue(true).same(IValue(1)));
}

TEST_CASE("ivalue: a value read as another kind is an internal error that names both") {
  CHECK_THROWS_WITH(IValue(1).to_double(), "a value is a Int, not a Double");
  CHECK_THROWS_WITH(IValue("a").to_list(), "a value is a String, not a GenericList");
}

TEST_CASE("ivalue: threads may share and drop values") {
  IValue shared = IValue::list({IValue("text"), IValue::tuple({IValue(1), std::complex<double>(1, 2)})});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; t++)
    threads.emplace_back([&] {
      for (int i = 0; i < 10000; i++) {
        IValue copy = shared, part = copy.to_list()[1];
        CHECK(part.to_tuple().size() == 2);
      }
    });
  for (auto& t : threads) t.join();
  CHECK(str(shared) == "[text, (1, 1.+2.j)]");
}

TEST_CASE("ivalue: a long chain of values is freed without recursion") {
  IValue node;
  for (int i = 0; i < 1000000; i++) node = IValue::object("Node", {IValue(i), std::move(node)});
  IValue kept = node.to_object().slots[1];
  node = {};
  CHECK(kept.to_object().slots[0].to_int() == 999998);
  kept = {};
  IValue nested;
  for (int i = 0; i < 1000000; i++) nested = IValue::tuple({std::move(nested), IValue::list({IValue("x")})});
}

TEST_CASE("ivalue: equality is Python's") {
  CHECK(equal(1, 1.0));
  CHECK(equal(true, 1));
  CHECK(equal(std::complex<double>(2, 0), 2));
  CHECK_FALSE(equal(int64_t{9007199254740993}, int64_t{9007199254740992}));
  CHECK_FALSE(equal("1", 1));
  CHECK(equal(IValue::list({IValue(1), IValue("a")}), IValue::list({IValue(1.0), IValue("a")})));
  CHECK_FALSE(equal(IValue::list(), IValue::tuple({})));
  IValue a = IValue::dict(), b = IValue::dict();
  a.to_dict().set("x", 1), a.to_dict().set("y", 2);
  b.to_dict().set("y", 2), b.to_dict().set("x", 1);
  CHECK(equal(a, b));
  b.to_dict().set("x", 3);
  CHECK_FALSE(equal(a, b));
  Tensor t(DType::F32, {2});
  IValue x(t), y(t);
  CHECK(equal(x, x));
  CHECK_FALSE(equal(x, y));
}

TEST_CASE("ivalue: types that values show") {
  CHECK(annotation(type_of(IValue::list({IValue(1), IValue(2)}))) == "List[int]");
  CHECK(annotation(type_of(IValue::list({IValue(1), IValue("a")}))) == "List[Any]");
  IValue empty = IValue::list();
  CHECK(annotation(type_of(empty)) == "List[Any]");
  empty.list_box().element = TypeKind::Int;
  CHECK(annotation(type_of(empty)) == "List[int]");
  CHECK(annotation(type_of(IValue::tuple({IValue(1.5), IValue()}))) == "Tuple[float, NoneType]");
  IValue d = IValue::dict();
  d.to_dict().set("a", IValue::list({IValue(true)}));
  CHECK(annotation(type_of(d)) == "Dict[str, List[bool]]");
}

TEST_CASE("ivalue: repr quotes what str does not") {
  IValue v = IValue::tuple({IValue("a\"b\n\x01"), IValue("cpu", IValue::Tag::Device), IValue(0.1), IValue()});
  CHECK(repr(v) == "(\"a\\\"b\\n\\001\", torch.device(\"cpu\"), 0.10000000000000001, None)");
  CHECK(str(v) == "(a\"b\n\x01, cpu, 0.10000000000000001, None)");
  CHECK(str(IValue::object("__torch__.M", {})).starts_with("<__torch__.M object at 0x"));
}

TEST_CASE("dict: order of insertion, replacement in place, removal") {
  DictBox d;
  for (int64_t i = 0; i < 100; i++) d.set(i, i * i);
  d.set(3, "three");
  for (int64_t i = 0; i < 100; i++)
    if (i % 10 != 3) CHECK(d.erase(i));
  CHECK_FALSE(d.erase(0));
  CHECK(d.size() == 10);
  CHECK(d.find(0) == nullptr);
  CHECK(d.find(13)->to_int() == 169);
  d.set(0, "again");
  std::string keys;
  for (auto& [key, value] : d.items()) keys += str(key) + " ";
  CHECK(keys == "3 13 23 33 43 53 63 73 83 93 0 ");
  CHECK(str(d.first().second) == "three");
  CHECK(d.erase(3));
  CHECK(d.first().second.to_int() == 169);
  CHECK(d.erase(0));
  d.clear();
  CHECK(d.size() == 0);
  CHECK(d.items().empty());
}

TEST_CASE("dict: numbers of different kinds are one key, tensors are keys by identity") {
  DictBox d;
  d.set(1, "one");
  CHECK(d.find(1.0) != nullptr);
  CHECK(d.find(true) != nullptr);
  CHECK(d.find("1") == nullptr);
  IValue t(Tensor(DType::F32, {1})), other(Tensor(DType::F32, {1}));
  d.set(t, 5);
  CHECK(d.find(t)->to_int() == 5);
  CHECK(d.find(other) == nullptr);
  d.set(IValue::tuple({IValue(1), IValue("a")}), 6);
  CHECK(d.find(IValue::tuple({IValue(1), IValue("a")}))->to_int() == 6);
  CHECK_THROWS_WITH(d.set(IValue::list(), 1), "a GenericList is no key of a dict");
}

namespace {
// The type with int for its variables.
Type concrete(const Type& t) {
  if (t.is(TypeKind::Variable)) return Type::simple(TypeKind::Int);
  if (t.is(TypeKind::List)) return Type::list(concrete(t.element()));
  if (t.is(TypeKind::Optional)) return Type::optional(concrete(t.element()));
  if (t.is(TypeKind::Dict)) return Type::dict(concrete(t.element(0)), concrete(t.element(1)));
  if (!t.is(TypeKind::Tuple)) return t;
  std::vector<Type> elements;
  for (auto& e : t.elements()) elements.push_back(concrete(e));
  return Type::tuple(std::move(elements));
}
} // namespace

TEST_CASE("builtins: a node with an overload's types means that overload, or one that stands before it") {
  std::vector<std::string> others;
  for (auto* op : all_builtins()) {
    if (op->signature.any_args) continue;
    std::vector<Given> given;
    for (auto& arg : op->signature.args) given.push_back({concrete(type_of(arg))});
    std::string name = op->schema.substr(0, op->schema.find_first_of(".(")), why;
    auto resolved = resolve_node(name, given, &why);
    CHECK_MESSAGE(resolved, op->schema << why);
    if (resolved && resolved->builtin != op) others.push_back(op->schema.substr(0, op->schema.find('(')));
  }
  // As in torch; the last three are meant with other types.
  std::vector<std::string> known = {"aten::Float.int", "aten::pow.int_to_int", "aten::len.any", "aten::sort.any", "aten::sorted.any"};
  CHECK(std::set(others.begin(), others.end()) == std::set(known.begin(), known.end()));
}

} // namespace tenon::builtins_test
