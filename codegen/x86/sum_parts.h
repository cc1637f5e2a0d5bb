// Sums of f32 in parts: those of a part of k are added up in registers, parts in memory, which keeps rounding errors small.
#pragma once
#include <xbyak/xbyak.h>

#include <cstddef>

#include "codegen/x86/micro_kernels.h"

namespace tenon {

/// Takes five slots of the stack, and behind `sums` as much aligned memory as the registers 0 ... num_sums - 1 hold, which are the sums.
/// Lengths are counted in what the kernel counts k in: bytes of A, or terms.
class SumParts {
public:
  struct Stack {
    int slots, sums;
  };
  SumParts(Xbyak::CodeGenerator& code, Stack at, int num_sums, bool wide, bool used)
      : c_(code), at_(at), num_sums_(num_sums), wide_(wide), used_(used) {}
  static constexpr int slot_bytes = 40;

  bool used() const { return used_; }
  int stack_bytes() const { return used_ ? num_sums_ * vector_bytes() : 0; }
  /// The slot that holds where sums stop for their part to end.
  int end() const { return at_.slots + until; }

  /// Once a call. Clobbers rax.
  void keep_length(const Xbyak::Reg64& args, int a_step) {
    if (!used_) return;
    c_.imul(c_.rax, c_.ptr[args + offsetof(GemmArgs, part)], a_step);
    c_.mov(slot(length), c_.rax);
  }
  void keep_length(int terms) {
    if (used_) c_.mov(slot(length), terms);
  }
  /// Before a tile. Clobbers rax.
  void begin() {
    if (!used_) return;
    c_.mov(c_.rax, slot(length));
    c_.mov(slot(left), c_.rax);
    c_.mov(slot(before), 0);
  }
  /// How far the sums go on in registers from `index`, at most to what slot `most` holds; those of a part that is complete are put by.
  /// Leaves `t` as it was.
  void enter(const Xbyak::Reg64& index, int most, const Xbyak::Reg64& t) {
    if (!used_) return;
    Xbyak::Address last = c_.qword[c_.rsp + most];
    c_.mov(slot(kept), t);
    put_by_if_complete(t);
    c_.add(t, index);
    c_.cmp(t, last);
    c_.cmovg(t, last);
    c_.mov(slot(until), t);
    c_.sub(t, index);
    c_.sub(slot(left), t);
    c_.mov(t, slot(kept));
  }
  /// The sums of a part that is complete are put by. Leaves in `t` what is left of the part.
  void put_by_if_complete(const Xbyak::Reg64& t) {
    if (!used_) return;
    Xbyak::Label goes_on;
    c_.mov(t, slot(left));
    c_.test(t, t);
    c_.jg(goes_on, Xbyak::CodeGenerator::T_NEAR);
    c_.call(put_by_);
    c_.mov(t, slot(length));
    c_.mov(slot(left), t);
    c_.L(goes_on);
  }
  /// Takes so much of the part.
  void take(int length) {
    if (used_) c_.sub(slot(left), length);
  }
  void take(const Xbyak::Reg64& length) {
    if (used_) c_.sub(slot(left), length);
  }
  /// The sums of all parts.
  void add() {
    if (!used_) return;
    Xbyak::Label none;
    c_.cmp(slot(before), 0);
    c_.je(none, Xbyak::CodeGenerator::T_NEAR);
    for (int i = 0; i < num_sums_; i++) c_.vaddps(sum(i), sum(i), parts(i));
    c_.L(none);
  }
  /// Behind the kernel: the sums in registers join those of the parts before, and start anew. Called: the stack holds a return address
  /// more.
  void emit() {
    if (!used_) return;
    Xbyak::Label first;
    constexpr int above = 8;
    c_.L(put_by_);
    c_.cmp(slot(before, above), 0);
    c_.je(first, Xbyak::CodeGenerator::T_NEAR);
    for (int i = 0; i < num_sums_; i++) c_.vaddps(sum(i), sum(i), parts(i, above));
    c_.L(first);
    for (int i = 0; i < num_sums_; i++) {
      c_.vmovups(parts(i, above), sum(i));
      c_.vxorps(Xbyak::Xmm(i), Xbyak::Xmm(i), Xbyak::Xmm(i));
    }
    c_.mov(slot(before, above), 1);
    c_.ret();
  }

private:
  enum { left = 0, until = 8, before = 16, kept = 24, length = 32 }; // before: whether there are sums of finished parts
  int vector_bytes() const { return wide_ ? 64 : 32; }
  Xbyak::Xmm sum(int i) const { return wide_ ? static_cast<Xbyak::Xmm>(Xbyak::Zmm(i)) : Xbyak::Ymm(i); }
  Xbyak::Address slot(int i, int above = 0) const { return c_.qword[c_.rsp + above + at_.slots + i]; }
  Xbyak::Address parts(int i, int above = 0) const { return c_.ptr[c_.rsp + above + at_.sums + i * vector_bytes()]; }

  Xbyak::CodeGenerator& c_;
  Stack at_;
  int num_sums_;
  bool wide_, used_;
  Xbyak::Label put_by_;
};

} // namespace tenon
