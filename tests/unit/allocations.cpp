#include "tests/unit/allocations.h"

#include <cstdlib>
#include <new>

static thread_local int64_t count = 0;

int64_t tenon::test::allocations() { return count; }

// Sanitizers have an operator new of their own; nothing is counted there.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define SANITIZED
#endif
#endif

#ifndef SANITIZED
void* operator new(size_t n) {
  count++;
  if (void* p = std::malloc(n)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
#endif
