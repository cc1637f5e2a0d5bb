// Emits the kernels of dot products. Vectors run along k: every accumulator of rows x columns sums the products of one row
// with one column, and its elements are added up at the end, those of up to four columns together. The smaller side of a
// step is held in registers, the other streams. What is left of k is read by masks (AVX-512), or one element at a time.
#include "codegen/x86/gemm_dot.h"

#include <algorithm>
#include <cstddef>

#include "base/check.h"
#include "codegen/x86/gemm_assembler.h"

namespace tenon {
namespace {

constexpr int least_dot_unroll = 2;
constexpr int dot_prefetch_bytes = 1024; // ahead in each column, and near its end in the next tile's
constexpr int brief_bytes = 384;         // of columns that are read as fast as they are asked for
constexpr int near_bytes = 16 << 10;     // of a series' columns that are left

/// The sums, the held side, one that streams, a temporary or constant where products need one; where A is signed and the instruction takes
/// it to be unsigned, what that adds to each column.
int registers_needed(Arithmetic a, int rows, int columns) {
  return rows * columns + std::min(rows, columns) + spares_needed(a) + (a == Arithmetic::I8I8Dot ? columns : 0);
}

class DotEmitter : public GemmAssembler {
public:
  DotEmitter(CodeMemory& memory, const GemmFamilyRow& row, const GemmKey& key)
      : GemmAssembler(memory, row), rows_(key.rows), columns_(key.vectors), rows_stream_(key.kind == GemmKind::DotRows) {
    int sums = rows_ * columns_, masks = !wide() && columns_ % 4 != 0;
    while (sets_ < most_sets && sets_ * sums < min_chains &&
           registers_needed(arithmetic_, rows_, columns_) + masks + (2 * sets_ - 1) * sums <= registers())
      sets_ *= 2;
    unroll_ = std::max(sets_, least_dot_unroll);
    first_held_ = sets_ * sums;
  }

  void* emit() {
    Xbyak::Label next_tile;
    enter(locals_bytes);
    load_sizes();
    L(next_tile);
    load_operands();
    for (int i = 0; i < first_held_; i++) clear(vec(i));
    if (is_signed()) {
      for (int j = 0; j < columns_; j++) clear(added(j));
      broadcast_sign(signs());
    }
    sum_over_k();
    for (int sums = first_held_ / 2; sums >= rows_ * columns_; sums /= 2)
      for (int i = 0; i < sums; i++) add_sums(vec(i), vec(i), vec(sums + i));
    for (int i = 0; is_signed() && i < rows_; i++)
      for (int j = 0; j < columns_; j++) vpsubd(sum(0, i, j), sum(0, i, j), added(j));
    store_tile();
    continue_series(args, next_tile);
    leave();
    return finish();
  }

private:
  enum { args = 0, rest = 8, end_unrolled = 16, end = 24, to_next = 32, rest_left = 40, locals_bytes = 48 };

  /// Positions in rows are those in columns.
  bool looks_along() const { return !rows_stream_ || a_bytes() == b_bytes(); }
  bool is_signed() const { return arithmetic_ == Arithmetic::I8I8Dot; }
  int a_bytes() const { return static_cast<int>(size_of(f_.a)); }
  int b_bytes() const { return static_cast<int>(size_of(f_.b)); }
  int step() const { return f_.lanes * f_.group; } // k of a vector

  /// Bytes of B's columns; A's elements are as large, or a multiple.
  Reg64 index() const { return rax; }
  Reg64 row(int i) const {
    static constexpr int order[] = {2, 6, 8, 9, 10, 11};
    return Reg64(order[i]);
  }
  Reg64 column(int j) const {
    static constexpr int order[] = {1, 12, 13, 14, 8, 9, 10, 11}; // more than four beside one row
    return Reg64(order[j]);
  }
  Reg64 ahead() const { return rbx; } // from the start of a row or column, what is to be prefetched
  Reg64 spare_register() const { return r15; }
  Xbyak::Reg32 spare32() const { return r15d; }

  Xmm sum(int set, int i, int j) const { return vec((set * rows_ + i) * columns_ + j); }
  Xmm held(int i) const { return vec(first_held_ + i); }
  Xmm streamed() const { return vec(first_held_ + std::min(rows_, columns_)); }
  Xmm temporary() const { return vec(streamed().getIdx() + 1); }
  Xmm signs() const { return temporary(); }
  Xmm added(int j) const { return vec(streamed().getIdx() + 2 + j); } // 128 times the sums of the columns

  void load_sizes() {
    Reg64 t = spare_register();
    mov(ptr[rsp + args], rdi);
    mov(rax, ptr[rdi + offsetof(GemmArgs, depth)]);
    mov(t, rax);
    and_(t, step() - 1);
    mov(ptr[rsp + rest], t);
    sub(rax, t);
    auto in_bytes = [&](int slot) {
      if (b_bytes() > 1) imul(rax, rax, b_bytes());
      mov(ptr[rsp + slot], rax);
    };
    mov(t, rax);
    in_bytes(end);
    mov(rax, t);
    and_(rax, -(unroll_ * step()));
    in_bytes(end_unrolled);
  }
  void load_operands() {
    Reg64 t = spare_register();
    mov(rax, ptr[rdi + offsetof(GemmArgs, rows)]);
    mov(t, ptr[rdi + offsetof(GemmArgs, first)]);
    for (int i = 0; i < rows_; i++) {
      mov(row(i), ptr[rax + 8 * i]);
      add(row(i), t);
    }
    if (rows_stream_ && !looks_along()) imul(ahead(), ptr[rdi + offsetof(GemmArgs, a_stride)], rows_);
    if (rows_stream_ && looks_along()) {
      mov(t, ptr[rdi + offsetof(GemmArgs, a_stride)]);
      look_ahead(t, rows_);
    }
    mov(t, ptr[rdi + offsetof(GemmArgs, b_stride)]);
    if (!rows_stream_) look_ahead(t, columns_);
    mov(column(0), ptr[rdi + offsetof(GemmArgs, b)]);
    for (int j = 1; j < columns_; j++) lea(column(j), ptr[column(j - 1) + t]);
  }

  /// Looks ahead along what streams, where it is long; else at once in the next tile. `t`: bytes from one to the next, of which a tile
  /// has so many.
  void look_ahead(const Reg64& t, int many) {
    Xbyak::Label long_enough;
    imul(rax, t, many);
    mov(ahead(), dot_prefetch_bytes);
    sub(rax, ptr[rsp + end_unrolled]);
    mov(ptr[rsp + to_next], rax);
    cmp(ahead(), ptr[rsp + end_unrolled]);
    jl(long_enough);
    imul(ahead(), t, many);
    L(long_enough);
  }

  void sum_over_k() {
    Xbyak::Label near, rest_of_vectors, one_vector, no_vectors, done;
    xor_(eax, eax);
    cmp(index(), ptr[rsp + end_unrolled]);
    jge(rest_of_vectors, T_NEAR);
    if (!rows_stream_) { // short columns that lie near each other, and all in L1: the hardware keeps up
      Xbyak::Label far;
      cmp(qword[rsp + end_unrolled], dot_prefetch_bytes);
      jg(far);
      cmp(qword[rsp + end_unrolled], brief_bytes);
      jl(near, T_NEAR);
      mov(spare_register(), ptr[rdi + offsetof(GemmArgs, tiles)]);
      imul(spare_register(), ptr[rdi + offsetof(GemmArgs, next_b)]);
      cmp(spare_register(), near_bytes);
      jg(far);
      cmp(qword[rdi + offsetof(GemmArgs, b_stride)], dot_prefetch_bytes);
      jle(near, T_NEAR);
      L(far);
    }
    unrolled_loop(true);
    if (!rows_stream_) {
      jmp(rest_of_vectors, T_NEAR);
      L(near);
      unrolled_loop(false);
    }
    L(rest_of_vectors);
    cmp(index(), ptr[rsp + end]);
    jge(no_vectors, T_NEAR);
    L(one_vector);
    multiply_vectors(0, rows_stream_);
    add(index(), step() * b_bytes());
    cmp(index(), ptr[rsp + end]);
    jl(one_vector, T_NEAR);
    L(no_vectors);
    cmp(qword[rsp + rest], 0);
    je(done, T_NEAR);
    multiply_rest();
    L(done);
  }

  void unrolled_loop(bool looks_ahead) {
    Xbyak::Label unrolled, same_tile;
    align(32);
    L(unrolled);
    for (int u = 0; u < unroll_; u++) multiply_vectors(u, looks_ahead);
    add(index(), unroll_ * step() * b_bytes());
    if (looks_ahead) add(ahead(), unroll_ * step() * (rows_stream_ ? a_bytes() : b_bytes()));
    if (looks_ahead && looks_along()) {
      cmp(ahead(), ptr[rsp + end_unrolled]);
      jne(same_tile);
      add(ahead(), ptr[rsp + to_next]);
      L(same_tile);
    }
    cmp(index(), ptr[rsp + end_unrolled]);
    jl(unrolled, T_NEAR);
  }

  Xbyak::Address a_at(int i, int u) { return ptr[row(i) + index() * (a_bytes() / b_bytes()) + u * step() * a_bytes()]; }
  Xbyak::Address b_at(int j, int u) { return ptr[column(j) + index() + u * step() * b_bytes()]; }

  /// One step of k; `a` and `b` load a row's and a column's part of it, of which memory holds the latter as the product takes it.
  template <class A, class B> void multiply(int set, const A& a, const B& b, bool in_memory = false, int u = 0) {
    if (rows_ >= columns_) {
      for (int j = 0; j < columns_; j++) {
        b(held(j), j);
        if (is_signed()) multiply_add(added(j), signs(), held(j));
      }
      for (int i = 0; i < rows_; i++) {
        a(streamed(), i);
        for (int j = 0; j < columns_; j++) multiply_add(sum(set, i, j), streamed(), held(j), temporary());
      }
    } else {
      for (int i = 0; i < rows_; i++) a(held(i), i);
      for (int j = 0; j < columns_; j++) {
        if (rows_ == 1 && in_memory) {
          multiply_add(sum(set, 0, j), held(0), b_at(j, u), temporary());
          continue;
        }
        b(streamed(), j);
        if (is_signed()) multiply_add(added(j), signs(), streamed());
        for (int i = 0; i < rows_; i++) multiply_add(sum(set, i, j), held(i), streamed(), temporary());
      }
    }
  }
  void multiply_vectors(int u, bool looks_ahead) {
    constexpr int line = 64;
    int in_a = u * step() * a_bytes(), in_b = u * step() * b_bytes();
    for (int i = 0; looks_ahead && rows_stream_ && in_a % line == 0 && i < rows_; i++) prefetcht0(ptr[row(i) + ahead() + in_a]);
    for (int j = 0; looks_ahead && !rows_stream_ && in_b % line == 0 && j < columns_; j++) prefetcht0(ptr[column(j) + ahead() + in_b]);
    multiply(
        u % sets_,
        [&](const Xmm& x, int i) {
          is_signed() && wide() ? vpxord(x, signs(), a_at(i, u)) : is_signed() ? vpxor(x, signs(), a_at(i, u)) : vmovups(x, a_at(i, u));
        },
        [&](const Xmm& x, int j) { widen(x, x, b_at(j, u)); }, !widens() && !is_signed(), u);
  }

  void multiply_rest() {
    if (wide()) {
      mov(spare_register(), -1);
      mov(rbx, ptr[rsp + rest]);
      bzhi(spare_register(), spare_register(), rbx);
      kmovq(k1, spare_register());
      multiply(
          0,
          [&](const Xmm& x, int i) {
            load_masked(x, a_at(i, 0), a_bytes());
            if (is_signed()) add_sign(x, signs());
          },
          [&](const Xmm& x, int j) {
            if (widens()) widen(x, x | k1 | T_z, b_at(j, 0));
            else load_masked(x, b_at(j, 0), b_bytes());
          });
      return;
    }
    Xbyak::Label next;
    mov(spare_register(), ptr[rsp + rest]);
    mov(ptr[rsp + rest_left], spare_register());
    L(next);
    multiply(
        0,
        [&](const Xmm& x, int i) {
          load_one_a(x, i);
          if (is_signed()) add_sign(x, signs());
        },
        [&](const Xmm& x, int j) { load_one_b(x, j); });
    add(index(), b_bytes());
    dec(qword[rsp + rest_left]);
    jnz(next, T_NEAR);
  }
  void load_masked(const Xmm& x, const Xbyak::Address& from, int bytes) {
    if (bytes == 1) vmovdqu8(x | k1 | T_z, from);
    else if (bytes == 2) vmovdqu16(x | k1 | T_z, from);
    else if (bytes == 4) vmovups(x | k1 | T_z, from);
    else vmovupd(x | k1 | T_z, from);
  }

  // ---- one element of k, in the first lane; the others are zero
  void load_one_a(const Xmm& x, int i) {
    Xmm low(x.getIdx());
    Reg64 r = row(i);
    int scale = a_bytes() / b_bytes();
    if (a_bytes() == 8) vmovsd(low, ptr[r + index() * scale]);
    else if (a_bytes() == 4) vmovss(low, ptr[r + index() * scale]);
    else {
      a_bytes() == 2 ? movzx(spare32(), word[r + index() * scale]) : movzx(spare32(), byte[r + index()]);
      vmovd(low, spare32());
    }
  }
  void load_one_b(const Xmm& x, int j) {
    Xmm low(x.getIdx());
    Reg64 c = column(j);
    if (b_bytes() == 8) return vmovsd(low, ptr[c + index()]);
    if (b_bytes() == 4) return vmovss(low, ptr[c + index()]);
    if (widens() && b_bytes() == 1) movsx(spare32(), byte[c + index()]);
    else b_bytes() == 2 ? movzx(spare32(), word[c + index()]) : movzx(spare32(), byte[c + index()]);
    if (arithmetic_ == Arithmetic::BF16Fma) shl(spare32(), 16);
    vmovd(low, spare32());
    if (arithmetic_ == Arithmetic::F16Fma) vcvtph2ps(low, low);
    if (arithmetic_ == Arithmetic::I8Fma) vcvtdq2ps(low, low);
  }

  // ---- the results

  static Xbyak::Ymm half(const Xmm& x) { return Xbyak::Ymm(x.getIdx()); }
  static Xmm quarter(const Xmm& x) { return Xmm(x.getIdx()); }
  /// A vector of four sums.
  Xmm result(const Xmm& x) const { return is_double() ? half(x) : quarter(x); }

  /// The elements of each of up to four accumulators of a row added up, from that of column `from` on: the sum of column from + j in lane
  /// j of the first. Lanes of columns that are not there hold something. Pairs of accumulators come first, so that each step works on half
  /// as many.
  void fold_row(int i, int from) {
    int columns = columns_from(from);
    Xmm first = sum(0, i, from), second = sum(0, i, from + std::min(2, columns - 1));
    if (columns == 1) first = quarter(narrow(first)), second = first;
    Xmm t = same_size(streamed(), first);
    fold_pair(first, columns == 1 ? first : sum(0, i, from + 1), t);
    if (columns > 2) fold_pair(second, sum(0, i, from + columns - 1), t);
    if (is_double() && columns == 1) return;
    if (is_double()) return join_halves(quarter(narrow(first)), columns > 2 ? quarter(narrow(second)) : quarter(second));
    vunpckhpd(t, first, second);
    vunpcklpd(first, first, second);
    add_sums(first, first, t);
    if (columns > 1) narrow(first);
  }
  /// The columns of a vector of results that starts with column `from`.
  int columns_from(int from) const { return std::min(columns_ - from, 4); }
  static Xmm same_size(const Xmm& x, const Xmm& as) {
    if (as.isZMM()) return static_cast<Xmm>(Xbyak::Zmm(x.getIdx()));
    return as.isYMM() ? static_cast<Xmm>(Xbyak::Ymm(x.getIdx())) : quarter(x);
  }
  /// The sums of all quarters, in the first.
  Xmm narrow(const Xmm& x) {
    Xmm t = streamed();
    if (wide()) {
      vextractf64x4(half(t), Xbyak::Zmm(x.getIdx()), 1);
      add_sums(half(x), half(x), half(t));
      vextractf64x2(quarter(t), half(x), 1);
    } else {
      vextractf128(quarter(t), half(x), 1);
    }
    add_sums(quarter(x), quarter(x), quarter(t));
    return x;
  }
  void join_halves(const Xmm& low, const Xmm& high) {
    wide() ? vinsertf64x2(half(low), half(low), high, 1) : vinsertf128(half(low), half(low), high, 1);
  }
  /// x = {sum of x, sum of y} of f64; else {a, b, c, d}, where a + c is the sum of x and b + d that of y: of each quarter.
  void fold_pair(const Xmm& x, const Xmm& y, const Xmm& t) {
    if (is_double()) {
      vunpckhpd(t, x, y);
      vunpcklpd(x, x, y);
    } else {
      vunpckhps(t, x, y);
      vunpcklps(x, x, y);
    }
    add_sums(x, x, t);
  }

  void store_tile() {
    if (columns_ % 4 != 0) {
      mov(eax, columns_ % 4);
      make_mask(k1, mask(), r15, static_cast<int>(size_of(f_.sum)));
    }
    for (int i = 0; i < rows_; i++)
      for (int j = 0; j < columns_; j += 4) fold_row(i, j);
    store_by_mode(args, rbx, [&](const Reg64& c, const Reg64& stride, const Reg64* init) { store_rows(c, stride, init); });
  }
  void store_rows(const Reg64& c, const Reg64& stride, const Reg64* init) {
    for (int i = 0; i < rows_; i++) {
      for (int j = 0; j < columns_; j += 4) {
        Xmm x = result(sum(0, i, j));
        if (init) {
          Xmm t = result(streamed());
          load_result(t, *init + j * sum_bytes(), columns_from(j));
          add_sums(x, x, t);
        }
        store_result(c + j * sum_bytes(), x, columns_from(j));
      }
      if (i + 1 < rows_) add(c, stride);
    }
  }
  void load_result(const Xmm& x, const Xbyak::RegExp& from, int columns) {
    columns == 4 ? vmovups(x, ptr[from]) : load_lanes(x, ptr[from], result(mask()));
  }
  /// As many as there are columns, in pieces (Assembler::store_first).
  void store_result(const Xbyak::RegExp& to, const Xmm& x, int columns) {
    const Xmm low(x.getIdx());
    int bytes = columns * sum_bytes(), done = 0;
    if (columns == 4) return vmovups(ptr[to], x);
    if (wide()) return store_lanes(to, x, 0, rax);
    if (bytes >= 16) {
      vmovups(ptr[to], low);
      if (bytes > 16) vextractf128(low, Xbyak::Ymm(x.getIdx()), 1);
      done = 16;
    }
    if (bytes - done >= 8) {
      vmovlps(ptr[to + done], low);
      if (bytes - done > 8) vmovhlps(low, low, low);
      done += 8;
    }
    if (bytes > done) vmovss(ptr[to + done], low);
  }
  /// Of AVX2: beyond the registers of tiles that need it, but for what was added to columns, which is done with.
  Xmm mask() const { return Xbyak::Ymm(15); }

  int rows_, columns_;
  bool rows_stream_;
  int sets_ = 1, unroll_ = 1, first_held_ = 0;
};

} // namespace

bool dot_gemm_fits(const GemmFamilyRow& row, int rows, int columns) {
  int most_columns = rows == 1 ? GemmFamily::row_dot_columns : GemmFamily::dot_columns;
  if (row.family.is_tiled() || row.arithmetic == Arithmetic::I16Dot || rows < 1 || rows > GemmFamily::max_dot_rows || columns < 1 ||
      columns > most_columns)
    return false;
  int masks = row.isa == Isa::Avx2 && columns % 4 != 0; // of what results start from
  return registers_needed(row.arithmetic, rows, columns) + masks <= (row.isa == Isa::Avx512 ? 32 : 16);
}

void* emit_dot_gemm(CodeMemory& memory, const GemmFamilyRow& row, const GemmKey& key) {
  require(dot_gemm_fits(row, key.rows, key.vectors), "no kernel of {}x{} dot products", key.rows, key.vectors);
  return DotEmitter(memory, row, key).emit();
}

} // namespace tenon
