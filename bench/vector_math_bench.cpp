// The inlined math functions: one JIT-compiled loop over 4096 floats, in L1.
#include <memory>
#include <string>
#include <vector>

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include "bench/report.h"
#include "codegen/llvm/jit.h"
#include "codegen/llvm/vector_math.h"

namespace tenon::bench {
namespace {

using Kernel = void (*)(const float* x, float* out, int64_t n);
constexpr int64_t elements = 4096;

// out[i] = f(x[i]), n a multiple of two vectors; two vectors per step.
std::unique_ptr<llvm::Module> emit_kernel(llvm::LLVMContext& context, const Target& target, vmath::Unary f) {
  auto module = new_module(context, "bench");
  llvm::IRBuilder<> b(context);
  auto* type = llvm::FunctionType::get(b.getVoidTy(), {b.getPtrTy(), b.getPtrTy(), b.getInt64Ty()}, false);
  auto* function = llvm::Function::Create(type, llvm::Function::ExternalLinkage, "kernel", *module);
  set_function_attributes(*function, target);
  auto* entry = llvm::BasicBlock::Create(context, "entry", function);
  auto* loop = llvm::BasicBlock::Create(context, "loop", function);
  auto* done = llvm::BasicBlock::Create(context, "done", function);
  b.SetInsertPoint(entry);
  b.CreateBr(loop);
  b.SetInsertPoint(loop);
  auto* i = b.CreatePHI(b.getInt64Ty(), 2);
  i->addIncoming(b.getInt64(0), entry);
  int lanes = target.lanes(4);
  auto* vector = llvm::FixedVectorType::get(b.getFloatTy(), static_cast<unsigned>(lanes));
  vmath::Emitter e{b, target};
  for (int k = 0; k < 2; k++) {
    llvm::Value* at = b.CreateAdd(i, b.getInt64(static_cast<uint64_t>(k * lanes)));
    llvm::Value* x = b.CreateAlignedLoad(vector, b.CreateGEP(b.getFloatTy(), function->getArg(0), at), llvm::Align(4));
    b.CreateAlignedStore(f(e, x), b.CreateGEP(b.getFloatTy(), function->getArg(1), at), llvm::Align(4));
  }
  auto* next = b.CreateAdd(i, b.getInt64(static_cast<uint64_t>(2 * lanes)));
  i->addIncoming(next, b.GetInsertBlock());
  b.CreateCondBr(b.CreateICmpSLT(next, function->getArg(2)), loop, done);
  b.SetInsertPoint(done);
  b.CreateRetVoid();
  return module;
}

void run_function(benchmark::State& state, Isa isa, vmath::Unary f) {
  Jit jit(host_target(isa));
  CompiledFunction compiled = jit.compile({"kernel", [&](llvm::LLVMContext& c) { return emit_kernel(c, jit.target(), f); }});
  auto kernel = reinterpret_cast<Kernel>(compiled.address);
  std::vector<float> x(elements), out(elements);
  for (int64_t i = 0; i < elements; i++) x[static_cast<size_t>(i)] = static_cast<float>(i % 1021) * 0.008f + 0.01f;
  run(state, {0, 8.0 * elements, 1, isa}, [&] {
    kernel(x.data(), out.data(), elements);
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
  });
}

} // namespace

void add_vector_math_benchmarks(Isa isa) {
  for (const vmath::UnaryRow& row : vmath::unary_functions()) {
    std::string name = "math/" + std::string(row.name) + (isa == Isa::Avx512 ? "/avx512" : "/avx2");
    benchmark::RegisterBenchmark(name.c_str(), run_function, isa, row.emit)->Unit(benchmark::kMicrosecond)->MinTime(0.05);
  }
}

} // namespace tenon::bench
