// Collective operations as library steps. Plans and the interpreter run them by a communicator (runtime/collectives.h); called as functions
// they are an error. The first text is the group's name, the second the reduction's. Beside each: its inputs; its `ints`.
#pragma once
#include "runtime/library.h"

namespace tenon::library {

const char* all_reduce(const LibraryCall&);     ///< self
const char* all_gather(const LibraryCall&);     ///< self; ranks
const char* reduce_scatter(const LibraryCall&); ///< self; ranks
const char* broadcast(const LibraryCall&);      ///< self; the rank that has it
const char* all_to_all(const LibraryCall&);     ///< self; rows from each rank, then rows for each
const char* wait_tensor(const LibraryCall&);    ///< the result of one of these: from here on it is there. No communication of its own
/// Whether other ranks take part: the step is not dropped, is not run in another order than others of its kind, and two equal calls are
/// not one.
bool communicates(LibraryFn step);

} // namespace tenon::library
