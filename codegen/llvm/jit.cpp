#include "codegen/llvm/jit.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/ExecutionEngine/JITEventListener.h>
#include <llvm/ExecutionEngine/RTDyldMemoryManager.h>
#include <llvm/ExecutionEngine/RuntimeDyld.h>
#include <llvm/IR/IRPrintingPasses.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Object/ObjectFile.h>
#include <llvm/Object/SymbolSize.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/Scalar.h>
#include <llvm/Transforms/Utils/Cloning.h>

#include "base/check.h"
#include "codegen/code_count.h"

namespace tenon {
namespace {

constexpr const char* triple = "x86_64-unknown-linux-gnu";
// What LLVM's X86 target machine reports for the triple; a copy, so that building modules needs no target machine.
constexpr const char* data_layout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128";

bool env_flag(const char* name) {
  const char* text = std::getenv(name);
  return text && *text && std::strcmp(text, "0") != 0;
}

// One mapping per module: code, read-only data and data next to each other, so that 32-bit relative references reach. All
// writable until finalizeMemory, which makes the code executable and the constants read-only.
class CodeMemory final : public llvm::RTDyldMemoryManager {
public:
  ~CodeMemory() override {
    if (base_) munmap(base_, size_);
  }
  size_t size() const { return size_; }

  bool needsToReserveAllocationSpace() override { return true; }
  void reserveAllocationSpace(uintptr_t code, llvm::Align, uintptr_t ro, llvm::Align, uintptr_t rw, llvm::Align) override {
    static const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    // The sizes count sections' alignment up to 16; every section may move up to a cache line or a vector further.
    auto pages = [&](uintptr_t n) { return n ? (n + 512 + page - 1) / page * page : 0; };
    // Stubs of C functions go through a table of 8 bytes each that the sizes leave out: room for some 500 functions.
    rw += 3584;
    code_ = {0, pages(code)}, ro_ = {code_.end, code_.end + pages(ro)}, rw_ = {ro_.end, ro_.end + pages(rw)};
    code_end_ = code_.end, ro_end_ = ro_.end;
    size_ = rw_.end;
    void* p = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    base_ = p == MAP_FAILED ? nullptr : static_cast<uint8_t*>(p);
  }
  uint8_t* allocateCodeSection(uintptr_t size, unsigned align, unsigned, llvm::StringRef) override { return take(code_, size, align); }
  uint8_t* allocateDataSection(uintptr_t size, unsigned align, unsigned, llvm::StringRef, bool read_only) override {
    return take(read_only ? ro_ : rw_, size, align);
  }
  bool finalizeMemory(std::string* error) override {
    bool ok = base_ && mprotect(base_, code_end_, PROT_READ | PROT_EXEC) == 0 &&
              (ro_end_ == code_end_ || mprotect(base_ + code_end_, ro_end_ - code_end_, PROT_READ) == 0);
    if (!ok && error) *error = "cannot make code memory executable";
    return !ok;
  }
  void registerEHFrames(uint8_t*, uint64_t, size_t) override {}
  void deregisterEHFrames() override {}

private:
  struct Range {
    size_t next = 0, end = 0;
  };
  uint8_t* take(Range& r, size_t size, size_t align) {
    size_t at = (r.next + align - 1) / align * align;
    if (!base_ || at + size > r.end) return nullptr;
    r.next = at + size;
    return base_ + at;
  }
  uint8_t* base_ = nullptr;
  size_t size_ = 0, code_end_ = 0, ro_end_ = 0;
  Range code_, ro_, rw_;
};

// libm and memory functions that LLVM may call on its own account, or that the emitter names.
const void* find_c_function(std::string_view name) {
  struct Row {
    std::string_view name;
    const void* address;
  };
#define ROW(n, type) {#n, reinterpret_cast<const void*>(static_cast<type>(::n))}
#define ROWS(n) ROW(n##f, float (*)(float)), ROW(n, double (*)(double))
#define ROWS2(n) ROW(n##f, float (*)(float, float)), ROW(n, double (*)(double, double))
  static const Row rows[] = {
      ROWS(exp),
      ROWS(exp2),
      ROWS(expm1),
      ROWS(log),
      ROWS(log2),
      ROWS(log10),
      ROWS(log1p),
      ROWS(sin),
      ROWS(cos),
      ROWS(tan),
      ROWS(asin),
      ROWS(acos),
      ROWS(atan),
      ROWS(sinh),
      ROWS(cosh),
      ROWS(tanh),
      ROWS(asinh),
      ROWS(acosh),
      ROWS(atanh),
      ROWS(erf),
      ROWS(erfc),
      ROWS(lgamma),
      ROWS(tgamma),
      ROWS(floor),
      ROWS(ceil),
      ROWS(trunc),
      ROWS(round),
      ROWS(rint),
      ROWS(nearbyint),
      ROWS(sqrt),
      ROWS(cbrt),
      ROWS2(pow),
      ROWS2(fmod),
      ROWS2(atan2),
      ROWS2(hypot),
      ROWS2(nextafter),
      {"memcpy", reinterpret_cast<const void*>(&std::memcpy)},
      {"memmove", reinterpret_cast<const void*>(&std::memmove)},
      {"memset", reinterpret_cast<const void*>(&std::memset)},
  };
#undef ROWS2
#undef ROWS
#undef ROW
  for (const Row& r : rows)
    if (r.name == name) return r.address;
  return nullptr;
}

class Resolver final : public llvm::LegacyJITSymbolResolver {
public:
  explicit Resolver(std::span<const Symbol> symbols) : symbols_(symbols) {}
  std::string missing;

  llvm::JITSymbol findSymbol(const std::string& name) override {
    const void* address = nullptr;
    for (const Symbol& s : symbols_)
      if (s.name == name) address = s.address;
    if (!address) address = find_c_function(name);
    if (!address) {
      missing = name;
      return nullptr;
    }
    return {reinterpret_cast<uint64_t>(address), llvm::JITSymbolFlags::Exported};
  }
  llvm::JITSymbol findSymbolInLogicalDylib(const std::string&) override { return nullptr; }

private:
  std::span<const Symbol> symbols_;
};

// LLVM has no other switch for a pass of its code generator than the option of its command line tools, of which this process has
// none. Loop strength reduction took a fifth of the time to compile a kernel, and minutes where many loads are under conditions;
// addresses are already written in front of the loops, so that the loops ran no faster with it.
void disable_strength_reduction() {
  auto& options = llvm::cl::getRegisteredOptions();
  auto it = options.find("disable-lsr");
  require(it != options.end(), "LLVM has no option disable-lsr");
  static_cast<llvm::cl::opt<bool>*>(it->second)->setValue(true);
}

std::unique_ptr<llvm::TargetMachine> new_machine(const Target& target) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    disable_strength_reduction();
  });
  std::string error;
  const llvm::Target* t = llvm::TargetRegistry::lookupTarget(triple, error);
  require(t, "LLVM has no X86 target: {}", error);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
  options.UseInitArray = true;
  // PIC and the small model: constants are reached relative to the code, C functions anywhere through RuntimeDyld's stubs.
  // CodeGenOptLevel::Less: the same speed of the math loops as Default, 5% less time to compile.
  std::unique_ptr<llvm::TargetMachine> machine(t->createTargetMachine(triple, target.cpu, target.features, options, llvm::Reloc::PIC_,
                                                                      llvm::CodeModel::Small, llvm::CodeGenOptLevel::Less, /*JIT=*/true));
  require(machine != nullptr, "LLVM cannot make a target machine for {}", target.cpu);
  return machine;
}

// The emitter writes vector code itself, so little is left to do: instcombine and gvn cost 0.3 ms a kernel and gained nothing
// measurable over these two.
void add_ir_passes(llvm::legacy::PassManagerBase& passes, llvm::TargetMachine& machine) {
  passes.add(llvm::createTargetTransformInfoWrapperPass(machine.getTargetIRAnalysis()));
  passes.add(llvm::createEarlyCSEPass());
  passes.add(llvm::createLICMPass());
}

std::string module_text(const llvm::Module& module) {
  std::string text;
  llvm::raw_string_ostream out(text);
  module.print(out, nullptr);
  return text;
}

// One line "start size name" per function into the file that perf reads for processes with generated code.
void write_perf_map(const llvm::object::ObjectFile& object, const llvm::RuntimeDyld& loaded) {
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  std::FILE* file = std::fopen(fmt::format("/tmp/perf-{}.map", getpid()).c_str(), "a");
  if (!file) return;
  for (auto& [symbol, size] : llvm::object::computeSymbolSizes(object)) {
    llvm::Expected<llvm::StringRef> name = symbol.getName();
    llvm::Expected<llvm::object::SymbolRef::Type> type = symbol.getType();
    if (name && type && *type == llvm::object::SymbolRef::ST_Function && loaded.getSymbol(*name))
      fmt::print(file, "{:x} {:x} {}\n", loaded.getSymbol(*name).getAddress(), size, std::string_view(*name));
    if (!name) llvm::consumeError(name.takeError());
    if (!type) llvm::consumeError(type.takeError());
  }
  std::fclose(file);
}

} // namespace

struct Jit::Impl {
  Target target;
  std::vector<std::pair<std::string, const void*>> names;
  std::vector<Symbol> symbols;
  bool perf = env_flag("TENON_PERF"), gdb = env_flag("TENON_GDB"), verify = env_flag("TENON_VERIFY");

  std::mutex mutex;                                       // guards what follows
  std::vector<std::unique_ptr<llvm::TargetMachine>> idle; // a machine serves one compilation at a time
  std::vector<std::unique_ptr<CodeMemory>> memory;
  size_t bytes = 0;

  std::unique_ptr<llvm::TargetMachine> take_machine() {
    {
      std::lock_guard lock(mutex);
      if (!idle.empty()) {
        auto machine = std::move(idle.back());
        idle.pop_back();
        return machine;
      }
    }
    return new_machine(target);
  }
  // Runs all passes; the object or assembly text. `ir` receives the module as the code generator sees it.
  llvm::SmallVector<char, 0> emit(llvm::Module& module, llvm::TargetMachine& machine, llvm::CodeGenFileType type, std::string* ir);
  std::vector<void*> load(llvm::MemoryBufferRef object, std::span<const std::string> names);
};

llvm::SmallVector<char, 0> Jit::Impl::emit(llvm::Module& module, llvm::TargetMachine& machine, llvm::CodeGenFileType type,
                                           std::string* ir) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream out(bytes);
  std::string ignored;
  llvm::raw_string_ostream ir_out(ir ? *ir : ignored);
  llvm::legacy::PassManager passes;
  add_ir_passes(passes, machine);
  if (ir) passes.add(llvm::createPrintModulePass(ir_out));
  bool fails = machine.addPassesToEmitFile(passes, out, nullptr, type, /*DisableVerify=*/true);
  require(!fails, "LLVM cannot emit code for {}", target.cpu);
  passes.run(module);
  return bytes;
}

std::vector<void*> Jit::Impl::load(llvm::MemoryBufferRef buffer, std::span<const std::string> names) {
  llvm::Expected<std::unique_ptr<llvm::object::ObjectFile>> object = llvm::object::ObjectFile::createObjectFile(buffer);
  if (!object) internal_error("LLVM wrote an object it cannot read: {}", llvm::toString(object.takeError()));
  auto code = std::make_unique<CodeMemory>();
  Resolver resolver(symbols);
  llvm::RuntimeDyld linker(*code, resolver);
  std::unique_ptr<llvm::RuntimeDyld::LoadedObjectInfo> info = linker.loadObject(**object);
  if (!linker.hasError()) linker.resolveRelocations();
  require(resolver.missing.empty(), "generated code calls '{}', which is not in the runtime table", resolver.missing);
  require(!linker.hasError(), "LLVM cannot load generated code: {}", std::string(linker.getErrorString()));
  std::string error;
  require(!code->finalizeMemory(&error), "{}", error);

  std::vector<void*> addresses;
  for (const std::string& name : names) {
    llvm::JITEvaluatedSymbol symbol = linker.getSymbol(name);
    require(bool(symbol), "the module has no function '{}'", name);
    addresses.push_back(reinterpret_cast<void*>(symbol.getAddress()));
  }
  if (perf) write_perf_map(**object, linker);
  if (gdb)
    llvm::JITEventListener::createGDBRegistrationListener()->notifyObjectLoaded(reinterpret_cast<uint64_t>(code.get()), **object, *info);
  std::lock_guard lock(mutex);
  bytes += code->size();
  memory.push_back(std::move(code));
  return addresses;
}

Jit::Jit(Target target, std::span<const Symbol> symbols) : impl_(std::make_unique<Impl>()) {
  impl_->target = std::move(target);
  for (const Symbol& s : symbols) impl_->names.emplace_back(s.name, s.address);
  for (auto& [name, address] : impl_->names) impl_->symbols.push_back({name, address});
}

Jit::~Jit() {
  if (!impl_->gdb) return;
  for (auto& code : impl_->memory)
    llvm::JITEventListener::createGDBRegistrationListener()->notifyFreeingObject(reinterpret_cast<uint64_t>(code.get()));
}

const Target& Jit::target() const { return impl_->target; }

size_t Jit::memory_bytes() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->bytes;
}

std::vector<void*> Jit::compile(std::unique_ptr<llvm::LLVMContext> context, std::unique_ptr<llvm::Module> module,
                                std::span<const std::string> names, CodeText* text) {
  pieces_of_code++;
  if (text) text->ir_before = module_text(*module);
  if (impl_->verify) {
    std::string error;
    llvm::raw_string_ostream out(error);
    require(!llvm::verifyModule(*module, &out), "emitted module is malformed: {}", error);
  }
  std::unique_ptr<llvm::TargetMachine> machine = impl_->take_machine();
  if (text) { // from a copy, as emitting changes the module
    llvm::SmallVector<char, 0> s = impl_->emit(*llvm::CloneModule(*module), *machine, llvm::CodeGenFileType::AssemblyFile, &text->ir);
    text->assembly.assign(s.begin(), s.end());
  }
  llvm::SmallVector<char, 0> object = impl_->emit(*module, *machine, llvm::CodeGenFileType::ObjectFile, nullptr);
  {
    std::lock_guard lock(impl_->mutex);
    impl_->idle.push_back(std::move(machine));
  }
  module.reset();
  context.reset();
  return impl_->load(llvm::MemoryBufferRef({object.data(), object.size()}, "kernel"), names);
}

std::unique_ptr<llvm::Module> new_module(llvm::LLVMContext& context, const std::string& name) {
  auto module = std::make_unique<llvm::Module>(name, context);
  module->setTargetTriple(triple);
  module->setDataLayout(data_layout);
  return module;
}

void set_function_attributes(llvm::Function& function, const Target& target) {
  std::string bits = std::to_string(target.vector_bits);
  function.addFnAttr("target-cpu", target.cpu);
  function.addFnAttr("target-features", target.features);
  function.addFnAttr("prefer-vector-width", bits);
  function.addFnAttr("min-legal-vector-width", bits);
  function.addFnAttr("no-trapping-math", "true");
  function.addFnAttr(llvm::Attribute::NoUnwind);
  function.addFnAttr(llvm::Attribute::MustProgress);
}

} // namespace tenon
