// Emits the matrix kernels that weave the rows of a group of B together in registers, 64 bytes of each at a time: a
// unit, which makes as many vectors of sums as a group has rows. Interleaving within 128-bit lanes leaves the columns
// of a unit in another order, in which sums stay until they are stored; kernels that also store what they weave as packed B
// lies bring the columns of each row into the order that interleaving turns into theirs. For AVX-512.
#include "codegen/x86/gemm_woven.h"

#include <algorithm>
#include <cstddef>

#include "base/check.h"
#include "codegen/x86/gemm_assembler.h"

namespace tenon {
namespace {

constexpr int most_woven_rows = 10; // of pointers in registers

/// Registers by use; rows are held where they all fit.
struct Registers {
  int units, sums, added, temporaries, order, all = 32;

  Registers(const GemmFamilyRow& row, int rows, int vectors, bool packs) {
    int group = row.family.group;
    bool is_signed = row.arithmetic == Arithmetic::I8I8Dot;
    units = (vectors + group - 1) / group;
    sums = rows * units * group;
    added = is_signed ? units * group + 1 : 0; // what each column adds too much, and the constant
    temporaries = group == 2 ? 3 : 5;
    order = packs;
  }
  int needed(int sets = 1) const { return sets * sums + added + temporaries + order; }
};

class WovenEmitter : public GemmAssembler {
public:
  WovenEmitter(CodeMemory& memory, const GemmFamilyRow& row, const GemmKey& key)
      : GemmAssembler(memory, row), rows_(key.rows), vectors_(key.vectors), masked_(key.masked), packs_(key.kind == GemmKind::Packing),
        use_(row, key.rows, key.vectors, packs_) {
    while (sets_ < most_sets && sets_ * use_.sums < min_chains && use_.needed(2 * sets_) <= use_.all) sets_ *= 2;
    first_added_ = sets_ * use_.sums;
    first_temporary_ = first_added_ + use_.added;
    first_order_ = first_temporary_ + use_.temporaries;
    first_held_ = first_order_ + use_.order;
    holds_rows_ = use_.units > 1 && first_held_ + rows_ <= use_.all;
  }

  void* emit() {
    Xbyak::Label next_tile, main, rest, rest_loop, no_rest, done;
    enter(locals_bytes);
    L(next_tile);
    load_arguments();
    for (int i = 0; i < first_added_ + units() * group() * is_signed(); i++) clear(vec(i));
    if (is_signed()) broadcast_sign(signs());
    if (packs_) load_order();
    xor_(index(), index());
    cmp(index(), ptr[rsp + end_unrolled]);
    jge(rest, T_NEAR);
    align(32);
    L(main);
    for (int u = 0; u < unroll; u++) step(u, group());
    add(index(), unroll * a_step());
    cmp(index(), ptr[rsp + end_unrolled]);
    jl(main, T_NEAR);
    L(rest);
    cmp(index(), ptr[rsp + end]);
    jge(no_rest, T_NEAR);
    L(rest_loop);
    step(0, group());
    add(index(), a_step());
    cmp(index(), ptr[rsp + end]);
    jl(rest_loop, T_NEAR);
    L(no_rest);
    for (int k = 1; k < group(); k++) {
      Xbyak::Label other;
      cmp(qword[rsp + rest_k], k);
      jne(other, T_NEAR);
      step(0, k);
      jmp(done, T_NEAR);
      L(other);
    }
    L(done);
    if (packs_ && is_signed()) store_compensation();
    finish_sums();
    store_by_mode(args, rax, [&](const Reg64& c, const Reg64& stride, const Reg64* init) {
      store_sums({rows_, vectors_, masked_, temporary(0), temporary(0), 0}, c, stride, init, [&](int i, int j) { return sum(0, i, j); });
    });
    continue_series(args, next_tile);
    leave();
    return finish();
  }

private:
  enum { args = 0, end = 8, end_unrolled = 16, rest_k = 24, step_ahead = 32, locals_bytes = 40 };
  static constexpr int unroll = 4;

  bool is_signed() const { return arithmetic_ == Arithmetic::I8I8Dot; }
  int units() const { return use_.units; }
  int group() const { return f_.group; }
  int element() const { return static_cast<int>(size_of(f_.b)); }
  /// Whether some of the last unit's columns are not there.
  bool partial_unit() const { return masked_ || vectors_ % group() != 0; }

  Reg64 index() const { return rax; } // bytes of A
  Reg64 b() const { return rcx; }
  Reg64 row(int i) const {
    static constexpr int order[most_woven_rows] = {2, 6, 8, 9, 10, 11, 12, 13, 14, 15};
    return Reg64(order[i]);
  }
  Reg64 stride() const { return rbx; }
  Reg64 three_strides() const { return rbp; }
  Reg64 ahead() const { return rdi; }
  Reg64 packed() const { return row(most_woven_rows - 1); } // where B goes

  /// Vector j of row i; until finish_sums, those of a unit hold its columns in the order of weaving.
  Xmm sum(int set, int i, int j) const { return vec((set * rows_ + i) * units() * group() + j); }
  Xmm added(int j) const { return vec(first_added_ + j); }
  Xmm signs() const { return vec(first_temporary_ - 1); }
  Xmm temporary(int i) const { return vec(first_temporary_ + i); }
  Xbyak::Zmm order() const { return Xbyak::Zmm(first_order_); }
  Xmm held(int i) const { return vec(first_held_ + i); }

  void load_arguments() {
    mov(ptr[rsp + args], rdi);
    mov(rax, ptr[rdi + offsetof(GemmArgs, rest)]);
    mov(ptr[rsp + rest_k], rax);
    make_rest_mask(k2, rax, rdx);
    mov(rax, ptr[rdi + offsetof(GemmArgs, depth)]);
    mov(rdx, rax);
    and_(rdx, -unroll);
    imul(rax, rax, a_step());
    imul(rdx, rdx, a_step());
    mov(ptr[rsp + end], rax);
    mov(ptr[rsp + end_unrolled], rdx);
    mov(rax, ptr[rdi + offsetof(GemmArgs, columns)]);
    if (partial_unit()) {
      mov(rcx, rax);
      sub(rcx, (units() - 1) * group() * f_.lanes);
      mov(rdx, -1);
      bzhi(rdx, rdx, rcx);
      kmovq(k3, rdx);
    }
    if (masked_) {
      sub(rax, (vectors_ - 1) * f_.lanes);
      make_mask(k1, temporary(0), rdx);
    }
    mov(b(), ptr[rdi + offsetof(GemmArgs, b)]);
    mov(stride(), ptr[rdi + offsetof(GemmArgs, b_stride)]);
    if (group() > 2) lea(three_strides(), ptr[stride() + stride() * 2]);
    mov(rax, ptr[rdi + offsetof(GemmArgs, rows)]);
    for (int i = 0; i < rows_; i++) mov(row(i), ptr[rax + 8 * i]);
    mov(rax, ptr[rdi + offsetof(GemmArgs, first)]);
    for (int i = 0; i < rows_; i++) add(row(i), rax);
    if (packs_) mov(packed(), ptr[rdi + offsetof(GemmArgs, packed)]);
    mov(ahead(), ptr[rdi + offsetof(GemmArgs, b_ahead)]); // which is where the arguments' address was
    imul(ahead(), ahead(), group());
    mov(ptr[rsp + step_ahead], ahead());
    imul(ahead(), ahead(), prefetch_steps);
    add(ahead(), b());
    cmp(qword[rsp + step_ahead], 0);
    cmove(ahead(), rsp);
  }

  Xbyak::RegExp b_row(const Xbyak::RegExp& from, int g) const {
    return g == 3 ? from + three_strides() : g > 0 ? from + stride() * g : from;
  }

  void load_b(const Xmm& x, int unit, int g) {
    Xbyak::Address at = ptr[b_row(b(), g) + unit * line_bytes];
    bool whole = !partial_unit() || unit + 1 < units();
    if (whole && packs_) return reorder(zmm(x), at);
    if (whole) return vmovups(x, at);
    element() == 1 ? vmovdqu8(x | k3 | T_z, at) : vmovdqu16(x | k3 | T_z, at);
    if (packs_) reorder(zmm(x), zmm(x));
  }

  /// Part q of lane l of each row, from which interleaving makes lane l of vector q, is to be columns 16 q + 4 l to 16 q + 4 l + 3.
  void load_order() {
    Xmm low(order().getIdx());
    mov(rax, group() == 2 ? 0x0703060205010400u : 0x0d0905010c080400u);
    vmovq(low, rax);
    if (group() == 2) return vpmovzxbq(order(), low);
    mov(rax, 0x0f0b07030e0a0602u);
    vpinsrq(low, low, rax, 1);
    vpmovzxbd(order(), low);
  }
  void reorder(const Xbyak::Zmm& to, const Xbyak::Operand& row) { group() == 2 ? vpermq(to, order(), row) : vpermd(to, order(), row); }
  /// What has been woven of a unit, to where packed B lies.
  void store_woven(const Xmm* columns, int unit) {
    for (int q = 0; q < group() && unit * group() + q < vectors_; q++)
      vmovups(ptr[packed() + (unit * group() + q) * line_bytes], columns[q]);
  }
  /// What each column adds too much, to be taken away by the tiles that read the panel: the row behind its last k.
  void store_compensation() {
    for (int j = 0; j < vectors_; j++) {
      clear(temporary(0));
      vpsubd(temporary(0), temporary(0), added(j));
      vmovups(ptr[packed() + j * line_bytes], temporary(0));
    }
  }

  /// The group's rows woven together, the first `count` of which are there; what multiplies them, then the free
  /// register.
  struct Woven {
    Xmm columns[4], free;
  };
  Woven weave(int unit, int count) {
    Xmm t[5];
    for (int i = 0; i < use_.temporaries; i++) t[i] = temporary(i);
    for (int g = 0; g < group(); g++) g < count ? load_b(t[g], unit, g) : clear(t[g]);
    if (group() == 2) {
      vpunpcklwd(t[2], t[0], t[1]);
      vpunpckhwd(t[0], t[0], t[1]);
      return {{t[2], t[0], t[0], t[0]}, t[1]};
    }
    vpunpcklbw(t[4], t[0], t[1]);
    vpunpckhbw(t[0], t[0], t[1]);
    vpunpcklbw(t[1], t[2], t[3]);
    vpunpckhbw(t[2], t[2], t[3]);
    vpunpcklwd(t[3], t[4], t[1]);
    vpunpckhwd(t[4], t[4], t[1]);
    vpunpcklwd(t[1], t[0], t[2]);
    vpunpckhwd(t[0], t[0], t[2]);
    return {{t[3], t[4], t[1], t[0]}, t[2]};
  }
  void broadcast_a(const Xmm& x, int i, int u, int count) {
    Xbyak::Address at = ptr[row(i) + index() + u * a_step()];
    count < group() ? broadcast_rest(x, at, k2) : vpbroadcastd(x, at);
    if (is_signed()) add_sign(x, signs());
  }

  /// A group of k, of which `count` are there.
  void step(int u, int count) {
    for (int g = 0; g < group() && count == group(); g++)
      for (int unit = 0; unit < units(); unit++) prefetcht1(ptr[b_row(ahead(), g) + unit * line_bytes]);
    for (int i = 0; holds_rows_ && i < rows_; i++) broadcast_a(held(i), i, u, count);
    for (int unit = 0; unit < units(); unit++) {
      Woven w = weave(unit, count);
      if (packs_) store_woven(w.columns, unit);
      for (int q = 0; is_signed() && q < group(); q++) multiply_add(added(unit * group() + q), signs(), w.columns[q]);
      for (int i = 0; i < rows_; i++) {
        if (!holds_rows_) broadcast_a(w.free, i, u, count);
        for (int q = 0; q < group(); q++) multiply_add(sum(u % sets_, i, unit * group() + q), holds_rows_ ? held(i) : w.free, w.columns[q]);
      }
    }
    if (packs_) add(packed(), vectors_ * line_bytes);
    if (count < group()) return;
    lea(b(), ptr[b() + stride() * group()]);
    add(ahead(), ptr[rsp + step_ahead]);
  }

  /// The sums of all sets, columns in order.
  void finish_sums() {
    int sums = use_.sums;
    for (int half = sets_ / 2; half >= 1; half /= 2)
      for (int i = 0; i < half * sums; i++) add_sums(vec(i), vec(i), vec(half * sums + i));
    for (int i = 0; i < rows_; i++)
      for (int unit = 0; unit < units(); unit++) {
        for (int q = 0; is_signed() && q < group(); q++)
          vpsubd(sum(0, i, unit * group() + q), sum(0, i, unit * group() + q), added(unit * group() + q));
        if (!packs_) group() == 2 ? order_two(i, unit) : order_four(i, unit);
      }
  }
  Xbyak::Zmm zmm(const Xmm& x) const { return Xbyak::Zmm(x.getIdx()); }
  /// Lanes of 128 bits, of {0, 2, 4, 6} and {1, 3, 5, 7}.
  void order_two(int i, int unit) {
    Xbyak::Zmm low = zmm(sum(0, i, unit * 2)), high = zmm(sum(0, i, unit * 2 + 1)), t = zmm(temporary(0));
    vshuff64x2(t, low, high, 0x44);
    vshuff64x2(high, low, high, 0xee);
    vshuff64x2(low, t, t, 0xd8);
    vshuff64x2(high, high, high, 0xd8);
  }
  /// Lane l of vector q holds the columns of lane q of vector l.
  void order_four(int i, int unit) {
    Xbyak::Zmm v[4], t[4];
    for (int q = 0; q < 4; q++) v[q] = zmm(sum(0, i, unit * 4 + q)), t[q] = zmm(temporary(q));
    vshuff32x4(t[0], v[0], v[1], 0x88);
    vshuff32x4(t[1], v[0], v[1], 0xdd);
    vshuff32x4(t[2], v[2], v[3], 0x88);
    vshuff32x4(t[3], v[2], v[3], 0xdd);
    vshuff32x4(v[0], t[0], t[2], 0x88);
    vshuff32x4(v[2], t[0], t[2], 0xdd);
    vshuff32x4(v[1], t[1], t[3], 0x88);
    vshuff32x4(v[3], t[1], t[3], 0xdd);
  }

  int rows_, vectors_;
  bool masked_, packs_;
  Registers use_;
  int sets_ = 1, first_added_, first_temporary_, first_order_, first_held_;
  bool holds_rows_;
};

} // namespace

bool woven_gemm_fits(const GemmFamilyRow& row, int rows, int vectors, GemmKind kind) {
  bool packs = kind == GemmKind::Packing;
  bool weaves = row.arithmetic == Arithmetic::BF16Dot || row.arithmetic == Arithmetic::U8I8Dot || row.arithmetic == Arithmetic::I8I8Dot;
  return weaves && row.isa == Isa::Avx512 && rows >= 1 && rows <= most_woven_rows - packs && vectors >= 1 &&
         vectors <= GemmFamily::max_vectors && Registers(row, rows, vectors, packs).needed() <= 32;
}

void* emit_woven_gemm(CodeMemory& memory, const GemmFamilyRow& row, const GemmKey& key) {
  require(woven_gemm_fits(row, key.rows, key.vectors, key.kind), "no kernel of {}x{} reads B in place", key.rows, key.vectors);
  return WovenEmitter(memory, row, key).emit();
}

} // namespace tenon
