// The dtype constraints of Edge operators beside what torch's kernels accept and give: tests/fixtures/edge_types.txt. What differs is
// listed with a reason in tests/expected/edge_types.txt, which may only shrink.
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "edge/constraints.h"

namespace tenon::edge_types_test {

namespace {

using Types = std::vector<DType>; // of the tensors given, then of the results
using Sets = std::vector<DTypes>;

bool has(DTypes types, DType t) { return types >> static_cast<int>(t) & 1; }

// Calls of an operator with some of its tensors given.
struct Pattern {
  std::string op;
  std::vector<std::string> tensors;
  std::vector<size_t> group; // of each tensor: those of one group have one dtype in Edge
  std::set<Types> torch;     // what torch accepts
};

std::vector<std::string> words(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

DType dtype_named(const std::string& word) {
  for (int t = 0; t < num_dtypes; t++)
    if (name_of(static_cast<DType>(t)) == word) return static_cast<DType>(t);
  FAIL("no such dtype: " << word);
  return {};
}

// Calls `f` with every choice of one dtype from each set.
void each_choice(const Sets& sets, const std::function<void(const Types&)>& f, Types chosen = {}) {
  if (chosen.size() == sets.size()) return f(chosen);
  for (int t = 0; t < num_dtypes; t++)
    if (has(sets[chosen.size()], static_cast<DType>(t))) {
      Types next = chosen;
      next.push_back(static_cast<DType>(t));
      each_choice(sets, f, next);
    }
}

// "f32 f64 | i64 -> =": = is the first one's dtype. It is not one of 64 dtypes, so it has the bit of none here.
void read_line(const std::string& line, std::set<Types>& out) {
  Sets sets{0};
  std::vector<bool> like_first{false};
  for (const std::string& word : words(line)) {
    bool empty = sets.back() == 0 && !like_first.back();
    if (word == "|" || (word == "->" && !empty)) sets.push_back(0), like_first.push_back(false);
    else if (word == "=") like_first.back() = true;
    else if (word != "->") sets.back() |= set_of({dtype_named(word)});
  }
  if (sets.back() == 0 && !like_first.back()) sets.pop_back(); // no results
  Sets first{sets[0]};
  each_choice(first, [&](const Types& t) {
    Sets now = sets;
    now[0] = set_of({t[0]});
    for (size_t i = 1; i < now.size(); i++)
      if (like_first[i]) now[i] |= now[0];
    each_choice(now, [&](const Types& c) { out.insert(c); });
  });
}

std::vector<Pattern> read_patterns() {
  std::vector<Pattern> out;
  std::ifstream file(std::string(TENON_FIXTURES) + "/edge_types.txt");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(" ")) {
      read_line(line, out.back().torch);
      continue;
    }
    auto head = words(line);
    Pattern p{.op = "edge" + head[0].substr(head[0].find("::")), .tensors = {}, .group = {}, .torch = {}};
    for (size_t i = 1; i + 1 < head.size(); i++)
      for (size_t at = 0; at <= head[i].size();) {
        size_t end = std::min(head[i].find(',', at), head[i].size());
        p.tensors.push_back(head[i].substr(at, end - at));
        p.group.push_back(i);
        at = end + 1;
      }
    out.push_back(p);
  }
  return out;
}

// Whether the fixture's script tried the combination, and Edge knows it.
bool is_tried(const Pattern& p, const Types& types) {
  std::set<DType> distinct;
  for (size_t i = 0; i < p.tensors.size(); i++) {
    for (size_t j = 0; j < i; j++)
      if (p.group[i] == p.group[j] && types[i] != types[j]) return false;
    distinct.insert(types[i]);
  }
  return p.tensors.size() <= 3 || distinct.size() <= 2;
}

std::set<Types> allowed(const Pattern& p, const EdgeOp& op) {
  std::set<Types> out;
  size_t results = p.torch.empty() ? 0 : p.torch.begin()->size() - p.tensors.size();
  for (auto& entry : op.constraints) {
    Sets sets;
    auto set_for = [&](const std::string& what) {
      for (auto& [name, alias] : entry)
        if (name == what) return *op.alias(alias);
      return every_type;
    };
    for (auto& name : p.tensors) sets.push_back(set_for(name));
    // A list of results stands last, under one name.
    for (size_t i = 0, named = 0; i < results; i++) {
      if (set_for("__ret_" + std::to_string(i)) != every_type) named = i;
      sets.push_back(set_for("__ret_" + std::to_string(named)));
    }
    each_choice(sets, [&](const Types& c) {
      if (is_tried(p, c)) out.insert(c);
    });
  }
  return out;
}

// Lines of exceptions: "refuses aten::abs.default c64 c128" stands for all that Edge refuses, and torch does not, with one of these dtypes.
struct Exceptions {
  std::map<std::string, std::set<DType>> dtypes, met; // by "refuses edge::abs.default"

  Exceptions() {
    std::ifstream file(std::string(TENON_FIXTURES) + "/../expected/edge_types.txt");
    bool reason = false;
    for (std::string line; std::getline(file, line);) {
      auto w = words(line);
      if (w.empty()) reason = false;
      else if (w[0] == "#") reason = true;
      else {
        CHECK_MESSAGE(reason, "no reason stands above: ", line);
        for (size_t i = 2; i < w.size(); i++) dtypes[w[0] + " " + w[1]].insert(dtype_named(w[i]));
      }
    }
  }
  bool covers(const std::string& key, const Types& types) {
    bool covered = false;
    for (DType t : dtypes[key])
      if (std::find(types.begin(), types.end(), t) != types.end()) met[key].insert(t), covered = true;
    return covered;
  }
};

std::string text_of(const Types& types) {
  std::string s;
  for (DType t : types) s += (s.empty() ? "" : " ") + std::string(name_of(t));
  return s;
}

void check_difference(Exceptions& exceptions, const std::string& key, const std::set<Types>& a, const std::set<Types>& without) {
  for (const Types& types : a)
    if (!without.contains(types) && !exceptions.covers(key, types)) FAIL_CHECK(key << " " << text_of(types));
}

} // namespace

TEST_CASE("the dtypes that Edge operators allow are those that torch's kernels accept and give") {
  std::map<std::string, const EdgeOp*> ops;
  for (const EdgeOp& op : edge_ops()) ops[op.name()] = &op;
  Exceptions exceptions;
  std::set<std::string> seen;
  for (const Pattern& p : read_patterns()) {
    INFO(p.op);
    REQUIRE(ops.contains(p.op));
    seen.insert(p.op);
    std::set<Types> ours = allowed(p, *ops[p.op]);
    check_difference(exceptions, "refuses " + p.op, p.torch, ours);
    check_difference(exceptions, "accepts " + p.op, ours, p.torch);
  }
  for (auto& [key, dtypes] : exceptions.dtypes)
    for (DType t : dtypes)
      CHECK_MESSAGE(exceptions.met[key].contains(t), "remove from tests/expected/edge_types.txt: ", key, " ", name_of(t));
  // What torch has no such overload of.
  for (auto& [name, op] : ops)
    if (name.starts_with("edge::") && name != "edge::convolution.dtype" && name != "edge::fill_diagonal.default")
      CHECK_MESSAGE(seen.contains(name), "not in tests/fixtures/edge_types.txt: ", name);
}

} // namespace tenon::edge_types_test
