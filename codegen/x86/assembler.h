// The base of all xbyak emitters: executable memory that is never writable and executable at once, vectors by number
// for either instruction set, and the entry and exit sequences of a kernel.
#pragma once
#include <xbyak/xbyak.h>

#include "codegen/x86/code_memory.h"
#include "tenon/options.h"

namespace tenon {

/// Emits one kernel `void f(const Args*)` (System V: the argument arrives in rdi) into pages of a CodeMemory.
class Assembler : public Xbyak::CodeGenerator {
public:
  Assembler(CodeMemory& memory, Isa isa)
      : CodeGenerator(CodeMemory::max_kernel_bytes, memory.begin()), memory_(memory), wide_(isa == Isa::Avx512) {}

  /// Makes what was emitted executable and gives its address.
  void* finish() {
    if (masks_used_) emit_mask_table();
    ready();
    return memory_.commit(getSize());
  }

protected:
  using Xmm = Xbyak::Xmm;
  using Reg64 = Xbyak::Reg64;

  bool wide() const { return wide_; }
  int lanes() const { return wide_ ? 16 : 8; }
  int vector_bytes() const { return lanes() * 4; }
  int registers() const { return wide_ ? 32 : 16; }
  Xmm vec(int i) const { return wide_ ? static_cast<Xmm>(Xbyak::Zmm(i)) : static_cast<Xmm>(Xbyak::Ymm(i)); }

  /// Saves the callee's registers and makes `locals` bytes of stack; `aligned`: to 64 bytes, which clobbers rax.
  void enter(int locals, bool aligned = false) {
    locals_ = locals, aligned_ = aligned;
    for (int r : callee_saved) push(Reg64(r));
    if (!aligned) return sub(rsp, locals);
    mov(rax, rsp);
    sub(rsp, locals + 8);
    and_(rsp, -64);
    mov(ptr[rsp + locals], rax);
  }
  void leave() {
    if (aligned_) mov(rsp, ptr[rsp + locals_]);
    else add(rsp, locals_);
    for (int i = 5; i >= 0; i--) pop(Reg64(callee_saved[i]));
    vzeroupper();
    ret();
  }

  /// Bytes of 0x80. Clobbers rax.
  void broadcast_sign(const Xmm& to) {
    mov(eax, 0x80808080u);
    vmovd(Xmm(to.getIdx()), eax);
    vpbroadcastd(to, Xmm(to.getIdx()));
  }
  void add_sign(const Xmm& x, const Xmm& signs) { wide_ ? vpxord(x, x, signs) : vpxor(x, x, signs); }

  /// Opmask k (AVX-512) or register `to` (AVX2) = the first rax lanes of 4 or 8 bytes, 0 <= rax <= lanes of a vector.
  /// Clobbers rax and `temp`.
  void make_mask(const Xbyak::Opmask& k, const Xmm& to, const Reg64& temp, int element_bytes = 4) {
    if (wide_) {
      Xbyak::Reg32 bits(temp.getIdx());
      mov(bits, 0xffff);
      bzhi(bits, bits, eax);
      kmovw(k, bits);
    } else {
      masks_used_ = true;
      lea(temp, ptr[rip + mask_table_]);
      neg(rax);
      vmovups(to, ptr[temp + rax * element_bytes + 32]);
    }
  }

  /// The first elements of `x`, as many as the byte `count` says, to the address in `at`, in pieces: AVX2's masked stores are dozens of
  /// instructions on some machines. Clobbers `x` and `at`.
  void store_first(const Reg64& at, const Xmm& x, const Xbyak::Address& count, int element_bytes) {
    Xbyak::Label some, eight, four, stored;
    const Xmm low(x.getIdx());
    const Xbyak::Ymm all(x.getIdx());
    test(count, 32 / element_bytes);
    jz(some);
    vmovups(ptr[at], all);
    jmp(stored);
    L(some);
    test(count, 16 / element_bytes);
    jz(eight);
    vmovups(ptr[at], low);
    add(at, 16);
    vextractf128(low, all, 1);
    L(eight);
    test(count, 8 / element_bytes);
    jz(four);
    vmovlps(ptr[at], low);
    add(at, 8);
    vmovhlps(low, low, low);
    L(four);
    if (element_bytes == 4) {
      test(count, 1);
      jz(stored);
      vmovss(ptr[at], low);
    }
    L(stored);
  }

private:
  void emit_mask_table() {
    align(32);
    L(mask_table_);
    for (int i = 0; i < 16; i++) dd(i < 8 ? 0xffffffffu : 0u);
  }

  static constexpr int callee_saved[6] = {3 /* rbx */, 5 /* rbp */, 12, 13, 14, 15};
  CodeMemory& memory_;
  bool wide_;
  int locals_ = 0;
  bool aligned_ = false;
  bool masks_used_ = false;
  Xbyak::Label mask_table_;
};

} // namespace tenon
