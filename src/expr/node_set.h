// NodeSet: which nodes of an expression a walk has seen. Most expressions are small, and walks are many: a set of few takes no memory.
#pragma once
#include <array>
#include <unordered_set>

#include "expr/expr.h"

namespace tenon {

class NodeSet {
public:
  /// Whether it is new.
  bool insert(const ExprNode* n) {
    size_t at = n->id * 0x9e3779b1u % few_.size();
    for (; few_[at]; at = (at + 1) % few_.size())
      if (few_[at] == n) return false;
    if (count_ == most) return more_.insert(n).second;
    few_[at] = n, count_++;
    return true;
  }

private:
  static constexpr size_t most = 96; // then a walk along filled places would become long
  std::array<const ExprNode*, 128> few_{};
  size_t count_ = 0;
  std::unordered_set<const ExprNode*> more_;
};

} // namespace tenon
