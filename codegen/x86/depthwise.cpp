// Emits the f32 depthwise micro-kernels for any window. For a block of channels the tile's sums stay in registers over
// all kernel positions; a position's weights are loaded once for all pixels of the tile, and every input vector is an
// operand of one multiply-add.
#include "codegen/x86/depthwise.h"

#include <cstddef>

#include "base/check.h"
#include "codegen/x86/assembler.h"

namespace tenon {
namespace {

class DepthwiseEmitter : public Assembler {
public:
  DepthwiseEmitter(CodeMemory& memory, Isa isa, DepthwiseShape s) : Assembler(memory, isa), s_(s) {}

  void* emit() {
    Xbyak::Label next_block, done;
    enter(locals_bytes);
    load_arguments();
    cmp(qword[rsp + blocks], 0);
    jle(done, T_NEAR);
    L(next_block);
    sum_block();
    store_block();
    add(offset(), block_bytes());
    mov(rax, weights_stride());
    imul(rax, rax, s_.vectors);
    add(weights(), rax);
    add(c(), block_bytes());
    add(init(), block_bytes());
    dec(qword[rsp + blocks]);
    jnz(next_block, T_NEAR);
    L(done);
    leave();
    return finish();
  }

private:
  enum { blocks = 0, rows = 8, mask = 16, locals_bytes = 56 };

  Reg64 offset() const { return rcx; } // of the block's channels, from the row pointers
  Reg64 weights() const { return rdx; }
  Reg64 weights_stride() const { return rsi; }
  Reg64 c() const { return r8; }
  Reg64 c_stride() const { return r9; }
  const Reg64& init() const { return r10; }
  Reg64 positions() const { return r11; }
  Reg64 mode() const { return rdi; }
  Reg64 pointers() const { return r12; }
  Reg64 position_weights() const { return r13; }
  Reg64 left() const { return r14; }
  Reg64 row(int i) const {
    static constexpr int order[3] = {3, 5, 15};
    return Reg64(order[i % 3]);
  }
  int block_bytes() const { return s_.vectors * vector_bytes(); }
  Xmm sum(int i, int j) const { return vec(i * s_.vectors + j); }
  Xmm weight(int j) const { return vec(s_.rows * s_.vectors + j); }
  Xmm spare() const { return vec(s_.rows * s_.vectors + s_.vectors); }
  bool partial(int j) const { return s_.masked && j == s_.vectors - 1; }

  void load_arguments() {
    if (s_.masked) {
      mov(rax, ptr[rdi + offsetof(DepthwiseArgs, columns)]);
      if (s_.vectors > 1) sub(rax, (s_.vectors - 1) * lanes());
      make_mask(k1, spare(), rdx);
      if (!wide()) vmovups(ptr[rsp + mask], spare());
    }
    mov(rax, ptr[rdi + offsetof(DepthwiseArgs, blocks)]);
    mov(ptr[rsp + blocks], rax);
    mov(rax, ptr[rdi + offsetof(DepthwiseArgs, pixels)]);
    mov(ptr[rsp + rows], rax);
    mov(offset(), ptr[rdi + offsetof(DepthwiseArgs, first)]);
    mov(weights(), ptr[rdi + offsetof(DepthwiseArgs, weights)]);
    mov(c(), ptr[rdi + offsetof(DepthwiseArgs, c)]);
    mov(c_stride(), ptr[rdi + offsetof(DepthwiseArgs, c_pixel)]);
    mov(init(), ptr[rdi + offsetof(DepthwiseArgs, init)]);
    mov(positions(), ptr[rdi + offsetof(DepthwiseArgs, positions)]);
    imul(weights_stride(), positions(), vector_bytes());
    mov(mode(), ptr[rdi + offsetof(DepthwiseArgs, mode)]);
  }

  void load_partial(const Xmm& x, const Xbyak::Address& from) {
    if (wide()) {
      vmovups(x | k1 | T_z, from);
    } else {
      vmovups(x, ptr[rsp + mask]);
      vmaskmovps(x, x, from);
    }
  }

  /// A position's weights: one vector from each of the block's groups of lanes, which lie weights_stride apart.
  void load_weights() {
    for (int j = 0; j < s_.vectors; j++) {
      if (j == 3) {
        lea(rax, ptr[position_weights() + weights_stride() * 2]);
        vmovups(weight(j), ptr[rax + weights_stride()]);
      } else if (j == 0) {
        vmovups(weight(j), ptr[position_weights()]);
      } else {
        vmovups(weight(j), ptr[position_weights() + weights_stride() * j]);
      }
    }
  }

  void sum_block() {
    Xbyak::Label next, skip;
    for (int i = 0; i < s_.rows * s_.vectors; i++) vxorps(Xmm(i), Xmm(i), Xmm(i));
    mov(pointers(), ptr[rsp + rows]);
    mov(position_weights(), weights());
    mov(left(), positions());
    align(32);
    L(next);
    mov(row(0), ptr[pointers()]);
    test(row(0), row(0));
    jz(skip, T_NEAR);
    load_weights();
    for (int i = 0; i < s_.rows; i++) {
      if (i > 0) mov(row(i), ptr[pointers() + 8 * i]);
      for (int j = 0; j < s_.vectors; j++) {
        Xbyak::Address in = ptr[row(i) + offset() + j * vector_bytes()];
        if (partial(j)) {
          load_partial(spare(), in);
          vfmadd231ps(sum(i, j), weight(j), spare());
        } else {
          vfmadd231ps(sum(i, j), weight(j), in);
        }
      }
    }
    L(skip);
    add(pointers(), 8 * s_.rows);
    add(position_weights(), vector_bytes());
    dec(left());
    jnz(next, T_NEAR);
  }

  void store_block() {
    Xbyak::Label add_c, plain, done;
    mov(rax, c());
    cmp(mode(), static_cast<int>(GemmInit::C));
    je(add_c, T_NEAR);
    jl(plain, T_NEAR);
    store_rows(&init());
    jmp(done, T_NEAR);
    L(add_c);
    store_rows(&rax);
    jmp(done, T_NEAR);
    L(plain);
    store_rows(nullptr);
    L(done);
  }
  /// Stores at rax, after adding what lies at `from`.
  void store_rows(const Reg64* from) {
    for (int i = 0; i < s_.rows; i++) {
      for (int j = 0; j < s_.vectors; j++) {
        int at = j * vector_bytes();
        Xmm x = sum(i, j);
        if (from && partial(j)) {
          load_partial(spare(), ptr[*from + at]);
          vaddps(x, x, spare());
        } else if (from) {
          vaddps(x, x, ptr[*from + at]);
        }
        if (!partial(j))
          vmovups(ptr[rax + at], x);
        else if (wide())
          vmovups(ptr[rax + at] | k1, x);
        else {
          vmovups(weight(0), ptr[rsp + mask]);
          vmaskmovps(ptr[rax + at], weight(0), x);
        }
      }
      if (i + 1 < s_.rows) add(rax, c_stride());
    }
  }

  DepthwiseShape s_;
};

} // namespace

bool depthwise_fits(Isa isa, DepthwiseShape s) {
  int all = isa == Isa::Avx512 ? 32 : 16;
  return s.rows >= 1 && s.vectors >= 1 && s.vectors <= 4 && s.rows <= KernelTable::max_rows &&
         (s.rows + 1) * s.vectors + 1 <= all;
}

void* emit_depthwise(CodeMemory& memory, Isa isa, DepthwiseShape s) {
  require(depthwise_fits(isa, s), "a depthwise tile of {}x{} does not fit the registers", s.rows, s.vectors);
  return DepthwiseEmitter(memory, isa, s).emit();
}

} // namespace tenon
