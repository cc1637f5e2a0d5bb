// Collective operations have no function of their own: whoever runs steps knows them, and has a communicator.
#include <algorithm>

#include "runtime/collective_steps.h"

namespace tenon::library {

#define TENON_COLLECTIVE(name)                                                                                                             \
  const char* name(const LibraryCall&) { return #name " is run by an executable that has a communicator (Options::communicator)"; }
TENON_COLLECTIVE(all_reduce)
TENON_COLLECTIVE(all_gather)
TENON_COLLECTIVE(reduce_scatter)
TENON_COLLECTIVE(broadcast)
TENON_COLLECTIVE(all_to_all)
TENON_COLLECTIVE(wait_tensor)
#undef TENON_COLLECTIVE

bool communicates(LibraryFn step) {
  static constexpr LibraryFn all[] = {all_reduce, all_gather, reduce_scatter, broadcast, all_to_all};
  return std::find(std::begin(all), std::end(all), step) != std::end(all);
}

} // namespace tenon::library
