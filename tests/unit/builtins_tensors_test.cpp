// Operators that the calls of tests/fixtures/builtins do not reach: views of tensors, keys that are tensors, what has no fixed number of
// arguments, identity.
#include <doctest/doctest.h>

#include <cmath>

#include "base/numeric.h"
#include "builtins/builtin.h"
#include "builtins/dict.h"
#include "builtins/elements.h"

namespace tenon::builtins_tensors_test {

namespace {

using Values = std::vector<IValue>;
const IValue none = {};

// The results of the overload of that schema's beginning: "aten::to.prim_dtype(".
Values call(const std::string& schema, Values args) {
  for (auto* op : all_builtins())
    if (op->schema.starts_with(schema)) {
      Values results(op->signature.any_returns ? 1 : op->signature.returns.size());
      BuiltinCall call{args, results};
      op->run(call);
      return results;
    }
  FAIL("no row " << schema);
  return {};
}
IValue result(const std::string& schema, Values args) { return call(schema, std::move(args)).at(0); }

Tensor counting(std::vector<int64_t> sizes) {
  Tensor t(DType::F32, std::move(sizes));
  for (int64_t i = 0; i < t.numel(); i++) t.data_as<float>()[i] = static_cast<float>(i);
  return t;
}
// Rows and columns exchanged, in the same memory.
Tensor transposed(const Tensor& t) {
  return {t.dtype(), {t.sizes()[1], t.sizes()[0]}, {t.strides()[1], t.strides()[0]}, t.storage(), t.data()};
}
Tensor from_second_row(const Tensor& t) {
  return {t.dtype(), {t.sizes()[0] - 1, t.sizes()[1]}, t.strides(), t.storage(), t.data_as<float>() + t.strides()[0]};
}

} // namespace

TEST_CASE("builtins: tolist walks strides, and holds to the annotation") {
  Tensor t = counting({2, 3});
  CHECK(str(result("prim::tolist", {t, 2, 1})) == "[[0., 1., 2.], [3., 4., 5.]]");
  CHECK(str(result("prim::tolist", {transposed(t), 2, 1})) == "[[0., 3.], [1., 4.], [2., 5.]]");
  CHECK(str(result("prim::tolist", {number_tensor(int64_t{7}), 0, 0})) == "7");
  CHECK(str(result("prim::tolist", {number_tensor(true), 0, 2})) == "True");
  CHECK(str(result("prim::tolist", {Tensor(DType::F32, {2, 0}), 2, 1})) == "[[], []]");
  CHECK_THROWS_WITH(result("prim::tolist", {t, 1, 1}),
                    "Output annotation list dimension and runtime tensor dimension must match for tolist()");
  CHECK_THROWS_WITH(result("prim::tolist", {t, 2, 0}),
                    "Output annotation element type and runtime tensor element type must match for tolist(): Long vs Float");
}

TEST_CASE("builtins: attributes of views") {
  Tensor t = counting({3, 4}), turned = transposed(t), part = from_second_row(t);
  CHECK(str(result("aten::stride(", {turned})) == "[1, 4]");
  CHECK(str(result("aten::stride.int(", {turned, -1})) == "4");
  CHECK(str(result("aten::size.int(", {turned, 0})) == "4");
  CHECK(result("aten::is_contiguous(", {t}).to_bool());
  CHECK_FALSE(result("aten::is_contiguous(", {turned}).to_bool());
  CHECK(result("aten::is_non_overlapping_and_dense(", {turned}).to_bool());
  CHECK(result("aten::storage_offset(", {part}).to_int() == 4);
  CHECK(result("prim::nbytes(", {part}).to_int() == 32);
  CHECK(str(turned) == "  0   4   8\n  1   5   9\n  2   6  10\n  3   7  11\n[ CPUFloatType{4,3} ]");
  CHECK_THROWS_WITH(result("aten::size.int(", {t, 2}),
                    "IndexError: Dimension out of range (expected to be in range of [-2, 1], but got 2)");
}

TEST_CASE("builtins: to and as_tensor copy only where something changes") {
  IValue t = counting({2});
  CHECK(result("aten::to.prim_dtype(", {t, none, false, false}).same(t));
  CHECK(result("aten::to.prim_dtype(", {t, 6, false, false}).same(t));
  CHECK(result("aten::to.prim_other(", {t, false, false}).same(t));
  IValue copy = result("aten::to.prim_dtype(", {t, none, false, true});
  CHECK(copy.to_tensor().data() != t.to_tensor().data());
  CHECK(str(copy) == str(t));
  CHECK(str(result("aten::to.prim_dtype(", {t, 4, false, false})) == " 0\n 1\n[ CPULongType{2} ]");
  CHECK(str(result("aten::to.prim_Device(", {t, IValue("cpu", IValue::Tag::Device), 11, false, false})) == " 0\n 1\n[ CPUBoolType{2} ]");
  CHECK(result("aten::as_tensor(Tensor", {t, none, none}).same(t));
  CHECK(str(result("aten::as_tensor(Tensor", {t, 7, none})) == " 0\n 1\n[ CPUDoubleType{2} ]");
  CHECK(result("aten::cpu(", {t}).same(t));
  CHECK_THROWS_WITH(result("aten::to.prim_dtype(", {t, 8, false, false}), "tensors of dtype 8 are not supported");
  CHECK_THROWS_WITH(result("aten::to.prim_Device(", {t, IValue("cuda:0", IValue::Tag::Device), none, false, false}),
                    "tensors on device cuda:0");
}

TEST_CASE("builtins: casts between all dtypes keep small numbers") {
  for (int from = 0; from < num_dtypes; from++)
    for (int to = 0; to < num_dtypes; to++) {
      Tensor two = builtins::converted(builtins::converted(number_tensor(int64_t{1}), static_cast<DType>(from)), static_cast<DType>(to));
      CHECK(two.dtype() == static_cast<DType>(to));
      IValue one = builtins::item(two);
      CHECK_MESSAGE(equal(one, 1), name_of(static_cast<DType>(from)) << " to " << name_of(static_cast<DType>(to)));
    }
}

TEST_CASE("builtins: an empty list is a tensor of the elements that it would have") {
  IValue ints = IValue::list(), nested = IValue::list({IValue::list()});
  CHECK(str(result("aten::tensor(t[]", {ints, none, none, false})) == "[ CPUFloatType{0} ]");
  ints.list_box().element = TypeKind::Int;
  CHECK(str(result("aten::tensor(t[]", {ints, none, none, false})) == "[ CPULongType{0} ]");
  CHECK(str(result("aten::tensor(t[]", {nested, 11, none, false})) == "[ CPUBoolType{1,0} ]");
  CHECK(str(result("aten::tensor(t[]", {result("aten::copy.t(", {ints}), none, none, false})) == "[ CPULongType{0} ]");
  IValue cut = result("aten::slice.t(", {result("aten::split.str(", {"a b", none, -1}), 5, none, 1});
  CHECK(annotation(type_of(cut)) == "List[str]");
  IValue uneven = IValue::list({IValue::list({IValue(1), IValue(2)}), IValue::list({IValue(3)})});
  CHECK_THROWS_WITH(result("aten::tensor(t[]", {uneven, none, none, false}), "Expected sequence of length 2 at dim 1 (got 1)");
}

TEST_CASE("builtins: dicts with tensors as keys") {
  IValue d = IValue::dict(), key = counting({1}), other = counting({1});
  call("aten::_set_item.Tensor(", {d, key, "a"});
  CHECK(result("aten::__contains__.Tensor(", {d, key}).to_bool());
  CHECK_FALSE(result("aten::__contains__.Tensor(", {d, other}).to_bool());
  CHECK(str(result("aten::setdefault.Tensor(", {d, other, "b"})) == "b");
  CHECK(str(result("aten::pop.Dict_Tensor(", {d, key})) == "a");
  CHECK(result("aten::len.Dict_Tensor(", {d}).to_int() == 1);
  CHECK(result("aten::keys.Tensor(", {d}).to_list().at(0).same(other));
}

TEST_CASE("builtins: lists of tensors compare by their only elements") {
  IValue two = number_tensor(2.0), one = number_tensor(int64_t{1});
  IValue list = IValue::list({two, one});
  call("aten::sort.Tensor(", {list, false});
  CHECK(list.to_list()[0].same(one));
  CHECK(result("aten::index.list_Tensor(", {list, number_tensor(2.0)}).to_int() == 1);
  IValue many = IValue::list({IValue(counting({2})), IValue(counting({2}))});
  CHECK_THROWS_WITH(call("aten::sort.Tensor(", {many, false}), "Boolean value of Tensor with more than one value is ambiguous");
  CHECK(many.to_list().size() == 2);
  CHECK_THROWS_WITH(result("aten::count.Tensor(", {IValue::list({IValue(counting({3}))}), counting({2})}),
                    "The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 0");
}

TEST_CASE("builtins: equal and allclose") {
  auto of = [](std::vector<float> values) {
    Tensor t(DType::F32, {static_cast<int64_t>(values.size())});
    std::copy(values.begin(), values.end(), t.data_as<float>());
    return IValue(t);
  };
  auto is_equal = [](IValue a, IValue b) { return result("aten::equal(", {a, b}).to_bool(); };
  auto is_close = [](IValue a, IValue b, double relative, double absolute, bool nan = false) {
    return result("aten::allclose(", {a, b, relative, absolute, nan}).to_bool();
  };
  CHECK(is_equal(of({1, 2}), of({1, 2})));
  CHECK_FALSE(is_equal(of({1, 2}), of({1, 3})));
  CHECK_FALSE(is_equal(of({NAN}), of({NAN})));
  CHECK_FALSE(is_equal(of({1}), number_tensor(1.0))); // of other sizes
  CHECK(is_equal(number_tensor(int64_t{1}), number_tensor(1.0)));
  Tensor t = counting({2, 3});
  CHECK(is_equal(transposed(transposed(t)), t));
  CHECK_FALSE(is_equal(transposed(counting({2, 2})), counting({2, 2})));
  CHECK(is_close(of({1, INFINITY}), of({1, INFINITY}), 1e-5, 1e-8));
  CHECK_FALSE(is_close(of({INFINITY}), of({-INFINITY}), 1, 1));
  CHECK_FALSE(is_close(of({NAN}), of({NAN}), 1, 1));
  CHECK(is_close(of({NAN}), of({NAN}), 1e-5, 1e-8, true));
  CHECK(is_close(of({1, 2, 3}), of({1}), 1e-5, 10)); // broadcast
  CHECK_FALSE(is_close(of({100}), of({102}), 0.01, 0));
  CHECK(is_close(of({100}), of({101}), 0.01, 0));
  CHECK_THROWS_WITH(is_close(of({1, 2, 3}), of({1, 2}), 1e-5, 10),
                    "The size of tensor a (3) must match the size of tensor b (2) at non-singleton dimension 0");
}

TEST_CASE("builtins: contiguous in a memory format") {
  Tensor rows = counting({2, 3, 4, 5}), image(DType::F32, {2, 3, 4, 5}, {60, 1, 15, 3}, rows.storage(), rows.data());
  auto is = [](const Tensor& t, int format) { return result("aten::is_contiguous.memory_format(", {t, format}).to_bool(); };
  CHECK(is(rows, 0));
  CHECK_FALSE(is(rows, 2));
  CHECK(is(image, 2));
  CHECK_FALSE(is(image, 0));
  CHECK_FALSE(is(image, 3));
}

TEST_CASE("builtins: what kills torch's process is an error") {
  CHECK_THROWS_WITH(result("aten::remainder.int(", {1, 0}), "ZeroDivisionError: integer modulo by zero");
  CHECK_THROWS_WITH(result("aten::__round_to_zero_floordiv.int(", {1, 0}), "ZeroDivisionError: integer division by zero");
  CHECK(result("aten::floordiv.int(", {INT64_MIN, -1}).to_int() == INT64_MIN);
  CHECK(result("aten::remainder.int(", {INT64_MIN, -1}).to_int() == 0);
  CHECK(call("aten::divmod.int(", {INT64_MIN, -1}).at(1).to_int() == 0);
  CHECK(result("aten::gcd.int(", {INT64_MIN, -1}).to_int() == 1);
  CHECK(result("aten::__range_length(", {INT64_MIN, INT64_MAX, INT64_MAX}).to_int() == 3);
  CHECK(result("aten::replace(", {"abc", "", "-", -1}).to_string() == "-a-b-c-");
  CHECK(result("aten::count(", {"abc", "", 0, -1}).to_int() == 3);
  CHECK_THROWS_WITH(result("aten::rsplit(", {"abc", "", -1}), "ValueError: empty separator");
  CHECK_THROWS_AS(result("aten::ljust(", {"a", INT64_MAX, " "}), Error);
  CHECK(result("aten::rjust(", {"a", INT64_MIN, " "}).to_string() == "a");
  CHECK_THROWS_AS(result("aten::mul.left_t(", {IValue::list({IValue(1)}), INT64_MAX}), Error);
  CHECK_THROWS_AS(result("prim::rangelist(", {INT64_MAX}), Error);
}

TEST_CASE("builtins: any number of arguments, and values of any kind") {
  auto sizes = [](std::vector<IValue> s) { return IValue::list(std::move(s)); };
  CHECK(str(result("prim::BroadcastSizes(", {sizes({2, 1}), sizes({3}), sizes({1, 1, 1})})) == "[1, 2, 3]");
  CHECK(str(result("prim::BroadcastSizes(", {})) == "[]");
  CHECK_FALSE(result("aten::has_torch_function(", {1, 2, 3}).to_bool());
  CHECK(result("aten::len.any(", {IValue::tuple({IValue(1), IValue("a")})}).to_int() == 2);
  CHECK(str(result("prim::IfThenElse(", {true, 1, "b"})) == "1");
  CHECK(result("aten::Float.int(", {16777217}).to_double() == 16777216.0); // through 32 bits, as torch has it
  CHECK(result("prim::id(", {none}).to_int() == 0);
  IValue object = IValue::object("M", {});
  CHECK(result("prim::id(", {object}).to_int() == result("prim::id(", {object}).to_int());
  CHECK(str(result("aten::device.with_index(", {"cuda", 1})) == "cuda:1");
  int64_t before = result("prim::TimePoint(", {}).to_int();
  CHECK(before <= result("prim::TimePoint(", {}).to_int());
  CHECK(result("aten::pow.int_to_int(", {3, 4}).to_int() == 81);
}

} // namespace tenon::builtins_tensors_test
