// LLVM's X86 code generator behind a short list of passes of our own: modules to object files. Private to codegen/llvm.
#pragma once
#include <memory>

#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>

#include "codegen/llvm/jit.h"

namespace tenon {

/// The passes are set up once and run over module after module, one at a time: setting them up takes as long as compiling a small
/// kernel. What comes out depends on the module only.
class Compiler {
public:
  explicit Compiler(const Target& target);

  /// An ELF object file; changes the module.
  std::vector<char> object(llvm::Module& module);
  /// The module after the passes, and its instructions.
  void texts(const llvm::Module& module, CodeText& text);

private:
  void add_passes(llvm::legacy::PassManager& passes, llvm::raw_pwrite_stream& out, llvm::CodeGenFileType type, llvm::raw_ostream* ir);

  std::unique_ptr<llvm::TargetMachine> machine_;
  llvm::SmallVector<char, 0> bytes_;
  llvm::raw_svector_ostream out_{bytes_};
  llvm::legacy::PassManager passes_;
};

} // namespace tenon
