// Emits the movers that pack matrix operands. The transpose works on squares of one vector by one vector in registers:
// log2(lanes) rounds of interleaving. Partial squares at the edges use masks, so nothing outside the block is touched.
#include "codegen/x86/pack.h"

#include <cstddef>

#include "codegen/x86/assembler.h"
#include "runtime/micro_kernels.h"

namespace tenon {
namespace {

/// What both movers share: masks of the first n lanes, n in a register clamped to [0, lanes].
class MoveEmitter : public Assembler {
public:
  MoveEmitter(CodeMemory& memory, Isa isa) : Assembler(memory, isa) {}

protected:
  Reg64 from() const { return rsi; }
  Reg64 to() const { return rdx; }
  Reg64 from_stride() const { return r8; }
  Reg64 to_stride() const { return r9; }
  Reg64 rows() const { return r10; }
  Reg64 columns() const { return r11; }

  void load_arguments() {
    mov(from(), ptr[rdi + offsetof(MoveArgs, from)]);
    mov(to(), ptr[rdi + offsetof(MoveArgs, to)]);
    mov(from_stride(), ptr[rdi + offsetof(MoveArgs, from_stride)]);
    mov(to_stride(), ptr[rdi + offsetof(MoveArgs, to_stride)]);
    mov(rows(), ptr[rdi + offsetof(MoveArgs, rows)]);
    mov(columns(), ptr[rdi + offsetof(MoveArgs, columns)]);
  }
  /// rax = min(max(n - skip, 0), lanes)
  void lanes_left(const Reg64& n, int skip) {
    Xbyak::Reg64 t = rbx;
    mov(rax, n);
    if (skip) sub(rax, skip);
    xor_(ebx, ebx);
    test(rax, rax);
    cmovs(rax, t);
    mov(ebx, lanes());
    cmp(rax, t);
    cmovg(rax, t);
  }
  /// Masks number i: k1 + i, or vector register 15 - i.
  void set_mask(int i) { // from rax lanes
    make_mask(Xbyak::Opmask(1 + i), vec(15 - i), rbx);
  }
  void load(const Xmm& x, const Xbyak::Address& a, int mask) {
    if (wide()) vmovups(x | Xbyak::Opmask(1 + mask) | T_z, a);
    else vmaskmovps(x, vec(15 - mask), a);
  }
};

class CopyEmitter : public MoveEmitter {
public:
  CopyEmitter(CodeMemory& memory, Isa isa, int vectors) : MoveEmitter(memory, isa), vectors_(vectors) {}

  void* emit() {
    Xbyak::Label masked, exit;
    enter(8);
    load_arguments();
    cmp(columns(), vectors_ * lanes());
    jl(masked, T_NEAR);
    row_loop(false);
    jmp(exit, T_NEAR);
    L(masked);
    for (int done = 0; done < vectors_; done += masks) {
      int n = std::min<int>(masks, vectors_ - done);
      for (int i = 0; i < n; i++) {
        lanes_left(columns(), (done + i) * lanes());
        set_mask(i);
      }
      push(from());
      push(to());
      push(rows());
      row_loop(true, done, n);
      pop(rows());
      pop(to());
      pop(from());
    }
    L(exit);
    leave();
    return finish();
  }

private:
  static constexpr int masks = 4;

  void row_loop(bool masked) { row_loop(masked, 0, vectors_); }
  void row_loop(bool masked, int first, int count) {
    Xbyak::Label next, done;
    test(rows(), rows());
    jle(done, T_NEAR);
    align(32);
    L(next);
    for (int j = 0; j < count; j++) {
      Xmm x = vec(j % 8);
      int offset = (first + j) * vector_bytes();
      if (masked) load(x, ptr[from() + offset], j);
      else vmovups(x, ptr[from() + offset]);
      vmovups(ptr[to() + offset], x);
    }
    add(from(), from_stride());
    add(to(), to_stride());
    dec(rows());
    jnz(next, T_NEAR);
    L(done);
  }

  int vectors_;
};

class TransposeEmitter : public MoveEmitter {
public:
  TransposeEmitter(CodeMemory& memory, Isa isa) : MoveEmitter(memory, isa) {}

  void* emit() {
    Xbyak::Label next_rows, next_columns, columns_done, all_done;
    enter(locals_bytes);
    load_arguments();
    mov(rax, ptr[rdi + offsetof(MoveArgs, streamed)]);
    mov(ptr[rsp + streamed], rax);
    L(next_rows); // a band of `lanes` rows
    test(rows(), rows());
    jle(all_done, T_NEAR);
    lanes_left(rows(), 0);
    mov(ptr[rsp + band], rax);
    set_mask(store_mask);
    mov(ptr[rsp + from_start], from());
    mov(ptr[rsp + to_start], to());
    mov(ptr[rsp + columns_start], columns());
    L(next_columns);
    test(columns(), columns());
    jle(columns_done, T_NEAR);
    lanes_left(columns(), 0);
    mov(ptr[rsp + square], rax);
    set_mask(load_mask);
    move_square();
    add(from(), vector_bytes());
    sub(columns(), lanes());
    jmp(next_columns, T_NEAR);
    L(columns_done);
    mov(from(), ptr[rsp + from_start]);
    mov(to(), ptr[rsp + to_start]);
    mov(columns(), ptr[rsp + columns_start]);
    mov(rax, from_stride());
    shl(rax, wide() ? 4 : 3);
    add(from(), rax);
    add(to(), vector_bytes());
    sub(rows(), lanes());
    jmp(next_rows, T_NEAR);
    L(all_done);
    if (wide()) sfence();
    leave();
    return finish();
  }

private:
  enum { band = 0, square = 8, from_start = 16, to_start = 24, columns_start = 32, streamed = 40, locals_bytes = 56 };
  static constexpr int load_mask = 0, store_mask = 1;

  /// Loads up to `lanes` rows (missing ones stay what they are: their columns are not stored), transposes, stores.
  void move_square() {
    Xbyak::Label partial, loaded, stored;
    if (!wide()) {
      cmp(qword[rsp + band], lanes());
      jne(partial, T_NEAR);
      cmp(qword[rsp + square], lanes());
      jne(partial, T_NEAR);
      move_whole_square8();
      jmp(stored, T_NEAR);
      L(partial);
    }
    mov(rax, from());
    mov(rcx, ptr[rsp + band]);
    for (int i = 0; i < lanes(); i++) {
      load(vec(i), ptr[rax], load_mask);
      if (i + 1 == lanes()) break;
      dec(rcx);
      jz(loaded, T_NEAR);
      add(rax, from_stride());
    }
    L(loaded);
    if (wide()) transpose16();
    else transpose8();
    mov(rcx, ptr[rsp + square]);
    if (wide()) { // a whole line each, which is not fetched before
      Xbyak::Label plain;
      cmp(qword[rsp + streamed], 0);
      je(plain, T_NEAR);
      cmp(qword[rsp + band], lanes());
      jne(plain, T_NEAR);
      store_square(stored, [&](int i) { vmovntps(ptr[to()], vec(i)); });
      jmp(stored, T_NEAR);
      L(plain);
    }
    store_square(stored, [&](int i) { store_band(vec(i)); });
    L(stored);
  }
  void store_band(const Xmm& x) {
    if (wide()) return vmovups(ptr[to()] | Xbyak::Opmask(1 + store_mask), x);
    mov(rax, to());
    store_first(rax, x, byte[rsp + band], 4);
  }
  /// As many rows as the square has columns.
  template <class F> void store_square(Xbyak::Label& stored, const F& store_row) {
    for (int i = 0; i < lanes(); i++) {
      store_row(i);
      add(to(), to_stride());
      if (i + 1 == lanes()) break;
      dec(rcx);
      jz(stored, T_NEAR);
    }
  }

  // Each round combines registers in pairs into a second bank. AVX-512: 0-15 and 16-31; AVX2: two spares (12, 13).
  void transpose16() {
    auto z = [](int i) { return Xbyak::Zmm(i); };
    // 32-bit pairs, 64-bit pairs: 4x4 squares within each 128-bit lane
    for (int i = 0; i < 16; i += 2) {
      vunpcklps(z(16 + i), z(i), z(i + 1));
      vunpckhps(z(17 + i), z(i), z(i + 1));
    }
    for (int i = 0; i < 16; i += 4) { // column c of the square of rows i..i+3, in all four lanes, at register i + c
      vunpcklpd(z(i), z(16 + i), z(18 + i));
      vunpckhpd(z(i + 1), z(16 + i), z(18 + i));
      vunpcklpd(z(i + 2), z(17 + i), z(19 + i));
      vunpckhpd(z(i + 3), z(17 + i), z(19 + i));
    }
    // 4x4 transpose of 128-bit lanes over registers c, c+4, c+8, c+12
    for (int c = 0; c < 4; c++) {
      vshuff32x4(z(16 + c), z(c), z(c + 4), 0x88); // lanes 0 2 | 0 2
      vshuff32x4(z(20 + c), z(c), z(c + 4), 0xdd); // lanes 1 3 | 1 3
      vshuff32x4(z(24 + c), z(c + 8), z(c + 12), 0x88);
      vshuff32x4(z(28 + c), z(c + 8), z(c + 12), 0xdd);
    }
    for (int c = 0; c < 4; c++) {
      vshuff32x4(z(c), z(16 + c), z(24 + c), 0x88);
      vshuff32x4(z(8 + c), z(16 + c), z(24 + c), 0xdd);
      vshuff32x4(z(4 + c), z(20 + c), z(28 + c), 0x88);
      vshuff32x4(z(12 + c), z(20 + c), z(28 + c), 0xdd);
    }
  }
  /// Halves of rows i and i + 4 meet in a register as they are loaded, which leaves two 4x4 squares in each half.
  void move_whole_square8() {
    lea(rax, ptr[from() + from_stride() * 4]);
    lea(rbx, ptr[from_stride() + from_stride() * 2]);
    auto row_at = [&](const Reg64& start, int i) {
      return i == 3 ? start + rbx : i == 0 ? Xbyak::RegExp(start) : start + from_stride() * i;
    };
    for (int half = 0; half < 2; half++)
      for (int i = 0; i < 4; i++) {
        int x = 4 * half + i;
        vmovups(Xmm(x), ptr[row_at(from(), i) + 16 * half]);
        vinsertf128(Xbyak::Ymm(x), Xbyak::Ymm(x), ptr[row_at(rax, i) + 16 * half], 1);
      }
    lea(rbx, ptr[to_stride() + to_stride() * 2]);
    for (int first : {0, 4}) {
      transpose_quarters(first);
      vmovups(ptr[to()], Xbyak::Ymm(first));
      vmovups(ptr[to() + to_stride()], Xbyak::Ymm(first + 1));
      vmovups(ptr[to() + to_stride() * 2], Xbyak::Ymm(first + 2));
      vmovups(ptr[to() + rbx], Xbyak::Ymm(first + 3));
      lea(to(), ptr[to() + to_stride() * 4]);
    }
  }
  /// The 4x4 squares in the halves of four registers. Clobbers 8 to 11.
  void transpose_quarters(int first) {
    auto y = [](int i) { return Xbyak::Ymm(i); };
    for (int i : {0, 2}) {
      vunpcklps(y(8 + i), y(first + i), y(first + i + 1));
      vunpckhps(y(9 + i), y(first + i), y(first + i + 1));
    }
    vunpcklpd(y(first), y(8), y(10));
    vunpckhpd(y(first + 1), y(8), y(10));
    vunpcklpd(y(first + 2), y(9), y(11));
    vunpckhpd(y(first + 3), y(9), y(11));
  }
  void transpose8() {
    auto y = [](int i) { return Xbyak::Ymm(i); };
    // registers 8..13 are free: rounds over halves, 14 and 15 hold the masks
    for (int i = 0; i < 8; i += 2) {
      vunpcklps(y(8), y(i), y(i + 1));
      vunpckhps(y(i + 1), y(i), y(i + 1));
      vmovaps(y(i), y(8));
    }
    for (int i = 0; i < 8; i += 4) {
      vunpcklpd(y(8), y(i), y(i + 2));
      vunpckhpd(y(9), y(i), y(i + 2));
      vunpcklpd(y(10), y(i + 1), y(i + 3));
      vunpckhpd(y(i + 3), y(i + 1), y(i + 3));
      vmovaps(y(i), y(8));
      vmovaps(y(i + 1), y(9));
      vmovaps(y(i + 2), y(10));
    }
    for (int c = 0; c < 4; c++) {
      vperm2f128(y(8), y(c), y(c + 4), 0x20);
      vperm2f128(y(c + 4), y(c), y(c + 4), 0x31);
      vmovaps(y(c), y(8));
    }
  }
};

class ConvertEmitter : public MoveEmitter {
public:
  ConvertEmitter(CodeMemory& memory, Isa isa, Conversion c) : MoveEmitter(memory, isa), c_(c) {}

  void* emit() {
    Xbyak::Label next_row, next, tail, row_done, done;
    enter(8);
    load_arguments();
    constants();
    L(next_row);
    test(rows(), rows());
    jle(done, T_NEAR);
    mov(rax, from());
    mov(rcx, to());
    mov(rbx, columns());
    cmp(rbx, step());
    jl(tail, T_NEAR);
    L(next);
    vector();
    add(rax, step() * from_bytes());
    add(rcx, step() * to_bytes());
    sub(rbx, step());
    cmp(rbx, step());
    jge(next, T_NEAR);
    L(tail);
    test(rbx, rbx);
    jz(row_done, T_NEAR);
    scalar();
    add(rax, from_bytes());
    add(rcx, to_bytes());
    dec(rbx);
    jmp(tail, T_NEAR);
    L(row_done);
    add(from(), from_stride());
    add(to(), to_stride());
    dec(rows());
    jmp(next_row, T_NEAR);
    L(done);
    leave();
    return finish();
  }

private:
  bool narrow_input() const { return c_ != Conversion::F16ToF32 && c_ != Conversion::BF16ToF32; }
  int from_bytes() const { return narrow_input() ? 1 : 2; }
  int to_bytes() const { return c_ == Conversion::I8ToU8 ? 1 : c_ == Conversion::I8ToI16 || c_ == Conversion::U8ToI16 ? 2 : 4; }
  int step() const { return vector_bytes() / to_bytes(); }
  Xmm x() const { return vec(0); }

  void constants() {
    if (c_ != Conversion::I8ToU8) return;
    broadcast_sign(vec(1));
  }
  void vector() {
    switch (c_) {
    case Conversion::F16ToF32: vcvtph2ps(x(), ptr[rax]); break;
    case Conversion::BF16ToF32:
      vpmovzxwd(x(), ptr[rax]);
      vpslld(x(), x(), 16);
      break;
    case Conversion::I8ToI16: vpmovsxbw(x(), ptr[rax]); break;
    case Conversion::U8ToI16: vpmovzxbw(x(), ptr[rax]); break;
    case Conversion::I8ToU8:
      if (wide()) vpxord(x(), vec(1), ptr[rax]);
      else vpxor(x(), vec(1), ptr[rax]);
      break;
    case Conversion::I8ToF32:
      vpmovsxbd(x(), ptr[rax]);
      vcvtdq2ps(x(), x());
      break;
    }
    vmovups(ptr[rcx], x());
  }
  void scalar() {
    switch (c_) {
    case Conversion::F16ToF32:
      movzx(r12d, word[rax]);
      vmovd(Xmm(0), r12d);
      vcvtph2ps(Xmm(0), Xmm(0));
      vmovss(ptr[rcx], Xmm(0));
      break;
    case Conversion::BF16ToF32:
      movzx(r12d, word[rax]);
      shl(r12d, 16);
      mov(ptr[rcx], r12d);
      break;
    case Conversion::I8ToI16:
      movsx(r12d, byte[rax]);
      mov(ptr[rcx], r12w);
      break;
    case Conversion::U8ToI16:
      movzx(r12d, byte[rax]);
      mov(ptr[rcx], r12w);
      break;
    case Conversion::I8ToU8:
      movzx(r12d, byte[rax]);
      xor_(r12d, 0x80);
      mov(ptr[rcx], r12b);
      break;
    case Conversion::I8ToF32:
      movsx(r12d, byte[rax]);
      vcvtsi2ss(Xmm(0), Xmm(0), r12d);
      vmovss(ptr[rcx], Xmm(0));
      break;
    }
  }

  Conversion c_;
};

} // namespace

void* emit_convert(CodeMemory& memory, Isa isa, Conversion conversion) { return ConvertEmitter(memory, isa, conversion).emit(); }

void* emit_copy(CodeMemory& memory, Isa isa, int vectors) { return CopyEmitter(memory, isa, vectors).emit(); }

void* emit_transpose(CodeMemory& memory, Isa isa) { return TransposeEmitter(memory, isa).emit(); }

} // namespace tenon
