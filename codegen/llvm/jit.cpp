// Jit: compilers for threads to share, and the linker.
#include "codegen/llvm/jit.h"

#include <mutex>

#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>

#include "base/check.h"
#include "base/env.h"
#include "codegen/code_count.h"
#include "codegen/llvm/compiler.h"
#include "codegen/llvm/linker.h"

namespace tenon {
namespace {

std::string module_text(const llvm::Module& module) {
  std::string text;
  llvm::raw_string_ostream out(text);
  module.print(out, nullptr);
  return text;
}

} // namespace

struct Jit::Impl {
  Impl(Target t, std::span<const Symbol> symbols) : target(std::move(t)), linker(std::make_shared<Linker>(symbols)) {}

  Target target;
  std::shared_ptr<Linker> linker;
  bool verify = env_flag("TENON_VERIFY");

  std::mutex mutex;
  std::vector<std::unique_ptr<Compiler>> idle; // a compiler serves one thread at a time

  std::unique_ptr<Compiler> take_compiler() {
    {
      std::lock_guard lock(mutex);
      if (!idle.empty()) {
        auto compiler = std::move(idle.back());
        idle.pop_back();
        return compiler;
      }
    }
    return std::make_unique<Compiler>(target);
  }
  void give_back(std::unique_ptr<Compiler> compiler) {
    std::lock_guard lock(mutex);
    idle.push_back(std::move(compiler));
  }
  std::vector<char> compile(const FunctionSource& source, CodeText* text);
};

std::vector<char> Jit::Impl::compile(const FunctionSource& source, CodeText* text) {
  pieces_of_code++;
  llvm::LLVMContext context;
  context.setDiscardValueNames(text == nullptr);
  std::unique_ptr<llvm::Module> module = source.emit(context);
  if (text) text->ir_before = module_text(*module);
  if (verify) {
    std::string error;
    llvm::raw_string_ostream out(error);
    require(!llvm::verifyModule(*module, &out), "emitted module is malformed: {}", error);
  }
  std::unique_ptr<Compiler> compiler = take_compiler();
  if (text) compiler->texts(*module, *text);
  std::vector<char> object = compiler->object(*module);
  give_back(std::move(compiler));
  return object;
}

struct Code::Impl {
  LinkedGroup group;
};

Code::Code(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Code::~Code() = default;
size_t Code::memory_bytes() const { return impl_->group.bytes(); }

Jit::Jit(Target target, std::span<const Symbol> symbols) : impl_(std::make_unique<Impl>(std::move(target), symbols)) {}
Jit::~Jit() = default;
const Target& Jit::target() const { return impl_->target; }
size_t Jit::memory_bytes() const { return impl_->linker->bytes(); }

CompiledFunction Jit::compile(const FunctionSource& source, CodeText* text) {
  CodeBuilder builder(*this);
  void* address = builder.add(source, text);
  return {address, builder.finish()};
}

CodeBuilder::CodeBuilder(Jit& jit) : jit_(*jit.impl_), code_(new Code::Impl{LinkedGroup(jit_.linker)}) {}
CodeBuilder::~CodeBuilder() = default;

void* CodeBuilder::add(const FunctionSource& source, CodeText* text, CodeObject* object) {
  std::vector<char> bytes = jit_.compile(source, text);
  if (object) *object = {source.name, bytes};
  return code_->group.add(std::move(bytes), source.name);
}

void* CodeBuilder::add(const CodeObject& object) { return code_->group.add(object.bytes, object.name); }

std::shared_ptr<const Code> CodeBuilder::finish() {
  code_->group.seal();
  return std::make_shared<const Code>(std::move(code_));
}

} // namespace tenon
