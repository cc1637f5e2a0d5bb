// Memory of calls: blocks that grow with the sizes that come, and blocks that are given out, come back and are used again.
#pragma once
#include <cstddef>
#include <memory>

namespace tenon {

/// One block, 64-byte aligned, that only grows; what is in it is lost when it does. Not for several threads at once.
class GrowingBlock {
public:
  GrowingBlock() = default;
  ~GrowingBlock();
  GrowingBlock(const GrowingBlock&) = delete;
  GrowingBlock& operator=(const GrowingBlock&) = delete;

  char* data() const { return data_; }
  size_t capacity() const { return capacity_; }
  /// False where memory is refused: then there is none.
  bool reserve(size_t bytes);
  /// Once before every call: gives back a block of which the last some hundred calls have used less than half.
  void begin_call();

private:
  void release();
  char* data_ = nullptr;
  size_t capacity_ = 0, most_used_ = 0;
  int calls_ = 0;
};

/// Blocks of memory that are given back and used again, for outputs and data-dependent buffers. Thread-safe. Of sizes that stopped
/// coming, none is kept for long.
class BlockPool {
public:
  BlockPool();
  /// 64-byte aligned; returns to the pool when the last reference goes. Null where memory is refused.
  std::shared_ptr<void> take(size_t bytes);
  /// Bytes that lie in the pool unused.
  size_t kept_bytes() const;

private:
  struct State;
  std::shared_ptr<State> state_;
};

} // namespace tenon
