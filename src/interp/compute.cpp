// Evaluation of a definition: points of the domain in row-major order, a block at a time, reduction axes innermost.
#include <algorithm>
#include <limits>
#include <numeric>

#include "expr/eval.h"
#include "interp/tape.h"

namespace tenon {

int64_t evaluate_size(Expr e, const SymbolValues& symbols) {
  return eval_int(e, [&](const ExprNode& n) {
    auto it = symbols.find(n.name);
    require(n.op == Op::Symbol, "{} in a size", name_of(n.op));
    require_input(it != symbols.end(), "size {} is used, but nothing gives its value", n.name);
    return static_cast<int64_t>(it->second);
  });
}

namespace {

// One accumulator of type T; floats are accumulated in double.
template <class T> struct Accumulator {
  using Wide = std::conditional_t<std::is_same_v<T, float>, double, T>;
  Reduction kind;
  Wide value{};
  T best{}; // of nothing the identity
  int64_t at = 0;

  void reset() {
    at = -1;
    value = kind == Reduction::Prod || kind == Reduction::All ? Wide(1) : Wide(0);
    using Limits = std::numeric_limits<T>;
    if constexpr (Limits::has_infinity) best = kind == Reduction::Max ? -Limits::infinity() : Limits::infinity();
    else best = kind == Reduction::Max ? Limits::lowest() : Limits::max();
  }
  static bool nan(T x) {
    if constexpr (std::is_floating_point_v<T>) return x != x;
    else return (void)x, false;
  }
  void add(T x, int64_t position) {
    switch (kind) {
    case Reduction::Sum: value = apply_binary<Op::Add, Wide>(value, static_cast<Wide>(x)); return;
    case Reduction::Prod: value = apply_binary<Op::Mul, Wide>(value, static_cast<Wide>(x)); return;
    case Reduction::Any: value = value != Wide(0) || x != T(0) ? Wide(1) : Wide(0); return;
    case Reduction::All: value = value != Wide(0) && x != T(0) ? Wide(1) : Wide(0); return;
    default: break;
    }
    bool larger = kind == Reduction::Max || kind == Reduction::ArgMax;
    bool better = at < 0 || (!nan(best) && (nan(x) || (larger ? x > best : x < best)));
    if (better) best = x, at = position;
  }
};

template <class T, class To> To result(const Accumulator<T>& a) {
  switch (a.kind) {
  case Reduction::ArgMax:
  case Reduction::ArgMin: return convert<To>(a.at);
  case Reduction::Max:
  case Reduction::Min: return convert<To>(a.best);
  default: return convert<To>(static_cast<T>(a.value));
  }
}

struct Domain {
  std::vector<int64_t> numbers, extents;
  int64_t points = 1, reduced = 1;
};

Domain domain_of(const Compute& c, const SymbolValues& symbols, std::vector<int64_t>& sizes) {
  Domain d;
  for (Expr a : c.axes) {
    d.numbers.push_back(a->bits), d.extents.push_back(evaluate_size(a->args[0], symbols));
    sizes.push_back(d.extents.back());
    require_input(sizes.back() >= 0, "a size is negative: {}", sizes.back());
  }
  for (Expr a : c.reduce_axes) {
    d.numbers.push_back(a->bits), d.extents.push_back(evaluate_size(a->args[0], symbols));
    d.reduced *= d.extents.back();
  }
  for (int64_t e : d.extents) d.points *= e;
  return d;
}

using AxisValues = std::unordered_map<int64_t, std::vector<int64_t>>;

// Index of each axis for points [start, start + n).
void fill_axes(const Domain& d, int64_t start, int64_t n, AxisValues& axes) {
  std::vector<int64_t> index(d.extents.size());
  std::vector<int64_t*> values;
  for (int64_t number : d.numbers) values.push_back(axes[number].data());
  int64_t rest = start;
  for (size_t k = d.extents.size(); k-- > 0;) index[k] = rest % d.extents[k], rest /= d.extents[k];
  if (index.empty()) return;
  size_t last = index.size() - 1;
  for (int64_t i = 0; i < n;) { // a run along the last axis at a time
    int64_t run = std::min(n - i, d.extents[last] - index[last]);
    for (size_t k = 0; k < last; k++) std::fill_n(values[k] + i, run, index[k]);
    std::iota(values[last] + i, values[last] + i + run, index[last]);
    i += run, index[last] += run;
    for (size_t k = last; k > 0 && index[k] == d.extents[k]; k--) index[k] = 0, index[k - 1]++;
  }
}

} // namespace

Tensor evaluate(const Compute& compute, DType output, const std::vector<Tensor>& operands, const SymbolValues& symbols) {
  std::vector<int64_t> sizes;
  Domain d = domain_of(compute, symbols, sizes);
  Tensor out(output, sizes);
  Tape tape(compute.body, symbols);
  AxisValues axes;
  for (int64_t k : d.numbers) axes[k].resize(tape_block);
  bool reduces = compute.reduction != Reduction::None;
  dispatch(compute.body->type, [&]<class T>(T) {
    dispatch(output, [&]<class To>(To) {
      auto* to = out.data_as<To>();
      if (!reduces) {
        for (int64_t p = 0; p < d.points; p += tape_block) {
          int64_t n = std::min(tape_block, d.points - p);
          fill_axes(d, p, n, axes);
          tape.run(operands, axes, n);
          const T* v = tape.slot<T>(tape.result());
          for (int64_t i = 0; i < n; i++) to[p + i] = convert<To>(v[i]);
        }
        return;
      }
      if constexpr (std::is_arithmetic_v<T>) {
        Accumulator<T> acc{.kind = compute.reduction};
        int64_t outputs = out.numel(), written = 0, position = 0;
        acc.reset();
        auto finish = [&] { to[written++] = result<T, To>(acc), acc.reset(); };
        if (d.reduced == 0)
          while (written < outputs) finish();
        for (int64_t p = 0; p < d.points; p += tape_block) {
          int64_t n = std::min(tape_block, d.points - p);
          fill_axes(d, p, n, axes);
          tape.run(operands, axes, n);
          const T* v = tape.slot<T>(tape.result());
          for (int64_t i = 0; i < n; i++) {
            acc.add(v[i], position);
            if (++position == d.reduced) position = 0, finish();
          }
        }
      } else internal_error("a reduction of {}", name_of(compute.body->type));
    });
  });
  return out;
}

} // namespace tenon
