// What matrix kernels on vector registers ask for while they multiply (GemmArgs::ahead): in each round of their loop so many cache lines as
// the call says.
#pragma once
#include <xbyak/xbyak.h>

#include <cstddef>

#include "codegen/x86/micro_kernels.h"

namespace tenon {

/// A round jumps into a row of prefetches, behind those that are too many. Takes three slots of the stack, and a register for what
/// comes next, which must be one of the eight without a prefix or one of the others, but not change in between.
class LookAhead {
public:
  LookAhead(Xbyak::CodeGenerator& code, int slots, bool used) : c_(code), slots_(slots), used_(used) {}
  static constexpr int slot_bytes = 24;

  bool used() const { return used_; }
  /// Once a call. Clobbers rax.
  void keep_lines(const Xbyak::Reg64& args, const Xbyak::Reg64& next) {
    if (!used_) return;
    c_.imul(c_.rax, c_.ptr[args + offsetof(GemmArgs, ahead_lines)], prefetch_bytes(next));
    c_.mov(slot(skipped), c_.rax);
    c_.imul(c_.rax, c_.ptr[args + offsetof(GemmArgs, ahead_lines)], line);
    c_.mov(slot(advance), c_.rax);
  }
  /// Around a tile.
  void begin(const Xbyak::Reg64& args, const Xbyak::Reg64& next) {
    if (!used_) return;
    c_.mov(next, c_.ptr[args + offsetof(GemmArgs, ahead)]);
    c_.sub(next, bias);
  }
  void end(const Xbyak::Reg64& args, const Xbyak::Reg64& next) {
    if (!used_) return;
    c_.add(next, bias);
    c_.mov(c_.ptr[args + offsetof(GemmArgs, ahead)], next);
  }
  /// Before a loop whose rounds end at `end`. Clobbers rax.
  void aim(const Xbyak::Label& end) {
    if (!used_) return;
    c_.lea(c_.rax, c_.ptr[c_.rip + end]);
    c_.sub(c_.rax, slot(skipped));
    c_.mov(slot(target), c_.rax);
  }
  void round(Xbyak::Label& end, const Xbyak::Reg64& next) {
    if (!used_) return;
    c_.jmp(slot(target));
    for (int i = GemmFamily::most_ahead; i-- > 0;) c_.prefetcht1(c_.ptr[next + bias + i * line]);
    c_.L(end);
    c_.add(next, slot(advance));
  }

private:
  enum { skipped = 0, target = 8, advance = 16 };
  static constexpr int line = 64, bias = 128; // from there on displacements take four bytes, and all prefetches are of one size
  static int prefetch_bytes(const Xbyak::Reg64& next) { return next.getIdx() < 8 ? 7 : next.getIdx() == 12 ? 9 : 8; }
  Xbyak::Address slot(int i) { return c_.qword[c_.rsp + slots_ + i]; }

  Xbyak::CodeGenerator& c_;
  int slots_;
  bool used_;
};

} // namespace tenon
