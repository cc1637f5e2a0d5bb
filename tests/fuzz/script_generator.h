// Random programs in the script language: a function of ints, floats, a bool and tensors, with nested if, for and while, break, continue
// and early returns, lists, tuples, views and in-place writes. The same for one seed on every machine. Programs end by themselves, and
// numbers stay small.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::fuzz {

class ScriptGenerator {
public:
  explicit ScriptGenerator(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 0x1234567) {}

  /// Of "def f(n: int, r: float, b: bool, x, y)"; x and y are f32[2, 3].
  std::string program() {
    text_ = "from typing import List, Tuple\nimport torch\n\n";
    helper();
    text_ += "def f(n: int, r: float, b: bool, x, y):\n";
    names_ = {{"n", "i1"}, {"r", "r1"}, {"b", "b1"}, {"x", "t1", "t2"}, {"l1"}, {"p1"}};
    line(1, "i1 = n + 1");
    line(1, "r1 = r * 0.5");
    line(1, "b1 = not b");
    line(1, "t1 = x.clone()");
    line(1, "t2 = y * 2.0");
    line(1, "l1 = [n, 2, 3]");
    line(1, "p1 = (n, t1)");
    block(1, 7 + below(8), 3);
    line(1, "return n, i1, r, r1, b1, x, y, t1, t2, l1, p1[0]");
    return text_;
  }

private:
  struct Names {
    std::vector<std::string> ints, floats, bools, tensors, lists, tuples;
  };

  size_t below(size_t n) { // splitmix64
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return static_cast<size_t>((z ^ (z >> 31)) % n);
  }
  bool chance(size_t percent) { return below(100) < percent; }
  const std::string& any(const std::vector<std::string>& list) { return list[below(list.size())]; }
  // The parts, made from the left to the right, in the places of {}.
  static std::string fill(std::string_view form, std::initializer_list<std::string> parts) {
    std::string out;
    auto part = parts.begin();
    for (size_t i = 0; i < form.size(); i++) {
      if (form[i] == '{' && i + 1 < form.size() && form[i + 1] == '}') out += *part++, i++;
      else out += form[i];
    }
    return out;
  }
  std::string digit(size_t from, size_t n) { return std::to_string(from + below(n)); }
  std::string quarter() { // -1.0 to 1.75
    static constexpr std::string_view of[] = {"-1.0", "-0.75", "-0.5", "-0.25", "0.0", "0.25", "0.5", "0.75", "1.0", "1.25", "1.5", "1.75"};
    return std::string(of[below(12)]);
  }
  void line(int depth, const std::string& s) { text_ += std::string(static_cast<size_t>(depth) * 4, ' ') + s + "\n"; }

  void helper() {
    text_ += "def g(a: int, t, flag: bool = True) -> Tuple[int, torch.Tensor]:\n";
    text_ += chance(50) ? "    if flag and a > 3:\n        return a - 3, t + 1.0\n" : "    if a % 2 == 0:\n        t = t.neg()\n";
    text_ += chance(50) ? "    return a + 1, t * 0.5\n\n" : "    for k in range(2):\n        a += k\n    return a, t\n\n";
  }

  // ---- expressions

  std::string integer(int depth) {
    if (depth == 0 || chance(25)) return chance(70) ? any(names_.ints) : std::to_string(static_cast<int>(below(9)) - 2);
    std::string a = integer(depth - 1), b = integer(depth - 1);
    switch (below(11)) {
    case 0: return fill("({} + {})", {a, b});
    case 1: return fill("({} - {})", {a, b});
    case 2: return fill("(({} * {}) % 101)", {a, b});
    case 3: return fill("({} % {})", {a, digit(2, 5)});
    case 4: return fill("({} // {})", {a, digit(2, 5)});
    case 5: return fill("min({}, {})", {a, b});
    case 6: return fill("max({}, {})", {a, b});
    case 7: return fill("len({})", {any(names_.lists)});
    case 8: return fill("({} if {} else {})", {a, boolean(depth - 1), b});
    case 9: return fill("{}[{}]", {any(names_.lists), below(2) ? "0" : "-1"});
    default: return fill("int({})", {bounded(real(depth - 1))});
    }
  }
  static std::string bounded(const std::string& real) { return fill("min(max({}, -50.0), 50.0)", {real}); }
  std::string real(int depth) {
    if (depth == 0 || chance(25)) return chance(70) ? any(names_.floats) : quarter();
    std::string a = real(depth - 1), b = real(depth - 1);
    switch (below(8)) {
    case 0: return fill("({} + {})", {a, b});
    case 1: return fill("({} - {})", {a, b});
    case 2: return fill("({} * 0.5)", {a});
    case 3: return fill("float({})", {integer(depth - 1)});
    case 4: return fill("min({}, {})", {a, b});
    case 5: return fill("({} / {})", {a, digit(2, 3)});
    case 6: return fill("float({}[{}, {}])", {any(names_.tensors), digit(0, 2), digit(0, 3)});
    default: return fill("abs({})", {a});
    }
  }
  std::string boolean(int depth) {
    if (depth == 0 || chance(20)) return chance(80) ? any(names_.bools) : below(2) ? "True" : "False";
    static constexpr std::string_view compare[] = {"<", "<=", ">", ">=", "==", "!="};
    switch (below(8)) {
    case 0: return fill("({} {} {})", {integer(depth - 1), std::string(compare[below(6)]), integer(depth - 1)});
    case 1: return fill("({} {} {})", {real(depth - 1), std::string(compare[below(4)]), real(depth - 1)});
    case 2: return fill("({} and {})", {boolean(depth - 1), boolean(depth - 1)});
    case 3: return fill("({} or {})", {boolean(depth - 1), boolean(depth - 1)});
    case 4: return fill("(not {})", {boolean(depth - 1)});
    case 5: return fill("({} in {})", {integer(depth - 1), any(names_.lists)});
    case 6: return fill("bool({}.sum() > {})", {any(names_.tensors), real(0)});
    default: return fill("({} < {} <= {})", {integer(0), integer(depth - 1), integer(0)});
    }
  }
  // Of f32[2, 3].
  std::string tensor(int depth) {
    if (depth == 0 || chance(20)) return any(names_.tensors);
    std::string a = tensor(depth - 1), b = tensor(depth - 1);
    switch (below(14)) {
    case 0: return fill("({} + {})", {a, b});
    case 1: return fill("({} - {})", {a, b});
    case 2: return fill("({} * {})", {a, real(0)});
    case 3: return fill("({}).abs()", {a});
    case 4: return fill("({}).relu()", {a});
    case 5: return fill("({}).clamp(-5.0, 5.0)", {a});
    case 6: return fill("torch.where({} > {}, {}, {})", {a, b, a, tensor(0)});
    case 7: return fill("({}).t().contiguous().view(2, 3)", {a});
    case 8: return fill("torch.cat([{}[0:1], {}[1:2]], 0)", {any(names_.tensors), any(names_.tensors)});
    case 9: return fill("({} + {}.sum(0))", {a, any(names_.tensors)});
    case 10: return fill("({}).flip([{}])", {a, digit(0, 2)});
    case 11: return fill("({} + {})", {a, integer(0)});
    case 12: return fill("torch.stack([{}[0], {}[1]])", {a, b});
    default: return fill("({} if {} else {})", {a, boolean(depth - 1), b});
    }
  }

  // ---- statements

  void block(int depth, size_t count, int nest) {
    for (size_t i = 0; i < count; i++) statement(depth, nest);
  }
  void statement(int depth, int nest) {
    switch (below(nest > 0 ? 18 : 12)) {
    case 0: return line(depth, fill("{} = {} % 211 - 100", {writable(names_.ints), integer(2)}));
    case 1: return line(depth, fill("{} {} {}", {writable(names_.ints), below(2) ? "+=" : "-=", digit(1, 9)}));
    case 2: return line(depth, fill("{} = {}", {any(names_.floats), bounded(real(2))}));
    case 3: return line(depth, fill("b1 = {}", {boolean(2)}));
    case 4:
    case 5: return line(depth, fill("{} = ({}).clamp(-8.0, 8.0)", {any(names_.tensors), tensor(2)}));
    case 6: return in_place(depth);
    case 7: return lists(depth);
    case 8: return line(depth, fill("p1 = ({}, {})", {integer(1), tensor(1)}));
    case 9: return line(depth, fill("{}, {} = p1", {writable(names_.ints), any(names_.tensors)}));
    case 10: return line(depth, fill("i1, t1 = g({}, {}{})", {integer(1), tensor(1), below(2) ? "" : ", " + boolean(1)}));
    case 11: return line(depth, "i1, n = n, i1");
    case 12:
    case 13: return branch(depth, nest);
    case 14:
    case 15: return for_loop(depth, nest);
    case 16: return while_loop(depth, nest);
    default:
      if (loops_ > 0) return leave(depth);
      line(depth, fill("if {}:", {boolean(2)}));
      line(depth + 1, fill("return n, i1, r, r1, b1, x, y, t1, t2, l1, {}", {integer(1)}));
    }
  }
  const std::string& writable(const std::vector<std::string>& ints) { return ints[below(2)]; } // no loop counters
  void in_place(int depth) {
    const std::string t = any(names_.tensors);
    switch (below(7)) {
    case 0: return line(depth, fill("{} += ({}).clamp(-8.0, 8.0)", {t, tensor(1)}));
    case 1: return line(depth, fill("{}[{}] = {}[{}]", {t, digit(0, 2), any(names_.tensors), digit(0, 2)}));
    case 2: return line(depth, fill("{}[:, {}] = {}", {t, digit(0, 3), bounded(real(1))}));
    case 3: return line(depth, fill("{}[{}].mul_(0.5)", {t, digit(0, 2)}));
    case 4: return line(depth, fill("{}.t()[{}].add_(1.0)", {t, digit(0, 3)}));
    case 5: return line(depth, fill("{}[{}, 1:] *= 0.75", {t, digit(0, 2)}));
    default: return line(depth, fill("{}[{} > {}] = 0.5", {t, t, real(0)}));
    }
  }
  void lists(int depth) {
    const std::string l = any(names_.lists);
    switch (below(5)) {
    case 0: return line(depth, fill("{}.append({})", {l, integer(1)}));
    case 1: return line(depth, fill("{}[{}] = {}", {l, below(2) ? "0" : "-1", integer(1)}));
    case 2: return line(depth, fill("{} = [k % 50 + 1 for k in {}[-4:]]", {l, l}));
    case 3: return line(depth, fill("{} = {}[1:] + [{}, {}]", {l, l, integer(1), integer(0)}));
    default: return line(depth, fill("n = sum({}[:5]) % 50", {l}));
    }
  }
  void branch(int depth, int nest) {
    line(depth, fill("if {}:", {boolean(2)}));
    block(depth + 1, 1 + below(3), nest - 1);
    if (chance(30)) line(depth, fill("elif {}:", {boolean(1)})), block(depth + 1, 1 + below(2), nest - 1);
    if (chance(60)) line(depth, "else:"), block(depth + 1, 1 + below(2), nest - 1);
  }
  void leave(int depth) {
    line(depth, fill("if {}:", {boolean(2)}));
    switch (below(3)) {
    case 0: return line(depth + 1, "break");
    case 1: return line(depth + 1, "continue");
    default: return line(depth + 1, fill("return n, i1, r, r1, b1, x, y, t1, t2, l1, {}", {integer(1)}));
    }
  }
  void loop_body(int depth, int nest, const std::string& counter) {
    loops_++;
    if (!counter.empty()) names_.ints.push_back(counter);
    block(depth + 1, 1 + below(3), nest - 1);
    if (!counter.empty()) names_.ints.pop_back();
    loops_--;
  }
  void for_loop(int depth, int nest) {
    std::string k = "k" + std::to_string(++counters_);
    switch (below(4)) {
    case 0: line(depth, fill("for {} in range({}):", {k, below(2) ? digit(0, 4) : "min(max(n, 0), 3)"})); break;
    case 1: line(depth, fill("for {} in range({}, {}, {}):", {k, digit(0, 3), digit(3, 4), digit(1, 2)})); break;
    case 2: line(depth, fill("for {} in [{}, {}]:", {k, integer(1), integer(0)})); break;
    default:
      line(depth, fill("for {}, row in enumerate({}):", {k, any(names_.tensors)}));
      line(depth + 1, "r1 = r1 * 0.5 + float(row.sum()) * 0.125");
    }
    loop_body(depth, nest, k);
  }
  // Its own counter, which nothing in it changes, ends it; continue comes behind the step.
  void while_loop(int depth, int nest) {
    std::string w = "w" + std::to_string(++counters_);
    line(depth, w + " = 0");
    line(depth, chance(50) ? fill("while {} < {}:", {w, digit(1, 4)}) : fill("while {} < {} and {}:", {w, digit(2, 3), boolean(1)}));
    line(depth + 1, w + " += 1");
    loop_body(depth, nest, "");
  }

  uint64_t state_;
  std::string text_;
  Names names_;
  int loops_ = 0, counters_ = 0;
};

} // namespace tenon::fuzz
