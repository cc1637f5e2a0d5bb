// Nodes that compute numbers: sizes by aten.sym_size.int of a tensor that has them, and what is made of sizes and of numbers read from
// tensors by Python's operators, as torch writes it: s77*2 is operator.mul(sym_size.int(x, 0), 2).
#pragma once
#include <set>
#include <unordered_map>

#include "fx/graph.h"

namespace tenon {

/// Python names of one graph's nodes, each given once.
class FxNames {
public:
  /// `name` where it is free and no word of Python's, else with a number behind it.
  std::string fresh(std::string name);

private:
  std::set<std::string> used_;
};

class NumberNodes {
public:
  NumberNodes(FxGraph& fx, FxNames& names) : fx_(fx), names_(names) {}

  /// A node gives the number.
  void know(Expr value, uint32_t node);
  /// A node gives a tensor, whose sizes may be read.
  void see(const Type& type, uint32_t node);
  /// The number as an argument: itself where it is known now, else a node. Unsupported where no tensor has a size that it needs.
  Arg arg(Expr e);
  /// Its type, with its value.
  static Type type_of(Expr e);

private:
  struct Size {
    Expr size;
    uint32_t node;
    int64_t dim;
  };
  Arg add(std::string target, std::initializer_list<Arg> args, Expr value);
  Arg symbol(Expr e);
  std::optional<Arg> solve(Expr symbol);
  Arg fold(Expr e, std::string_view target);
  Arg sum(Expr e);
  Arg cast(Expr e);
  Arg function(Expr e);

  FxGraph& fx_;
  FxNames& names_;
  std::unordered_map<Expr, Arg> known_;
  std::vector<Size> sizes_;
};

} // namespace tenon
