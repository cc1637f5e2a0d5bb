// Emits the micro-kernels for convolution of row-major planes, of f32 or of pairs of bf16: vectors along a line of outputs. The sums of a
// tile stay in registers; the taps are unaligned loads of the input lines, under masks where a window crosses the border, and each serves
// all outputs, and all output lines, whose windows hold it. With a step of 2, two loads are taken apart into even and odd columns, unless
// the lines are parted.
#include <algorithm>
#include <cstddef>

#include "base/check.h"
#include "codegen/x86/assembler.h"
#include "codegen/x86/depthwise.h"
#include "codegen/x86/sum_parts.h"

namespace tenon {
namespace {

class LineEmitter : public Assembler {
public:
  LineEmitter(CodeMemory& memory, Isa isa, const LineKey& key)
      : Assembler(memory, isa), s_(key), parts_(*this, {parts_slots, locals_bytes}, key.sums(), wide(), true) {
    first_value_ = s_.sums();
    first_weight_ = first_value_ + s_.values();
    int next = first_weight_ + (s_.is_single() && s_.pairs() ? 2 : 1);
    if (s_.loads() == 2) second_ = next++;
    if (s_.masked && !s_.part && !wide()) mask_ = next++;
    chosen_ = next;
    first_held_ = s_.registers(wide());
    held_ = s_.outputs == 1 && s_.rows > 1 && first_held_ + s_.kernel * s_.taps <= registers();
    masks_held_ = wide() && s_.load_masks() <= most_masks;
    require(!s_.dot || (wide() && s_.part), "pairs of bf16 are multiplied by AVX-512, in parted lines");
    require(first_held_ <= registers() && s_.vectors <= most_vectors,
            "a tile of {} lines by {} vectors of {} outputs does not fit the registers", s_.rows, s_.vectors, s_.outputs);
  }

  void* emit() {
    Xbyak::Label next_block, next_input, next_step, done;
    enter(locals_bytes + parts_.stack_bytes(), true);
    load_arguments();
    parts_.keep_length(part_terms);
    test(blocks(), blocks());
    jle(done, T_NEAR);
    align(32);
    L(next_block);
    for (int i = 0; i < s_.sums(); i++) vxorps(Xmm(i), Xmm(i), Xmm(i));
    parts_.begin();
    mov(inputs(), ptr[rsp + num_inputs]);
    mov(ptr[rsp + block_first], first());
    L(next_input);
    parts_.put_by_if_complete(rax);
    imul(rax, steps(), s_.kernel * s_.taps * (s_.dot ? 2 : 1));
    parts_.take(rax);
    mov(line(), lines());
    mov(left(), steps());
    L(next_step);
    sum_step();
    add(line(), 8 * s_.in_lines());
    add(weights(), 4 * s_.kernel * s_.taps * s_.outputs);
    dec(left());
    jnz(next_step, T_NEAR);
    add(first(), in_channel());
    dec(inputs());
    jnz(next_input, T_NEAR);
    parts_.add();
    store();
    mov(first(), ptr[rsp + block_first]);
    add(first(), in_channel());
    add(c(), c_channel());
    dec(blocks());
    jnz(next_block, T_NEAR);
    L(done);
    leave();
    parts_.emit();
    if (s_.loads() == 2 && wide()) emit_choices();
    return finish();
  }

private:
  static constexpr int most_masks = 6;   // in k1..k6; k7 changes
  static constexpr int part_terms = 128; // as in GemmArgs::part
  enum { num_inputs = 0, block_first = 8, stored_counts = 16, parts_slots = 24, locals_bytes = 64 };
  static constexpr int most_vectors = 8; // a byte of stored_counts each

  const Reg64& line() const { return rdi; } // of the step's input lines
  const Reg64& lines() const { return rsi; }
  const Reg64& first() const { return rcx; }
  const Reg64& weights() const { return rdx; }
  const Reg64& c() const { return r8; }
  const Reg64& c_row() const { return r9; }
  const Reg64& c_channel() const { return r10; }
  const Reg64& in_channel() const { return r11; }
  const Reg64& steps() const { return r12; }
  const Reg64& blocks() const { return r13; }
  const Reg64& masks() const { return r14; }
  const Reg64& left() const { return r15; }
  const Reg64& inputs() const { return rbp; }
  const Reg64& pointer() const { return rbx; } // of an input line
  Xmm sum(int output, int row, int v) const { return vec((output * s_.rows + row) * s_.vectors + v); }
  Xmm value(int v, int parity) const { return vec(first_value_ + (s_.is_single() ? 0 : v) * (s_.pairs() ? 2 : 1) + parity); }
  Xmm chosen(int parity) const { return vec(chosen_ + parity); }

  void load_arguments() {
    if (s_.loads() == 2 && wide())
      for (int p = 0; p < (s_.pairs() ? 2 : 1); p++) {
        lea(rax, ptr[rip + choices_]);
        vmovups(chosen(p), ptr[rax + p * 64]);
      }
    mov(lines(), ptr[rdi + offsetof(LineArgs, lines)]);
    mov(first(), ptr[rdi + offsetof(LineArgs, first)]);
    mov(weights(), ptr[rdi + offsetof(LineArgs, weights)]);
    mov(c(), ptr[rdi + offsetof(LineArgs, c)]);
    mov(c_row(), ptr[rdi + offsetof(LineArgs, c_row)]);
    mov(c_channel(), ptr[rdi + offsetof(LineArgs, c_channel)]);
    mov(in_channel(), ptr[rdi + offsetof(LineArgs, in_channel)]);
    mov(steps(), ptr[rdi + offsetof(LineArgs, steps)]);
    mov(blocks(), ptr[rdi + offsetof(LineArgs, blocks)]);
    mov(rax, ptr[rdi + offsetof(LineArgs, inputs)]);
    mov(ptr[rsp + num_inputs], rax);
    if (!s_.masked) return;
    mov(masks(), ptr[rdi + offsetof(LineArgs, masks)]);
    if (masks_held_)
      for (int m = 0; m < s_.load_masks(); m++) kmovw(Xbyak::Opmask(m + 1), ptr[masks() + 2 * m]);
  }

  /// The mask as an operand of the next move: an opmask, or `mask_`.
  Xbyak::Opmask use_mask(int m) {
    if (!wide()) vmovups(vec(mask_), ptr[masks() + 32 * m]);
    else if (m >= s_.load_masks() || !masks_held_) kmovw(k7, ptr[masks() + 2 * m]);
    else return Xbyak::Opmask(m + 1);
    return k7;
  }
  void load(const Xmm& x, const Xbyak::Address& from, int m) {
    if (!s_.masked || s_.part) return vmovups(x, from);
    Xbyak::Opmask k = use_mask(m);
    if (wide()) vmovups(x | k | T_z, from);
    else vmaskmovps(x, vec(mask_), from);
  }

  /// The columns of a group of taps under vector v: one value for each of its taps.
  void load_values(int group, int v) {
    int column = group * (s_.pairs() ? 2 : 1) * s_.dilation, m = (group * s_.vectors + v) * s_.loads();
    if (s_.part) column = column % s_.step * s_.part + column / s_.step;
    int at = 4 * (column + v * s_.loads() * lanes());
    Xmm even = value(v, 0);
    load(even, ptr[pointer() + first() + at], m);
    if (s_.loads() == 1) return;
    Xmm next = vec(second_);
    load(next, ptr[pointer() + first() + at + vector_bytes()], m + 1);
    bool two = s_.pairs() && 2 * group + 1 < s_.taps;
    if (wide()) {
      if (two) {
        vmovaps(value(v, 1), even);
        vpermt2ps(value(v, 1), chosen(1), next);
      }
      vpermt2ps(even, chosen(0), next);
    } else {
      if (two) {
        vshufps(value(v, 1), even, next, 0xdd);
        vpermpd(Xbyak::Ymm(value(v, 1).getIdx()), Xbyak::Ymm(value(v, 1).getIdx()), 0xd8);
      }
      vshufps(even, even, next, 0x88);
      vpermpd(Xbyak::Ymm(even.getIdx()), Xbyak::Ymm(even.getIdx()), 0xd8);
    }
  }

  /// The weight of a tap in line k of the kernel, where weights are not held in `spare`.
  Xmm weight(int k, int tap, int output, int spare) {
    int q = (k * s_.taps + tap) * s_.outputs + output;
    if (held_) return vec(first_held_ + q);
    vbroadcastss(vec(first_weight_ + spare), ptr[weights() + 4 * q]);
    return vec(first_weight_ + spare);
  }

  void sum_step() {
    for (int q = 0; held_ && q < s_.kernel * s_.taps; q++) vbroadcastss(vec(first_held_ + q), ptr[weights() + 4 * q]);
    for (int i = 0; i < s_.in_lines(); i++) {
      if (!is_used(i)) continue;
      Xbyak::Label padding;
      mov(pointer(), ptr[line() + 8 * i]);
      test(pointer(), pointer());
      jz(padding, T_NEAR);
      for (int g = 0; g < s_.groups(); g++) s_.is_single() ? multiply_line(i, g) : multiply_lines(i, g);
      L(padding);
    }
  }
  /// The line of the kernel that output line `row` has over input line i; -1: none.
  int kernel_line(int i, int row) const {
    int k = i - row * s_.line_step;
    return k >= 0 && k % s_.line_dilation == 0 && k / s_.line_dilation < s_.kernel ? k / s_.line_dilation : -1;
  }
  bool is_used(int i) const {
    for (int row = 0; row < s_.rows; row++)
      if (kernel_line(i, row) >= 0) return true;
    return false;
  }
  void multiply_add(const Xmm& sum, const Xmm& x, const Xmm& w) { s_.dot ? vdpbf16ps(sum, x, w) : vfmadd231ps(sum, x, w); }
  void multiply_lines(int i, int group) {
    for (int v = 0; v < s_.vectors; v++) load_values(group, v);
    for (int t = 0; t < taps_of(group); t++)
      for (int row = 0; row < s_.rows; row++) {
        int k = kernel_line(i, row);
        for (int o = 0; o < s_.outputs && k >= 0; o++) {
          Xmm w = weight(k, first_tap(group) + t, o, 0);
          for (int v = 0; v < s_.vectors; v++) multiply_add(sum(o, row, v), value(v, t), w);
        }
      }
  }
  void multiply_line(int i, int group) {
    Xmm w[2];
    for (int t = 0; t < taps_of(group); t++) w[t] = weight(kernel_line(i, 0), first_tap(group) + t, 0, t);
    for (int v = 0; v < s_.vectors; v++) {
      load_values(group, v);
      for (int t = 0; t < taps_of(group); t++) multiply_add(sum(0, 0, v), value(v, t), w[t]);
    }
  }
  int first_tap(int group) const { return s_.pairs() ? 2 * group : group; }
  int taps_of(int group) const { return s_.pairs() ? std::min(2, s_.taps - 2 * group) : 1; }

  void store() {
    if (s_.masked && !wide()) count_stored();
    mov(rbx, c());
    for (int o = 0; o < s_.outputs; o++) {
      mov(rax, rbx);
      for (int row = 0; row < s_.rows; row++) {
        for (int v = 0; v < s_.vectors; v++) store(rax + v * vector_bytes(), sum(o, row, v), v);
        if (row + 1 < s_.rows) add(rax, c_row());
      }
      if (o + 1 < s_.outputs) add(rbx, c_channel());
    }
  }
  /// Vector v of a line. AVX2 clobbers sums and the step's lines.
  void store(const Xbyak::RegExp& to, const Xmm& x, int v) {
    if (!s_.masked) return vmovups(ptr[to], x);
    if (wide()) return vmovups(ptr[to] | use_mask(s_.load_masks() + v), x);
    lea(line(), ptr[to]);
    store_first(line(), x, byte[rsp + stored_counts + v], 4);
  }
  /// How many elements of each vector are stored, in bytes of the stack. Clobbers a value, which sums are done with.
  void count_stored() {
    Xmm mask = value(0, 0);
    for (int v = 0; v < s_.vectors; v++) {
      vmovups(mask, ptr[masks() + 32 * (s_.load_masks() + v)]);
      vmovmskps(eax, mask);
      popcnt(eax, eax);
      mov(byte[rsp + stored_counts + v], al);
    }
  }

  void emit_choices() {
    align(64);
    L(choices_);
    for (uint32_t i = 0; i < 32; i++) dd(i < 16 ? 2 * i : 2 * (i - 16) + 1);
  }

  LineKey s_;
  SumParts parts_;
  int first_value_ = 0, first_weight_ = 0, second_ = 0, mask_ = 0, chosen_ = 0, first_held_ = 0;
  bool held_ = false, masks_held_ = false;
  Xbyak::Label choices_;
};

} // namespace

void* emit_lines(CodeMemory& memory, Isa isa, const LineKey& key) { return LineEmitter(memory, isa, key).emit(); }

} // namespace tenon
