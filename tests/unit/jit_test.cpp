// The JIT: code runs, calls C functions and the runtime table, constants are reachable, errors are ours, threads may compile, objects may
// be kept, and code that is dropped gives its memory back.
#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include "codegen/code.h"
#include "codegen/code_count.h"
#include "codegen/code_names.h"
#include "codegen/gdb_interface.h"
#include "codegen/llvm/jit.h"
#include "tenon/error.h"

namespace tenon::jit_test {

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

struct Kernel {
  void (*function)(float*, int64_t) = nullptr;
  std::shared_ptr<const Code> code = nullptr;
  void operator()(float* x, int64_t n) const { function(x, n); }
};

FunctionSource source_of(const Jit& jit, const std::string& callee, const std::string& name = "kernel") {
  auto emit = [&jit, callee, name](llvm::LLVMContext& context) {
    auto module = new_module(context, "test");
    emit_kernel(*module, name, callee, jit.target());
    return module;
  };
  return {name, emit};
}

Kernel compile_kernel(Jit& jit, const std::string& callee, CodeText* text = nullptr) {
  CompiledFunction f = jit.compile(source_of(jit, callee), text);
  return {reinterpret_cast<decltype(Kernel::function)>(f.address), f.code};
}

CodeObject object_of(Jit& jit, const std::string& callee) {
  CodeBuilder builder(jit);
  CodeObject object;
  builder.add(source_of(jit, callee), nullptr, &object);
  builder.finish();
  return object;
}

Kernel link_kernel(Jit& jit, const CodeObject& object) {
  CodeBuilder builder(jit);
  void* function = builder.add(object);
  return {reinterpret_cast<decltype(Kernel::function)>(function), builder.finish()};
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

TEST_CASE("data caches are as large as one core sees them") {
  Target t = host_target(Isa::Auto);
  REQUIRE(0 < t.l1_bytes);
  CHECK(t.l1_bytes <= t.l2_bytes);
  CHECK(t.l2_bytes <= t.l3_bytes);
  for (int i = 0; i < 8; i++) { // what the system says of the first core, where it does
    auto read = [&](const char* name) {
      std::ifstream file(fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/{}", i, name));
      std::string text;
      return file >> text ? text : "";
    };
    std::string level = read("level"), size = read("size");
    if (read("type") == "Instruction" || size.empty() || size.back() != 'K') continue;
    size_t bytes = level == "1" ? t.l1_bytes : level == "2" ? t.l2_bytes : level == "3" ? t.l3_bytes : 0;
    if (bytes != 0) CHECK(bytes == std::stoul(size) * 1024);
  }
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

// What is written to stderr meanwhile.
template <class F> std::string stderr_of(const F& f) {
  std::FILE* file = std::tmpfile();
  int saved = dup(2);
  dup2(fileno(file), 2);
  f();
  dup2(saved, 2);
  close(saved);
  std::string text(static_cast<size_t>(lseek(fileno(file), 0, SEEK_END)), ' ');
  ssize_t n = pread(fileno(file), text.data(), text.size(), 0);
  std::fclose(file);
  return text.substr(0, static_cast<size_t>(std::max<ssize_t>(n, 0)));
}

TEST_CASE("failures are Errors, and nothing is printed") {
  Jit jit(host_target(Isa::Auto));
  std::string unknown, missing;
  std::string printed = stderr_of([&] {
    try {
      compile_kernel(jit, "tenon_no_such_function");
    } catch (const Error& e) {
      unknown = e.what();
    }
    FunctionSource source = source_of(jit, "");
    source.name = "another";
    try {
      jit.compile(source);
    } catch (const Error& e) {
      missing = e.what();
    }
  });
  CHECK(printed == "");
  CHECK(unknown.find("tenon_no_such_function") != std::string::npos);
  CHECK(missing.find("another") != std::string::npos);
  float x[8] = {2};
  compile_kernel(jit, "")(x, 8);
  CHECK(x[0] == 7);
  CHECK(jit.memory_bytes() == 0);
}

TEST_CASE("objects that are no objects are Errors") {
  Jit jit(host_target(Isa::Auto), table);
  const CodeObject whole = object_of(*std::make_unique<Jit>(host_target(Isa::Auto), table), "sinf");
  std::string printed = stderr_of([&] {
    for (size_t size : {size_t{0}, size_t{3}, size_t{63}}) {
      CodeObject part = whole;
      part.bytes.resize(size);
      CHECK_THROWS_AS(link_kernel(jit, part), Error);
    }
    CodeObject damaged = whole;
    for (char& c : std::span(damaged.bytes).first(20)) c ^= 0x55;
    CHECK_THROWS_AS(link_kernel(jit, damaged), Error);
  });
  CHECK(printed == "");
  float x[8] = {0};
  link_kernel(jit, whole)(x, 8);
  CHECK(x[0] == 1);
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

TEST_CASE("code outlives its Jit, and its memory goes with its last owner") {
  size_t before = CodePages::held();
  Kernel kernel;
  {
    Jit jit(host_target(Isa::Auto), table);
    kernel = compile_kernel(jit, "tenon_add_half");
    CHECK(jit.memory_bytes() == kernel.code->memory_bytes());
  }
  CHECK(CodePages::held() == before + kernel.code->memory_bytes());
  float x[8] = {1};
  kernel(x, 8);
  CHECK(x[0] == 5.5f);
  kernel = {};
  CHECK(CodePages::held() == before);
}

TEST_CASE("functions of one Code share pages") {
  Jit jit(host_target(Isa::Auto), table);
  const CodeObject plain = object_of(jit, ""), with_sine = object_of(jit, "sinf");
  CodeBuilder builder(jit);
  std::vector<Kernel> kernels;
  constexpr int count = 1000; // more than one piece of address space
  for (int i = 0; i < count; i++) kernels.push_back({reinterpret_cast<decltype(Kernel::function)>(builder.add(i % 2 ? with_sine : plain))});
  std::shared_ptr<const Code> code = builder.finish();
  CHECK(code->memory_bytes() == jit.memory_bytes());
  CHECK(code->memory_bytes() < count * size_t{600});
  for (int i = 0; i < count; i++) {
    float x[8] = {2};
    kernels[static_cast<size_t>(i)](x, 8);
    CHECK(x[0] == (i % 2 ? std::sin(2.0f) : 2) * 3 + 1);
  }
  CHECK(CodeBuilder(jit).finish()->memory_bytes() == 0);
}

TEST_CASE("an object runs in any Jit of its target, and compilers give the same whatever they compiled before") {
  Jit first(host_target(Isa::Avx2), table), second(host_target(Isa::Avx2), table);
  std::map<std::string, CodeObject> objects;
  for (const char* callee : {"sinf", "tenon_add_half"}) objects[callee] = object_of(first, callee);
  uint64_t pieces = pieces_of_code;
  for (auto& [callee, object] : objects) {
    float x[16], y[16];
    for (int i = 0; i < 16; i++) x[i] = y[i] = 0.3f * static_cast<float>(i);
    link_kernel(first, object)(x, 16);
    link_kernel(second, object)(y, 16);
    for (int i = 0; i < 16; i++) CHECK(x[i] == y[i]);
  }
  CHECK(pieces_of_code == pieces);
  CodeText text;
  compile_kernel(second, "sinf", &text);
  CHECK(pieces_of_code == pieces + 1);
  CHECK(text.assembly.find("sinf") != std::string::npos);
  for (const char* callee : {"", "cosf", "tenon_add_half", "sinf"}) {
    CodeObject object = object_of(second, callee);
    if (auto found = objects.find(callee); found != objects.end()) CHECK(found->second.bytes == object.bytes);
  }
  if (host_target(Isa::Auto).avx512()) {
    Jit wide(host_target(Isa::Auto), table);
    CHECK(object_of(wide, "sinf").bytes != objects["sinf"].bytes);
  }
}

size_t resident_bytes() {
  size_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

TEST_CASE("code that is compiled and dropped leaves nothing behind") {
  Jit jit(host_target(Isa::Auto), table);
  const CodeObject plain = object_of(jit, ""), with_half = object_of(jit, "tenon_add_half");
  size_t held = CodePages::held(), resident = 0;
  for (int round = 0; round < 2000; round++) {
    float x[8] = {1};
    if (round % 50 == 0) compile_kernel(jit, round % 2 ? "tenon_add_half" : "")(x, 8);
    else link_kernel(jit, round % 2 ? with_half : plain)(x, 8);
    CHECK(x[0] == (round % 2 ? 5.5f : 4));
    CHECK(CodePages::held() == held);
    if (round == 1000) resident = resident_bytes();
  }
  CHECK(jit.memory_bytes() == 0);
  WARN(resident_bytes() < resident + (size_t{1} << 20)); // sanitizers keep what was freed
}

TEST_CASE("threads compile, run and drop code of one Jit at once, and some of them fail") {
  size_t held = CodePages::held();
  Jit jit(host_target(Isa::Auto), table);
  const CodeObject plain = object_of(jit, ""), with_half = object_of(jit, "tenon_add_half");
  std::atomic<int> wrong = 0, failed = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 8; t++)
      threads.emplace_back([&, t] {
        std::vector<Kernel> kept(5);
        for (int i = 0; i < 60; i++) {
          if (i % 10 == t) {
            try {
              compile_kernel(jit, "tenon_no_such_function");
            } catch (const Error&) {
              failed++;
            }
          }
          bool half = (i + t) % 3 == 0;
          Kernel& k = kept[static_cast<size_t>(i * 7 + t) % kept.size()];
          k = i % 4 == 0 ? compile_kernel(jit, half ? "tenon_add_half" : "") : link_kernel(jit, half ? with_half : plain);
          float x[8] = {1};
          k(x, 8);
          wrong += x[0] != (half ? 5.5f : 4);
        }
      });
  }
  CHECK(wrong == 0);
  CHECK(failed == 8 * 6);
  CHECK(jit.memory_bytes() == 0);
  CHECK(CodePages::held() == held);
}

TEST_CASE("threads add to one Code") {
  Jit jit(host_target(Isa::Auto), table);
  const CodeObject plain = object_of(jit, ""), with_half = object_of(jit, "tenon_add_half");
  CodeBuilder builder(jit);
  std::vector<void*> functions(800);
  {
    std::vector<std::jthread> threads;
    for (size_t t = 0; t < 4; t++)
      threads.emplace_back([&, t] {
        for (size_t i = t; i < functions.size(); i += 4) functions[i] = builder.add(i % 8 > 3 ? with_half : plain);
      });
  }
  std::shared_ptr<const Code> code = builder.finish();
  CHECK(code->memory_bytes() > size_t{128} << 10); // pieces are full while others are still written
  for (size_t i = 0; i < functions.size(); i++) {
    float x[8] = {1};
    Kernel{reinterpret_cast<decltype(Kernel::function)>(functions[i])}(x, 8);
    CHECK(x[0] == (i % 8 > 3 ? 5.5f : 4));
  }
}

bool any_page_writable_and_executable() {
  std::string line;
  for (std::ifstream maps("/proc/self/maps"); std::getline(maps, line);)
    if (line.find(" rwx") != std::string::npos) return true;
  return false;
}

TEST_CASE("no page is writable and executable, and the sides of a fork share none that they write to") {
  Jit jit(host_target(Isa::Auto), table);
  CodeBuilder builder(jit);
  Kernel kernel = {reinterpret_cast<decltype(Kernel::function)>(builder.add(source_of(jit, "")))};
  CHECK(!any_page_writable_and_executable());
  kernel.code = builder.finish();
  CHECK(!any_page_writable_and_executable());

  auto works = [&](const Kernel& k, float want) {
    float x[8] = {1};
    k(x, 8);
    return x[0] == want;
  };
  pid_t child = fork();
  if (child == 0) { // drops what the parent runs, and takes its place
    bool worked = works(kernel, 4);
    kernel = {};
    for (int i = 0; i < 5; i++) worked = worked && works(compile_kernel(jit, "tenon_add_half"), 5.5f);
    _exit(worked ? 0 : 1);
  }
  REQUIRE(child > 0);
  CHECK(works(compile_kernel(jit, ""), 4));
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(works(kernel, 4));
}

TEST_CASE("perf and gdb are told names where they are asked for, and gdb when they end") {
  NamedCode functions[] = {{"first_function", table[0].address, 16}, {"second_function", &table, 8}};
  std::string map = "/tmp/perf-" + std::to_string(getpid()) + ".map";
  std::remove(map.c_str());
  REQUIRE(__jit_debug_descriptor.first == nullptr);
  CodeNames unwanted(functions);
  CHECK(__jit_debug_descriptor.first == nullptr);
  CHECK(!std::ifstream(map));

  setenv("TENON_GDB", "1", 1), setenv("TENON_PERF", "1", 1);
  {
    CodeNames one(functions), other(std::span<const NamedCode>(functions, 1));
    const jit_code_entry* latest = __jit_debug_descriptor.first;
    REQUIRE((latest && latest->next));
    CHECK(latest->next->previous == latest);
    CHECK(__jit_debug_descriptor.relevant == latest);
    std::string_view file(latest->next->file, latest->next->bytes);
    CHECK(file.starts_with("\177ELF"));
    CHECK(file.find("second_function") != std::string_view::npos);
    one = CodeNames();
    CHECK(__jit_debug_descriptor.first == latest);
    CHECK(latest->next == nullptr);
  }
  unsetenv("TENON_GDB"), unsetenv("TENON_PERF");
  CHECK(__jit_debug_descriptor.first == nullptr);
  std::string line, lines;
  for (std::ifstream in(map); std::getline(in, line);) lines += line + "\n";
  CHECK(lines.find(fmt::format("{:x} 10 first_function\n", reinterpret_cast<uintptr_t>(table[0].address))) != std::string::npos);
  CHECK(lines.find("second_function") != std::string::npos);
  std::remove(map.c_str());
}

} // namespace tenon::jit_test
