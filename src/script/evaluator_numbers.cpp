// Arithmetic on constants of __init__, and Python's functions of them.
#include <algorithm>
#include <cmath>

#include "script/evaluator.h"

namespace tenon::script {

namespace {

std::optional<double> number(const Constant& c) {
  if (auto* d = c.as<double>()) return *d;
  if (auto* i = c.as<int64_t>()) return static_cast<double>(*i);
  if (auto* b = c.as<bool>()) return *b;
  return std::nullopt;
}
std::optional<int64_t> integer(const Constant& c) {
  if (auto* i = c.as<int64_t>()) return *i;
  if (auto* b = c.as<bool>()) return *b;
  return std::nullopt;
}

bool is_tensor(const Constant& c) { return c.as<std::shared_ptr<TensorConstant>>(); }

bool same(const Constant& a, const Constant& b) {
  if (auto x = number(a), y = number(b); x && y) return *x == *y;
  if (auto *x = a.as<std::string>(), *y = b.as<std::string>(); x && y) return *x == *y;
  if (auto *x = a.as<Constant::Tuple>(), *y = b.as<Constant::Tuple>(); x && y)
    return std::equal(x->items->begin(), x->items->end(), y->items->begin(), y->items->end(), same);
  if (auto *x = a.as<Constant::List>(), *y = b.as<Constant::List>(); x && y)
    return std::equal((*x)->begin(), (*x)->end(), (*y)->begin(), (*y)->end(), same);
  return a.is_none() && b.is_none();
}

std::optional<Constant> of_integers(Range at, const std::string& op, int64_t a, int64_t b) {
  auto wrap = [](uint64_t v) { return Constant{static_cast<int64_t>(v)}; };
  auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  if (op == "+") return wrap(ua + ub);
  if (op == "-") return wrap(ua - ub);
  if (op == "*") return wrap(ua * ub);
  if (op == "&") return Constant{a & b};
  if (op == "|") return Constant{a | b};
  if (op == "^") return Constant{a ^ b};
  if ((op == "<<" || op == ">>") && b >= 0 && b < 64) return op == "<<" ? wrap(ua << ub) : Constant{a >> b};
  if (op == "//" || op == "%") {
    if (b == 0) fail(at, "integer division or modulo by zero");
    if (b == -1) return op == "%" ? Constant{int64_t{0}} : wrap(0 - ua);
    int64_t q = a / b, r = a % b;
    if (r != 0 && (r < 0) != (b < 0)) q--, r += b;
    return Constant{op == "//" ? q : r};
  }
  if (op == "**" && b >= 0) {
    uint64_t r = 1;
    for (uint64_t base = ua; ub; ub >>= 1, base *= base)
      if (ub & 1) r *= base;
    return wrap(r);
  }
  return std::nullopt;
}

std::optional<Constant> of_numbers(Range at, const std::string& op, double a, double b) {
  if (op == "+") return Constant{a + b};
  if (op == "-") return Constant{a - b};
  if (op == "*") return Constant{a * b};
  if (op == "**") return Constant{std::pow(a, b)};
  if (op == "<") return Constant{a < b};
  if (op == "<=") return Constant{a <= b};
  if (op == ">") return Constant{a > b};
  if (op == ">=") return Constant{a >= b};
  if (op != "/" && op != "//" && op != "%") return std::nullopt;
  if (b == 0) fail(at, "division by zero");
  if (op == "/") return Constant{a / b};
  if (op == "//") return Constant{std::floor(a / b)};
  return Constant{a - b * std::floor(a / b)};
}

std::optional<Constant> of_sequences(const std::string& op, const Constant& a, const Constant& b, Range at) {
  auto limit = [&](size_t n) {
    if (n > 1'000'000) fail(at, "too long a list in __init__");
  };
  auto joined = [&](const Constants& x, const Constants& y) {
    limit(x.size() + y.size());
    auto out = std::make_shared<Constants>(x);
    out->insert(out->end(), y.begin(), y.end());
    return out;
  };
  if (auto *x = a.as<Constant::List>(), *y = b.as<Constant::List>(); x && y && op == "+") return Constant{joined(**x, **y)};
  if (auto *x = a.as<Constant::Tuple>(), *y = b.as<Constant::Tuple>(); x && y && op == "+")
    return Constant{Constant::Tuple{joined(*x->items, *y->items)}};
  if (auto *x = a.as<std::string>(), *y = b.as<std::string>(); x && y && op == "+") return limit(x->size() + y->size()), Constant{*x + *y};
  auto n = integer(b);
  if (op != "*" || !n) return std::nullopt;
  auto repeat = [&](const Constants& x) {
    auto out = std::make_shared<Constants>();
    for (int64_t i = 0; i < *n; i++) limit(out->size() + x.size()), out->insert(out->end(), x.begin(), x.end());
    return out;
  };
  if (auto* x = a.as<Constant::List>()) return Constant{repeat(**x)};
  if (auto* x = a.as<Constant::Tuple>()) return Constant{Constant::Tuple{repeat(*x->items)}};
  return std::nullopt;
}

std::optional<Constant> membership(const std::string& op, const Constant& a, const Constant& b) {
  if (op == "is" || op == "is not") return Constant{(op == "is") == (a.v.index() == b.v.index() && same(a, b))};
  if (op == "==" || op == "!=") return Constant{(op == "==") == same(a, b)};
  if (op != "in" && op != "not in") return std::nullopt;
  bool found = false;
  auto look = [&](const Constants& l) { found = std::any_of(l.begin(), l.end(), [&](auto& i) { return same(i, a); }); };
  if (auto* l = b.as<Constant::List>()) look(**l);
  else if (auto* t = b.as<Constant::Tuple>()) look(*t->items);
  else if (auto* x = a.as<std::string>(), *y = b.as<std::string>(); x && y) found = y->find(*x) != y->npos;
  else if (auto* d = b.as<Constant::Dict>()) found = std::any_of((*d)->begin(), (*d)->end(), [&](auto& p) { return same(p.first, a); });
  else return std::nullopt;
  return Constant{found == (op == "in")};
}

} // namespace

std::string python_type(const Constant& c) {
  static const char* const names[] = {"NoneType", "bool", "int",    "float",  "complex",  "str",  "list",
                                      "tuple",    "dict", "Module", "Tensor", "function", "type", "module"};
  return names[c.v.index()];
}

bool truth(const Constant& c) {
  if (auto n = number(c)) return *n != 0;
  if (auto* s = c.as<std::string>()) return !s->empty();
  if (auto* l = c.as<Constant::List>()) return !(*l)->empty();
  if (auto* t = c.as<Constant::Tuple>()) return !t->items->empty();
  if (auto* d = c.as<Constant::Dict>()) return !(*d)->empty();
  return !c.is_none();
}

Constant deferred(std::string callee, Constants args, std::vector<std::pair<std::string, Constant>> keywords) {
  auto t = std::make_shared<TensorConstant>();
  t->call = std::make_shared<const Deferred>(Deferred{std::move(callee), std::move(args), std::move(keywords)});
  return {t};
}

Constant arithmetic(Range at, const std::string& op, const Constant& a, const Constant& b) {
  if (op != "is" && op != "is not" && (is_tensor(a) || is_tensor(b))) return deferred(op, {a, b});
  if (auto v = membership(op, a, b)) return *v;
  if (auto x = integer(a), y = integer(b); x && y && op != "/")
    if (auto v = of_integers(at, op, *x, *y)) return *v;
  if (auto x = number(a), y = number(b); x && y)
    if (auto v = of_numbers(at, op, *x, *y)) return *v;
  if (auto v = of_sequences(op, a, b, at)) return *v;
  if (auto v = of_sequences(op, b, a, at); v && op == "*") return *v;
  fail(at, "unsupported operand types for {}: '{}' and '{}'", op, python_type(a), python_type(b));
}

namespace {

const Constants* sequence(const Constant& c) {
  if (auto* l = c.as<Constant::List>()) return l->get();
  auto* t = c.as<Constant::Tuple>();
  return t ? t->items.get() : nullptr;
}

std::optional<Constant> range_of(Range at, const Constants& args) {
  int64_t v[3] = {0, 0, 1};
  for (size_t i = 0; i < args.size(); i++) {
    auto n = integer(args[i]);
    if (!n || args.size() > 3) fail(at, "range takes ints");
    v[args.size() == 1 ? 1 : i] = *n;
  }
  if (v[2] == 0) fail(at, "range() arg 3 must not be zero");
  auto out = std::make_shared<Constants>();
  for (int64_t i = v[0]; v[2] > 0 ? i < v[1] : i > v[1]; i += v[2]) {
    if (out->size() > 1'000'000) fail(at, "too long a range in __init__");
    out->push_back({i});
  }
  return Constant{out};
}

std::optional<Constant> tuples_of(const std::string& name, const Constants& args) {
  auto out = std::make_shared<Constants>();
  for (size_t i = 0;; i++) {
    auto one = std::make_shared<Constants>();
    if (name == "enumerate") one->push_back({static_cast<int64_t>(i)});
    for (auto& a : args) {
      auto* l = sequence(a);
      if (!l || i >= l->size()) return Constant{out};
      one->push_back((*l)[i]);
    }
    out->push_back({Constant::Tuple{one}});
    if (args.empty()) return Constant{out};
  }
}

std::optional<Constant> extreme(Range at, const std::string& name, const Constants& args) {
  const Constants* all = args.size() == 1 ? sequence(args[0]) : &args;
  if (!all || all->empty()) return std::nullopt;
  Constant best = all->front();
  for (auto& c : *all)
    if (truth(arithmetic(at, name == "max" ? ">" : "<", c, best))) best = c;
  return best;
}

} // namespace

std::optional<Constant> builtin_of_python(Range at, const std::string& name, const Constants& args) {
  if (name == "range") return range_of(at, args);
  if (name == "zip" || name == "enumerate") return tuples_of(name, args);
  if (name == "max" || name == "min") return extreme(at, name, args);
  if (name == "print" || name == "setattr") return Constant{};
  if ((name == "list" || name == "tuple" || name == "dict") && args.empty()) {
    if (name == "dict") return Constant{std::make_shared<std::vector<std::pair<Constant, Constant>>>()};
    return name == "list" ? Constant{std::make_shared<Constants>()} : Constant{Constant::Tuple{std::make_shared<Constants>()}};
  }
  if (args.empty()) return std::nullopt;
  const Constants* list = sequence(args[0]);
  auto n = number(args[0]);
  if (name == "len") {
    if (list) return Constant{static_cast<int64_t>(list->size())};
    if (auto* d = args[0].as<Constant::Dict>()) return Constant{static_cast<int64_t>((*d)->size())};
    if (auto* s = args[0].as<std::string>()) return Constant{static_cast<int64_t>(s->size())};
  }
  if (name == "type") return Constant{python_type(args[0])};
  if (name == "collections.OrderedDict" && list) {
    auto out = std::make_shared<std::vector<std::pair<Constant, Constant>>>();
    for (auto& pair : *list) {
      auto* two = sequence(pair);
      if (!two || two->size() != 2) return std::nullopt;
      out->emplace_back((*two)[0], (*two)[1]);
    }
    return Constant{out};
  }
  if (name == "dict" || name == "collections.OrderedDict" || name == "copy.copy" || name == "copy.deepcopy") return args[0];
  if ((name == "list" || name == "sorted") && list) return Constant{std::make_shared<Constants>(*list)};
  if (name == "tuple" && list) return Constant{Constant::Tuple{std::make_shared<Constants>(*list)}};
  if (name == "reversed" && list) return Constant{std::make_shared<Constants>(list->rbegin(), list->rend())};
  if (name == "sum" && list) {
    Constant total{int64_t{0}};
    for (auto& c : *list) total = arithmetic(at, "+", total, c);
    return total;
  }
  if (name == "str" && integer(args[0])) return Constant{std::to_string(*integer(args[0]))};
  if (name == "str" && args[0].as<std::string>()) return args[0];
  if (name == "bool") return Constant{truth(args[0])};
  if (!n) return std::nullopt;
  if (name == "int" || name == "math.floor" || name == "math.ceil" || name == "round") {
    if (std::abs(*n) > 9e18 || *n != *n) fail(at, "{} does not fit an int", *n);
    double v = name == "math.floor"  ? std::floor(*n)
               : name == "math.ceil" ? std::ceil(*n)
               : name == "round"     ? std::nearbyint(*n)
                                     : std::trunc(*n);
    return integer(args[0]) ? args[0] : Constant{static_cast<int64_t>(v)};
  }
  if (name == "float") return Constant{*n};
  if (name == "abs") return integer(args[0]) ? Constant{std::abs(*integer(args[0]))} : Constant{std::abs(*n)};
  static const std::map<std::string, double (*)(double)> functions{
      {"math.sqrt", std::sqrt}, {"math.log", std::log},   {"math.exp", std::exp},     {"math.sin", std::sin},  {"math.cos", std::cos},
      {"math.tan", std::tan},   {"math.log2", std::log2}, {"math.log10", std::log10}, {"math.tanh", std::tanh}};
  if (auto f = functions.find(name); f != functions.end() && args.size() == 1) return Constant{f->second(*n)};
  if ((name == "math.pow" || name == "pow") && args.size() == 2 && number(args[1]))
    return arithmetic(at, "**", name == "pow" ? args[0] : Constant{*n}, args[1]);
  return std::nullopt;
}

} // namespace tenon::script
