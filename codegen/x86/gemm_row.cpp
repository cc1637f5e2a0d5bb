// Emits the product of a row vector and a row-major matrix that caches do not hold. Eight rows of the matrix at a time
// are read from end to end, so that memory sees few, long streams; each column's sum of the eight products joins C,
// which stays in cache.
#include "codegen/x86/gemm_row.h"

#include <cstddef>

#include "base/check.h"
#include "codegen/x86/gemm_assembler.h"

namespace tenon {
namespace {

constexpr int most_matrix_rows = 8; // of the matrix
constexpr int unroll = 4;           // vectors

class RowEmitter : public GemmAssembler {
public:
  RowEmitter(CodeMemory& memory, const GemmFamilyRow& row) : GemmAssembler(memory, row) {}

  void* emit() {
    Xbyak::Label next, rest, done;
    enter(locals_bytes);
    load_arguments();
    start_sums();
    L(next);
    cmp(depth(), most_matrix_rows);
    jl(rest, T_NEAR);
    multiply_rows(most_matrix_rows);
    sub(depth(), most_matrix_rows);
    jmp(next, T_NEAR);
    L(rest);
    test(depth(), depth());
    jle(done, T_NEAR);
    multiply_rows(1);
    dec(depth());
    jmp(rest, T_NEAR);
    L(done);
    leave();
    return finish();
  }

private:
  enum { rest_columns = 0, locals_bytes = 8 };

  int b_bytes() const { return static_cast<int>(size_of(f_.b)); }

  Reg64 index() const { return rax; } // bytes of a row of B
  Reg64 end() const { return rcx; }   // of its whole vectors
  Reg64 c() const { return rdx; }
  Reg64 a() const { return rsi; }
  Reg64 arguments() const { return rdi; } // while sums start
  Reg64 temporary() const { return rdi; } // then
  Reg64 stride() const { return rbx; }
  Reg64 depth() const { return rbp; }
  Reg64 b_row(int i) const { return Reg64(8 + i); }

  Xmm element(int i) const { return vec(i); } // of A
  Xmm sum(int i) const { return vec(most_matrix_rows + i); }
  Xmm converted(int i) const { return vec(most_matrix_rows + unroll + i); }
  Xmm mask() const { return vec(15); }

  Xbyak::RegExp in_c(int vector) const { return c() + index() * (sum_bytes() / b_bytes()) + vector * vector_bytes(); }

  void load_arguments() {
    mov(rax, ptr[arguments() + offsetof(GemmArgs, columns)]);
    mov(end(), rax);
    and_(rax, f_.lanes - 1);
    mov(ptr[rsp + rest_columns], rax);
    sub(end(), rax);
    imul(end(), end(), b_bytes());
    make_mask(k1, mask(), rdx, sum_bytes());
    mov(rax, ptr[arguments() + offsetof(GemmArgs, rows)]);
    mov(a(), ptr[rax]);
    add(a(), ptr[arguments() + offsetof(GemmArgs, first)]);
    mov(c(), ptr[arguments() + offsetof(GemmArgs, c)]);
    mov(depth(), ptr[arguments() + offsetof(GemmArgs, depth)]);
    mov(stride(), ptr[arguments() + offsetof(GemmArgs, b_stride)]);
    mov(b_row(0), ptr[arguments() + offsetof(GemmArgs, b)]);
  }

  /// body(vectors, masked) for all columns.
  template <class F> void for_columns(const F& body) {
    Xbyak::Label many, single, rest, done;
    xor_(index(), index());
    L(many);
    lea(temporary(), ptr[index() + unroll * b_step()]);
    cmp(temporary(), end());
    jg(single, T_NEAR);
    body(unroll, false);
    add(index(), unroll * b_step());
    jmp(many, T_NEAR);
    L(single);
    cmp(index(), end());
    jge(rest, T_NEAR);
    body(1, false);
    add(index(), b_step());
    jmp(single, T_NEAR);
    L(rest);
    cmp(qword[rsp + rest_columns], 0);
    je(done, T_NEAR);
    body(1, true);
    L(done);
  }

  /// What sums start from.
  void start_sums() {
    Xbyak::Label zero, next, done;
    mov(r9, ptr[arguments() + offsetof(GemmArgs, init)]);
    mov(r10, ptr[arguments() + offsetof(GemmArgs, mode)]);
    cmp(r10, static_cast<int>(GemmInit::C));
    je(done, T_NEAR);
    jl(zero, T_NEAR);
    for_columns([&](int vectors, bool masked) {
      for (int j = 0; j < vectors; j++) {
        Xbyak::Address from = ptr[r9 + index() * (sum_bytes() / b_bytes()) + j * vector_bytes()];
        load(sum(j), from, masked);
        store(in_c(j), sum(j), masked);
      }
    });
    jmp(done, T_NEAR);
    L(zero);
    for_columns([&](int vectors, bool masked) {
      clear(sum(0));
      for (int j = 0; j < vectors; j++) store(in_c(j), sum(0), masked);
    });
    L(done);
  }
  void load(const Xmm& x, const Xbyak::Address& from, bool masked) { masked ? load_lanes(x, from, mask()) : vmovups(x, from); }
  void store(const Xbyak::RegExp& to, const Xmm& x, bool masked) {
    masked ? store_lanes(to, x, rest_columns, temporary()) : vmovups(ptr[to], x);
  }

  /// The next rows of B; moves on.
  void multiply_rows(int rows) {
    for (int i = 1; i < rows; i++) lea(b_row(i), ptr[b_row(i - 1) + stride()]);
    for (int i = 0; i < rows; i++) {
      Xbyak::Address at = ptr[a() + i * sum_bytes()];
      broadcast(element(i), at);
    }
    for_columns([&](int vectors, bool masked) {
      for (int j = 0; j < vectors; j++) clear(sum(j));
      for (int i = 0; i < rows; i++)
        for (int j = 0; j < vectors; j++) add_product(j, i, masked);
      for (int j = 0; j < vectors; j++) {
        if (masked) {
          load(converted(0), ptr[in_c(j)], true);
          add_sums(sum(j), sum(j), converted(0));
        } else {
          add_sums(sum(j), sum(j), ptr[in_c(j)]);
        }
        store(in_c(j), sum(j), masked);
      }
    });
    add(a(), rows * sum_bytes());
    if (rows == 1) add(b_row(0), stride());
    else lea(b_row(0), ptr[b_row(0) + stride() * 8]);
  }
  void add_product(int j, int i, bool masked) {
    Xbyak::Address at = ptr[b_row(i) + index() + j * b_step()];
    if (!masked && !widens()) return multiply_add(sum(j), element(i), at);
    Xmm x = converted(0);
    if (widens()) widen(x, masked ? x | k1 | T_z : x, at);
    else load(x, at, masked);
    multiply_add(sum(j), element(i), x);
  }
};

} // namespace

void* emit_row_gemm(CodeMemory& memory, const GemmFamilyRow& row, const GemmKey& key) {
  require(row.family.group == 1 && row.family.reads_in_place() && key.rows == 1, "no kernel reads such a B row by row");
  return RowEmitter(memory, row).emit();
}

} // namespace tenon
