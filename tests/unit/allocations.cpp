#include "tests/unit/allocations.h"

#include <cstdlib>
#include <new>

static thread_local int64_t allocated = 0;

int64_t tenon::test::allocations() { return allocated; }

// Sanitizers have an operator new of their own; nothing is counted there.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define SANITIZED
#endif
#endif

#ifndef SANITIZED
// Inlined into tests, they would look to gcc as if memory of new went to free.
[[gnu::noinline]] void* operator new(size_t n) {
  allocated++;
  if (void* p = std::malloc(n)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept { std::free(p); }
#endif
