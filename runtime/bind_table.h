// What binding reads of a plan, gathered once and close together: of what is alike in several steps or buffers, one. Binding a combination
// of sizes is mostly waiting for memory that nothing has read for a while.
#pragma once
#include <vector>

#include "runtime/intervals.h"
#include "runtime/plan.h"

namespace tenon {

struct BindTable {
  explicit BindTable(const Plan& plan);

  /// Buffers of one dtype and of the same sizes.
  struct Extent {
    size_t element_bytes;
    uint32_t sizes_begin, sizes_end; // in `sizes`
    int named = -1;                  // a buffer outside of branches, whose sizes must fit; -1: none
  };
  struct ArenaBuffer {
    int buffer, first, last;
    uint32_t extent;
  };
  std::vector<Slot> sizes;
  std::vector<Extent> extents; // of buffers in the arena and their parts
  std::vector<ArenaBuffer> arena;
  Overlaps overlaps; // of these

  /// Steps whose sizes are known when inputs are bound, each without what binding does not read; and which of them is that of each number,
  /// -1 where sizes depend on data.
  std::vector<MatmulStep> matmuls;
  std::vector<ConvStep> convs;
  std::vector<int> matmul_of, conv_of;
  std::vector<AttentionStep> attentions;
  std::vector<Slot> kernel_scratch;
  std::vector<bool> is_free;        // by input: a number that nothing here depends on, so that its value does not matter to binding
  std::vector<size_t> chain_starts; // steps that a chain of convolutions may start with, whatever the sizes

  /// Steps whose sizes depend on data, by the stage of the size program that they wait for.
  std::vector<std::vector<const Step*>> waiting;

private:
  void add(const Plan& plan, const Step& step);
  void find_free_numbers(const Plan& plan);
};

} // namespace tenon
