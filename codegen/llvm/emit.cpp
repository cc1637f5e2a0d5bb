#include "codegen/llvm/emit.h"

#include <atomic>
#include <exception>
#include <mutex>

#include <llvm/IR/IntrinsicsX86.h>

#include "base/stage.h"
#include "base/stop_point.h"
#include "codegen/codegen.h"
#include "codegen/llvm/emit_ops.h"
#include "codegen/llvm/transpose.h"
#include "expr/eval.h"
#include "expr/special.h"

namespace tenon::emit {

KernelEmitter::KernelEmitter(const Kernel& kernel, llvm::Module& module, const Target& target, const std::string& name)
    : kernel_(kernel), module_(module), context_(module.getContext()), target_(target), b_(context_) {
  llvm::Type *ptr = b_.getPtrTy(), *i64 = b_.getInt64Ty();
  auto* type = llvm::FunctionType::get(b_.getVoidTy(), {ptr, i64, i64}, false);
  function_ = llvm::Function::Create(type, llvm::Function::ExternalLinkage, name, module);
  set_function_attributes(*function_, target);
  function_->addParamAttr(0, llvm::Attribute::NoAlias);
  function_->addParamAttr(0, llvm::Attribute::ReadOnly);
  empty_ = llvm::MDNode::get(context_, {});
  llvm::FastMathFlags flags;
  flags.setAllowContract();
  b_.setFastMathFlags(flags);
}

void KernelEmitter::run() {
  push(Scope::Body, new_block("entry"));
  load_arguments();
  parallel_loop();
  b_.SetInsertPoint(block());
  if (streams_) b_.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, {}, {}); // before another thread is told that all is done
  b_.CreateRetVoid();
  if (kernel_.reads_streams && target_.halves_loads) halve_registers(*function_, target_);
}

// KernelArgs are read once, at entry.
void KernelEmitter::load_arguments() {
  at(0);
  llvm::Type *ptr = b_.getPtrTy(), *i64 = b_.getInt64Ty();
  auto fixed = [&](llvm::Type* type, llvm::Value* p, size_t i) {
    llvm::LoadInst* l = b_.CreateLoad(type, b_.CreateConstInBoundsGEP1_64(type, p, i));
    l->setMetadata(llvm::LLVMContext::MD_invariant_load, empty_);
    return l;
  };
  llvm::Value* args = function_->getArg(0);
  llvm::Value* buffers = kernel_.buffers.empty() ? nullptr : fixed(ptr, args, 0);
  llvm::Value* scalars = kernel_.scalars.empty() ? nullptr : fixed(i64->getPointerTo(), args, 1);
  llvm::Value* scratch = nullptr;
  for (size_t i = 0; i < kernel_.buffers.size(); i++) {
    bool is_scratch = kernel_.buffers[i].kind == BufferKind::Scratch;
    if (is_scratch && !scratch) scratch = fixed(ptr, args, 2);
    buffers_.push_back(is_scratch ? scratch : fixed(ptr, buffers, i));
  }
  for (size_t i = 0; i < kernel_.scalars.size(); i++) {
    const ExprNode& s = *kernel_.scalars[i];
    llvm::Value* v = fixed(i64, scalars, i);
    if (is_float(s.type)) v = lower_cast(math(), DType::F64, s.type, b_.CreateBitCast(v, b_.getDoubleTy()));
    else v = lower_cast(math(), DType::I64, s.type, v);
    remember({&s, view_value}, {v, 0});
  }
  done(0);
  scratch_.resize(kernel_.buffers.size());
}

// ---- scopes

int KernelEmitter::push(Scope::Kind kind, llvm::BasicBlock* block) {
  int owner = block ? static_cast<int>(scopes_.size()) : scopes_.back().owner;
  scopes_.push_back({.kind = kind, .owner = owner, .block = block});
  return top();
}

void KernelEmitter::pop() {
  for (const Key& k : scopes_.back().added) memo_.erase(k);
  scopes_.pop_back();
}

// Where a value that depends on `scope` is written: in front of the next loop, where it runs at all.
int KernelEmitter::place(int scope) const {
  size_t next = static_cast<size_t>(scope) + 1;
  return next < scopes_.size() && scopes_[next].kind == Scope::Enter ? scope + 1 : scope;
}

int KernelEmitter::at(int scope) {
  int where = place(scope);
  b_.SetInsertPoint(scopes_[static_cast<size_t>(scopes_[static_cast<size_t>(where)].owner)].block);
  return where;
}

// What was written may have ended the block and begun another.
void KernelEmitter::done(int scope) { scopes_[static_cast<size_t>(scopes_[static_cast<size_t>(scope)].owner)].block = b_.GetInsertBlock(); }

Val KernelEmitter::remember(Key key, Val v) {
  if (memo_.try_emplace(key, v).second) scopes_[static_cast<size_t>(v.scope)].added.push_back(key);
  return v;
}

const Val* KernelEmitter::recall(Key key) const {
  auto it = memo_.find(key);
  return it == memo_.end() ? nullptr : &it->second;
}

// ---- statements

void KernelEmitter::statements(const std::vector<Stmt>& body) {
  for (const Stmt& s : body) statement(s);
}

void KernelEmitter::statement(const Stmt& s) {
  if (auto* l = std::get_if<Loop>(&s.v)) return loop(*l);
  if (auto* r = std::get_if<ReduceRegion>(&s.v)) return region(*r);
  if (auto* t = std::get_if<Turn>(&s.v)) return turn(*t);
  push(Scope::Statement, nullptr); // what it reads from written buffers is not kept for the next
  if (auto* st = std::get_if<Store>(&s.v)) store(*st);
  else accumulate(std::get<Accumulate>(s.v));
  pop();
}

void KernelEmitter::store(const Store& s) {
  Val v = value(s.value);
  if (auto it = tile_.stores.find(&s); it != tile_.stores.end()) {
    v = widened(v, vector_.width);
    int scope = at(top());
    it->second.push_back(to_memory(kernel_.buffers[static_cast<size_t>(s.buffer)].dtype, v.v));
    return done(scope);
  }
  store_value(s.buffer, s.offset, v);
}

} // namespace tenon::emit

namespace tenon {

namespace {

int64_t int_pow_i64(int64_t base, int64_t exponent) { return int_pow<int64_t>(base, exponent); }

} // namespace

std::span<const Symbol> kernel_symbols() {
  struct Table {
    std::vector<std::string> names;
    std::vector<Symbol> symbols;
    Table() {
      for (const SpecialEntry& s : special_functions) names.push_back("special." + std::string(s.name));
      for (size_t i = 0; i < names.size(); i++) symbols.push_back({names[i], reinterpret_cast<const void*>(special_functions[i].function)});
      symbols.push_back({"tenon_int_pow", reinterpret_cast<const void*>(&int_pow_i64)});
      for (const TransposeRow& t : transpose_functions()) symbols.push_back({t.name, reinterpret_cast<const void*>(t.function)});
    }
  };
  static const Table table;
  return table.symbols;
}

namespace {

// A module for each kernel, so that equal kernels give equal objects whatever they are compiled with.
FunctionSource source_of(const Kernel& kernel, const Target& target) {
  std::string name = "kernel." + kernel.name; // no name of a C function
  auto emit = [&kernel, &target, name](llvm::LLVMContext& context) {
    std::unique_ptr<llvm::Module> module = new_module(context, kernel.name);
    emit::KernelEmitter(kernel, *module, target, name).run();
    return module;
  };
  return {name, emit};
}

// So that no thread starts on a long one when the others are done.
std::vector<size_t> largest_first(std::span<const Kernel* const> kernels) {
  std::vector<std::pair<size_t, size_t>> sizes;
  for (const Kernel* k : kernels) sizes.push_back({to_string(*k).size(), sizes.size()});
  std::stable_sort(sizes.begin(), sizes.end(), [](auto& a, auto& b) { return a.first > b.first; });
  std::vector<size_t> order;
  for (auto& [size, i] : sizes) order.push_back(i);
  return order;
}

} // namespace

CompiledKernel compile_kernel(const Kernel& kernel, Jit& jit, CodeText* text) {
  CompiledFunction f = jit.compile(source_of(kernel, jit.target()), text);
  return {reinterpret_cast<KernelFn>(f.address), std::move(f.code)};
}

std::vector<CompiledKernel> compile_kernels(std::span<const Kernel* const> kernels, Jit& jit, const Together& together,
                                            std::span<CodeText> texts, std::span<CodeObject> objects,
                                            std::span<const std::shared_ptr<const CodeObject>> prebuilt) {
  std::vector<CompiledKernel> out(kernels.size());
  CodeBuilder builder(jit);
  Stage stage("kernels", kernels.size());
  std::vector<size_t> order = largest_first(kernels);
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  auto add = [&](size_t i) {
    if (prebuilt.empty() || !prebuilt[i] || !texts.empty())
      return builder.add(source_of(*kernels[i], jit.target()), texts.empty() ? nullptr : &texts[i],
                         objects.empty() ? nullptr : &objects[i]);
    if (!objects.empty()) objects[i] = *prebuilt[i];
    return builder.add(*prebuilt[i]);
  };
  together([&] {
    for (size_t n; (n = next++) < kernels.size();) {
      size_t i = order[n];
      try {
        stop_point();
        out[i].function = reinterpret_cast<KernelFn>(add(i));
        stage.part_done();
      } catch (...) {
        std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
        next = kernels.size();
      }
    }
  });
  if (failure) std::rethrow_exception(failure);
  std::shared_ptr<const Code> code = builder.finish();
  for (CompiledKernel& k : out) k.code = code;
  return out;
}

std::vector<CompiledKernel> link_kernels(std::span<const CodeObject> objects, const Target& target) {
  Jit jit(target, kernel_symbols());
  CodeBuilder builder(jit);
  std::vector<CompiledKernel> out;
  for (const CodeObject& o : objects) out.push_back({reinterpret_cast<KernelFn>(builder.add(o)), nullptr});
  std::shared_ptr<const Code> code = builder.finish();
  for (CompiledKernel& k : out) k.code = code;
  return out;
}

} // namespace tenon
