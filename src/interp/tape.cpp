// Tape: compilation of a body to block instructions, and their execution.
#include "interp/tape.h"

#include <algorithm>

#include "base/stop_point.h"
#include "expr/eval.h"

namespace tenon {

namespace {

bool needs_mask(Expr e) {
  return contains(e, [](const ExprNode& n) { return n.op == Op::Load || n.op == Op::Checked; });
}

// Marks synthetic instructions: a mask AND-ed with a condition, or with its negation.
ExprNode mask_node(bool negate) {
  ExprNode n{.op = negate ? Op::Lt : Op::And, .type = DType::Bool};
  n.id = UINT32_MAX;
  return n;
}
const ExprNode mask_and = mask_node(false), mask_and_not = mask_node(true);

} // namespace

Tape::Tape(Expr body, const SymbolValues& symbols) : symbols_(symbols) {
  result_ = compile(*body, -1);
  memory_.resize(static_cast<size_t>(slots_ * tape_block * 8));
}

int Tape::compile(const ExprNode& n, int mask) {
  bool pure = n.op != Op::Load && n.op != Op::Checked && !needs_mask(Expr(&n));
  uint64_t key = (static_cast<uint64_t>(n.id) << 32) | static_cast<uint32_t>(pure ? -1 : mask);
  if (auto it = done_.find(key); it != done_.end()) return it->second;
  TapeInstruction in{.node = &n, .out = 0, .args = {}, .mask = mask};
  if (n.op == Op::Select && needs_mask(Expr(&n))) {
    int c = compile(*n.args[0], mask);
    int masks[2];
    for (int k : {0, 1}) {
      masks[k] = new_slot();
      code_.push_back({.node = k ? &mask_and_not : &mask_and, .out = masks[k], .args = {c}, .mask = mask});
    }
    in.args = {c, compile(*n.args[1], masks[0]), compile(*n.args[2], masks[1])};
  } else if (n.op != Op::Axis)
    for (Expr a : n.args) in.args.push_back(compile(*a, mask));
  in.out = new_slot();
  done_[key] = in.out;
  code_.push_back(std::move(in));
  return code_.back().out;
}

namespace {

template <class T, class F> void map_unary(T* out, const T* a, int64_t n, F f) {
  for (int64_t i = 0; i < n; i++) out[i] = f(a[i]);
}

template <class T> void run_unary(Op op, T* out, const T* a, int64_t n) {
  dispatch_op<Op::Neg, Op::Trunc>(op, [&]<Op O>() { map_unary(out, a, n, [](T x) { return apply_unary<O, T>(x); }); });
}

template <class T> void run_binary(Op op, void* out, const T* a, const T* b, int64_t n) {
  if (is_compare(op))
    dispatch_op<Op::Eq, Op::Le>(op, [&]<Op O>() {
      for (int64_t i = 0; i < n; i++) static_cast<bool*>(out)[i] = apply_compare<O, T>(a[i], b[i]);
    });
  else
    dispatch_op<Op::Add, Op::Gcd>(op, [&]<Op O>() {
      for (int64_t i = 0; i < n; i++) static_cast<T*>(out)[i] = apply_binary<O, T>(a[i], b[i]);
    });
}

template <class To, class From> void run_cast(To* out, const From* a, int64_t n) {
  for (int64_t i = 0; i < n; i++) out[i] = convert<To, From>(a[i]);
}

/// Names the first of the indices that lies outside of dim `d`; `mask` (or null) tells which count.
[[noreturn]] void refuse_index(const int64_t* index, const bool* mask, size_t d, int64_t size) {
  int64_t i = 0;
  while ((mask && !mask[i]) || (index[i] >= 0 && index[i] < size)) i++;
  bad_input("the sizes do not fit: index {} of dim {} of size {}", index[i], d, size);
}

} // namespace

void Tape::leaf(const TapeInstruction& in, const std::unordered_map<int64_t, std::vector<int64_t>>& axes, int64_t n) {
  const ExprNode& e = *in.node;
  if (e.op == Op::Axis) {
    auto it = axes.find(e.bits);
    require(it != axes.end(), "a body uses an axis that is not of its domain");
    std::copy_n(it->second.begin(), n, slot<int64_t>(in.out));
    return;
  }
  double v;
  if (e.op == Op::Symbol) {
    auto it = symbols_.find(e.name);
    require_input(it != symbols_.end(), "size {} is used, but nothing gives its value", e.name);
    v = it->second;
  } else v = e.number();
  dispatch(e.type, [&]<class T>(T) {
    if constexpr (std::is_integral_v<T>) std::fill_n(slot<T>(in.out), n, e.op == Op::Const ? static_cast<T>(e.bits) : static_cast<T>(v));
    else std::fill_n(slot<T>(in.out), n, convert<T>(v));
  });
}

void Tape::load(const TapeInstruction& in, const Tensor& from, int64_t n) {
  const bool* mask = in.mask < 0 ? nullptr : slot<bool>(in.mask);
  require(from.dtype() == in.node->type, "a load of {} from a tensor of {}", name_of(in.node->type), name_of(from.dtype()));
  dispatch(from.dtype(), [&]<class T>(T) {
    T* out = slot<T>(in.out);
    int64_t offsets[tape_block] = {};
    for (size_t d = 0; d < in.args.size(); d++) {
      const int64_t* index = slot<int64_t>(in.args[d]);
      int64_t size = from.sizes()[d], stride = from.strides()[d];
      auto within = [&](int64_t i) { return static_cast<uint64_t>(index[i]) < static_cast<uint64_t>(size); };
      bool fits = true;
      if (mask)
        for (int64_t i = 0; i < n; i++) fits &= within(i) || !mask[i];
      else
        for (int64_t i = 0; i < n; i++) fits &= within(i);
      if (!fits) refuse_index(index, mask, d, size);
      for (int64_t i = 0; i < n; i++) offsets[i] += mask && !mask[i] ? 0 : index[i] * stride;
    }
    const T* data = from.data_as<T>();
    if (mask)
      for (int64_t i = 0; i < n; i++) out[i] = mask[i] ? data[offsets[i]] : T{};
    else
      for (int64_t i = 0; i < n; i++) out[i] = data[offsets[i]];
  });
}

void Tape::run(const std::vector<Tensor>& operands, const std::unordered_map<int64_t, std::vector<int64_t>>& axes, int64_t n) {
  stop_point();
  for (const TapeInstruction& in : code_) {
    const ExprNode& e = *in.node;
    if (&e == &mask_and || &e == &mask_and_not) {
      const bool *outer = in.mask < 0 ? nullptr : slot<bool>(in.mask), *c = slot<bool>(in.args[0]);
      for (int64_t i = 0; i < n; i++) slot<bool>(in.out)[i] = (!outer || outer[i]) && c[i] == (&e == &mask_and);
    } else if (e.op == Op::Load) load(in, operands.at(static_cast<size_t>(e.bits)), n);
    else if (is_leaf(e.op)) leaf(in, axes, n);
    else if (e.op == Op::Checked) {
      require(in.args.size() == 2, "a check of inlined values outside of a region");
      const bool* mask = in.mask < 0 ? nullptr : slot<bool>(in.mask);
      for (int64_t i = 0; i < n; i++) {
        int64_t v = slot<int64_t>(in.args[0])[i], size = slot<int64_t>(in.args[1])[i];
        if (!mask || mask[i]) require_input(v >= 0 && v < size, "index {} is out of range for size {}", v, size);
        slot<int64_t>(in.out)[i] = v;
      }
    } else if (e.op == Op::Select) {
      dispatch(e.type, [&]<class T>(T) {
        for (int64_t i = 0; i < n; i++) slot<T>(in.out)[i] = slot<bool>(in.args[0])[i] ? slot<T>(in.args[1])[i] : slot<T>(in.args[2])[i];
      });
    } else if (e.op == Op::Call) {
      auto f = find_special(e.name);
      require(f != nullptr, "no special function {}", e.name);
      dispatch(e.type, [&]<class T>(T) {
        if constexpr (std::is_floating_point_v<T>)
          for (int64_t i = 0; i < n; i++) {
            double v[8];
            for (size_t k = 0; k < in.args.size() && k < 8; k++) v[k] = slot<T>(in.args[k])[i];
            slot<T>(in.out)[i] = static_cast<T>(f(v));
          }
        else internal_error("special function {} on {}", e.name, name_of(e.type));
      });
    } else if (e.op == Op::Cast) {
      DType from = e.args[0]->type;
      dispatch(e.type,
               [&]<class To>(To) { dispatch(from, [&]<class From>(From) { run_cast(slot<To>(in.out), slot<From>(in.args[0]), n); }); });
    } else if (e.op == Op::Bitcast) {
      std::memcpy(slot<char>(in.out), slot<char>(in.args[0]), static_cast<size_t>(n) * size_of(e.type));
    } else {
      dispatch(e.args[0]->type, [&]<class T>(T) {
        if constexpr (std::is_arithmetic_v<T>) {
          if (is_unary(e.op)) return run_unary(e.op, slot<T>(in.out), slot<T>(in.args[0]), n);
          run_binary(e.op, slot<T>(in.out), slot<T>(in.args[0]), slot<T>(in.args[1]), n);
          for (size_t k = 2; k < in.args.size(); k++) run_binary(e.op, slot<T>(in.out), slot<T>(in.out), slot<T>(in.args[k]), n);
        } else internal_error("{} on {}", name_of(e.op), name_of(e.args[0]->type));
      });
    }
  }
}

} // namespace tenon
