// Keys of nodes: equal for what is the same, and for nothing else.
#include <doctest/doctest.h>

#include "ir/key.h"

namespace tenon::key_test {

namespace {

std::string key_of(const Graph& g, const Arg& arg) {
  Key key(g, [](ValueId v) { return v.index; });
  key.add(arg);
  return key.take();
}

} // namespace

TEST_CASE("keys of arguments differ where these do") {
  Graph g;
  TensorId first = g.add_tensor(Tensor(DType::F32, {4})), second = g.add_tensor(Tensor(DType::F32, {4})),
           same = g.add_tensor(g.tensor(first));
  std::vector<Arg> args{Arg(),
                        ValueId{3},
                        ValueId{4},
                        true,
                        false,
                        int64_t{1},
                        int64_t{0},
                        0.0,
                        -0.0,
                        1.0,
                        std::complex<double>(1, 2),
                        std::complex<double>(2, 1),
                        "a",
                        "ab",
                        Word{"a"},
                        DType::F32,
                        DType::I64,
                        g.pool().symbol("s0"),
                        g.pool().symbol("s1"),
                        first,
                        second,
                        ArgList{},
                        ArgList{int64_t{1}, int64_t{0}},
                        ArgList{ArgList{int64_t{1}}, int64_t{0}},
                        ArgList{Arg(ArgList{int64_t{1}, int64_t{0}})}};
  for (size_t i = 0; i < args.size(); i++)
    for (size_t k = 0; k < args.size(); k++) {
      CAPTURE(i);
      CAPTURE(k);
      CHECK((key_of(g, args[i]) == key_of(g, args[k])) == (i == k));
    }
  CHECK(key_of(g, first) == key_of(g, same)); // of one memory
}

TEST_CASE("keys of nodes are of operators, arguments, attributes and types, and not of names") {
  Graph g;
  auto add = [&](std::string op, ArgList args, std::vector<Attribute> attributes, DType type, std::string name) {
    return g.append(g.top(), {.op = std::move(op), .args = std::move(args), .attributes = std::move(attributes)},
                    {Type::tensor(type, {g.pool().integer(2)})}, {std::move(name)});
  };
  NodeId node = add("edge::exp.default", {1}, {{"k", 1}}, DType::F32, "a"),
         alike = add("edge::exp.default", {1}, {{"k", 1}}, DType::F32, "b");
  NodeId others[] = {add("edge::log.default", {1}, {{"k", 1}}, DType::F32, "a"), add("edge::exp.default", {2}, {{"k", 1}}, DType::F32, "a"),
                     add("edge::exp.default", {1}, {{"k", 2}}, DType::F32, "a"), add("edge::exp.default", {1}, {{"j", 1}}, DType::F32, "a"),
                     add("edge::exp.default", {1}, {{"k", 1}}, DType::F64, "a")};
  auto key = [&](NodeId id) {
    Key k(g, [](ValueId v) { return v.index; });
    k.add(g.node(id));
    return k.take();
  };
  CHECK(key(node) == key(alike));
  for (NodeId other : others) CHECK(key(node) != key(other));
}

} // namespace tenon::key_test
