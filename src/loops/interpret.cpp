#include "loops/interpret.h"

#include <array>
#include <cstring>

#include "base/numeric.h"
#include "expr/eval.h"

namespace tenon {

namespace {

// A scalar of any dtype in its memory form.
struct Scalar {
  std::array<uint64_t, 2> bits = {}; // room for the largest
  template <class T> T as() const {
    T v;
    std::memcpy(static_cast<void*>(&v), &bits, sizeof v);
    return v;
  }
  template <class T> static Scalar of(T v) {
    Scalar s;
    std::memcpy(&s.bits, &v, sizeof v);
    return s;
  }
};

Scalar constant(const ExprNode& n) {
  return dispatch(n.type, [&]<class T>(T) {
    if constexpr (std::is_integral_v<T>) return Scalar::of(static_cast<T>(n.bits));
    else return Scalar::of(convert<T>(n.number()));
  });
}

Scalar unary(const ExprNode& n, Scalar x) {
  if (n.op == Op::Bitcast) return x;
  return dispatch(n.args[0]->type, [&]<class T>(T) -> Scalar {
    if (n.op == Op::Cast) return dispatch(n.type, [&]<class To>(To) { return Scalar::of(convert<To>(x.as<T>())); });
    if constexpr (std::is_arithmetic_v<T>)
      return dispatch_op<Op::Neg, Op::Trunc>(n.op, [&]<Op O>() { return Scalar::of(apply_unary<O, T>(x.as<T>())); });
    else internal_error("{} on {}", name_of(n.op), name_of(n.type));
  });
}

Scalar binary(const ExprNode& n, Scalar x, Scalar y) {
  return dispatch(n.args[0]->type, [&]<class T>(T) -> Scalar {
    if constexpr (std::is_arithmetic_v<T>) {
      if (is_compare(n.op))
        return dispatch_op<Op::Eq, Op::Le>(n.op, [&]<Op O>() { return Scalar::of(apply_compare<O, T>(x.as<T>(), y.as<T>())); });
      return dispatch_op<Op::Add, Op::Gcd>(n.op, [&]<Op O>() { return Scalar::of(apply_binary<O, T>(x.as<T>(), y.as<T>())); });
    } else internal_error("{} on {}", name_of(n.op), name_of(n.type));
  });
}

class Interpreter {
public:
  Interpreter(const Kernel& kernel, const KernelArgs& args) : kernel_(kernel), args_(args) {}

  void run(int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      axes_[kernel_.parallel.get()] = i;
      statements(kernel_.body);
    }
  }

private:
  struct State {
    Accumulator what;
    Scalar value;
    int64_t position;
    bool any;
  };

  void statements(const std::vector<Stmt>& body) {
    for (const Stmt& s : body) {
      if (auto* l = std::get_if<Loop>(&s.v)) loop(*l);
      else if (auto* st = std::get_if<Store>(&s.v)) {
        Scalar v = eval(*st->value);
        std::memcpy(element(st->buffer, *st->offset), &v.bits, size_of(st->value->type));
      } else if (auto* r = std::get_if<ReduceRegion>(&s.v)) region(*r);
      else if (auto* t = std::get_if<Turn>(&s.v)) turn(*t);
      else accumulate(std::get<Accumulate>(s.v));
    }
  }

  void turn(const Turn& t) {
    auto number = [&](Expr e) { return eval(*e).as<int64_t>(); };
    size_t size = size_of(kernel_.buffers[static_cast<size_t>(t.to)].dtype);
    auto bytes = static_cast<int64_t>(size);
    char *to = element(t.to, *t.to_offset), *from = element(t.from, *t.from_offset);
    for (int64_t i = 0; i < number(t.rows); i++)
      for (int64_t j = 0; j < number(t.columns); j++)
        std::memcpy(to + (i * number(t.to_step) + j) * bytes, from + (j * number(t.from_step) + i) * bytes, size);
  }

  void loop(const Loop& l) {
    int64_t extent = eval(*l.axis->args[0]).as<int64_t>();
    for (int64_t i = 0; i < extent; i++) {
      axes_[l.axis.get()] = i;
      statements(l.body);
    }
  }

  void region(const ReduceRegion& r) {
    for (Accumulator a : r.accumulators) {
      if (is_narrow_sum(a)) a.type = DType::F64;
      open_[a.reg] = {a, identity(a), 0, false};
    }
    statements(r.body);
    for (const Accumulator& a : r.accumulators) {
      bool position = a.op == Reduction::ArgMax || a.op == Reduction::ArgMin;
      Scalar value = open_[a.reg].value;
      if (is_narrow_sum(a)) value = Scalar::of(static_cast<float>(value.as<double>()));
      registers_[a.reg] = position ? Scalar::of(open_[a.reg].position) : value;
    }
  }

  /// Held in f64: a long one keeps its digits.
  static bool is_narrow_sum(const Accumulator& a) { return a.op == Reduction::Sum && a.type == DType::F32; }

  static Scalar identity(const Accumulator& a) {
    return dispatch(a.type, [&]<class T>(T) -> Scalar {
      if constexpr (std::is_arithmetic_v<T>) {
        using L = std::numeric_limits<T>;
        T most = L::has_infinity ? L::infinity() : L::max(), least = L::has_infinity ? static_cast<T>(-most) : L::lowest();
        if (a.op == Reduction::Sum || a.op == Reduction::Any) return Scalar::of(T(0));
        if (a.op == Reduction::Prod || a.op == Reduction::All) return Scalar::of(T(1));
        return Scalar::of(a.op == Reduction::Max || a.op == Reduction::ArgMax ? least : most);
      } else internal_error("accumulator of {}", name_of(a.type));
    });
  }

  void accumulate(const Accumulate& a) {
    State& s = open_[a.reg];
    Scalar x = eval(*a.value);
    if (s.what.type == DType::F64 && a.value->type == DType::F32) x = Scalar::of(static_cast<double>(x.as<float>()));
    int64_t position = a.position ? eval(*a.position).as<int64_t>() : 0;
    s.value = dispatch(s.what.type, [&]<class T>(T) -> Scalar {
      if constexpr (std::is_arithmetic_v<T>) {
        T v = s.value.as<T>(), y = x.as<T>();
        switch (s.what.op) {
        case Reduction::Sum: return Scalar::of(apply_binary<Op::Add, T>(v, y));
        case Reduction::Prod: return Scalar::of(apply_binary<Op::Mul, T>(v, y));
        case Reduction::Max: return Scalar::of(apply_binary<Op::Max, T>(v, y));
        case Reduction::Min: return Scalar::of(apply_binary<Op::Min, T>(v, y));
        case Reduction::Any: return Scalar::of(static_cast<T>(v || y));
        case Reduction::All: return Scalar::of(static_cast<T>(v && y));
        default: break;
        }
        bool greatest = s.what.op == Reduction::ArgMax;
        bool better = v == v && (y != y || (greatest ? y > v : y < v));
        if (better || !s.any) s.position = position, s.any = true, v = y;
        return Scalar::of(v);
      } else internal_error("accumulator of {}", name_of(s.what.type));
    });
  }

  char* element(int buffer, const ExprNode& offset) {
    const KernelBuffer& b = kernel_.buffers[static_cast<size_t>(buffer)];
    char* p = static_cast<char*>(args_.buffers[buffer]);
    if (b.kind == BufferKind::Scratch)
      p = static_cast<char*>(args_.scratch) + (b.scratch_offset ? eval(*b.scratch_offset).as<int64_t>() : 0);
    return p + eval(offset).as<int64_t>() * static_cast<int64_t>(size_of(b.dtype));
  }

  Scalar leaf(const ExprNode& n) {
    if (n.op == Op::Axis) return Scalar::of(axes_.at(&n));
    if (n.op == Op::Reg) return registers_.at(static_cast<int>(n.bits));
    if (n.op == Op::Load) {
      Scalar v;
      std::memcpy(&v.bits, element(static_cast<int>(n.bits), *n.args[0]), size_of(n.type));
      return v;
    }
    for (size_t i = 0; i < kernel_.scalars.size(); i++) {
      if (kernel_.scalars[i].get() != &n) continue;
      int64_t bits = args_.scalars[i];
      return dispatch(
          n.type, [&]<class T>(T) { return Scalar::of(is_float(n.type) ? convert<T>(std::bit_cast<double>(bits)) : convert<T>(bits)); });
    }
    internal_error("symbol {} is not among the scalars", n.name);
  }

  Scalar call(const ExprNode& n) {
    double v[8];
    for (size_t i = 0; i < n.args.size(); i++)
      v[i] = dispatch(n.args[i]->type, [&]<class T>(T) { return convert<double>(eval(*n.args[i]).as<T>()); });
    return dispatch(n.type, [&]<class T>(T) { return Scalar::of(convert<T>(find_special(n.name)(v))); });
  }

  Scalar eval(const ExprNode& n) {
    if (n.is_const()) return constant(n);
    if (is_leaf(n.op)) return leaf(n);
    if (n.op == Op::Select) return eval(*n.args[eval(*n.args[0]).as<bool>() ? 1 : 2]);
    if (n.op == Op::Call) return call(n);
    Scalar x = eval(*n.args[0]);
    if (is_unary(n.op)) return unary(n, x);
    if (n.op == Op::Checked) {
      int64_t index = x.as<int64_t>(), size = eval(*n.args[1]).as<int64_t>();
      if (index >= 0 && index < size) return n.args.size() > 2 ? eval(*n.args[2]) : x;
      args_.error[0] = 1, args_.error[1] = index, args_.error[2] = size;
      return dispatch(n.type, []<class T>(T) { return Scalar::of(T{}); });
    }
    for (size_t i = 1; i < n.args.size(); i++) x = binary(n, x, eval(*n.args[i]));
    return x;
  }

  const Kernel& kernel_;
  const KernelArgs& args_;
  std::unordered_map<const ExprNode*, int64_t> axes_;
  std::unordered_map<int, Scalar> registers_;
  std::unordered_map<int, State> open_;
};

} // namespace

void interpret(const Kernel& kernel, const KernelArgs& args, int64_t begin, int64_t end) { Interpreter(kernel, args).run(begin, end); }

} // namespace tenon
