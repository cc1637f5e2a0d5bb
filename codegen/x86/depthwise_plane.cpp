// Emits the depthwise micro-kernels for a rectangle of output pixels under a square window. The sums of one vector
// of channels of all outputs stay in registers; each input pixel is loaded once and multiplied into every output whose
// window holds it, or left out where it is padding. Weights of a 3x3 window stay in registers too if there are 32.
#include <cstddef>

#include "base/check.h"
#include "codegen/x86/channel_loads.h"
#include "codegen/x86/depthwise.h"

namespace tenon {
namespace {

class PlaneEmitter : public ChannelAssembler {
public:
  PlaneEmitter(CodeMemory& memory, Isa isa, PlaneShape s)
      : ChannelAssembler(memory, isa, s.in, 0), s_(s), weights_held_(wide() && s.kernel == 3) {
    int sums = s.rows * s.pixels, weights = weights_held_ ? s.kernel * s.kernel : 0;
    first_weight_ = sums;
    first_spare_ = sums + weights;
    require(first_spare_ < registers(), "a depthwise tile of {}x{} does not fit the registers", s.rows, s.pixels);
  }

  void* emit() {
    Xbyak::Label next_block, done;
    enter(mask_bytes);
    load_arguments();
    test(blocks(), blocks());
    jle(done, T_NEAR);
    align(32);
    L(next_block);
    sum_block();
    store_block();
    add(offset(), in_vector_bytes());
    add(weights(), s_.kernel * s_.kernel * vector_bytes());
    add(c(), vector_bytes());
    dec(blocks());
    jnz(next_block, T_NEAR);
    L(done);
    leave();
    return finish();
  }

private:
  Reg64 pixels() const { return rsi; }
  Reg64 offset() const { return rcx; } // of the block's channels, from the pixels' pointers
  Reg64 weights() const { return rdx; }
  Reg64 c() const { return r8; }
  Reg64 c_pixel() const { return r9; }
  Reg64 c_row() const { return r11; }
  Reg64 blocks() const { return r12; }
  Reg64 pointer(int i) const {
    static constexpr int order[4] = {3, 5, 13, 14};
    return Reg64(order[i % 4]);
  }
  Xmm sum(int i, int j) const { return vec(i * s_.pixels + j); }
  Xmm spare(int i) const { return vec(first_spare_ + i % (registers() - first_spare_)); }

  void load_arguments() {
    if (s_.masked) {
      mov(rax, ptr[rdi + offsetof(DepthwiseArgs, columns)]);
      mask_channels(spare(0), rdx);
    }
    mov(pixels(), ptr[rdi + offsetof(DepthwiseArgs, pixels)]);
    mov(offset(), ptr[rdi + offsetof(DepthwiseArgs, first)]);
    mov(weights(), ptr[rdi + offsetof(DepthwiseArgs, weights)]);
    mov(c(), ptr[rdi + offsetof(DepthwiseArgs, c)]);
    mov(c_pixel(), ptr[rdi + offsetof(DepthwiseArgs, c_pixel)]);
    mov(c_row(), ptr[rdi + offsetof(DepthwiseArgs, c_row)]);
    mov(blocks(), ptr[rdi + offsetof(DepthwiseArgs, blocks)]);
  }

  void sum_block() {
    for (int i = 0; i < s_.rows * s_.pixels; i++) vxorps(Xmm(i), Xmm(i), Xmm(i));
    if (weights_held_)
      for (int q = 0; q < s_.kernel * s_.kernel; q++) vmovups(vec(first_weight_ + q), ptr[weights() + q * vector_bytes()]);
    for (int i = 0, n = 0; i < s_.in_rows(); i++)
      for (int j = 0; j < s_.in_pixels(); j++, n++) {
        if (!used(i, s_.rows) || !used(j, s_.pixels)) continue;
        Xbyak::Label padding;
        mov(pointer(n), ptr[pixels() + 8 * n]);
        test(pointer(n), pointer(n));
        jz(padding, T_NEAR);
        Xmm x = spare(n);
        load_channels(x, pointer(n) + offset(), s_.masked);
        multiply_into_all(x, i, j);
        L(padding);
      }
  }
  /// True if some output's window holds input coordinate i (windows of stride 2 and a kernel of 1 would leave gaps).
  bool used(int i, int outputs) const {
    for (int o = 0; o < outputs; o++)
      if (i - o * s_.stride >= 0 && i - o * s_.stride < s_.kernel) return true;
    return false;
  }
  void multiply_into_all(const Xmm& x, int i, int j) {
    for (int oy = 0; oy < s_.rows; oy++)
      for (int ox = 0; ox < s_.pixels; ox++) {
        int ky = i - oy * s_.stride, kx = j - ox * s_.stride;
        if (ky < 0 || ky >= s_.kernel || kx < 0 || kx >= s_.kernel) continue;
        int q = ky * s_.kernel + kx;
        if (weights_held_) vfmadd231ps(sum(oy, ox), x, vec(first_weight_ + q));
        else vfmadd231ps(sum(oy, ox), x, ptr[weights() + q * vector_bytes()]);
      }
  }

  void store_block() {
    mov(rbx, c());
    for (int i = 0; i < s_.rows; i++) {
      mov(rax, rbx);
      for (int j = 0; j < s_.pixels; j++) {
        store_sums(rax, sum(i, j), s_.masked, pointer(1));
        if (j + 1 < s_.pixels) add(rax, c_pixel());
      }
      if (i + 1 < s_.rows) add(rbx, c_row());
    }
  }

  PlaneShape s_;
  bool weights_held_;
  int first_weight_ = 0, first_spare_ = 0;
};

} // namespace

void* emit_plane(CodeMemory& memory, Isa isa, PlaneShape s) { return PlaneEmitter(memory, isa, s).emit(); }

} // namespace tenon
