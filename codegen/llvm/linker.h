// Object files to code that runs, by ORC and JITLink in this process. Private to codegen/llvm.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include <llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h>
#include <llvm/ExecutionEngine/Orc/Core.h>
#include <llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h>

#include "codegen/code.h"
#include "codegen/code_names.h"
#include "codegen/llvm/jit.h"

namespace tenon {

/// The pages of one group of functions. They follow each other without regard to pages: code, constants and stubs alike become
/// readable and executable, all at once, when the group is complete.
class GroupPages {
public:
  /// Writable memory until seal(); null where the system refuses it.
  uint8_t* take(size_t bytes, size_t align);
  bool seal();
  size_t bytes() const;

private:
  struct Piece {
    CodePages pages;
    size_t used;
  };
  mutable std::mutex mutex_;
  std::vector<Piece> pieces_; // the last is being given out; all are still written to
};

/// Gives JITLink the pages of the group that an object belongs to. A page may hold many functions, so that it cannot become executable with
/// the first of them: finalizing an allocation leaves it writable. The group is sealed before anybody learns an address.
class GroupMemory final : public llvm::jitlink::JITLinkMemoryManager {
public:
  /// Where the graph goes that is about to be linked; null: it was linked, or failed to be.
  void place(const llvm::jitlink::LinkGraph* graph, std::shared_ptr<GroupPages> pages);
  void allocate(const llvm::jitlink::JITLinkDylib*, llvm::jitlink::LinkGraph& graph, OnAllocatedFunction done) override;
  void deallocate(std::vector<FinalizedAlloc> allocations, OnDeallocatedFunction done) override;

private:
  std::mutex mutex_;
  std::unordered_map<const llvm::jitlink::LinkGraph*, std::shared_ptr<GroupPages>> places_;
};

/// An ORC session: the C functions that code may call, and groups of functions. Thread-safe.
class Linker {
public:
  explicit Linker(std::span<const Symbol> symbols);
  ~Linker();
  /// Pages of all groups.
  size_t bytes() const { return bytes_; }

private:
  friend class LinkedGroup;
  [[noreturn]] void fail(llvm::Error error);

  llvm::orc::ExecutionSession session_;
  GroupMemory memory_;
  llvm::orc::ObjectLinkingLayer layer_;
  llvm::orc::JITDylib &c_functions_, &functions_;
  llvm::DenseSet<llvm::StringRef> known_; // names of C functions
  std::atomic<uint64_t> count_ = 0;       // of functions that were ever linked
  std::atomic<size_t> bytes_ = 0;
  std::mutex mutex_;
  std::string reported_; // what went wrong, in ORC's words; guarded by the mutex
};

/// Functions that are resident together: what an ORC ResourceTracker stands for. Its memory goes with it.
class LinkedGroup {
public:
  explicit LinkedGroup(std::shared_ptr<Linker> linker);
  ~LinkedGroup();

  /// Links `name` of an object file; the address may be called after seal(). Several threads may call this at
  /// once.
  void* add(std::vector<char> object, const std::string& name);
  void seal();
  size_t bytes() const { return pages_->bytes(); }

private:
  std::shared_ptr<Linker> linker_;
  std::shared_ptr<GroupPages> pages_ = std::make_shared<GroupPages>();
  llvm::orc::ResourceTrackerSP tracker_;
  size_t counted_ = 0;
  std::mutex mutex_;
  std::vector<NamedCode> functions_; // where anybody wants names
  CodeNames names_;
};

} // namespace tenon
