// What the emitters of matrix kernels on vector registers share: the arithmetics, and how sums meet their initial value.
#pragma once
#include <cstddef>

#include "codegen/x86/assembler.h"
#include "codegen/x86/gemm.h"
#include "codegen/x86/micro_kernels.h"

namespace tenon {

/// Registers beside the sums and the held side: one that streams, one more where a product needs a temporary or a constant.
inline int spares_needed(Arithmetic a) { return a == Arithmetic::I16Dot || a == Arithmetic::I16I8Dot || a == Arithmetic::I8I8Dot ? 2 : 1; }

inline int spare_registers(Isa isa, int rows, int vectors) {
  return (isa == Isa::Avx512 ? 32 : 16) - rows * vectors - std::min(rows, vectors);
}

class GemmAssembler : public Assembler {
public:
  static constexpr int line_bytes = 64;
  /// Independent sums that keep two multiply-add ports of latency four busy, and the most sets of accumulators that make them up.
  static constexpr int min_chains = 8, most_sets = 4;
  /// How far ahead B in place is fetched, into L2: rows that lie a multiple of 4 KB apart share a set of L1, of eight lines or more.
  static constexpr int prefetch_steps = 24;

protected:
  GemmAssembler(CodeMemory& memory, const GemmFamilyRow& row) : Assembler(memory, row.isa), f_(row.family), arithmetic_(row.arithmetic) {}

  bool is_double() const { return f_.sum == DType::F64; }
  int sum_bytes() const { return static_cast<int>(size_of(f_.sum)); }
  /// Bytes of A that a step of the sum takes, and of B that it takes for one vector of sums.
  int a_step() const { return static_cast<int>(size_of(f_.a)) * f_.group; }
  int b_step() const { return static_cast<int>(size_of(f_.b)) * f_.group * f_.lanes; }
  void clear(const Xmm& x) { vxorps(Xmm(x.getIdx()), Xmm(x.getIdx()), Xmm(x.getIdx())); }
  /// An element, or a group of 4 bytes, to all lanes. As integers: broadcasts of floats take a vector unit on some machines.
  void broadcast(const Xmm& to, const Xbyak::Address& from) { is_double() ? vpbroadcastq(to, from) : vpbroadcastd(to, from); }

  /// B's elements are narrower than A's.
  bool widens() const { return size_of(f_.b) < size_of(f_.a); }
  /// x = a vector of B from memory as products take it; `lanes` is x, or x under a mask of the elements that are read.
  void widen(const Xmm& x, const Xmm& lanes, const Xbyak::Address& from) {
    switch (arithmetic_) {
    case Arithmetic::BF16Fma:
      vpmovzxwd(lanes, from);
      vpslld(x, x, 16);
      break;
    case Arithmetic::F16Fma: vcvtph2ps(lanes, from); break;
    case Arithmetic::I8Fma:
      vpmovsxbd(lanes, from);
      vcvtdq2ps(x, x);
      break;
    case Arithmetic::I16I8Dot: vpmovsxbw(lanes, from); break;
    default: vmovups(lanes, from);
    }
  }

  /// sum += a * b; b may lie in memory. I16Dot and I16I8Dot take two instructions and a register, which the caller gives.
  template <class Operand> void multiply_add(const Xmm& sum, const Xmm& a, const Operand& b, const Xmm& temporary = Xmm(0)) {
    switch (arithmetic_) {
    case Arithmetic::F64Fma: vfmadd231pd(sum, a, b); break;
    case Arithmetic::BF16Dot: vdpbf16ps(sum, a, b); break;
    case Arithmetic::I8I8Dot:
    case Arithmetic::U8I8Dot: vpdpbusd(sum, a, b, wide() ? Xbyak::EvexEncoding : Xbyak::VexEncoding); break;
    case Arithmetic::I16Dot:
    case Arithmetic::I16I8Dot:
      vpmaddwd(temporary, a, b);
      vpaddd(sum, sum, temporary);
      break;
    default: vfmadd231ps(sum, a, b);
    }
  }
  template <class Operand> void add_sums(const Xmm& to, const Xmm& x, const Operand& y) {
    if (f_.sum == DType::I32) vpaddd(to, x, y);
    else if (is_double()) vaddpd(to, x, y);
    else vaddps(to, x, y);
  }

  /// Goes to `next_tile` with the arguments' address in rdi where the series has a further tile. Clobbers rax.
  void continue_series(int args, const Xbyak::Label& next_tile) {
    Xbyak::Label last;
    mov(rdi, ptr[rsp + args]);
    cmp(qword[rdi + offsetof(GemmArgs, tiles)], 1);
    jle(last);
    dec(qword[rdi + offsetof(GemmArgs, tiles)]);
    auto advance = [&](size_t what, size_t by) {
      mov(rax, ptr[rdi + by]);
      add(ptr[rdi + what], rax);
    };
    advance(offsetof(GemmArgs, first), offsetof(GemmArgs, next_a));
    advance(offsetof(GemmArgs, b), offsetof(GemmArgs, next_b));
    advance(offsetof(GemmArgs, c), offsetof(GemmArgs, next_c));
    advance(offsetof(GemmArgs, init), offsetof(GemmArgs, next_init));
    jmp(next_tile, T_NEAR);
    L(last);
  }

  /// The lanes of k1 (AVX-512) or `mask` (AVX2), zeros elsewhere.
  void load_lanes(const Xmm& x, const Xbyak::Address& from, const Xmm& mask) {
    if (wide()) is_double() ? vmovupd(x | k1 | T_z, from) : vmovups(x | k1 | T_z, from);
    else is_double() ? vmaskmovpd(x, mask, from) : vmaskmovps(x, mask, from);
  }
  /// The lanes of k1 (AVX-512), or as many as the byte at rsp + `count` says (AVX2). AVX2 clobbers x and `temp`.
  void store_lanes(const Xbyak::RegExp& to, const Xmm& x, int count, const Reg64& temp) {
    if (wide()) return is_double() ? vmovupd(ptr[to] | k1, x) : vmovups(ptr[to] | k1, x);
    lea(temp, ptr[to]);
    store_first(temp, x, byte[rsp + count], sum_bytes());
  }

  /// k = the elements of a partial group of A, of which there are rax, 0 <= rax < group. AVX-512. Clobbers `temp`.
  void make_rest_mask(const Xbyak::Opmask& k, const Reg64& count, const Reg64& temp) {
    mov(temp, 15);
    bzhi(temp, temp, count);
    kmovq(k, temp);
  }
  /// A group of A of which memory holds the elements of k, zeros elsewhere.
  void broadcast_rest(const Xmm& x, const Xbyak::Address& from, const Xbyak::Opmask& k) {
    Xmm low(x.getIdx());
    size_of(f_.a) == 1 ? vmovdqu8(low | k | T_z, from) : vmovdqu16(low | k | T_z, from);
    vpbroadcastd(x, low);
  }

  /// store_rows(c, stride, init) for each GemmInit; `init` points to the register that addresses what is added, null for none.
  /// The arguments' address lies in stack slot `args`. Clobbers rcx, rdx, rsi, rdi and `mode`.
  template <class F> void store_by_mode(int args, const Reg64& mode, const F& store_rows) {
    Reg64 c = rcx, stride = rdx, init = rsi;
    Xbyak::Label add_c, plain, done;
    mov(rdi, ptr[rsp + args]);
    mov(c, ptr[rdi + offsetof(GemmArgs, c)]);
    mov(stride, ptr[rdi + offsetof(GemmArgs, c_stride)]);
    mov(init, ptr[rdi + offsetof(GemmArgs, init)]);
    mov(mode, ptr[rdi + offsetof(GemmArgs, mode)]);
    cmp(mode, static_cast<int>(GemmInit::C));
    je(add_c, T_NEAR);
    jl(plain, T_NEAR);
    store_rows(c, stride, &init);
    jmp(done, T_NEAR);
    L(add_c);
    store_rows(c, stride, &c);
    jmp(done, T_NEAR);
    L(plain);
    store_rows(c, stride, nullptr);
    L(done);
  }

  /// Adds what `init` points to and stores, row by row; `temporary` is a free vector register. sum(i, j): vector j of row i. AVX2 clobbers
  /// rax and sums.
  struct Stored {
    int rows, vectors;
    bool masked; // the last vector is partial
    Xmm temporary;
    Xmm mask;  // of AVX2
    int count; // of AVX2: the stack slot that says how many elements of the last vector there are
  };
  template <class Sum> void store_sums(const Stored& s, const Reg64& c, const Reg64& stride, const Reg64* init, const Sum& sum) {
    for (int i = 0; i < s.rows; i++) {
      for (int j = 0; j < s.vectors; j++) {
        int offset = j * vector_bytes();
        bool partial = s.masked && j == s.vectors - 1;
        Xmm x = sum(i, j);
        if (init && partial) {
          load_lanes(s.temporary, ptr[*init + offset], s.mask);
          add_sums(x, x, s.temporary);
        } else if (init) {
          add_sums(x, x, ptr[*init + offset]);
        }
        if (partial) store_lanes(c + offset, x, s.count, rax);
        else vmovups(ptr[c + offset], x);
      }
      if (i + 1 < s.rows) add(c, stride);
    }
  }

  const GemmFamily& f_;
  const Arithmetic arithmetic_;
};

/// Sets of accumulators: more than one while the tile has too few independent sums and registers allow.
inline int sum_sets(const GemmFamilyRow& row, int rows, int vectors) {
  int sets = 1;
  while (sets < least_unroll && sets * rows * vectors < GemmAssembler::min_chains &&
         spare_registers(row.isa, rows, vectors) - (2 * sets - 1) * rows * vectors >= spares_needed(row.arithmetic))
    sets *= 2;
  return sets;
}

} // namespace tenon
