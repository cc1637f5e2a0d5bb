// Trees: built, read, printed; and what they refuse.
#include <doctest/doctest.h>

#include <cmath>

#include "tenon/tree.h"

namespace tenon::tree_test {

namespace {

template <class F> std::string error_of(F make) {
  try {
    make();
  } catch (const Error& e) {
    CHECK(e.kind == ErrorKind::BadInput);
    return e.what();
  }
  return "";
}

} // namespace

TEST_CASE("a tree prints as Python prints it") {
  Tensor x(DType::F32, {2, 3});
  CHECK(Tree().to_string() == "None");
  CHECK(Tree::tuple({x}).to_string() == "(f32[2, 3],)");
  CHECK(Tree::tuple({}).to_string() == "()");
  CHECK(Tree::list({1, 2.0, true, nullptr, "a'b", DType::I64, Tree::Word{"cpu"}}).to_string() == "[1, 2.0, True, None, \"a'b\", i64, cpu]");
  CHECK(Tree::list({1e-5, 1e300, INFINITY, -0.0, 0.1, std::complex<double>(1, -2)}).to_string() ==
        "[1e-05, 1e+300, inf, -0.0, 0.1, (1-2j)]");
  CHECK(Tree("tab\t, line\n, \\, \x01, '\"").to_string() == R"('tab\t, line\n, \\, \x01, \'"')");
  CHECK(Tree::dict({{"x", x}, {1, Tree::dict({})}, {nullptr, 2}, {0.5, 3}}).to_string() == "{'x': f32[2, 3], 1: {}, None: 2, 0.5: 3}");
  CHECK(Tree::ordered_dict({{"a", 1}}).to_string() == "OrderedDict({'a': 1})");
  CHECK(Tree::default_dict({{"a", 1}}).to_string() == "defaultdict({'a': 1})");
  CHECK(Tree::deque({1, 2}).to_string() == "deque([1, 2])");
  CHECK(Tree::named_tuple("models.Point", {{"x", 1}, {"y", 2}}).to_string() == "Point(x=1, y=2)");
  CHECK(Tree::dataclass("Batch", {{"ids", x}}).to_string() == "Batch(ids=f32[2, 3])");
  CHECK(Tree::object("Pair", {1, Tree::list({2})}).to_string() == "Pair(1, [2])");
  CHECK(Tree(ArgInfo{.dtype = DType::F32, .sizes = {"s0", "4"}}).to_string() == "f32[s0, 4]");
}

TEST_CASE("a tree is read by index, key and name") {
  Tree t = Tree::dict({{"list", Tree::list({1, 2.5, "three"})}, {0, true}, {"p", Tree::named_tuple("Point", {{"x", 1}, {"y", nullptr}})}});
  CHECK(t["list"][1].get<double>() == 2.5);
  CHECK(t["list"].size() == 3);
  CHECK(t[0].get<bool>());
  CHECK(t["p"]["x"].get<int64_t>() == 1);
  CHECK(t["p"][1].is_none());
  CHECK(t.find("q") == nullptr);
  CHECK(t.find(1) == nullptr); // a dict has no positions
  CHECK(t.find(false) == nullptr);
  CHECK(t["list"].find(3) == nullptr);
  CHECK(t["list"].find(-1) == nullptr);
  CHECK(t["list"][0].as<double>() == nullptr);
  CHECK(t.as<std::monostate>() == nullptr);
  CHECK(error_of([&] { (void)t["q"]; }) == "there is no 'q' in {'list': [1, 2.5, 'three'], 0: True, 'p': Point(x=1, y=None)}");
  CHECK(error_of([&] { (void)t["list"].tensor(); }) == "the tree holds something else: [1, 2.5, 'three']");
}

TEST_CASE("leaves are the same by type and value") {
  CHECK(Tree().is_same_leaf(nullptr));
  CHECK(Tree("a").is_same_leaf("a"));
  CHECK(Tree(NAN).is_same_leaf(NAN));
  CHECK(Tree(Tree::Word{"cpu"}).is_same_leaf(Tree::Word{"cpu"}));
  CHECK(!Tree("cpu").is_same_leaf(Tree::Word{"cpu"}));
  CHECK(!Tree(1).is_same_leaf(true));
  CHECK(!Tree(1).is_same_leaf(1.0));
  CHECK(!Tree(1.0).is_same_leaf(NAN));
  CHECK(!Tree().is_same_leaf(Tree::tuple({})));
  CHECK(!Tree::tuple({}).is_same_leaf(nullptr));
  Tensor x(DType::F32, {2});
  CHECK(!Tree(x).is_same_leaf(x));
}

TEST_CASE("containers of strings, and of one element, are what they look like") {
  CHECK(Tree::list({"a", "b"}).to_string() == "['a', 'b']");
  CHECK(Tree::dict({{"a", "b"}}).to_string() == "{'a': 'b'}");
  CHECK(Tree::tuple({Tree::tuple({1})}).to_string() == "((1,),)");
  CHECK(Tree::list({Tree::list({})}).to_string() == "[[]]");
}

TEST_CASE("keys are leaves, of which none is there twice") {
  CHECK(error_of([] { Tree::dict({{"a", 1}, {"a", 2}}); }) == "dict: 'a' is there twice");
  CHECK(error_of([] { Tree::dict({{Tree::tuple({1}), 1}}); }) == "dict: (1,) is no key");
  CHECK(error_of([] { Tree::dict({{Tensor(DType::F32, {2}), 1}}); }) == "dict: f32[2] is no key");
  CHECK(error_of([] { Tree::dataclass("Batch", {{1, 1}}); }) == "Batch: 1 is no name of a field");
  CHECK(error_of([] { Tree::branch(Tree::Kind::Dict, "dict", {}, {1}); }) == "dict: 0 keys of 1 children");
  CHECK(error_of([] { Tree::branch(Tree::Kind::List, "list", {"a"}, {1}); }) == "list: a sequence has no keys");
  CHECK(error_of([] { Tree::branch(Tree::Kind::Leaf, "", {}, {}); }) == "a leaf is no container");
  CHECK(Tree::dict({{1, 1}, {true, 2}, {1.0, 3}}).size() == 3);
}

} // namespace tenon::tree_test
