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
#include <map>

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
        b_tiles_(tiles - groups_ * vectors_ - groups_), streams_a_(s.kind == GemmKind::PackedRows) {}

  /// Tiles of a series one after the other. The sums of one are stored within the first step of the next, where that is possible: the
  /// stores then wait for no product that is not under way.
  void* emit() {
    Xbyak::Label next_tile, from_c, start, store, next_position, skip, end;
    enter(8);
    mov(c_stride(), ptr[rdi + offsetof(GemmArgs, c_stride)]);
    mov(a_stride(), ptr[rdi + offsetof(GemmArgs, a_stride)]);
    mov(b_stride(), vectors_ * tile_row_bytes);
    choose_loop();
    L(next_tile);
    mov(c(), ptr[rdi + offsetof(GemmArgs, c)]);
    enter_tile();
    cmp(qword[rdi + offsetof(GemmArgs, mode)], static_cast<int>(GemmInit::C));
    je(from_c, T_NEAR);
    for (int i = 0; i < groups_ * vectors_; i++) tilezero(Xbyak::Tmm(i));
    jmp(start, T_NEAR);
    L(from_c);
    for_each_sum([&](int t, const Xbyak::Address& at) { tileloaddt1(Xbyak::Tmm(t), at); });
    L(start);
    cmp(qword[rdi + offsetof(GemmArgs, depth)], 0);
    jle(store, T_NEAR);
    test(positions(), positions());
    jle(store, T_NEAR);
    L(next_position);
    cmp(qword[rows()], 0);
    je(skip, T_NEAR);
    enter_position();
    mov(steps(), ptr[rdi + offsetof(GemmArgs, depth)]);
    shr(steps(), 4); // tile_rows groups of k in a step
    jmp(loop());
    L(skip); // padding: nothing is added
    skip_position();
    L(position_end_);
    dec(positions());
    jnz(next_position, T_NEAR);
    weave();
    L(store);
    for_each_sum([&](int t, const Xbyak::Address& at) { tilestored(at, Xbyak::Tmm(t)); });
    dec(qword[rdi + offsetof(GemmArgs, tiles)]);
    jle(end, T_NEAR);
    advance_tile();
    jmp(next_tile, T_NEAR);
    L(end);
    if (streams_a_) mov(ptr[rdi + offsetof(GemmArgs, ahead)], asked());
    leave();
    for (auto& [lines, label] : loops_) sum_steps(label, lines);
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
  Reg64 a(int group) const { return group == 0 ? r12 : r13; }
  Reg64 asked() const { return rbx; } // what is asked for next; rows of A: those of a pair lie so far apart
  Reg64 asked_stride() const { return rbp; }
  Reg64 loop() const { return r14; }

  Xbyak::Tmm sum(int group, int j) const { return Xbyak::Tmm(group * vectors_ + j); }
  Xbyak::Tmm a_tile(int group) const { return Xbyak::Tmm(groups_ * vectors_ + group); }
  Xbyak::Tmm b_tile(int j) const { return Xbyak::Tmm(groups_ * vectors_ + groups_ + j % b_tiles_); }

  // ---- what is asked for

  static constexpr int rows_of_a = -1, nothing = 0; // in place of a number of lines
  /// The loop over steps that asks for what the arguments say.
  void choose_loop() {
    Xbyak::Label no_panel, done;
    if (streams_a_) mov(asked(), ptr[rdi + offsetof(GemmArgs, ahead)]);
    lea(loop(), ptr[rip + loops_[nothing]]);
    cmp(qword[rdi + offsetof(GemmArgs, ahead)], 0);
    je(no_panel, T_NEAR);
    mov(rax, ptr[rdi + offsetof(GemmArgs, ahead_lines)]);
    for (int lines = vectors_ * tile_rows; lines > 1; lines /= 2) {
      lea(loop(), ptr[rip + loops_[lines]]);
      cmp(rax, lines);
      jge(done, T_NEAR);
    }
    jmp(done, T_NEAR);
    L(no_panel);
    if (!streams_a_) {
      cmp(qword[rdi + offsetof(GemmArgs, rows_ahead)], 0);
      je(done, T_NEAR);
      lea(loop(), ptr[rip + loops_[rows_of_a]]);
    }
    L(done);
  }
  void ask(int lines) {
    static_assert(GemmArgs::rows_ahead_of_tile == 2);
    for (int i = 0; i < lines; i++) prefetcht1(ptr[asked() + i * tile_row_bytes]);
    if (lines > 0) add(asked(), lines * tile_row_bytes);
    if (lines != rows_of_a) return;
    prefetcht1(ptr[asked()]);
    prefetcht1(ptr[asked() + asked_stride()]);
    add(asked(), tile_row_bytes);
  }
  /// The same as the loop does in a step.
  void ask_once() {
    Xbyak::Label next, rows, done;
    cmp(qword[rdi + offsetof(GemmArgs, ahead)], 0);
    je(rows, T_NEAR);
    mov(rax, ptr[rdi + offsetof(GemmArgs, ahead_lines)]);
    L(next);
    ask(1);
    dec(rax);
    jg(next);
    jmp(done, T_NEAR);
    L(rows);
    if (!streams_a_) {
      cmp(qword[rdi + offsetof(GemmArgs, rows_ahead)], 0);
      je(done, T_NEAR);
      ask(rows_of_a);
    }
    L(done);
  }

  // ---- from tile to tile

  void advance(size_t pointer, size_t step) {
    mov(rax, ptr[rdi + step]);
    add(ptr[rdi + pointer], rax);
  }
  void advance_tile() {
    Xbyak::Label no_panel, no_rows;
    advance(offsetof(GemmArgs, first), offsetof(GemmArgs, next_a));
    advance(offsetof(GemmArgs, b), offsetof(GemmArgs, next_b));
    advance(offsetof(GemmArgs, c), offsetof(GemmArgs, next_c));
    if (streams_a_) return; // goes on where it is
    cmp(qword[rdi + offsetof(GemmArgs, ahead)], 0);
    je(no_panel, T_NEAR);
    advance(offsetof(GemmArgs, ahead), offsetof(GemmArgs, next_b));
    L(no_panel);
    cmp(qword[rdi + offsetof(GemmArgs, rows_ahead)], 0);
    je(no_rows, T_NEAR);
    lea(rax, ptr[asked_stride() * GemmArgs::rows_ahead_of_tile]);
    add(ptr[rdi + offsetof(GemmArgs, rows_ahead)], rax);
    L(no_rows);
  }
  void enter_tile() {
    mov(b(), ptr[rdi + offsetof(GemmArgs, b)]);
    mov(rows(), ptr[rdi + offsetof(GemmArgs, rows)]);
    mov(positions(), ptr[rdi + offsetof(GemmArgs, positions)]);
    if (streams_a_) return;
    mov(asked(), ptr[rdi + offsetof(GemmArgs, ahead)]);
    test(asked(), asked());
    cmovz(asked(), ptr[rdi + offsetof(GemmArgs, rows_ahead)]);
    mov(asked_stride(), ptr[rdi + offsetof(GemmArgs, rows_ahead_stride)]);
  }
  void enter_position() {
    for (int g = 0; g < groups_; g++) mov(a(g), ptr[rows() + g * 8]);
    for (int g = 0; g < groups_; g++) add(a(g), ptr[rdi + offsetof(GemmArgs, first)]);
    add(rows(), groups_ * 8);
  }
  void skip_position() {
    add(rows(), groups_ * 8);
    mov(steps(), ptr[rdi + offsetof(GemmArgs, depth)]);
    imul(steps(), steps(), vectors_ * tile_row_bytes);
    add(b(), steps());
  }

  template <class F> void for_each_sum(const F& f) {
    mov(r15, c());
    for (int g = 0; g < groups_; g++) {
      for (int j = 0; j < vectors_; j++) f(g * vectors_ + j, ptr[r15 + c_stride() + j * tile_row_bytes]);
      if (g + 1 == groups_) break;
      mov(r15, c_stride());
      shl(r15, 4);
      add(r15, c());
    }
  }

  /// Goes on with the next tile of the series, whose first step stores the sums of this one; falls through where there is none, or its
  /// first position is padding.
  void weave() {
    Xbyak::Label from_c, stored, plain;
    cmp(qword[rdi + offsetof(GemmArgs, tiles)], 1);
    jle(plain, T_NEAR);
    mov(rows(), ptr[rdi + offsetof(GemmArgs, rows)]);
    cmp(qword[rows()], 0);
    je(plain, T_NEAR);
    dec(qword[rdi + offsetof(GemmArgs, tiles)]);
    advance_tile();
    enter_tile();
    enter_position();
    cmp(qword[rdi + offsetof(GemmArgs, mode)], static_cast<int>(GemmInit::C));
    je(from_c, T_NEAR);
    woven_step(false);
    jmp(stored, T_NEAR);
    L(from_c);
    woven_step(true);
    mov(positions(), ptr[rdi + offsetof(GemmArgs, positions)]);
    L(stored);
    mov(c(), ptr[rdi + offsetof(GemmArgs, c)]);
    ask_once();
    next_step();
    mov(steps(), ptr[rdi + offsetof(GemmArgs, depth)]);
    shr(steps(), 4);
    dec(steps());
    jz(position_end_, T_NEAR);
    jmp(loop());
    L(plain);
  }
  /// Old sums go to c, new ones start from 0 or from what the next C holds. Clobbers positions().
  void woven_step(bool from_c) {
    Reg64 old[] = {c(), r15}, next[] = {rax, r11};
    mov(r15, c_stride());
    shl(r15, 4);
    if (from_c) {
      mov(rax, ptr[rdi + offsetof(GemmArgs, c)]);
      lea(r11, ptr[rax + r15]);
    }
    add(r15, c());
    step([&](int g, int j) {
      tilestored(ptr[old[g] + c_stride() + j * tile_row_bytes], sum(g, j));
      if (from_c) tileloaddt1(sum(g, j), ptr[next[g] + c_stride() + j * tile_row_bytes]);
      else tilezero(sum(g, j));
    });
  }

  // ---- steps of k

  void sum_steps(Xbyak::Label& next, int lines) {
    align(32);
    L(next);
    step([](int, int) {});
    ask(lines);
    next_step();
    dec(steps());
    jnz(next, T_NEAR);
    jmp(position_end_, T_NEAR);
  }
  void next_step() {
    for (int g = 0; g < groups_; g++) add(a(g), tile_row_bytes);
    add(b(), tile_rows * tile_row_bytes * vectors_);
  }
  /// Loads stand right before the first product that needs them: the products of the step before cover them. What streams, B or A, passes
  /// L1 by, which the other is to stay in.
  template <class F> void step(const F& before) {
    for (int j = 0; j < vectors_; j++) {
      load(b_tile(j), ptr[b() + b_stride() + j * tile_row_bytes], !streams_a_);
      for (int g = 0; g < groups_; g++) {
        before(g, j);
        if (j == 0) load(a_tile(g), ptr[a(g) + a_stride()], streams_a_);
        multiply(sum(g, j), a_tile(g), b_tile(j));
      }
    }
  }
  void load(const Xbyak::Tmm& to, const Xbyak::Address& from, bool streams) { streams ? tileloaddt1(to, from) : tileloadd(to, from); }
  void multiply(const Xbyak::Tmm& c, const Xbyak::Tmm& a, const Xbyak::Tmm& b) {
    switch (arithmetic_) {
    case Arithmetic::BF16Tile: tdpbf16ps(c, a, b); break;
    case Arithmetic::U8I8Tile: tdpbusd(c, a, b); break;
    default: tdpbssd(c, a, b);
    }
  }

  Arithmetic arithmetic_;
  int groups_, vectors_, b_tiles_;
  bool streams_a_; // B's panel stays in L1
  Xbyak::Label position_end_;
  std::map<int, Xbyak::Label> loops_; // by the lines that a step asks for
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
  require(tile_gemm_fits(key.rows, key.vectors) && !key.masked &&
              (key.kind == GemmKind::Packed || key.kind == GemmKind::PackedRows || key.kind == GemmKind::Windows),
          "no tile kernel of {}x{}", key.rows, key.vectors);
  return TileGemmEmitter(memory, row, key).emit();
}

} // namespace tenon
