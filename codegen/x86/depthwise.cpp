// Emits the depthwise micro-kernels for any window. For a block of channels the tile's sums stay in registers over
// all kernel positions; a position's weights are loaded once for all pixels of the tile, and every input vector is an
// operand of one multiply-add, in f32. Groups of several channels lie beside each other in a vector: for each channel of the
// group, it is copied to all lanes of its group.
#include "codegen/x86/depthwise.h"

#include <cstddef>

#include "base/check.h"
#include "codegen/x86/channel_loads.h"

namespace tenon {
namespace {

class DepthwiseEmitter : public ChannelAssembler {
public:
  DepthwiseEmitter(CodeMemory& memory, Isa isa, DepthwiseShape s) : ChannelAssembler(memory, isa, s.in, mask), s_(s) {}

  void* emit() {
    Xbyak::Label next_block, done, first_lanes;
    enter(locals_bytes);
    load_arguments();
    if (permutes_far()) load_lanes(first_lanes);
    cmp(qword[rsp + blocks], 0);
    jle(done, T_NEAR);
    L(next_block);
    sum_block();
    store_block();
    add(offset(), s_.vectors * in_vector_bytes());
    mov(rax, weights_stride());
    imul(rax, rax, s_.vectors);
    add(weights(), rax);
    add(c(), block_bytes());
    dec(qword[rsp + blocks]);
    jnz(next_block, T_NEAR);
    L(done);
    leave();
    if (permutes_far()) {
      align(64);
      L(first_lanes);
      for (int i = 0; i < lanes(); i++) dd(static_cast<uint32_t>(i / s_.group * s_.group));
    }
    return finish();
  }

private:
  enum { blocks = 0, rows = 8, mask = 16, locals_bytes = mask + mask_bytes };

  Reg64 offset() const { return rcx; } // of the block's channels, from the row pointers
  Reg64 weights() const { return rdx; }
  Reg64 weights_stride() const { return rsi; }
  Reg64 c() const { return r8; }
  Reg64 c_stride() const { return r9; }
  Reg64 positions() const { return r11; }
  Reg64 pointers() const { return r12; }
  Reg64 position_weights() const { return r13; }
  Reg64 left() const { return r14; }
  Reg64 row(int i) const {
    static constexpr int order[3] = {3, 5, 15};
    return Reg64(order[i % 3]);
  }
  int block_bytes() const { return s_.vectors * vector_bytes(); }
  Xmm sum(int i, int j) const { return vec(i * s_.vectors + j); }
  bool is_grouped() const { return s_.group > 1; }
  int num_weights() const { return s_.vectors * s_.group; }
  Xmm weight(int j) const { return vec(s_.rows * s_.vectors + j); }
  Xmm spare() const { return vec(s_.rows * s_.vectors + num_weights()); }
  Xmm copied() const { return vec(spare().getIdx() + 1); }
  /// Groups wider than the 128 bits in which an immediate permutes: lanes of channel i.
  bool permutes_far() const { return s_.group > 4; }
  Xmm lanes_of(int i) const { return vec(spare().getIdx() + 2 + i); }
  bool partial(int j) const { return s_.masked && j == s_.vectors - 1; }

  void load_arguments() {
    if (s_.masked) {
      mov(rax, ptr[rdi + offsetof(DepthwiseArgs, columns)]);
      if (s_.vectors > 1) sub(rax, (s_.vectors - 1) * lanes());
      mask_channels(spare(), rdx);
    }
    mov(rax, ptr[rdi + offsetof(DepthwiseArgs, blocks)]);
    mov(ptr[rsp + blocks], rax);
    mov(rax, ptr[rdi + offsetof(DepthwiseArgs, pixels)]);
    mov(ptr[rsp + rows], rax);
    mov(offset(), ptr[rdi + offsetof(DepthwiseArgs, first)]);
    mov(weights(), ptr[rdi + offsetof(DepthwiseArgs, weights)]);
    mov(c(), ptr[rdi + offsetof(DepthwiseArgs, c)]);
    mov(c_stride(), ptr[rdi + offsetof(DepthwiseArgs, c_pixel)]);
    mov(positions(), ptr[rdi + offsetof(DepthwiseArgs, positions)]);
    imul(weights_stride(), positions(), s_.group * vector_bytes());
  }

  /// A position's weights: one vector from each of the block's groups of lanes, which lie weights_stride apart.
  void load_weights() {
    for (int i = 0; is_grouped() && i < s_.group; i++) vmovups(weight(i), ptr[position_weights() + i * vector_bytes()]);
    for (int j = 0; !is_grouped() && j < s_.vectors; j++) {
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
      if (is_grouped()) add_group(i);
      for (int j = 0; !is_grouped() && j < s_.vectors; j++) {
        Xbyak::RegExp in = row(i) + offset() + j * in_vector_bytes();
        if (s_.in == DType::F32 && !partial(j)) {
          vfmadd231ps(sum(i, j), weight(j), ptr[in]);
        } else {
          load_channels(spare(), in, partial(j));
          vfmadd231ps(sum(i, j), weight(j), spare());
        }
      }
    }
    L(skip);
    add(pointers(), 8 * s_.rows);
    add(position_weights(), s_.group * vector_bytes());
    dec(left());
    jnz(next, T_NEAR);
  }
  /// What the channels of each group add to the sums of row i.
  void add_group(int i) {
    load_channels(spare(), row(i) + offset(), partial(0));
    for (int k = 0; k < s_.group; k++) {
      if (permutes_far()) vpermps(Xbyak::Zmm(copied().getIdx()), Xbyak::Zmm(lanes_of(k).getIdx()), Xbyak::Zmm(spare().getIdx()));
      else vpermilps(copied(), spare(), s_.group == 4 ? k * 0x55 : k == 0 ? 0xa0 : 0xf5);
      vfmadd231ps(sum(i, 0), weight(k), copied());
    }
  }
  /// lanes_of(i) = the first lane of each lane's group, plus i.
  void load_lanes(const Xbyak::Label& first_lanes) {
    vmovups(lanes_of(0), ptr[rip + first_lanes]);
    mov(eax, 1);
    vpbroadcastd(Xbyak::Zmm(copied().getIdx()), eax);
    for (int i = 1; i < s_.group; i++) vpaddd(lanes_of(i), lanes_of(i - 1), copied());
  }

  void store_block() {
    mov(rax, c());
    for (int i = 0; i < s_.rows; i++) {
      for (int j = 0; j < s_.vectors; j++) store_sums(rax + j * vector_bytes(), sum(i, j), partial(j), row(0));
      if (i + 1 < s_.rows) add(rax, c_stride());
    }
  }

  DepthwiseShape s_;
};

} // namespace

bool depthwise_fits(Isa isa, DepthwiseShape s) {
  bool wide = isa == Isa::Avx512, grouped = s.group > 1, permutes_far = s.group > 4;
  if (s.rows < 1 || s.vectors < 1 || s.vectors > 4 || s.rows > KernelTable::max_rows || (grouped && s.vectors > 1) ||
      (permutes_far && !wide))
    return false;
  int spares = 1 + grouped + (permutes_far ? s.group : 0);
  return s.rows * s.vectors + s.group * s.vectors + spares <= (wide ? 32 : 16);
}

void* emit_depthwise(CodeMemory& memory, Isa isa, DepthwiseShape s) {
  require(depthwise_fits(isa, s), "a depthwise tile of {}x{} does not fit the registers", s.rows, s.vectors);
  return DepthwiseEmitter(memory, isa, s).emit();
}

} // namespace tenon
