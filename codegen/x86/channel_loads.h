// Loads of vectors of channels for the depthwise kernels, widened to f32 from what the input has.
#pragma once
#include "codegen/x86/assembler.h"
#include "tenon/tensor.h"

namespace tenon {

class ChannelAssembler : public Assembler {
protected:
  /// `from`: F32, BF16 or F16. `locals`: where mask_bytes of the stack are the loads' own.
  ChannelAssembler(CodeMemory& memory, Isa isa, DType from, int locals) : Assembler(memory, isa), from_(from), locals_(locals) {}

  static constexpr int mask_bytes = 40;
  int in_vector_bytes() const { return lanes() * static_cast<int>(size_of(from_)); }

  /// Masked loads and stores are of the first rax channels, 0 < rax < lanes. Clobbers rax, `temp` and k1 or `x`.
  void mask_channels(const Xmm& x, const Reg64& temp) {
    if (!wide()) mov(ptr[rsp + count()], rax);
    make_mask(k1, x, temp);
    if (!wide()) vmovups(ptr[rsp + mask()], x);
  }
  void load_channels(const Xmm& x, const Xbyak::RegExp& at, bool masked) {
    if (from_ == DType::F32) return masked ? load_masked(x, at) : vmovups(x, ptr[at]);
    bool by_word = masked && !wide();
    if (by_word) load_words(Xmm(x.getIdx()), at);
    const Xbyak::Address in_memory = ptr[at];
    const Xmm low(x.getIdx()), to = masked && wide() ? x | k1 | T_z : x;
    const Xbyak::Operand& in = by_word ? static_cast<const Xbyak::Operand&>(low) : in_memory;
    if (from_ == DType::F16) return vcvtph2ps(to, in);
    vpmovzxwd(to, in);
    vpslld(x, x, 16);
  }
  /// Clobbers x and `temp` where there are no opmasks.
  void store_sums(const Xbyak::RegExp& at, const Xmm& x, bool masked, const Reg64& temp) {
    if (!masked) return vmovups(ptr[at], x);
    if (wide()) return vmovups(ptr[at] | k1, x);
    lea(temp, ptr[at]);
    store_first(temp, x, byte[rsp + count()], 4);
  }

private:
  int mask() const { return locals_; }
  int count() const { return locals_ + 32; }
  void load_masked(const Xmm& x, const Xbyak::RegExp& at) {
    if (wide()) return vmovups(x | k1 | T_z, ptr[at]);
    vmovups(x, ptr[rsp + mask()]);
    vmaskmovps(x, x, ptr[at]);
  }
  /// There is no masked load of words.
  void load_words(const Xmm& x, const Xbyak::RegExp& at) {
    Xbyak::Label done;
    vpxor(x, x, x);
    for (int i = 0; i + 1 < lanes(); i++) {
      vpinsrw(x, x, ptr[at + 2 * i], static_cast<uint8_t>(i));
      cmp(qword[rsp + count()], i + 1);
      jle(done, T_NEAR);
    }
    L(done);
  }

  DType from_;
  int locals_;
};

} // namespace tenon
