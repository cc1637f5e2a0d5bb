#include "codegen/llvm/compiler.h"

#include <mutex>

#include <llvm/ADT/StringSet.h>
#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/IR/IRPrintingPasses.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Module.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Transforms/Scalar.h>
#include <llvm/Transforms/Utils.h>
#include <llvm/Transforms/Utils/Cloning.h>

#include "base/check.h"

namespace tenon {
namespace {

constexpr const char* triple = "x86_64-unknown-linux-gnu";
// What LLVM's X86 target machine reports for the triple; a copy, so that building modules needs no target machine.
constexpr const char* data_layout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128";

std::unique_ptr<llvm::TargetMachine> new_machine(const Target& target) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
  });
  std::string error;
  const llvm::Target* t = llvm::TargetRegistry::lookupTarget(triple, error);
  require(t, "LLVM has no X86 target: {}", error);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
  options.UseInitArray = true;
  // PIC and the small model: constants are reached relative to the code, C functions anywhere through JITLink's stubs.
  // CodeGenOptLevel::Less: the same speed of the math loops as Default, 5% less time to compile.
  std::unique_ptr<llvm::TargetMachine> machine(t->createTargetMachine(triple, target.cpu, target.features, options, llvm::Reloc::PIC_,
                                                                      llvm::CodeModel::Small, llvm::CodeGenOptLevel::Less, /*JIT=*/true));
  require(machine != nullptr, "LLVM cannot make a target machine for {}", target.cpu);
  return machine;
}

// Passes of the code generator that find nothing to do in kernels, and cost a fifteenth of the time to compile them.
bool is_idle(llvm::StringRef name) {
  static const llvm::StringSet<> idle = {
      // of IR
      "Lower AMX intrinsics", "Lower AMX type for load/store", "Merge contiguous icmps into a memcmp", "Expand memcmp() to load/stores",
      "Lower Garbage Collection Instructions", "Shadow Stack GC Lowering", "Replace intrinsics with calls to vector library",
      "Partially inline calls to library functions", "Expand vector predication intrinsics",
      "Instrument function entry/exit with calls to e.g. mcount() (post inlining)", "TLS Variable Hoist", "Expand indirectbr instructions",
      "Exception handling preparation", "Prepare callbr", "Safe Stack instrumentation pass", "Insert stack protectors",
      // of machine code
      "Local Dynamic TLS Access Clean-up", "Argument Stack Rebase", "X86 Domain Reassignment Pass", "Early If-Conversion",
      "X86 Windows Fixup Buffer Security Check", "X86 Avoid Store Forwarding Blocks", "X86 speculative load hardening",
      "X86 DynAlloca Expander", "Tile Register Pre-configure", "Tile Register Configure", "X86 FP Stackifier",
      "X86 Load Value Injection (LVI) Load Hardening", "Remove Redundant DEBUG_VALUE analysis", "Fixup Statepoint Caller Saved",
      "Insert KCFI indirect call checks", "Analyze Machine Code For Garbage Collection", "Insert fentry calls", "Insert XRay ops",
      "Implement the 'patchable-function' attribute", "X86 Indirect Branch Tracking", "X86 Atom pad short functions",
      "X86 Discriminate Memory Operands", "X86 Insert Cache Prefetches", "X86 insert wait instruction", "Contiguously Lay Out Funclets",
      "StackMap Liveness Analysis", "Live DEBUG_VALUE analysis", "Machine Sanitizer Binary Metadata", "Stack Frame Layout Analysis",
      "X86 Speculative Execution Side Effect Suppression", "X86 Indirect Thunks", "X86 Return Thunks",
      "X86 Load Value Injection (LVI) Ret-Hardening", "Pseudo Probe Inserter", "Register Allocation Pass Scoring"};
  return idle.contains(name);
}

// Hands on what the code generator adds, but for those, and for loop strength reduction and the pass that prepares for it: these took a
// fifth of the time to compile a kernel, and minutes where many loads are under conditions; addresses are already written in front of the
// loops, so that the loops ran no faster with them. TargetPassConfig's disablePass does not reach passes that it is given as objects, which
// these are.
class UsefulPasses final : public llvm::legacy::PassManagerBase {
public:
  explicit UsefulPasses(llvm::legacy::PassManagerBase& to) : to_(to) {}
  void add(llvm::Pass* pass) override {
    std::unique_ptr<llvm::Pass> owned(pass);
    bool reduces = pass->getPassID() == reduction_->getPassID() || pass->getPassID() == preparation_->getPassID();
    if (!reduces && !is_idle(pass->getPassName())) to_.add(owned.release());
  }

private:
  llvm::legacy::PassManagerBase& to_;
  std::unique_ptr<llvm::Pass> reduction_{llvm::createLoopStrengthReducePass()}, preparation_{llvm::createCanonicalizeFreezeInLoopsPass()};
};

} // namespace

Compiler::Compiler(const Target& target) : machine_(new_machine(target)) {
  add_passes(passes_, out_, llvm::CodeGenFileType::ObjectFile, nullptr);
}

// The emitter writes vector code itself, so little is left to do: instcombine and gvn cost 0.3 ms a kernel and gained nothing
// measurable over these two. `ir` receives the module as the code generator sees it.
void Compiler::add_passes(llvm::legacy::PassManager& passes, llvm::raw_pwrite_stream& out, llvm::CodeGenFileType type,
                          llvm::raw_ostream* ir) {
  passes.add(llvm::createTargetTransformInfoWrapperPass(machine_->getTargetIRAnalysis()));
  passes.add(llvm::createEarlyCSEPass());
  passes.add(llvm::createLICMPass());
  if (ir) passes.add(llvm::createPrintModulePass(*ir));
  UsefulPasses rest(passes);
  bool fails = machine_->addPassesToEmitFile(rest, out, nullptr, type, /*DisableVerify=*/true);
  require(!fails, "LLVM cannot emit code for this machine");
}

std::vector<char> Compiler::object(llvm::Module& module) {
  passes_.run(module);
  std::vector<char> object(bytes_.begin(), bytes_.end());
  bytes_.clear();
  return object;
}

void Compiler::texts(const llvm::Module& module, CodeText& text) {
  llvm::SmallVector<char, 0> assembly;
  llvm::raw_svector_ostream out(assembly);
  llvm::raw_string_ostream ir(text.ir);
  llvm::legacy::PassManager passes;
  add_passes(passes, out, llvm::CodeGenFileType::AssemblyFile, &ir);
  passes.run(*llvm::CloneModule(module)); // emitting changes the module
  text.assembly.assign(assembly.begin(), assembly.end());
}

std::unique_ptr<llvm::Module> new_module(llvm::LLVMContext& context, const std::string& name) {
  auto module = std::make_unique<llvm::Module>(name, context);
  module->setTargetTriple(triple);
  module->setDataLayout(data_layout);
  return module;
}

static void set_vector_bits(llvm::Function& function, int bits) {
  function.addFnAttr("prefer-vector-width", std::to_string(bits));
  function.addFnAttr("min-legal-vector-width", std::to_string(bits));
}

void set_function_attributes(llvm::Function& function, const Target& target) {
  function.addFnAttr("target-cpu", target.cpu);
  function.addFnAttr("target-features", target.features);
  set_vector_bits(function, target.vector_bits);
  function.addFnAttr("no-trapping-math", "true");
  function.addFnAttr(llvm::Attribute::NoUnwind);
  function.addFnAttr(llvm::Attribute::MustProgress);
}

// The code generator cannot split the machine's own instructions, nor what a function takes in a register.
void halve_registers(llvm::Function& function, const Target& target) {
  for (const llvm::Instruction& i : llvm::instructions(function)) {
    auto* call = llvm::dyn_cast<llvm::CallBase>(&i);
    if (!call) continue;
    const llvm::Function* callee = call->getCalledFunction();
    bool splits = callee && callee->isIntrinsic() && !callee->getName().starts_with("llvm.x86.");
    auto is_vector = [](const llvm::Type* t) { return t->isVectorTy() || t->isStructTy(); };
    bool takes = std::any_of(call->arg_begin(), call->arg_end(), [&](const llvm::Use& u) { return is_vector(u->getType()); });
    if (!splits && (takes || is_vector(call->getType()))) return;
  }
  set_vector_bits(function, target.vector_bits / 2);
}

} // namespace tenon
