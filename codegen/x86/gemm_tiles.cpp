// Emits the matrix micro-kernels on tile registers. All eight tiles have 16 rows of 64 bytes: A's rows hold 64 bytes of k,
// B's rows a group of k for 16 columns, C 16 x 16 sums of four bytes. A kernel holds the sums of one or two row groups by up
// to four vectors of columns; sizes that are no multiples are the driver's to pad.
#include "codegen/x86/gemm_tiles.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cpuid.h>

#include <cstddef>
#include <cstring>

#include "base/check.h"
#include "codegen/x86/assembler.h"

namespace tenon {
namespace {

constexpr int tiles = 8, tile_rows = 16, tile_row_bytes = 64;

struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t column_bytes[16] = {};
  uint8_t rows[16] = {};
  constexpr TileConfig() {
    for (int t = 0; t < tiles; t++) column_bytes[t] = tile_row_bytes, rows[t] = tile_rows;
  }
};
static_assert(sizeof(TileConfig) == 64);

class TileAssembler : public Assembler {
public:
  explicit TileAssembler(CodeMemory& memory) : Assembler(memory, Isa::Avx512) {}

  void* begin_tiles() {
    Xbyak::Label data;
    ldtilecfg(ptr[rip + data]);
    ret();
    align(64);
    L(data);
    TileConfig config;
    db(reinterpret_cast<const uint8_t*>(&config), sizeof config);
    return finish();
  }
  void* end_tiles() {
    tilerelease();
    ret();
    return finish();
  }
  /// void f(void* tile): loads a tile register from there, gives the core to others, and stores it there again.
  void* round_trip(int (*pause)()) {
    push(rbx);
    mov(rbx, rdi);
    mov(eax, tile_row_bytes);
    tileloadd(Xbyak::Tmm(0), ptr[rbx + rax]);
    mov(rax, reinterpret_cast<size_t>(pause));
    call(rax);
    mov(eax, tile_row_bytes);
    tilestored(ptr[rbx + rax], Xbyak::Tmm(0));
    pop(rbx);
    ret();
    return finish();
  }
};

class TileGemmEmitter : public Assembler {
public:
  TileGemmEmitter(CodeMemory& memory, const GemmFamilyRow& row, const GemmKey& s)
      : Assembler(memory, row.isa), arithmetic_(row.arithmetic), groups_(s.rows / tile_rows), vectors_(s.vectors),
        b_tiles_(tiles - groups_ * vectors_ - groups_) {}

  void* emit() {
    Xbyak::Label next_tile, next_position, store, from_c, start, end;
    enter(8);
    L(next_tile);
    mov(c(), ptr[rdi + offsetof(GemmArgs, c)]);
    mov(c_stride(), ptr[rdi + offsetof(GemmArgs, c_stride)]);
    mov(b(), ptr[rdi + offsetof(GemmArgs, b)]);
    mov(a_stride(), ptr[rdi + offsetof(GemmArgs, a_stride)]);
    mov(rows(), ptr[rdi + offsetof(GemmArgs, rows)]);
    mov(positions(), ptr[rdi + offsetof(GemmArgs, positions)]);
    mov(b_stride(), vectors_ * tile_row_bytes);
    cmp(qword[rdi + offsetof(GemmArgs, mode)], static_cast<int>(GemmInit::C));
    je(from_c, T_NEAR);
    for (int i = 0; i < groups_ * vectors_; i++) tilezero(Xbyak::Tmm(i));
    jmp(start, T_NEAR);
    L(from_c);
    for_each_sum([&](int t, const Xbyak::Address& at) { tileloaddt1(Xbyak::Tmm(t), at); });
    L(start);
    mov(ahead(), ptr[rdi + offsetof(GemmArgs, ahead)]);
    cmp(qword[rdi + offsetof(GemmArgs, depth)], 0);
    jle(store, T_NEAR);
    test(positions(), positions());
    jle(store, T_NEAR);
    L(next_position);
    sum_position();
    dec(positions());
    jnz(next_position, T_NEAR);
    L(store);
    for_each_sum([&](int t, const Xbyak::Address& at) { tilestored(at, Xbyak::Tmm(t)); });
    dec(qword[rdi + offsetof(GemmArgs, tiles)]);
    jle(end, T_NEAR);
    advance(offsetof(GemmArgs, b), offsetof(GemmArgs, next_b));
    advance(offsetof(GemmArgs, c), offsetof(GemmArgs, next_c));
    cmp(qword[rdi + offsetof(GemmArgs, ahead)], 0);
    je(next_tile, T_NEAR);
    advance(offsetof(GemmArgs, ahead), offsetof(GemmArgs, next_b));
    jmp(next_tile, T_NEAR);
    L(end);
    leave();
    return finish();
  }

private:
  Reg64 c() const { return rsi; }
  Reg64 c_stride() const { return rdx; }
  Reg64 b() const { return rcx; }
  Reg64 b_stride() const { return r8; }
  Reg64 a_stride() const { return r9; }
  Reg64 rows() const { return r10; }
  Reg64 positions() const { return r11; }
  Reg64 steps() const { return rax; }
  Reg64 ahead() const { return r14; } // free while sums are in registers
  Reg64 a(int group) const { return group == 0 ? r12 : r13; }

  Xbyak::Tmm sum(int group, int j) const { return Xbyak::Tmm(group * vectors_ + j); }
  Xbyak::Tmm a_tile(int group) const { return Xbyak::Tmm(groups_ * vectors_ + group); }
  Xbyak::Tmm b_tile(int j) const { return Xbyak::Tmm(groups_ * vectors_ + groups_ + j % b_tiles_); }

  void advance(size_t pointer, size_t step) {
    mov(rax, ptr[rdi + step]);
    add(ptr[rdi + pointer], rax);
  }

  template <class F> void for_each_sum(const F& f) {
    mov(r14, c_stride());
    shl(r14, 4);
    mov(r15, c());
    for (int g = 0; g < groups_; g++) {
      for (int j = 0; j < vectors_; j++) f(g * vectors_ + j, ptr[r15 + c_stride() + j * tile_row_bytes]);
      if (g + 1 < groups_) add(r15, r14);
    }
  }

  void sum_position() {
    Xbyak::Label skip, plain, done;
    for (int g = 0; g < groups_; g++) mov(a(g), ptr[rows() + g * 8]);
    add(rows(), groups_ * 8);
    mov(steps(), ptr[rdi + offsetof(GemmArgs, depth)]);
    test(a(0), a(0));
    jz(skip, T_NEAR);
    for (int g = 0; g < groups_; g++) add(a(g), ptr[rdi + offsetof(GemmArgs, first)]);
    shr(steps(), 4); // tile_rows groups of k in a step
    test(ahead(), ahead());
    jz(plain, T_NEAR);
    sum_steps(true);
    jmp(done, T_NEAR);
    L(plain);
    sum_steps(false);
    jmp(done, T_NEAR);
    L(skip); // padding: nothing is added
    imul(steps(), steps(), vectors_ * tile_row_bytes);
    add(b(), steps());
    L(done);
  }

  void sum_steps(bool looks_ahead) {
    Xbyak::Label next;
    align(32);
    L(next);
    step(looks_ahead);
    for (int g = 0; g < groups_; g++) add(a(g), tile_row_bytes);
    add(b(), tile_rows * tile_row_bytes * vectors_);
    if (looks_ahead) add(ahead(), tile_rows * tile_row_bytes * vectors_);
    dec(steps());
    jnz(next, T_NEAR);
  }

  /// Loads stand right before the first product that needs them: the products of the step before cover them. B passes L1 by, which A's
  /// rows are to stay in. Where it comes from memory, what follows is asked for as fast as this is read.
  void step(bool looks_ahead) {
    for (int j = 0; j < vectors_; j++) {
      tileloaddt1(b_tile(j), ptr[b() + b_stride() + j * tile_row_bytes]);
      for (int g = 0; g < groups_; g++) {
        if (j == 0) tileloadd(a_tile(g), ptr[a(g) + a_stride()]);
        multiply(sum(g, j), a_tile(g), b_tile(j));
      }
      for (int i = 0; looks_ahead && i < tile_rows; i++) prefetcht1(ptr[ahead() + (j * tile_rows + i) * tile_row_bytes]);
    }
  }
  void multiply(const Xbyak::Tmm& c, const Xbyak::Tmm& a, const Xbyak::Tmm& b) {
    switch (arithmetic_) {
    case Arithmetic::BF16Tile: tdpbf16ps(c, a, b); break;
    case Arithmetic::U8I8Tile: tdpbusd(c, a, b); break;
    default: tdpbssd(c, a, b);
    }
  }

  Arithmetic arithmetic_;
  int groups_, vectors_, b_tiles_;
};

/// Palette 1 with eight tiles of 16 x 64 bytes, by CPUID: hypervisors announce AMX without it.
bool has_palette() {
  unsigned a, b, c, d;
  if (!__get_cpuid_count(0x1d, 0, &a, &b, &c, &d) || a < 1) return false;
  if (!__get_cpuid_count(0x1d, 1, &a, &b, &c, &d)) return false;
  unsigned tile_bytes = a >> 16, bytes_per_row = b & 0xffff, names = b >> 16, max_rows = c & 0xffff;
  return tile_bytes >= 1024 && bytes_per_row >= tile_row_bytes && names >= tiles && max_rows >= tile_rows;
}

bool ask_for_tiles() {
  constexpr long request = 0x1023, tile_data = 18; // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, request, tile_data) == 0;
}

/// Virtual machines have been seen that lose tiles when a thread is put aside.
bool tiles_survive() {
  CodeMemory memory;
  auto begin = reinterpret_cast<void (*)()>(emit_begin_tiles(memory));
  auto end = reinterpret_cast<void (*)()>(emit_end_tiles(memory));
  auto trip = reinterpret_cast<void (*)(void*)>(TileAssembler(memory).round_trip(sched_yield));
  alignas(64) uint8_t tile[tile_rows * tile_row_bytes], before[sizeof tile];
  for (size_t i = 0; i < sizeof tile; i++) before[i] = tile[i] = static_cast<uint8_t>(i * 7 + i / 64 + 1);
  begin();
  bool same = true;
  for (int i = 0; i < 32 && same; i++) {
    trip(tile);
    same = std::memcmp(tile, before, sizeof tile) == 0;
  }
  end();
  return same;
}

} // namespace

bool tiles_permitted() {
  static const bool permitted = has_palette() && ask_for_tiles() && tiles_survive();
  return permitted;
}

void* emit_begin_tiles(CodeMemory& memory) { return TileAssembler(memory).begin_tiles(); }
void* emit_end_tiles(CodeMemory& memory) { return TileAssembler(memory).end_tiles(); }

bool tile_gemm_fits(int rows, int vectors) {
  int groups = rows / tile_rows;
  return rows > 0 && rows % tile_rows == 0 && groups <= 2 && vectors >= 1 && groups * (vectors + 1) + 1 <= tiles;
}

void* emit_tile_gemm(CodeMemory& memory, const GemmFamilyRow& row, const GemmKey& key) {
  require(tile_gemm_fits(key.rows, key.vectors) && !key.masked && key.kind != GemmKind::InPlace, "no tile kernel of {}x{}", key.rows,
          key.vectors);
  return TileGemmEmitter(memory, row, key).emit();
}

} // namespace tenon
