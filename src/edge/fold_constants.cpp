// fold_constants: nodes over constants are evaluated by the interpreter of definitions. A result of one repeated number becomes
// edge::full, so that code generation sees the number.
#include <unordered_map>

#include "base/strided.h"
#include "edge/match.h"
#include "edge/passes.h"
#include "interp/interp.h"
#include "ir/define.h"

namespace tenon {

namespace {

constexpr int64_t max_result = 16 << 10; // elements
constexpr int64_t max_operand = 1 << 20; // of what is read: the interpreter takes some 10 ns an element

class FoldConstants {
public:
  explicit FoldConstants(LoadedProgram& program) : program_(program), r_(program.graph, true) {}

  bool run() {
    r_.node = [this](NodeId id) {
      if (!fold(r_.from.node(id))) r_.copy_node(id);
    };
    return rewrite_program(program_, r_, changed_);
  }

private:
  static std::optional<std::vector<int64_t>> static_sizes(const Type& t) {
    std::vector<int64_t> sizes;
    int64_t n = 1;
    for (Expr s : t.sizes) {
      auto v = const_int(s);
      if (!v || *v < 0 || (n *= std::max<int64_t>(*v, 1)) > max_result) return std::nullopt;
      sizes.push_back(*v);
    }
    return sizes;
  }

  // The value of an operand, where it is constant: a stored tensor, or a fill of a known number.
  Tensor constant(ValueId v) {
    if (auto it = known_.find(v); it != known_.end()) return it->second;
    const Tensor* stored = r_.to.constant(v);
    if (stored) return *stored;
    auto number = filled_with(r_.to, v);
    if (!number || !static_sizes(r_.to.type(v))) return {};
    NodeId id = r_.to.value(v).node;
    return known_[v] = evaluate(definition_of(r_.to, r_.to.node(id)), r_.to.type(v).dtype, {}, {});
  }

  bool fold(const Node& n) {
    if (!has_definition(n) || n.outputs.size() != 1 || !n.blocks.empty()) return false;
    const Type& type = r_.from.type(n.outputs[0]);
    if (!type.is_tensor() || is_complex(type.dtype) || !type.strides.empty() || !static_sizes(type)) return false;
    std::vector<Tensor> operands;
    for (ValueId v : tensor_operands(n.args, r_.from)) {
      Tensor t = constant(r_[v]);
      if (!t.defined() || t.numel() > (n.def->kind == Kind::View ? max_result : max_operand)) return false;
      operands.push_back(t.contiguous());
    }
    if (operands.empty()) return false;
    Tensor result = evaluate(definition_of(r_.from, n), type.dtype, operands, {});
    r_.set(n.outputs[0], emit(result));
    return changed_ = true;
  }

  ValueId emit(const Tensor& t) {
    std::vector<Expr> sizes;
    for (int64_t s : t.sizes()) sizes.push_back(r_.builder.integer(s));
    if (auto number = repeated(t)) return r_.builder.full(sizes, fill_value(*number, t.dtype()), t.dtype());
    return r_.builder.constant(t);
  }

  static std::optional<double> repeated(const Tensor& t) {
    if (t.numel() == 0) return 0;
    const char* data = t.data_as<char>();
    for (int64_t i = 1; i < t.numel(); i++)
      if (std::memcmp(data, data + static_cast<size_t>(i) * size_of(t.dtype()), size_of(t.dtype())) != 0) return std::nullopt;
    double v = dispatch(t.dtype(), [&]<class T>(T) -> double {
      if constexpr (is_complex_v<T>) return NAN;
      else if constexpr (std::is_same_v<T, F16> || std::is_same_v<T, BF16>) return static_cast<float>(*t.data_as<T>());
      else return static_cast<double>(*t.data_as<T>());
    });
    if (std::abs(v) > 0x1p53 && is_int(t.dtype())) return std::nullopt;
    return v;
  }

  LoadedProgram& program_;
  Rewriter r_;
  std::unordered_map<ValueId, Tensor> known_;
  bool changed_ = false;
};

} // namespace

bool fold_constants(LoadedProgram& program) { return FoldConstants(program).run(); }

} // namespace tenon
