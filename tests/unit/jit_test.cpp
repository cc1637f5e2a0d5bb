// The JIT: code runs, calls C functions and the runtime table, constants are reachable, errors are ours, threads may compile.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <thread>

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include "codegen/llvm/jit.h"
#include "tenon/error.h"

using namespace tenon;

namespace {

// f(float* x, i64 n): x[i] = callee(x[i]) * 3 + 1 by whole vectors of 8, n a multiple of 8; `callee` per lane, or none.
void emit_kernel(llvm::Module& m, const std::string& name, const std::string& callee, const Target& target) {
  llvm::LLVMContext& c = m.getContext();
  llvm::IRBuilder<> b(c);
  auto* type = llvm::FunctionType::get(b.getVoidTy(), {b.getPtrTy(), b.getInt64Ty()}, false);
  auto* f = llvm::Function::Create(type, llvm::Function::ExternalLinkage, name, m);
  set_function_attributes(*f, target);
  auto* entry = llvm::BasicBlock::Create(c, "entry", f);
  auto* loop = llvm::BasicBlock::Create(c, "loop", f);
  auto* done = llvm::BasicBlock::Create(c, "done", f);
  b.SetInsertPoint(entry);
  b.CreateCondBr(b.CreateICmpSGT(f->getArg(1), b.getInt64(0)), loop, done);
  b.SetInsertPoint(loop);
  auto* i = b.CreatePHI(b.getInt64Ty(), 2);
  i->addIncoming(b.getInt64(0), entry);
  auto* vec = llvm::FixedVectorType::get(b.getFloatTy(), 8);
  llvm::Value* p = b.CreateGEP(b.getFloatTy(), f->getArg(0), i);
  llvm::Value* x = b.CreateAlignedLoad(vec, p, llvm::Align(4));
  if (!callee.empty()) {
    auto fn = m.getOrInsertFunction(callee, llvm::FunctionType::get(b.getFloatTy(), {b.getFloatTy()}, false));
    for (unsigned k = 0; k < 8; k++) x = b.CreateInsertElement(x, b.CreateCall(fn, {b.CreateExtractElement(x, k)}), k);
  }
  x = b.CreateFAdd(b.CreateFMul(x, llvm::ConstantFP::get(vec, 3)), llvm::ConstantFP::get(vec, 1));
  b.CreateAlignedStore(x, p, llvm::Align(4));
  auto* next = b.CreateAdd(i, b.getInt64(8));
  i->addIncoming(next, loop);
  b.CreateCondBr(b.CreateICmpSLT(next, f->getArg(1)), loop, done);
  b.SetInsertPoint(done);
  b.CreateRetVoid();
}

using Kernel = void (*)(float*, int64_t);

Kernel compile_kernel(Jit& jit, const std::string& callee, CodeText* text = nullptr) {
  auto context = std::make_unique<llvm::LLVMContext>();
  auto module = new_module(*context, "test");
  emit_kernel(*module, "kernel", callee, jit.target());
  std::string names[] = {"kernel"};
  return reinterpret_cast<Kernel>(jit.compile(std::move(context), std::move(module), names, text)[0]);
}

float add_half(float x) { return x + 0.5f; }

const Symbol table[] = {{"tenon_add_half", reinterpret_cast<const void*>(&add_half)}};

} // namespace

TEST_CASE("the target is the machine, restricted as asked") {
  Target wide = host_target(Isa::Auto), narrow = host_target(Isa::Avx2);
  CHECK(narrow.isa == Isa::Avx2);
  CHECK(narrow.vector_bits == 256);
  CHECK(narrow.lanes(4) == 8);
  CHECK(!narrow.avx512_bf16);
  CHECK(!narrow.amx_bf16);
  CHECK(narrow.features.find("avx512") == std::string::npos);
  CHECK(wide.isa != Isa::Auto);
  CHECK(wide.l1_bytes >= 16 << 10);
  CHECK(wide.l2_bytes > wide.l1_bytes);
  if (wide.avx512()) CHECK(wide.vector_bits == 512);
  else CHECK_THROWS_AS(host_target(Isa::Avx512), Error);
}

TEST_CASE("compiled code runs, calls libm and the runtime table") {
  for (Isa isa : {Isa::Avx2, Isa::Auto}) {
    Jit jit(host_target(isa), table);
    Kernel plain = compile_kernel(jit, ""), libm = compile_kernel(jit, "sinf"), runtime = compile_kernel(jit, "tenon_add_half");
    float x[24], y[24], z[24];
    for (int i = 0; i < 24; i++) x[i] = y[i] = z[i] = 0.25f * static_cast<float>(i);
    plain(x, 16);
    libm(y, 24);
    runtime(z, 24);
    for (int i = 0; i < 24; i++) {
      float v = 0.25f * static_cast<float>(i);
      CHECK(x[i] == (i < 16 ? v * 3 + 1 : v));
      CHECK(y[i] == std::sin(v) * 3 + 1);
      CHECK(z[i] == (v + 0.5f) * 3 + 1);
    }
    plain(x, 0);
    CHECK(jit.memory_bytes() > 0);
    CHECK(jit.memory_bytes() < 100000);
  }
}

TEST_CASE("texts show the module and the instructions of the level") {
  Target target = host_target(Isa::Auto);
  Jit jit(target);
  CodeText text;
  compile_kernel(jit, "", &text);
  CHECK(text.ir_before.find("define void @kernel") != std::string::npos);
  CHECK(text.ir.find("define void @kernel") != std::string::npos);
  CHECK(text.assembly.find("kernel:") != std::string::npos);
  CHECK(text.assembly.find("ymm") != std::string::npos);
}

TEST_CASE("failures are Errors") {
  Jit jit(host_target(Isa::Auto));
  CHECK_THROWS_WITH_AS(compile_kernel(jit, "tenon_no_such_function"), doctest::Contains("tenon_no_such_function"), Error);
  auto context = std::make_unique<llvm::LLVMContext>();
  auto module = new_module(*context, "test");
  emit_kernel(*module, "kernel", "", jit.target());
  std::string names[] = {"another"};
  CHECK_THROWS_WITH_AS(jit.compile(std::move(context), std::move(module), names), doctest::Contains("another"), Error);
  float x[8] = {2};
  compile_kernel(jit, "")(x, 8);
  CHECK(x[0] == 7);
}

TEST_CASE("threads compile different modules at once") {
  Jit jit(host_target(Isa::Auto), table);
  Kernel kernels[8] = {};
  {
    std::vector<std::jthread> threads;
    for (Kernel& k : kernels)
      threads.emplace_back([&] {
        for (int i = 0; i < 4; i++) k = compile_kernel(jit, i % 2 ? "tenon_add_half" : "");
      });
  }
  for (Kernel k : kernels) {
    float x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    k(x, 8);
    CHECK(x[7] == 26.5f);
  }
}
