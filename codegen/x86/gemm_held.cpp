// Emits the product of rows with a B of few k, or groups of k, all of which is loaded once. Blocks of rows follow each other without any
// set-up: per row there are its products and its store. Of a batch of such products one comes after the other.
#include "codegen/x86/gemm_held.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "codegen/x86/even_rows.h"
#include "codegen/x86/gemm_assembler.h"

namespace tenon {
namespace {

constexpr int most_held_rows = 8; // of a block
constexpr int enough_sums = 8;    // that wait for no other: two multiply-adds a cycle, of latency four

class HeldEmitter : public GemmAssembler {
public:
  HeldEmitter(CodeMemory& memory, const GemmFamilyRow& row, const GemmKey& key)
      : GemmAssembler(memory, row), k_(key.rows), vectors_(key.vectors), masked_(key.masked) {
    int sums = std::min(registers() - k_ * vectors_ - 2, enough_sums);
    rows_ = static_cast<int>(std::bit_floor(static_cast<unsigned>(std::clamp(sums / vectors_, 1, most_held_rows))));
  }

  void* emit() {
    Xbyak::Label next, add_c, add_row, done, end;
    enter(locals_bytes);
    load_arguments();
    if (is_signed()) broadcast_sign(signs());
    L(next);
    load_b();
    argument(left_, offsetof(GemmArgs, tiles));
    mov(rax, ptr[arguments() + offsetof(GemmArgs, mode)]);
    cmp(rax, static_cast<int>(GemmInit::C));
    je(add_c, T_NEAR);
    jg(add_row, T_NEAR);
    all_rows(nullptr);
    jmp(done, T_NEAR);
    L(add_c);
    all_rows(&c_);
    jmp(done, T_NEAR);
    L(add_row);
    all_rows(&init_);
    L(done);
    dec(batches_);
    jle(end, T_NEAR);
    add(first_a_, ptr[arguments() + offsetof(GemmArgs, next_a)]);
    add(b_, ptr[arguments() + offsetof(GemmArgs, next_b)]);
    add(first_c_, ptr[arguments() + offsetof(GemmArgs, next_c)]);
    mov(a_, first_a_);
    mov(c_, first_c_);
    jmp(next, T_NEAR);
    L(end);
    leave();
    return finish();
  }

private:
  enum { count = 0, locals_bytes = 8 }; // valid columns of the last vector

  void argument(const Reg64& to, size_t offset) { mov(to, ptr[arguments() + offset]); }
  Reg64 arguments() const { return rdi; }
  bool is_signed() const { return arithmetic_ == Arithmetic::I8I8Dot; }
  bool sums_groups() const { return f_.group > 1; }
  int group_bytes() const { return static_cast<int>(size_of(f_.a)) * f_.group; }
  Xmm sum(int i, int j) const { return vec(i * vectors_ + j); }
  Xmm temporary() const { return vec(rows_ * vectors_); }
  Xmm mask() const { return vec(registers() - k_ * vectors_ - 1); }
  Xmm signs() const { return mask(); } // of AVX-512, which has other masks
  Xmm held(int k, int j) const { return vec(registers() - k_ * vectors_ + k * vectors_ + j); }

  void load_arguments() {
    if (masked_) {
      argument(rax, offsetof(GemmArgs, columns));
      sub(rax, (vectors_ - 1) * f_.lanes);
      mov(ptr[rsp + count], rax);
      make_mask(k1, mask(), rdx, static_cast<int>(size_of(f_.sum)));
    }
    if (sums_groups()) {
      argument(rax, offsetof(GemmArgs, rest));
      mov(edx, f_.group);
      test(rax, rax);
      cmovz(rax, rdx);
      make_rest_mask(k2, rax, rdx);
    }
    argument(a_, offsetof(GemmArgs, rows));
    mov(a_, ptr[a_]);
    add(a_, ptr[arguments() + offsetof(GemmArgs, first)]);
    argument(stride_, offsetof(GemmArgs, a_stride));
    a_rows_.load();
    argument(c_, offsetof(GemmArgs, c));
    argument(c_stride_, offsetof(GemmArgs, c_stride));
    argument(init_, offsetof(GemmArgs, init));
    argument(b_, offsetof(GemmArgs, b));
    argument(batches_, offsetof(GemmArgs, positions));
    mov(first_a_, a_);
    mov(first_c_, c_);
  }

  void load_b() {
    mov(rax, b_);
    for (int k = 0; k < k_; k++) {
      for (int j = 0; j < vectors_; j++) {
        if (masked_ && j == vectors_ - 1) load_lanes(held(k, j), ptr[rax + j * vector_bytes()], mask());
        else vmovups(held(k, j), ptr[rax + j * vector_bytes()]);
      }
      if (k + 1 < k_) add(rax, ptr[arguments() + offsetof(GemmArgs, b_stride)]);
    }
  }

  /// Whole blocks of rows, then the rest by halves of a block.
  void all_rows(const Reg64* init) {
    for (int rows = rows_; rows >= 1; rows /= 2) {
      Xbyak::Label next, rest;
      L(next);
      cmp(left_, rows);
      jl(rest, T_NEAR);
      block(rows, init);
      sub(left_, rows);
      if (rows == rows_) jmp(next, T_NEAR);
      L(rest);
    }
  }

  void block(int rows, const Reg64* init) {
    for (int k = 0; k < k_; k++)
      for (int i = 0; i < rows; i++) multiply_row(i, k);
    store_sums({rows, vectors_, masked_, temporary(), mask(), count}, c_, c_stride_, init, [&](int i, int j) { return sum(i, j); });
    add(c_, c_stride_);
    lea(a_, ptr[a_rows_.at(rows)]);
  }

  void multiply_row(int i, int k) {
    Xbyak::RegExp at = a_rows_.at(i) + k * group_bytes();
    bool partial = sums_groups() && k + 1 == k_, embeds = f_.embeds && !partial;
    if (partial) broadcast_rest(temporary(), ptr[at], k2);
    else if (!embeds) broadcast(temporary(), ptr[at]);
    if (is_signed()) add_sign(temporary(), signs());
    for (int j = 0; j < vectors_; j++) {
      if (sums_groups() && k == 0) clear(sum(i, j));
      if (embeds) multiply(k, sum(i, j), held(k, j), ptr_b[at]);
      else multiply(k, sum(i, j), temporary(), held(k, j));
    }
  }
  template <class Operand> void multiply(int k, const Xmm& sum, const Xmm& a, const Operand& b) {
    if (k > 0 || sums_groups()) multiply_add(sum, a, b);
    else is_double() ? vmulpd(sum, a, b) : vmulps(sum, a, b);
  }

  const int k_, vectors_;
  const bool masked_;
  int rows_;
  const Reg64 a_ = r8, stride_ = r9, c_ = rcx, c_stride_ = rdx, init_ = rsi, left_ = rbx, b_ = r13, first_a_ = r14, first_c_ = r15,
              batches_ = rbp;
  EvenRows a_rows_{*this, most_held_rows, {a_, stride_, r10, r11, r12}};
};

} // namespace

int held_vectors(const GemmFamilyRow& row) {
  bool wide = row.isa == Isa::Avx512;
  switch (row.arithmetic) {
  case Arithmetic::F32Fma:
  case Arithmetic::F64Fma: return wide ? 20 : 8;
  case Arithmetic::BF16Dot:
  case Arithmetic::U8I8Dot:
  case Arithmetic::I8I8Dot: return wide ? 20 : 0; // masks read A's last group
  default: return 0;
  }
}

void* emit_held_gemm(CodeMemory& memory, const GemmFamilyRow& row, const GemmKey& key) {
  require(key.rows >= 1 && key.rows * key.vectors <= held_vectors(row) && !key.a_by_k, "no kernel holds such a B");
  return HeldEmitter(memory, row, key).emit();
}

} // namespace tenon
