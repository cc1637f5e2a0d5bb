// What the export assumed about its inputs' sizes, beside their ranges: Python comparisons such as
//   (L['x'].size()[0] % 4) == 0        torch.sym_max(1, L['x'].size()[0]) <= 2*L['y'][0].size()[1]
// Equalities, bounds, and what `and`, `or` and `not` make of them, become prim::Asserts at the program's start. Left out is what only says
// that a size is neither 0 nor 1 (small lower bounds), or that computed sizes differ: tenon's programs hold for those sizes too.
#include <unordered_map>
#include <unordered_set>

#include "base/lexer.h"
#include "ir/op.h"
#include "load/json.h"
#include "load/load.h"
#include "ops/names.h"

namespace tenon {

namespace {

using Sizes = std::unordered_map<std::string, ValueId>; // by path: L['x'][0]['name']

// A step of a path; fields of classes are written as keys are.
std::string key_text(const Tree& key) { return "[" + key.to_string() + "]"; }

// The leaves under a tree node, each with its path; `next` counts leaves.
class Paths {
public:
  explicit Paths(const LoadedProgram& p) {
    for (auto& in : p.inputs)
      if (in.kind == InputKind::User || in.kind == InputKind::Fixed) leaves_.push_back(in.value);
    if (p.in_spec.size() != 2) return;
    auto& positional = p.in_spec[0].children();
    for (size_t i = 0; i < positional.size(); i++)
      walk(positional[i], i < p.forward_arg_names.size() ? "L" + key_text(p.forward_arg_names[i]) : "?");
    walk(p.in_spec[1], "L");
  }
  Sizes values;

private:
  void walk(const Tree& t, const std::string& path) {
    if (t.as<ArgInfo>()) {
      if (next_ < leaves_.size() && leaves_[next_].valid()) values[path] = leaves_[next_];
      next_++;
    }
    for (size_t i = 0; i < t.size(); i++) walk(t.children()[i], path + key_text(t.keys().empty() ? Tree(i) : t.keys()[i]));
  }

  std::vector<ValueId> leaves_;
  size_t next_ = 0;
};

struct Condition {
  Expr holds;
  bool small; // says no more than that a size is neither 0 nor 1, or that two sizes differ
};

class GuardParser {
public:
  GuardParser(const Graph& graph, const Sizes& sizes, std::string_view text) : g_(graph), sizes_(sizes), lex_(text) {}

  /// The condition to hold; none where it is one that sizes 0 and 1 may break.
  Expr parse() {
    Condition c = any();
    if (!lex_.at_end()) lex_.fail("more text after the condition");
    return c.small ? Expr() : c.holds;
  }

private:
  Condition any() {
    Lexer::Depth depth(lex_);
    Condition c = all();
    while (lex_.accept_word("or")) {
      Condition other = all();
      c = {logical_or(c.holds, other.holds), c.small && other.small};
    }
    return c;
  }
  Condition all() {
    Condition c = one();
    while (lex_.accept_word("and")) {
      Condition other = one();
      if (c.small) c = other;
      else if (!other.small) c.holds = logical_and(c.holds, other.holds);
    }
    return c;
  }
  // A parenthesis is of a condition, or of the comparison's first operand.
  Condition one() {
    Lexer::Depth depth(lex_);
    if (lex_.accept_word("not")) {
      Condition c = one();
      return {logical_not(c.holds), c.small};
    }
    size_t start = lex_.position();
    if (lex_.accept("(")) {
      if (std::optional<Condition> inner = attempt()) return *inner;
      lex_.go_back(start);
    }
    return comparison();
  }
  std::optional<Condition> attempt() {
    try {
      Condition c = any();
      if (lex_.accept(")")) return c;
    } catch (const Error&) {}
    return std::nullopt;
  }

  Condition comparison() {
    Expr a = sum();
    std::string_view op;
    for (std::string_view known : {"==", "!=", "<=", ">=", "<", ">"})
      if (op.empty() && lex_.accept(known)) op = known;
    if (op.empty()) lex_.fail("expected a comparison");
    Expr b = sum();
    if (is_float(a->type) != is_float(b->type)) a = cast(a, DType::F64), b = cast(b, DType::F64);
    if (op[0] == '<') std::swap(a, b), op = op == "<" ? ">" : ">=";
    auto number = const_int(b);
    if (op == "==") return {eq(a, b), false};
    if (op == "!=") return {ne(a, b), !number || *number < 2};
    bool small = number && *number + (op == ">") <= 2;
    return {op == ">" ? gt(a, b) : ge(a, b), small};
  }

  Expr sum() {
    Lexer::Depth depth(lex_);
    Expr e = term();
    while (true) {
      if (lex_.accept("+")) e = both(Op::Add, e, term());
      else if (lex_.accept("-")) e = both(Op::Sub, e, term());
      else return e;
    }
  }
  Expr term() {
    Expr e = factor();
    while (true) {
      if (lex_.at("**")) lex_.fail("a power");
      if (lex_.accept("//")) e = both(Op::FloorDiv, e, factor());
      else if (lex_.accept("/")) e = cast(e, DType::F64) / cast(factor(), DType::F64);
      else if (lex_.accept("*")) e = both(Op::Mul, e, factor());
      else if (lex_.accept("%")) e = both(Op::Mod, e, factor());
      else return e;
    }
  }
  static Expr both(Op op, Expr a, Expr b) {
    if (is_float(a->type) != is_float(b->type)) a = cast(a, DType::F64), b = cast(b, DType::F64);
    return binary(op, a, b);
  }
  // math.trunc(x) and the like; null where the text is no such call.
  Expr function() {
    struct Row {
      std::string_view name;
      Op op;
      bool to_int;
    };
    static constexpr Row rows[] = {{"math.trunc(", Op::Trunc, true},    {"int(", Op::Trunc, true},
                                   {"torch.sym_int(", Op::Trunc, true}, {"math.floor(", Op::Floor, true},
                                   {"math.ceil(", Op::Ceil, true},      {"round(", Op::Round, true},
                                   {"math.sqrt(", Op::Sqrt, false},     {"torch._sym_sqrt(", Op::Sqrt, false}};
    for (auto& r : rows) {
      if (!lex_.accept(r.name)) continue;
      Expr e = unary(r.op, cast(sum(), DType::F64));
      lex_.expect(")");
      return r.to_int ? cast(e, DType::I64) : e;
    }
    for (auto name : {"torch.sym_float(", "float("}) {
      if (!lex_.accept(name)) continue;
      Expr e = cast(sum(), DType::F64);
      lex_.expect(")");
      return e;
    }
    return {};
  }
  Expr factor() {
    Lexer::Depth depth(lex_);
    if (lex_.accept("-")) return -factor();
    if (lex_.accept("(")) {
      Expr e = sum();
      lex_.expect(")");
      return e;
    }
    if (lex_.at_number()) {
      auto n = lex_.number();
      return n.is_float ? g_.pool().number(n.f, DType::F64) : g_.pool().integer(n.i);
    }
    for (bool most : {true, false})
      for (std::string_view name : {most ? "torch.sym_max(" : "torch.sym_min(", most ? "max(" : "min("}) {
        if (!lex_.accept(name)) continue;
        Expr e = sum();
        while (lex_.accept(",")) e = both(most ? Op::Max : Op::Min, e, sum());
        lex_.expect(")");
        return e;
      }
    if (Expr e = function()) return e;
    return size();
  }
  // L['x'][0].name.size()[1], or L['n'] of a number.
  Expr size() {
    std::string path = "L";
    lex_.expect("L");
    while (!lex_.at(".size()")) {
      if (lex_.accept(".")) path += key_text(std::string(lex_.word()));
      else if (!lex_.accept("[")) break;
      else path += key_text(lex_.at_number() ? Tree(lex_.number().i) : Tree(lex_.quoted())), lex_.expect("]");
    }
    auto it = sizes_.find(path);
    if (it == sizes_.end()) lex_.fail("an unknown input");
    const Type& t = g_.type(it->second);
    if (!t.is_tensor() && t.value) return t.value;
    lex_.expect(".size()[");
    auto d = lex_.number();
    lex_.expect("]");
    if (d.i < 0 || static_cast<size_t>(d.i) >= t.rank()) lex_.fail("no such dim");
    return t.sizes[static_cast<size_t>(d.i)];
  }

  const Graph& g_;
  const Sizes& sizes_;
  Lexer lex_;
};

} // namespace

void add_guards(LoadedProgram& program) {
  Graph& g = program.graph;
  if (program.guards.empty()) return;
  Paths paths(program);
  std::unordered_set<const ExprNode*> seen;
  for (const std::string& guard : program.guards) {
    Expr holds;
    try {
      holds = GuardParser(g, paths.values, guard).parse();
    } catch (const Error&) {
      continue; // of another kind: about strides, devices
    }
    if (!holds || holds->is_const() || !seen.insert(holds.get()).second) continue;
    g.append(g.top(), Node{.op = prim::Assert, .def = find_op(prim::Assert), .args = {holds, std::string(guard_message) + guard}}, {});
  }
}

} // namespace tenon
