// A scalar body as a tape of block instructions: each computes a whole block of points at once. Instructions under a
// select's branch carry a mask, so that guarded loads happen only where their branch is taken.
#pragma once
#include "interp/interp.h"

namespace tenon {

inline constexpr int64_t tape_block = 256;

struct TapeInstruction {
  const ExprNode* node;
  int out;               // slot
  std::vector<int> args; // slots
  int mask = -1;         // slot of a Bool; -1: all lanes
};

class Tape {
public:
  Tape(Expr body, const SymbolValues& symbols);
  /// Slot of the result.
  int result() const { return result_; }
  /// Runs `n` points; `axes` gives the index of each axis number.
  void run(const std::vector<Tensor>& operands, const std::unordered_map<int64_t, std::vector<int64_t>>& axes, int64_t n);
  template <class T> T* slot(int i) { return reinterpret_cast<T*>(memory_.data() + static_cast<size_t>(i * tape_block * 8)); }

private:
  int compile(const ExprNode& n, int mask);
  int new_slot() { return slots_++; }
  void load(const TapeInstruction& in, const Tensor& from, int64_t n);
  void leaf(const TapeInstruction& in, const std::unordered_map<int64_t, std::vector<int64_t>>& axes, int64_t n);

  const SymbolValues& symbols_;
  std::vector<TapeInstruction> code_;
  std::unordered_map<uint64_t, int> done_; // (node id, mask) -> slot
  std::vector<std::byte> memory_;
  int slots_ = 0, result_ = 0;
};

} // namespace tenon
