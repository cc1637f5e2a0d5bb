// A random call of a random row of the operator table: arguments are made from the schema, and what the row's shape rule
// refuses is tried again with others.
#pragma once
#include <optional>
#include <random>

#include "ir/op.h"
#include "tests/unit/graph_harness.h"

namespace tenon::test {

class RandomCall {
public:
  /// `pick` gives an operand, or none where it has no more.
  RandomCall(std::mt19937& random, Builder& b, std::function<V()> pick) : random_(random), b_(b), pick_(std::move(pick)) {}

  /// The results of a call that the rules accept; empty after a few that they do not.
  std::vector<V> make() {
    for (int attempt = 0; attempt < 12; attempt++) {
      const OpDef& row = *rows()[below(rows().size())];
      ArgList args;
      if (!arguments(row, args)) continue;
      try {
        Values out = b_.call_full(row, std::move(args));
        return {out.begin(), out.end()};
      } catch (const Error& e) {
        if (e.kind == ErrorKind::Internal) throw Error(e.kind, row.signature.name + ": " + e.what());
      } catch (const std::exception& e) {
        throw Error(ErrorKind::Internal, row.signature.name + ": " + e.what());
      }
    }
    return {};
  }

private:
  size_t below(size_t n) { return random_() % n; }
  bool chance(size_t n) { return below(n) == 0; }

  static const std::vector<const OpDef*>& rows() {
    static const std::vector<const OpDef*> out = [] {
      std::vector<const OpDef*> v;
      for (const OpDef* row : all_ops())
        if (is_deterministic(*row)) v.push_back(row);
      return v;
    }();
    return out;
  }
  // Whose results are a function of tensor operands.
  static bool is_deterministic(const OpDef& row) {
    const std::string& name = row.signature.name;
    if (!name.starts_with("aten::") || row.kind == Kind::Prim || row.data_dependent || row.signature.mutates() ||
        row.signature.variadic_result)
      return false;
    for (std::string_view part :
         {"rand",   "dropout",   "bernoulli",  "normal", "multinomial", "poisson",     "exponential", "uniform",
          "empty",  "rrelu",     "resize",     "_like",  "fractional",  "as_strided",  "aten::item",  "backward",
          "cauchy", "geometric", "batch_norm", "_aa.",   "hist",        "combinations"}) // the last: as large as a power
      if (name.find(part) != name.npos) return false;
    auto& args = row.signature.args;
    return std::any_of(args.begin(), args.end(), [](auto& a) { return a.type == ArgType::Tensor && !a.optional; });
  }

  bool arguments(const OpDef& row, ArgList& args) {
    for (auto& a : row.signature.args) {
      if (a.has_default && (chance(2) || a.type == ArgType::Any)) {
        args.push_back(a.fallback);
        continue;
      }
      if (a.optional && chance(2)) {
        args.emplace_back();
        continue;
      }
      std::optional<Arg> value = a.list ? list(a) : one(a);
      if (!value && !a.optional && !a.has_default) return false;
      args.push_back(value ? *value : a.has_default ? a.fallback : Arg());
    }
    return true;
  }
  std::optional<Arg> list(const SchemaArg& a) {
    ArgList out;
    size_t n = a.fixed_length && !chance(12) ? static_cast<size_t>(a.fixed_length) : below(3) + (a.type == ArgType::Tensor);
    for (size_t i = 0; i < n; i++) {
      auto e = one(a);
      if (!e) return std::nullopt;
      out.push_back(*e);
    }
    return out;
  }
  std::optional<Arg> one(const SchemaArg& a) {
    static constexpr double numbers[] = {0.5, 1, 0.25, 2, -1.5, 0, 3, 100, -2};
    static constexpr int64_t integers[] = {0, 1, 2, -1, 1, 3, 0, -2, 2, 5};
    static constexpr DType types[] = {DType::F32, DType::F64, DType::BF16, DType::F16, DType::I64, DType::I32, DType::U8, DType::Bool};
    switch (a.type) {
    case ArgType::Tensor: {
      V v = pick_();
      return v ? std::optional<Arg>(v) : std::nullopt;
    }
    case ArgType::Scalar: return chance(2) ? Arg(numbers[below(std::size(numbers))]) : Arg(integers[below(std::size(integers))]);
    case ArgType::Float: return Arg(numbers[below(std::size(numbers))]);
    case ArgType::Int: return Arg(integers[below(std::size(integers))]);
    case ArgType::Bool: return Arg(chance(2));
    case ArgType::DType: return Arg(types[below(std::size(types))]);
    case ArgType::String: return a.name == "rounding_mode" ? std::optional<Arg>(std::string(chance(2) ? "floor" : "trunc")) : std::nullopt;
    default: return std::nullopt;
    }
  }

  std::mt19937& random_;
  Builder& b_;
  std::function<V()> pick_;
};

} // namespace tenon::test
