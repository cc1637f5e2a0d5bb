// The loop IR: what a fused region is before it becomes machine code. A kernel is a tree of loops over axes, with stores
// and accumulations; scalar values and flat offsets are Exprs whose leaves are Axis (loop indices), Symbol (size
// parameters), Load (operand = buffer number, one index: the offset in elements) and Reg (results of reductions).
//
//   kernel softmax(b0: f32, b1: out f32; s0)  parallel i0 < s0
//     reduce r0 = max
//       vector i1 < 1024 lanes 32
//         r0 <- b0[i0*1024 + i1]
//     ...
#pragma once
#include <string>
#include <variant>
#include <vector>

#include "ir/op.h"

namespace tenon {

enum class BufferKind : uint8_t { Input, Output, Scratch };

struct KernelBuffer {
  BufferKind kind = BufferKind::Input;
  DType dtype = DType::F32;
  Expr scratch_offset = {}; // Scratch: bytes from KernelArgs::scratch, a multiple of 64
  bool streamed = false;    // Output that is larger than caches and not read in the kernel: stored past them. Aligned to 64 bytes
};

struct Stmt;

/// Runs the body for axis = 0 .. extent-1 (the extent is the Axis' argument; it may depend on outer axes). With
/// lanes > 1 (a power of two, at most 128) the body is run for `lanes` consecutive values of the axis at once, the last ones
/// under a mask; vector loops are not nested, and the extents of loops within one do not depend on its axis.
/// `tile` > 1: the whole extent of a short loop around a vector loop of stores, whose extent does not depend on it. What is contiguous
/// along this axis rather than along the vector's is loaded or stored for all of its values at once.
struct Loop {
  Expr axis;
  int lanes = 1;
  std::vector<Stmt> body;
  int tile = 1;
};

/// buffer[offset] = value, in the buffer's dtype (which is the value's).
struct Store {
  int buffer;
  Expr offset, value;
};

/// One accumulator of a ReduceRegion. Positions ascend from 0 in the order the loops run; none accumulated gives 0. ArgMax and ArgMin keep
/// the `position` (I64) of the first extreme; NaN is extreme. Bool values under Any and All; the others accumulate in the value's dtype.
struct Accumulator {
  int reg;
  Reduction op;
  DType type;
  bool loses_nan = false; // Max and Min of floats: NaN need not win, as where it shows in what is computed next anyway
  bool widened = false;   // a Sum of F32 that is held in F64: its terms are sums themselves
};

/// The accumulators start at their identity, the body (loops with Accumulate inside) adds to them; afterwards Reg(reg) is
/// the result in the following statements of the enclosing body (I64 for ArgMax and ArgMin). Where a loop with lanes > 1
/// encloses the region, each lane has accumulators of its own; where it is inside, the lanes are combined at the end.
struct ReduceRegion {
  std::vector<Accumulator> accumulators;
  std::vector<Stmt> body;
};

struct Accumulate {
  int reg;
  Expr value;
  Expr position = {};
};

/// A transpose: to[to_offset + i*to_step + j] = from[from_offset + j*from_step + i] for i < rows, j < columns. Both buffers hold
/// elements of one size; the offsets of neighbours are 1 apart along the other axis.
struct Turn {
  int to, from;
  Expr to_offset, to_step, from_offset, from_step, rows, columns;
};

inline std::vector<Expr> exprs_of(const Turn& t) { return {t.to_offset, t.to_step, t.from_offset, t.from_step, t.rows, t.columns}; }

struct Stmt {
  std::variant<Loop, Store, ReduceRegion, Accumulate, Turn> v;
};

/// Where buffers alias: inputs with no output or scratch buffer, except where each iteration reads of an input just the element that it
/// then stores (`inputs_beside_result`). A Load in a branch of a Select is held back where the
/// condition does not hold, if the condition mentions indices or sizes or the Load's offset was itself loaded; else, as with
/// a condition on data, its offset must be within the buffer either way.
struct Kernel {
  std::string name;
  std::vector<KernelBuffer> buffers;
  std::vector<Expr> scalars; // the symbols, in the order of KernelArgs::scalars
  Expr parallel;             // axis of the outermost loop, run from `begin` to `end` of the call
  std::vector<Stmt> body;
  Expr scratch_bytes = {}; // per thread; empty: none
  /// Rounding to BF16 may turn denormals into zeros: its values are sums of bf16 dot products, whose instructions do.
  bool flushes_denormals = false;
  /// Little is computed with what is read in long streams, once: vectors may be of half a register, which reads faster on some machines.
  bool reads_streams = false;
};

std::string to_string(const Kernel& kernel);
/// Throws Internal where a kernel breaks the rules above: unknown buffers, axes used outside their loops, dtypes.
void verify(const Kernel& kernel);

} // namespace tenon
