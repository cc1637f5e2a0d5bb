// Emits the matrix micro-kernels on vector registers. A tile of rows x vectors accumulators stays in registers over the
// whole sum. Per step of k (or group of k that one instruction sums) the smaller side (the vectors of B, or the broadcast
// elements of A) is held in registers and the other streams through one or two. Small tiles keep several sets of
// accumulators, so that the latency of multiply-add is covered. The arithmetics differ in four places: how A is broadcast,
// how a vector of B is loaded, the product, and the addition of sums.
#include "codegen/x86/gemm.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "base/check.h"
#include "codegen/x86/even_rows.h"
#include "codegen/x86/gemm_assembler.h"
#include "codegen/x86/gemm_dot.h"
#include "codegen/x86/gemm_held.h"
#include "codegen/x86/gemm_row.h"
#include "codegen/x86/gemm_tiles.h"
#include "codegen/x86/gemm_woven.h"
#include "codegen/x86/look_ahead.h"
#include "codegen/x86/sum_parts.h"

namespace tenon {
namespace {

constexpr int prefetch_bytes = 8192; // packed B of kernels that ask for nothing ahead: a memory latency at full speed
constexpr int prefetch_k = 8;        // A by k
constexpr int max_row_pointers = 13; // 16 registers less rsp, the index of k and the pointer into B

class GemmEmitter : public GemmAssembler {
public:
  GemmEmitter(CodeMemory& memory, const GemmFamilyRow& row, const GemmKey& s)
      : GemmAssembler(memory, row), s_(s), sets_(sum_sets(row, s.rows, s.vectors)), held_(std::min(s.rows, s.vectors)),
        parts_(*this, {parts_slots, locals_bytes}, sets_ * s.rows * s.vectors, wide(), arithmetic_ == Arithmetic::F32Fma),
        look_ahead_(*this, ahead_slots, !in_place() && s.rows > 1 && s.rows <= max_row_pointers - 2 && s.vectors > 1) {
    first_held_ = sets_ * s_.rows * s_.vectors;
    first_spare_ = first_held_ + held_;
    spares_ = registers() - first_spare_;
    if (looks_ahead()) unroll_ = line_bytes / a_step();
    if (s.rows > max_row_pointers && !s.a_by_k)
      even_rows_.emplace(*this, s.rows,
                         EvenRows::Registers{this->row(0), this->row(1), this->row(2), this->row(3), this->row(4), this->row(5)});
  }

  void* emit() {
    enter(locals_bytes + parts_.stack_bytes(), parts_.used());
    load_sizes();
    if (arithmetic_ == Arithmetic::I8I8Dot) broadcast_sign(signs());
    L(next_tile_);
    load_operands();
    for (int i = 0; i < num_sums(); i++) clear(vec(i));
    if (may_be_half()) {
      Xbyak::Label whole;
      cmp(qword[rdi + offsetof(GemmArgs, columns)], (s_.vectors - 1) * f_.lanes + f_.lanes / 2);
      jg(whole, T_NEAR);
      half_ = true;
      emit_body();
      half_ = false;
      L(whole);
    }
    emit_body();
    parts_.emit();
    return finish();
  }

private:
  void emit_body() {
    Xbyak::Label next_position, store;
    mov(rax, ptr[rsp + depth]);
    if (reads_rest()) add(rax, ptr[rsp + rest]);
    test(rax, rax);
    jle(store, T_NEAR);
    cmp(qword[rsp + positions], 0);
    jle(store, T_NEAR);
    L(next_position);
    load_rows();
    if (s_.kind == GemmKind::Windows) window_loops();
    else depth_loop(0, s_.rows);
    if (reads_rest()) add_rest();
    dec(qword[rsp + positions]);
    jnz(next_position, T_NEAR);
    L(store);
    mov(rax, ptr[rsp + args]);
    look_ahead_.end(rax, next_ahead());
    parts_.add();
    fold_sets();
    store_tile();
    continue_series(args, next_tile_);
    leave();
  }

  enum {
    args = 0,
    positions = 8,
    rows = 16,
    depth = 24,
    end = 32,
    end_unrolled = 40,
    b_stride = 48,
    first = 56,
    mask = 64, // of AVX2
    rest = 64, // of AVX-512
    parts_slots = 96,
    bytes = 136, // of A's k, and of whole unrolled steps
    bytes_unrolled = 144,
    ahead_slots = 152,
    b_ahead = 152, // in place: nothing else looks ahead
    count = 176,   // of AVX2: valid columns of the last vector
    locals_bytes = 192
  };

  bool packs() const { return s_.kind == GemmKind::Packing; }
  bool in_place() const { return s_.kind == GemmKind::InPlace || packs(); }
  bool reads_rest() const { return f_.reads_rest && s_.kind == GemmKind::Packed; }
  int num_sums() const { return sets_ * s_.rows * s_.vectors; }

  Reg64 index() const { return rax; }
  Reg64 b() const { return rcx; }
  Reg64 row(int i) const {
    static constexpr int order[max_row_pointers] = {2, 6, 8, 9, 10, 11, 12, 13, 14, 15, 3, 5, 7}; // rdi last: it holds args
    return Reg64(order[i]);
  }
  /// Many rows by one vector: rows may come from memory and meet B once, those of the next tile are asked for a line at a time. Not where
  /// a_stride is 0.
  bool looks_ahead() const {
    return !s_.a_by_k && s_.vectors == 1 && s_.rows > max_row_pointers / 2 && s_.rows < max_row_pointers && s_.kind != GemmKind::Windows &&
           !packs();
  }
  Reg64 ahead() const { return row(max_row_pointers - 1); }
  Reg64 next_ahead() const { return row(max_row_pointers - 2); }
  /// The tile's elements of A in the present k, and the bytes to the next k.
  Reg64 k_row() const { return row(0); }
  Reg64 k_stride() const { return row(1); }
  Xbyak::RegExp a_address(int i, int u) const {
    if (even_rows_) return even_rows_->at(i) + u * a_step(); // more than there are pointers for
    return s_.a_by_k ? k_row() + i * static_cast<int>(size_of(f_.a)) : row(i) + index() + u * a_step();
  }
  /// The row of a B in place that is asked for next, in the last register that small tiles leave free. Where none is, the same lines of the
  /// stack are asked for over and over: beside the products of several vectors that takes no time.
  bool asks_ahead() const {
    return packs() || (in_place() && s_.rows > 1 && s_.vectors > 1 && (s_.a_by_k || s_.rows < max_row_pointers - (looks_ahead() ? 2 : 0)));
  }
  /// Tiles of one vector are bound by loads: four rows of a B in place are addressed by its stride, and three times that, in two registers
  /// that small tiles leave free.
  bool strides_in_registers() const {
    return in_place() && !packs() && s_.vectors == 1 && !s_.a_by_k && (s_.rows <= max_row_pointers - 3 || even_rows_);
  }
  Reg64 packed() const { return row(max_row_pointers - 2); } // where B goes
  Reg64 stride() const { return row(max_row_pointers - 2); }
  Reg64 three_strides() const { return row(max_row_pointers - 3); }
  Reg64 row_ahead() const { return row(max_row_pointers - (looks_ahead() ? 3 : 1)); }
  Xmm sum(int set, int i, int j) const { return vec((set * s_.rows + i) * s_.vectors + j); }
  Xmm held(int i) const { return vec(first_held_ + i); }
  Xmm spare() { return vec(first_spare_ + turn_++ % (spares_ - spares_needed(arithmetic_) + 1)); }
  Xmm temporary() const { return vec(first_spare_ + spares_ - 1); }
  Xmm signs() const { return temporary(); } // makes signed bytes unsigned ones, by adding 128
  /// A last vector whose upper half has no columns is multiplied as half a vector, which takes half of the time on some machines.
  bool may_be_half() const { return s_.masked && wide() && s_.kind != GemmKind::Windows && f_.a != DType::I16; }
  Xmm part(const Xmm& x, int j) const { return half_ && j == s_.vectors - 1 ? static_cast<Xmm>(Xbyak::Ymm(x.getIdx())) : x; }
  bool partial(int j) const { return s_.masked && j == s_.vectors - 1; }

  void keep(int slot, size_t offset) {
    mov(rax, ptr[rdi + offset]);
    mov(ptr[rsp + slot], rax);
  }
  /// What all tiles of a series have in common.
  void load_sizes() {
    mov(ptr[rsp + args], rdi);
    keep(b_stride, s_.kind == GemmKind::Windows ? offsetof(GemmArgs, zeros) : offsetof(GemmArgs, b_stride));
    if (asks_ahead()) keep(b_ahead, offsetof(GemmArgs, b_ahead));
    keep(depth, offsetof(GemmArgs, depth));
    mov(rdx, rax);
    and_(rdx, -unroll_);
    imul(rax, rax, a_step());
    mov(ptr[rsp + bytes], rax);
    imul(rdx, rdx, a_step());
    mov(ptr[rsp + bytes_unrolled], rdx);
    parts_.keep_length(rdi, a_step());
    look_ahead_.keep_lines(rdi, next_ahead());
    if (s_.masked) load_mask();
    if (reads_rest()) {
      keep(rest, offsetof(GemmArgs, rest));
      make_rest_mask(k2, rax, rdx);
    }
  }
  void load_operands() {
    keep(positions, offsetof(GemmArgs, positions));
    keep(rows, offsetof(GemmArgs, rows));
    keep(first, offsetof(GemmArgs, first));
    mov(rdx, ptr[rsp + bytes]);
    add(rdx, rax);
    mov(ptr[rsp + end], rdx);
    add(rax, ptr[rsp + bytes_unrolled]);
    mov(ptr[rsp + end_unrolled], rax);
    parts_.begin();
    mov(b(), ptr[rdi + offsetof(GemmArgs, b)]);
    look_ahead_.begin(rdi, next_ahead());
  }

  void load_mask() {
    mov(rax, ptr[rdi + offsetof(GemmArgs, columns)]);
    if (s_.vectors > 1) sub(rax, (s_.vectors - 1) * f_.lanes);
    mov(ptr[rsp + count], rax);
    make_mask(k1, held(0), rdx, sum_bytes());
    if (!wide()) vmovups(ptr[rsp + mask], held(0));
  }

  void load_rows() {
    mov(index(), ptr[rsp + rows]);
    if (s_.a_by_k) return load_first_k();
    if (even_rows_) return load_even_rows();
    for (int i = 0; i < s_.rows; i++) mov(row(i), ptr[index() + 8 * i]);
    if (looks_ahead()) { // the last row's register, which still holds the arguments
      mov(ahead(), ptr[rsp + args]);
      imul(ahead(), ptr[ahead() + offsetof(GemmArgs, a_stride)], s_.rows);
      add(ahead(), ptr[rsp + first]);
    }
    add(qword[rsp + rows], 8 * s_.rows);
    load_strides();
    find_row_ahead();
  }
  void load_even_rows() {
    mov(row(0), ptr[index()]);
    mov(row(1), ptr[index() + 8]);
    sub(row(1), row(0));
    add(row(0), ptr[rsp + first]);
    even_rows_->load();
    load_strides();
  }
  void load_strides() {
    if (!strides_in_registers()) return;
    mov(stride(), ptr[rsp + b_stride]);
    lea(three_strides(), ptr[stride() + stride() * 2]);
  }
  void find_row_ahead() {
    if (!asks_ahead()) return;
    if (packs()) mov(packed(), ptr[rsp + args]), mov(packed(), ptr[packed() + offsetof(GemmArgs, packed)]);
    imul(row_ahead(), ptr[rsp + b_ahead], prefetch_steps);
    add(row_ahead(), b());
    cmp(qword[rsp + b_ahead], 0);
    cmove(row_ahead(), rsp);
  }

  void load_first_k() {
    mov(k_row(), ptr[index()]);
    add(k_row(), ptr[rsp + first]);
    mov(k_stride(), ptr[rsp + args]);
    mov(k_stride(), ptr[k_stride() + offsetof(GemmArgs, a_stride)]);
    find_row_ahead();
  }

  /// One position of a convolution: what is all padding is left out, and so is a first or last row that is.
  void window_loops() {
    Xbyak::Label without_first, without_last, skip, done;
    const int zeros = b_stride; // the slot is free: B is packed
    test(row(0), row(0));
    jz(skip, T_NEAR);
    if (s_.rows > 1) {
      cmp(row(0), ptr[rsp + zeros]);
      je(without_first, T_NEAR);
      cmp(row(s_.rows - 1), ptr[rsp + zeros]);
      je(without_last, T_NEAR);
    }
    depth_loop(0, s_.rows);
    jmp(done, T_NEAR);
    if (s_.rows > 1) {
      L(without_first);
      depth_loop(1, s_.rows);
      jmp(done, T_NEAR);
      L(without_last);
      depth_loop(0, s_.rows - 1);
      jmp(done, T_NEAR);
    }
    L(skip);
    imul(index(), qword[rsp + depth], s_.vectors * b_step());
    add(b(), index());
    L(done);
  }

  /// The sum over k of rows [from, to).
  void depth_loop(int from, int to) {
    Xbyak::Label part, round_end, rest, rest_some, rest_loop, done;
    look_ahead_.aim(round_end);
    const int main_end = parts_.used() ? parts_.end() : end_unrolled;
    mov(index(), ptr[rsp + first]);
    L(part);
    parts_.enter(index(), end_unrolled, b());
    cmp(index(), ptr[rsp + main_end]);
    jge(rest, T_NEAR);
    auto whole_rounds = [&](bool asks) {
      Xbyak::Label main;
      align(32);
      L(main);
      steps(unroll_, from, to, asks);
      look_ahead_.round(round_end, next_ahead());
      cmp(index(), ptr[rsp + main_end]);
      jl(main, T_NEAR);
    };
    if (looks_ahead()) {
      Xbyak::Label plain, rounds_done;
      cmp(ahead(), index());
      je(plain, T_NEAR);
      whole_rounds(true);
      jmp(rounds_done, T_NEAR);
      L(plain);
      whole_rounds(false);
      L(rounds_done);
    } else {
      whole_rounds(false);
    }
    if (parts_.used()) {
      cmp(index(), ptr[rsp + end_unrolled]);
      jl(part, T_NEAR);
    }
    L(rest);
    cmp(index(), ptr[rsp + end]);
    jge(done, T_NEAR);
    parts_.take(unroll_ * a_step()); // at most
    if (unroll_ > least_unroll) {    // k is short, or what is left
      L(rest_some);
      lea(ahead(), ptr[index() + least_unroll * a_step()]);
      cmp(ahead(), ptr[rsp + end]);
      jg(rest_loop, T_NEAR);
      steps(least_unroll, from, to, false);
      cmp(index(), ptr[rsp + end]);
      jl(rest_some, T_NEAR);
      jmp(done, T_NEAR);
    }
    L(rest_loop);
    step(0, 0, from, to);
    advance(1);
    if (strides_in_registers()) add(b(), stride());
    cmp(index(), ptr[rsp + end]);
    jl(rest_loop, T_NEAR);
    L(done);
  }

  /// So many steps of k; where a line of A is asked for ahead of each row, they cover it.
  void steps(int count, int from, int to, bool asks) {
    for (int u = 0; u < count; u++) {
      for (int i = u; asks && i < s_.rows; i += unroll_) prefetcht0(ptr[row(i) + ahead()]);
      step(u, u % sets_, from, to);
    }
    advance(count);
    if (looks_ahead() && count == unroll_) add(ahead(), count * a_step());
  }

  void advance(int steps) {
    add(index(), steps * a_step());
    if (!in_place()) add(b(), steps * s_.vectors * b_step());
    if (packs()) add(packed(), steps * s_.vectors * b_step());
    if (even_rows_) even_rows_->advance(steps * a_step());
  }

  /// The last k, fewer than a group.
  void add_rest() {
    Xbyak::Label none;
    cmp(qword[rsp + rest], 0);
    je(none, T_NEAR);
    in_rest_ = true;
    step(0, 0, 0, s_.rows);
    in_rest_ = false;
    L(none);
  }

  Xbyak::Address b_address(int u, int j) {
    if (strides_in_registers() && u % 4 == 3) return ptr[b() + three_strides()];
    if (strides_in_registers() && u % 4) return ptr[b() + stride() * (u % 4)];
    return ptr[b() + ((in_place() ? 0 : u * s_.vectors) + j) * b_step()];
  }
  void load_b(const Xmm& x, int u, int j) {
    Xbyak::Address at = b_address(u, j);
    bool some = in_place() && partial(j);
    Xmm lanes = some ? x | k1 | T_z : x; // AVX2 reads no narrower elements in place
    if (widens()) widen(x, lanes, at);
    else load(x, at, some);
    if (packs()) vmovups(ptr[packed() + (u * s_.vectors + j) * b_step()], vec(x.getIdx()));
  }
  void broadcast_a(const Xmm& x, int i, int u) {
    Xbyak::Address at = ptr[a_address(i, u)];
    if (in_rest_) broadcast_rest(x, at, k2);
    else broadcast(x, at);
    if (arithmetic_ == Arithmetic::I8I8Dot) add_sign(x, signs());
  }
  template <class Operand> void multiply(const Xmm& sum, const Xmm& a, const Operand& b) { multiply_add(sum, a, b, temporary()); }
  /// A single vector meets each element of A once, which needs no register where the product broadcasts it.
  bool embeds() const { return f_.embeds && s_.vectors == 1 && !in_rest_; }
  /// A single row meets each vector of B once, which needs no register where the product reads it as it is.
  bool multiplies_memory(int j) const { return s_.rows == 1 && !widens() && !packs() && !(in_place() && partial(j)); }
  void load(const Xmm& x, const Xbyak::Address& from, bool masked) {
    if (!masked) return vmovups(x, from);
    if (!wide()) vmovups(x, ptr[rsp + mask]); // no register is left to hold the mask
    load_lanes(x, from, x);
  }

  /// B comes from L3 or memory where rows are few; its hardware prefetch then stops at pages and starts late.
  void prefetch(int u) {
    if ((s_.rows == 1 && !packs()) || look_ahead_.used()) return; // nothing but loads: the hardware keeps up
    if (s_.a_by_k) prefetcht0(ptr[k_row() + k_stride() * prefetch_k]);
    if (in_place() && !asks_ahead()) return;
    for (int j = 0; j < s_.vectors; j++)
      if (in_place()) prefetcht1(ptr[row_ahead() + j * b_step()]);
      else prefetcht0(ptr[b() + (u * s_.vectors + j) * b_step() + prefetch_bytes]);
    if (in_place()) add(row_ahead(), ptr[rsp + b_ahead]);
  }

  /// One step of k: every accumulator of a set's rows [from, to) takes one product.
  void step(int u, int set, int from, int to) {
    prefetch(u);
    if (s_.rows > 1 && s_.rows >= s_.vectors) {
      for (int j = 0; j < s_.vectors; j++) load_b(part(held(j), j), u, j);
      for (int i = from; i < to; i++) {
        if (embeds()) {
          multiply(part(sum(set, i, 0), 0), part(held(0), 0), ptr_b[a_address(i, u)]);
          continue;
        }
        Xmm x = spare();
        broadcast_a(x, i, u);
        for (int j = 0; j < s_.vectors; j++) multiply(part(sum(set, i, j), j), part(x, j), part(held(j), j));
      }
    } else {
      for (int i = from; i < to; i++) broadcast_a(held(i), i, u);
      for (int j = 0; j < s_.vectors; j++) {
        if (multiplies_memory(j)) {
          multiply(part(sum(set, 0, j), j), part(held(0), j), b_address(u, j));
          continue;
        }
        Xmm x = part(spare(), j);
        load_b(x, u, j);
        for (int i = from; i < to; i++) multiply(part(sum(set, i, j), j), part(held(i), j), x);
      }
    }
    if (s_.a_by_k) add(k_row(), k_stride());
    if (strides_in_registers() && u % 4 == 3) lea(b(), ptr[b() + stride() * 4]);
    if (in_place() && !strides_in_registers()) add(b(), ptr[rsp + b_stride]);
  }

  void fold_sets() {
    for (int half = sets_ / 2; half >= 1; half /= 2)
      for (int set = 0; set < half; set++)
        for (int i = 0; i < s_.rows; i++)
          for (int j = 0; j < s_.vectors; j++) add_sums(sum(set, i, j), sum(set, i, j), sum(set + half, i, j));
  }

  /// Adds the initial value and stores. The value is added last, so that no sum waits for a load of C.
  void store_tile() {
    store_by_mode(args, rax, [&](const Reg64& c, const Reg64& stride, const Reg64* init) { store_rows(c, stride, init); });
  }
  void store_rows(const Reg64& c, const Reg64& stride, const Reg64* init) {
    Xmm stored = held(0);
    if (init && !wide() && s_.masked) vmovups(stored, ptr[rsp + mask]);
    store_sums({s_.rows, s_.vectors, s_.masked, spare(), stored, count}, c, stride, init, [&](int i, int j) { return sum(0, i, j); });
  }
  const GemmKey s_;
  int sets_, held_, first_held_ = 0, first_spare_ = 0, spares_ = 0;
  int turn_ = 0, unroll_ = least_unroll;
  bool in_rest_ = false, half_ = false;
  std::optional<EvenRows> even_rows_;
  SumParts parts_;
  LookAhead look_ahead_;
  Xbyak::Label next_tile_;
};

} // namespace

bool gemm_fits(const GemmFamilyRow& row, int rows, int vectors, GemmKind kind) {
  if (row.family.is_tiled()) return tile_gemm_fits(rows, vectors);
  bool even = kind == GemmKind::InPlace && vectors == 1 && row.isa == Isa::Avx512;
  int most = kind == GemmKind::Packing ? most_packing_rows : even ? EvenRows::most : max_row_pointers;
  return rows >= 1 && vectors >= 1 && rows <= most && vectors <= GemmFamily::max_vectors &&
         spare_registers(row.isa, rows, vectors) >= spares_needed(row.arithmetic);
}

void* emit_gemm(CodeMemory& memory, const GemmFamilyRow& row, const GemmKey& key) {
  if (key.kind == GemmKind::Stream) return emit_row_gemm(memory, row, key);
  if (is_dot(key.kind)) return emit_dot_gemm(memory, row, key);
  if (key.kind == GemmKind::Held) return emit_held_gemm(memory, row, key);
  if ((key.kind == GemmKind::InPlace || key.kind == GemmKind::Packing) && row.family.group > 1) return emit_woven_gemm(memory, row, key);
  require(!key.a_by_k || (row.family.group == 1 && !row.family.is_tiled() && key.kind != GemmKind::Windows),
          "no kernel reads such an A by k");
  require(gemm_fits(row, key.rows, key.vectors, key.kind), "a {}x{} tile does not fit the registers", key.rows, key.vectors);
  if (row.family.is_tiled()) return emit_tile_gemm(memory, row, key);
  return GemmEmitter(memory, row, key).emit();
}

} // namespace tenon
