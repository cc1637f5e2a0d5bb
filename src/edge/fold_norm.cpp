// fold_norm: behind a convolution with constant weights, y*scale with a constant per channel is the convolution with scaled
// weights, also across shifts per channel, and shifts add up. A batch norm then costs one addition per element:
//   (conv(x, w) + b) * s + t   ->   conv(x, w*s) + (b*s + t)
#include <unordered_set>

#include "base/large_memory.h"
#include "base/scaled_tensor.h"
#include "edge/match.h"
#include "edge/passes.h"
#include "ops/names.h"

namespace tenon {

namespace {

class FoldNorm {
public:
  explicit FoldNorm(LoadedProgram& program) : program_(program), r_(program.graph, true), uses_(count_uses(program.graph)) {}

  bool run() {
    r_.node = [this](NodeId id) {
      const Node& n = r_.from.node(id);
      ValueId now = n.op == edge::mul_Tensor ? scale(n) : n.op == edge::add_Tensor ? shift(n) : ValueId{};
      if (!now.valid()) {
        r_.copy_node(id);
        if (n.outputs.size() == 1 && uses_[n.outputs[0]] == 1) single_use_.insert(r_[n.outputs[0]]);
        return;
      }
      changed_ = true;
      if (uses_[n.outputs[0]] == 1) single_use_.insert(now);
      r_.set(n.outputs[0], now);
    };
    bool changed = rewrite_program(program_, r_, changed_);
    if (changed) remove_dead_code(program_);
    return changed;
  }

private:
  Builder& b() { return r_.builder; }
  Graph& g() { return r_.to; }

  // The numbers per channel of dim 1 of `like`, where `v` is constant and does not change along other dims.
  std::optional<std::vector<double>> per_channel(ValueId v, const Type& like) {
    const Type& t = g().type(v);
    auto channels = like.rank() >= 2 ? const_int(like.sizes[1]) : std::nullopt;
    if (!channels || t.dtype != like.dtype || t.rank() > like.rank()) return std::nullopt;
    for (size_t d = 0; d < t.rank(); d++)
      if (!is_const_int(t.sizes[d], 1) && d + like.rank() - t.rank() != 1) return std::nullopt;
    if (auto number = filled_with(g(), v)) return std::vector<double>(static_cast<size_t>(*channels), *number);
    const Tensor* c = g().constant(v);
    if (!c || (c->numel() != 1 && c->numel() != *channels)) return std::nullopt;
    Tensor values = c->contiguous();
    std::vector<double> out(static_cast<size_t>(*channels));
    for (size_t i = 0; i < out.size(); i++) out[i] = element(values, values.numel() == 1 ? 0 : static_cast<int64_t>(i));
    return out;
  }

  static double element(const Tensor& t, int64_t i) { return t.dtype() == DType::F64 ? t.data_as<double>()[i] : t.data_as<float>()[i]; }
  static void set_element(Tensor& t, int64_t i, double v) {
    if (t.dtype() == DType::F64) t.data_as<double>()[i] = v;
    else t.data_as<float>()[i] = static_cast<float>(v);
  }

  // A constant (1, channels, 1, ...) without the leading 1.
  V constant_per_channel(const std::vector<double>& values, const Type& like) {
    std::vector<int64_t> sizes(like.rank() - 1, 1);
    sizes[0] = static_cast<int64_t>(values.size());
    Tensor t(like.dtype, sizes);
    for (size_t i = 0; i < values.size(); i++) set_element(t, static_cast<int64_t>(i), values[i]);
    return b().constant(std::move(t));
  }

  bool is_used_once(ValueId v) { return single_use_.contains(v); }

  // Which operand is constant per channel: its place, and its numbers.
  struct Constant {
    ValueId other;
    std::vector<double> values;
  };
  std::optional<Constant> constant_operand(const ArgList& args) {
    for (size_t k : {1, 0}) {
      if (!args[0].is<ValueId>() || !args[1].is<ValueId>()) return std::nullopt;
      ValueId v = args[k].get<ValueId>(), other = args[1 - k].get<ValueId>();
      DType t = g().type(other).dtype;
      if (t != DType::F32 && t != DType::F64) continue;
      if (auto values = per_channel(v, g().type(other))) return Constant{other, *values};
    }
    return std::nullopt;
  }

  bool is_plain_add(const Node& n) {
    if (!n.args[2].is<ValueId>()) return false;
    auto alpha = filled_with(g(), n.args[2].get<ValueId>());
    return alpha && *alpha == 1;
  }

  // Weights of f32 are multiplied when they are packed.
  // Small ones, which are often computed after all, would each fetch a large page among others that are not.
  Tensor scaled(const Tensor& from, const std::vector<double>& s) {
    constexpr size_t small = 256 << 10;
    size_t bytes = static_cast<size_t>(from.numel()) * size_of(from.dtype());
    auto memory = bytes < small ? allocate_memory(bytes) : memory_.allocate(bytes);
    require_input(memory != nullptr, "out of memory: a tensor of {} elements", from.numel());
    if (from.dtype() == DType::F32) return scaled_tensor({from, std::vector<float>(s.begin(), s.end())}, memory);
    Tensor to(from.dtype(), from.sizes(), from.strides(), memory, memory.get());
    int64_t inner = s.empty() ? 0 : from.numel() / static_cast<int64_t>(s.size());
    for (int64_t i = 0; i < from.numel(); i++) to.data_as<double>()[i] = from.data_as<double>()[i] * s[static_cast<size_t>(i / inner)];
    return to;
  }

  // conv(x, w*s), where `conv` is a convolution with constant weights that nothing else uses.
  V scaled_convolution(ValueId conv, const std::vector<double>& s) {
    const Node* found = made_by(g(), conv, edge::convolution);
    if (!found || !is_used_once(conv) || !found->args[2].is_none() || found->args[6] != Arg(false)) return {};
    Node n = *found;
    const Tensor* stored = g().constant(n.args[1].get<ValueId>());
    if (!stored || stored->sizes().empty() || stored->dtype() != g().type(conv).dtype ||
        stored->sizes()[0] != static_cast<int64_t>(s.size()))
      return {};
    n.args[1] = b().constant(scaled(stored->contiguous(), s)).id;
    return b().call_full(*n.def, n.args).at(0);
  }

  // The value of mul(conv [+ shift], scale), if it is that.
  ValueId scale(const Node& n) {
    ArgList args = r_(n.args);
    auto c = constant_operand(args);
    if (!c || g().type(c->other) != r_.from.type(n.outputs[0])) return {};
    if (V y = scaled_convolution(c->other, c->values)) return y.id;
    const Node* add = made_by(g(), c->other, edge::add_Tensor);
    if (!add || !is_used_once(c->other) || !is_plain_add(*add)) return {};
    auto inner = constant_operand(add->args);
    if (!inner || g().type(inner->other) != g().type(c->other)) return {};
    V y = scaled_convolution(inner->other, c->values);
    if (!y) return {};
    for (size_t i = 0; i < inner->values.size(); i++) inner->values[i] *= c->values[i];
    single_use_.insert(y.id);
    return b().call1(aten::add_Tensor, {y, constant_per_channel(inner->values, y.type())}).id;
  }

  // The value of add(add(conv, shift), shift), if it is that.
  ValueId shift(const Node& n) {
    ArgList args = r_(n.args);
    auto c = constant_operand(args);
    if (!c || !args[2].is<ValueId>() || filled_with(g(), args[2].get<ValueId>()) != 1.0) return {};
    const Node* add = made_by(g(), c->other, edge::add_Tensor);
    if (!add || !is_used_once(c->other) || !is_plain_add(*add)) return {};
    auto inner = constant_operand(add->args);
    if (!inner || !made_by(g(), inner->other, edge::convolution) || g().type(inner->other) != r_.from.type(n.outputs[0])) return {};
    for (size_t i = 0; i < inner->values.size(); i++) inner->values[i] += c->values[i];
    V y = b().wrap(inner->other);
    return b().call1(aten::add_Tensor, {y, constant_per_channel(inner->values, y.type())}).id;
  }

  LoadedProgram& program_;
  Rewriter r_;
  std::unordered_map<ValueId, int> uses_;
  std::unordered_set<ValueId> single_use_; // of the new graph
  LargeMemory memory_;                     // of scaled weights
  bool changed_ = false;
};

} // namespace

bool fold_norm(LoadedProgram& program) { return has_call(program.graph, edge::convolution) && FoldNorm(program).run(); }

} // namespace tenon
