// Functions written as LLVM modules to machine code in this process: a short pass list, LLVM's X86 code generator, and ORC, which links and
// keeps the code. Knows nothing of kernels: the emitter builds modules, the plan keeps the addresses. No LLVM header is included here.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/code_object.h"
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

/// A function to be compiled, and how its module is written: new_module() of the context, with `name` defined and visible in it.
struct FunctionSource {
  std::string name;
  std::function<std::unique_ptr<llvm::Module>(llvm::LLVMContext&)> emit;
};

/// Functions that are kept and evicted together: their memory is given back with the last owner of this. Needs no Jit to live on.
class Code {
public:
  struct Impl;
  explicit Code(std::unique_ptr<Impl> impl);
  ~Code();
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;

  /// Whole pages.
  size_t memory_bytes() const;

private:
  std::unique_ptr<Impl> impl_;
};

struct CompiledFunction {
  void* address = nullptr;
  std::shared_ptr<const Code> code;
};

/// Compiles and links for one target. Thread-safe. What it makes lives on without it.
class Jit {
public:
  /// `symbols` are the runtime functions generated code may call by name, besides libm, memcpy, memmove and memset.
  explicit Jit(Target target, std::span<const Symbol> symbols = {});
  ~Jit();
  Jit(const Jit&) = delete;
  Jit& operator=(const Jit&) = delete;

  const Target& target() const;
  /// Pages of all Codes that live.
  size_t memory_bytes() const;
  /// One function by itself: as CodeBuilder.
  CompiledFunction compile(const FunctionSource& source, CodeText* text = nullptr);

private:
  friend class CodeBuilder;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Compiles the functions of one Code, which share its pages.
class CodeBuilder {
public:
  explicit CodeBuilder(Jit& jit);
  ~CodeBuilder();

  /// The function's address, which may be called after finish(). Several threads may add functions at once. Throws Error(Internal) where
  /// LLVM fails, the module does not verify (checked when TENON_VERIFY=1), or a name is unknown.
  void* add(const FunctionSource& source, CodeText* text = nullptr, CodeObject* object = nullptr);
  /// The same for a function that was compiled before, for the same target.
  void* add(const CodeObject& object);
  std::shared_ptr<const Code> finish();

private:
  Jit::Impl& jit_;
  std::unique_ptr<Code::Impl> code_;
};

/// A module for the target: triple and data layout are set.
std::unique_ptr<llvm::Module> new_module(llvm::LLVMContext& context, const std::string& name);

/// What every generated function needs: CPU and features, full vector width, no unwinding, no null checks.
void set_function_attributes(llvm::Function& function, const Target& target);
/// Vectors become several of half a register, where nothing that the function calls takes or gives a full one.
void halve_registers(llvm::Function& function, const Target& target);

} // namespace tenon
