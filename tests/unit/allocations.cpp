#include "tests/unit/allocations.h"

#include <cstdlib>
#include <new>

static thread_local int64_t count = 0;

int64_t tenon::test::allocations() { return count; }

void* operator new(size_t n) {
  count++;
  if (void* p = std::malloc(n)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
