#include "ir/op_id.h"

#include <doctest/doctest.h>

#include <thread>
#include <type_traits>
#include <unordered_set>
#include <vector>

namespace tenon::op_id_test {

static_assert(std::is_trivially_copyable_v<OpId> && sizeof(OpId) == sizeof(void*));

TEST_CASE("an operator's id is one for each text") {
  OpId add = "aten::add.Tensor", again = std::string("aten::add") + ".Tensor", sub = std::string_view("aten::sub.Tensor");
  CHECK(add == again);
  CHECK(&add.name() == &again.name());
  CHECK(add != sub);
  CHECK(add == "aten::add.Tensor");
  CHECK(add != std::string("aten::add"));
  CHECK(fmt::format("{} {:>20}", add, sub) == "aten::add.Tensor     aten::sub.Tensor");
  CHECK(std::unordered_set<OpId>{add, again, sub}.size() == 2);
}

TEST_CASE("an operator's name has a dialect and a base") {
  CHECK(OpId("aten::add.Tensor").dialect() == "aten");
  CHECK(OpId("aten::add.Tensor").base() == "add");
  CHECK(OpId("prim::If").base() == "If");
  CHECK(OpId("relu").dialect().empty());
  CHECK(OpId("relu.out").base() == "relu");
}

TEST_CASE("no operator has the empty name") {
  CHECK(OpId().empty());
  CHECK(OpId() == OpId(""));
  CHECK(OpId() == "");
  CHECK(OpId().name().empty());
  CHECK(OpId().dialect().empty());
  CHECK(OpId() != OpId("aten::add.Tensor"));
}

TEST_CASE("threads that name the same operators at once get the same ids") {
  constexpr int names = 500;
  std::vector<std::vector<OpId>> ids(8);
  {
    std::vector<std::jthread> threads;
    for (auto& of_thread : ids)
      threads.emplace_back([&of_thread] {
        for (int i = 0; i < names; i++) of_thread.push_back(fmt::format("test::op_{}", i));
      });
  }
  for (auto& of_thread : ids) CHECK(of_thread == ids[0]);
  for (int i = 0; i < names; i++) CHECK(ids[0][static_cast<size_t>(i)] == fmt::format("test::op_{}", i));
}

} // namespace tenon::op_id_test
