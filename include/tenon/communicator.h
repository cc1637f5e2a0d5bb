// Communicators: what a program that was exported for several ranks (tensor parallel) runs its collective operations by.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tenon/communicator.c.h"
#include "tenon/error.h"

namespace tenon {

/// A rank's end of a group of processes, or of threads (`local`). Handles are copied freely, by any thread. Calls of Executables that
/// share one take turns; those of all ranks must come in the same order. After an error in such a call the other ranks get one as well, and
/// every later call: a program then needs a new communicator. Memory that was given to a call that failed must stay until the process ends,
/// unless the communicator is a local one.
class TENON_API Communicator {
public:
  /// None.
  Communicator() = default;
  /// Takes over the table: `release` is called when nobody needs it any more.
  explicit Communicator(const tenon_communicator& table);
  /// By a shared library that exports tenon_open_communicator. "mpi" or "mpi:ARGUMENTS": libtenon_mpi.so; "NAME.so" or "NAME.so:ARGUMENTS":
  /// another one. Arguments of mpi, separated by commas: "timeout=SECONDS" (600; 0: none), "check=0" (sizes are not compared between
  /// ranks), "progress=poll" (no thread of its own), "comm=HANDLE" (a communicator by its Fortran handle, instead of
  /// MPI_COMM_WORLD). All ranks must open it together. Errors: BadInput where there is no such library, and for what it says.
  static Result<Communicator> open(const std::string& text);
  /// The ends of a group of `size` threads in this process, for each rank one. An operation ends with an error where others have
  /// not begun it after `timeout_seconds`. BadInput for sizes that are not positive.
  static Result<std::vector<Communicator>> local(int size, double timeout_seconds = 600);

  explicit operator bool() const { return impl_ != nullptr; }
  int rank() const; ///< -1: there is none
  int size() const; ///< 0: there is none
  /// The group of some ranks, in the order given. All of them must ask for it, this one among them.
  Result<Communicator> subgroup(std::span<const int> ranks) const;

  /// The largest of the ranks' numbers, which all of them give: to agree on what comes next. Errors: those of any operation.
  Result<int64_t> maximum(int64_t mine) const;

  struct Impl;
  const std::shared_ptr<Impl>& impl() const { return impl_; }

private:
  explicit Communicator(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

/// A group of ranks by the name that the exported program has for it.
struct ProcessGroup {
  std::string name;
  std::vector<int> ranks; ///< of Options::communicator, in the order of the group
};

} // namespace tenon
