// Whatever values of the right kinds they get, TorchScript's operators give results of the kinds that their schemas say, or raise.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "base/numeric.h"
#include "builtins/builtin.h"
#include "builtins/dict.h"

namespace tenon::builtins_random_test {

namespace {

using Kind = TypeKind;

class Values {
public:
  explicit Values(unsigned seed) : random_(seed) {}

  IValue of(const Type& t) {
    switch (t.kind) {
    case Kind::Int: return pick<int64_t>({0, 1, 2, 3, -1, -2, -7, 5, 64, 1000, 100000, INT64_MAX, INT64_MIN, 1 - INT64_MAX});
    case Kind::Float: return pick<double>({0, -0.0, 1.5, -2.5, 0x1p63, -0x1p63, 1e300, 5e-324, INFINITY, -INFINITY, NAN});
    case Kind::Bool: return chance(2);
    case Kind::Complex: return std::complex<double>(of(Type::simple(Kind::Float)).to_double(), pick<double>({0, 1, -1, NAN}));
    case Kind::String: return pick<std::string>({"", "a", " b ", "a,b\n", "x\ty", "123", "{}", "%d%s", "Ab Cd", std::string("\0\xff", 2)});
    case Kind::Device: return {chance(2) ? "cpu" : "cuda:1", IValue::Tag::Device};
    case Kind::Number: return of(Type::simple(pick<Kind>({Kind::Int, Kind::Float, Kind::Bool})));
    case Kind::Optional: return chance(3) ? IValue() : of(t.element());
    case Kind::List: return list(t.element());
    case Kind::Tuple: return tuple(t);
    case Kind::Dict: return dict(t);
    case Kind::Dynamic:
    case Kind::Tensor: return tensor();
    case Kind::Variable:
    case Kind::Any: return of(bound_);
    default: return {};
    }
  }
  /// Type variables stand for this from now on.
  void bind() { bound_ = Type::simple(pick<Kind>({Kind::Int, Kind::Float, Kind::String, Kind::Bool, Kind::Tensor})); }
  bool chance(unsigned in) { return random_() % in == 0; }

private:
  template <class T> T pick(std::initializer_list<T> of) { return of.begin()[random_() % of.size()]; }
  IValue list(const Type& element) {
    std::vector<IValue> items;
    while (!chance(3)) items.push_back(of(element));
    return IValue::list(std::move(items));
  }
  IValue tuple(const Type& t) {
    std::vector<IValue> items;
    for (auto& e : t.elements()) items.push_back(of(e));
    return IValue::tuple(std::move(items));
  }
  IValue dict(const Type& t) {
    IValue d = IValue::dict();
    while (!chance(3)) d.to_dict().set(of(t.element(0)), of(t.element(1)));
    return d;
  }
  IValue tensor() {
    auto sizes = pick<std::vector<int64_t>>({{}, {}, {1}, {3}, {0}, {2, 2}});
    Tensor t(pick<DType>({DType::F32, DType::I64, DType::Bool, DType::BF16, DType::C64, DType::I32, DType::U8, DType::F8E5M2}), sizes);
    for (size_t i = 0; i < static_cast<size_t>(t.numel()) * size_of(t.dtype()); i++) t.data_as<uint8_t>()[i] = random_() % 2;
    return t;
  }

  std::mt19937 random_;
  Type bound_ = Type::simple(Kind::Int);
};

// Whether v may stand where the schema says t.
bool is_of(const IValue& v, const Type& t) {
  using Tag = IValue::Tag;
  switch (t.kind) {
  case Kind::Int: return v.is(Tag::Int);
  case Kind::Float: return v.is(Tag::Double);
  case Kind::Bool: return v.is(Tag::Bool);
  case Kind::Complex: return v.is(Tag::Complex);
  case Kind::String: return v.is(Tag::String);
  case Kind::Device: return v.is(Tag::Device);
  case Kind::Number: return v.is_number();
  case Kind::None: return v.is_none();
  case Kind::Optional: return v.is_none() || is_of(v, t.element());
  case Kind::List: return v.is(Tag::List) && std::ranges::all_of(v.to_list(), [&](auto& e) { return is_of(e, t.element()); });
  case Kind::Dict: return v.is(Tag::Dict);
  case Kind::Tuple: return v.is(Tag::Tuple) && v.to_tuple().size() == t.elements().size();
  case Kind::Tensor:
  case Kind::Dynamic: return v.is(Tag::Tensor);
  default: return true;
  }
}

} // namespace

TEST_CASE("builtins: random values of the right kinds give results of the schema's kinds, or raise") {
  Values values(7);
  size_t gave = 0, raised = 0;
  for (auto* op : all_builtins()) {
    const Schema& s = op->signature;
    if (op->schema.starts_with("aten::warn") || s.any_args || s.any_returns) continue;
    for (int n = 0; n < 100; n++) {
      values.bind();
      std::vector<IValue> args, results(s.returns.size());
      for (auto& arg : s.args) args.push_back(values.of(type_of(arg)));
      if (op->schema.starts_with("prim::id")) args[0] = {};
      BuiltinCall call{args, results};
      try {
        op->run(call);
        for (size_t i = 0; i < results.size(); i++)
          CHECK_MESSAGE(is_of(results[i], type_of(s.returns[i])), op->schema << " gave " << name_of(results[i].tag()));
        gave++;
      } catch (const Error& e) {
        CHECK_MESSAGE(e.kind != ErrorKind::Internal, op->schema << ": " << std::string(e.what()));
        raised++;
      }
    }
  }
  CHECK(gave > 30000);
  CHECK(raised > 1000);
}

} // namespace tenon::builtins_random_test
