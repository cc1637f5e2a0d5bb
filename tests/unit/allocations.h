// Counts what operator new gives out in the tests' process.
#pragma once
#include <cstdint>

namespace tenon::test {

/// Allocations of the calling thread so far.
int64_t allocations();

} // namespace tenon::test
