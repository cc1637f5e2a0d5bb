// Every row is called with random arguments and lowered to the Edge dialect: it gives a result, or says what is wrong.
#include "compile/compile.h"
#include "tests/unit/random_call.h"

namespace tenon::random_call_test {
using namespace tenon::test;

namespace {

// Operands of all ranks and dtypes; some sizes are symbols.
std::vector<V> operands(TestGraph& g, std::mt19937& random) {
  static constexpr DType types[] = {DType::F32, DType::F32,  DType::F32, DType::I64, DType::I64, DType::Bool,
                                    DType::F64, DType::BF16, DType::F16, DType::U8,  DType::I32};
  std::vector<V> out;
  Expr dims[] = {g.symbol("s0"), g.b.integer(4), g.b.integer(1), g.b.integer(6), g.b.integer(3), g.b.integer(0)};
  for (size_t i = 0; i < 8; i++) {
    std::vector<Expr> sizes;
    for (size_t r = random() % 6; r-- > 0;) sizes.push_back(dims[random() % (random() % 8 == 0 ? 6 : 5)]);
    out.push_back(g.input(sizes, types[random() % std::size(types)]));
  }
  return out;
}

} // namespace

TEST_CASE("rows refuse what they cannot take") {
  const char *from = std::getenv("TENON_DIFF_SEED"), *many = std::getenv("TENON_DIFF_GRAPHS");
  auto start = static_cast<uint32_t>(from ? std::atoi(from) : 1), count = static_cast<uint32_t>(many ? std::atoi(many) : 2000);
  int accepted = 0;
  for (uint32_t seed = start; seed < start + count; seed++) {
    TestGraph g;
    std::mt19937 random(seed);
    std::vector<V> inputs = operands(g, random);
    INFO("seed ", seed);
    try {
      std::vector<V> results = RandomCall(random, g.b, [&] { return inputs[random() % inputs.size()]; }).make();
      for (V v : results) g.returns(v);
      lower(g.p, "edge");
      accepted += !results.empty();
    } catch (const Error& e) {
      CHECK_MESSAGE(e.kind != ErrorKind::Internal, std::string(e.what()));
    }
  }
  CHECK(accepted > static_cast<int>(count) / 3);
}

} // namespace tenon::random_call_test
