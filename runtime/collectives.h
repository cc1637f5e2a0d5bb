// The collective operations of one executable: its groups by name, whose turn it is, and what happens to the other ranks when a call
// fails here.
#pragma once
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "runtime/communicator.h"
#include "runtime/library.h"

namespace tenon {

/// What a collective step does, beside its operands. `texts` and `ints` are those of its library step (runtime/library_steps.h).
struct CollectiveKind {
  tenon_collective_kind kind;
  tenon_reduction reduction;
  int root = 0;
  std::string group;
};
/// Of a step for which library::communicates holds, and which is no wait.
CollectiveKind collective_of(LibraryFn step, std::span<const std::string> texts, std::span<const int64_t> ints);

class Collectives {
public:
  /// Throws Error BadInput for groups that are none.
  Collectives(const Communicator& world, std::span<const ProcessGroup> groups);

  /// Held while a call runs.
  std::unique_lock<std::mutex> turn() const;
  /// Begins an operation: an error message, or empty. `ints`: as above, for the sizes of all_to_all.
  std::string start(const CollectiveKind& what, const LibraryTensor& input, const LibraryTensor& output, std::span<const int64_t> ints,
                    void*& request) const;
  std::string wait(const std::string& group, void* request) const;
  void progress() const;
  /// A call has failed.
  void abort(const std::string& message) const;
  /// Why the group cannot serve a program that was exported for so many ranks of it (0: not told); empty where it can.
  std::string refusal(const std::string& group, int64_t size) const;

private:
  struct Group {
    std::string name;
    Communicator communicator; // none: this rank is not in it
  };
  const Group* find(const std::string& name) const;
  std::vector<Group> groups_;
};

} // namespace tenon
