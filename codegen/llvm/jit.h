// LLVM modules to machine code in this process: a short pass list, LLVM's X86 code generator, and the memory the code lives
// in. Knows nothing of kernels: the emitter builds modules, the plan keeps the addresses. No LLVM header is included here.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/target.h"

namespace llvm {
class Function;
class LLVMContext;
class Module;
} // namespace llvm

namespace tenon {

/// A C function or object that generated code may name.
struct Symbol {
  std::string_view name;
  const void* address;
};

/// Texts of one compiled module, filled when asked for.
struct CodeText {
  std::string ir_before, ir, assembly; // as emitted, after the passes, as machine code
};

/// Owns the code of one executable; the addresses it gives out live as long as it does. Thread-safe: several threads may
/// compile at once, each with a module of its own LLVMContext.
class Jit {
public:
  /// `symbols` are the runtime functions generated code may call by name, besides libm, memcpy, memmove and memset.
  explicit Jit(Target target, std::span<const Symbol> symbols = {});
  ~Jit();
  Jit(const Jit&) = delete;
  Jit& operator=(const Jit&) = delete;

  const Target& target() const;
  /// Code bytes and pages held so far.
  size_t memory_bytes() const;
  /// Optimises and compiles `module`; the addresses of `names`, in their order. Throws Error(Internal) where LLVM fails, the
  /// module does not verify (checked when TENON_VERIFY=1), or a name is unknown.
  std::vector<void*> compile(std::unique_ptr<llvm::LLVMContext> context, std::unique_ptr<llvm::Module> module,
                             std::span<const std::string> names, CodeText* text = nullptr);

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A module for the target: triple and data layout are set.
std::unique_ptr<llvm::Module> new_module(llvm::LLVMContext& context, const std::string& name);

/// What every generated function needs: CPU and features, full vector width, no unwinding, no null checks.
void set_function_attributes(llvm::Function& function, const Target& target);

} // namespace tenon
