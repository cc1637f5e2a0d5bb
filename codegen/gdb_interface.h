// The interface that gdb documents for JIT compilers: it stops in a function of the process and looks at the descriptor.
#pragma once
#include <cstdint>

extern "C" {
struct jit_code_entry {
  jit_code_entry *next, *previous;
  const char* file;
  uint64_t bytes;
};
struct jit_descriptor {
  uint32_t version, action;
  jit_code_entry *relevant, *first;
};
enum : uint32_t { jit_register = 1, jit_unregister = 2 };
extern jit_descriptor __jit_debug_descriptor;
void __jit_debug_register_code();
}
