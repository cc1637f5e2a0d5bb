// Slots of a plan back to expressions, and the maximum over its steps of what is alive there.
#include "compile/memory_formula.h"

#include <algorithm>
#include <bit>
#include <unordered_set>

#include <fmt/ranges.h>

#include "expr/expr.h"

namespace tenon {

namespace {

// ---- what slots hold

/// Expressions of the slots that are known when inputs are bound.
class SlotExpressions {
public:
  SlotExpressions(ExprPool& pool, const Plan& plan) : pool_(pool), sizes_(plan.sizes), known_(plan.sizes.initial.size()) {
    for (const InputSpec& in : plan.inputs) bind_sizes(in);
    for (const InputSpec& in : plan.inputs) bind_number(in);
    for (const SizeInstruction& i : sizes_.stages.at(0).instructions) known_[static_cast<size_t>(i.out)] = value_of(i);
  }
  Expr bytes_of(const PlanBuffer& b) {
    Expr bytes = pool_.integer(static_cast<int64_t>(size_of(b.dtype)));
    for (Slot s : b.sizes) bytes = bytes * max(operand(s, DType::I64), pool_.integer(0));
    return bytes;
  }

  /// None: a constant, or what steps find out.
  Expr known(Slot s) const { return known_[static_cast<size_t>(s)]; }

private:
  // A size that a symbol was solved from is the expression that its text says.
  void bind_sizes(const InputSpec& in) {
    for (const InputDim& d : in.dims) {
      if (d.kind != InputDim::Kind::Bind) continue;
      ExprPool names;
      Expr text = parse_expr(names, d.text);
      visit(text, [&](const ExprNode& n) {
        if (n.op == Op::Symbol && n.name != d.text) pool_.symbol(n.name, n.type, 0);
      });
      known_[static_cast<size_t>(d.slot)] =
          text->op == Op::Symbol ? pool_.symbol(d.text, DType::I64, d.lo, d.hi) : parse_expr(pool_, d.text);
    }
  }
  void bind_number(const InputSpec& in) {
    if (in.number_slot < 0) return;
    std::string name = pool_.find_symbol(in.name) ? pool_.fresh_symbol(in.name) : in.name;
    known_[static_cast<size_t>(in.number_slot)] = pool_.symbol(name, in.dtype);
  }

  bool is_bool(Slot s) const {
    Expr e = known_[static_cast<size_t>(s)];
    return e && e->type == DType::Bool;
  }
  /// A slot without an expression is a constant: what it holds is its reader's to say.
  Expr operand(Slot slot, DType type) {
    if (Expr e = known_[static_cast<size_t>(slot)]) return cast(e, type);
    int64_t bits = sizes_.initial[static_cast<size_t>(slot)];
    return type == DType::F64 ? pool_.number(std::bit_cast<double>(bits), type) : pool_.integer(bits, type);
  }
  Expr value_of(const SizeInstruction& i) {
    if (i.op == Op::Cast) {
      if (i.type == DType::F32) return cast(cast(operand(i.a, DType::F64), DType::F32), DType::F64);
      return cast(operand(i.a, i.type == DType::I64 ? DType::F64 : DType::I64), i.type);
    }
    if (i.op == Op::Select) return select(operand(i.a, DType::Bool), operand(i.b, i.type), operand(i.c, i.type));
    bool logical = i.op == Op::And || i.op == Op::Or || i.op == Op::Xor;
    DType type = logical && (is_bool(i.a) || is_bool(i.b)) ? DType::Bool : i.type;
    if (operands_of(i.op) == 1) return unary(i.op, operand(i.a, type));
    return binary(i.op, operand(i.a, type), operand(i.b, type));
  }

  ExprPool& pool_;
  const SizeProgram& sizes_;
  std::vector<Expr> known_; // by slot; none: a constant
};

// ---- what is alive together

/// Calls add and remove for the temporaries in the order of the steps, and peak after the last of those that start together, where
/// something ends before others start.
template <class Add, class Remove, class Peak>
void for_each_peak(const Plan& plan, const Add& add, const Remove& remove, const Peak& peak) {
  std::vector<const PlanBuffer*> by_first;
  for (const PlanBuffer& b : plan.buffers)
    if (b.place == BufferPlace::Arena) by_first.push_back(&b);
  std::vector<const PlanBuffer*> by_last = by_first;
  std::stable_sort(by_first.begin(), by_first.end(), [](auto* a, auto* b) { return a->first < b->first; });
  std::stable_sort(by_last.begin(), by_last.end(), [](auto* a, auto* b) { return a->last < b->last; });
  bool is_more = false;
  size_t gone = 0;
  for (const PlanBuffer* b : by_first) {
    for (; by_last[gone]->last < b->first; gone++) {
      if (std::exchange(is_more, false)) peak();
      remove(*by_last[gone]);
    }
    add(*b);
    is_more = true;
  }
  if (is_more) peak();
}

/// The expressions without those that another one is never below.
std::vector<Expr> largest(const std::vector<Expr>& sums) {
  std::vector<Expr> kept;
  std::unordered_set<Expr> seen;
  for (Expr e : sums) {
    if (!seen.insert(e).second || std::any_of(kept.begin(), kept.end(), [&](Expr k) { return proves_le(e, k); })) continue;
    std::erase_if(kept, [&](Expr k) { return proves_le(k, e); });
    kept.push_back(e);
  }
  return kept;
}

std::string text_of_max(const std::vector<Expr>& terms) {
  std::vector<std::string> texts;
  for (Expr e : terms) texts.push_back(to_string(e));
  return texts.empty() ? "0" : texts.size() == 1 ? texts[0] : fmt::format("max({})", fmt::join(texts, ", "));
}

} // namespace

MemoryFormula memory_formula(const Plan& plan) {
  ExprPool pool;
  SlotExpressions slots(pool, plan);
  MemoryFormula out;
  Expr alive = pool.integer(0), results = pool.integer(0);
  std::vector<Expr> sums;
  for_each_peak(
      plan, [&](const PlanBuffer& b) { alive = alive + slots.bytes_of(b); },
      [&](const PlanBuffer& b) { alive = alive - slots.bytes_of(b); }, [&] { sums.push_back(alive); });
  for (const OutputSpec& o : plan.outputs) {
    const PlanBuffer& b = plan.buffers[static_cast<size_t>(o.buffer)];
    if (o.returned_as >= 0 && b.place == BufferPlace::Output) results = results + slots.bytes_of(b);
  }
  for (const PlanBuffer& b : plan.buffers) out.uncounted += b.place == BufferPlace::Dynamic;
  out.temporaries = text_of_max(largest(sums));
  out.results = to_string(results);
  return out;
}

std::vector<std::string> slot_texts(const Plan& plan) {
  ExprPool pool;
  SlotExpressions slots(pool, plan);
  std::vector<bool> written = written_slots(plan);
  std::vector<std::string> texts;
  for (size_t i = 0; i < written.size(); i++) {
    Expr e = slots.known(static_cast<Slot>(i));
    texts.push_back(e ? to_string(e) : written[i] ? "?" : std::to_string(plan.sizes.initial[i]));
  }
  return texts;
}

size_t alive_bytes(const Plan& plan, const std::vector<int64_t>& slots) {
  size_t alive = 0, most = 0;
  auto bytes = [&](const PlanBuffer& b) {
    size_t n = size_of(b.dtype);
    for (Slot s : b.sizes) n *= static_cast<size_t>(std::max<int64_t>(slots[static_cast<size_t>(s)], 0));
    return n;
  };
  for_each_peak(
      plan, [&](const PlanBuffer& b) { alive += bytes(b); }, [&](const PlanBuffer& b) { alive -= bytes(b); },
      [&] { most = std::max(most, alive); });
  return most;
}

} // namespace tenon
