// make_prebuilt SOURCE BYTES [LAYERS]: compiles the kernels of common layers, or of the first of them, for each level of instructions, and
// writes a C++ source with the table of them, whose bytes it includes.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <thread>

#include <fmt/core.h>

#include "base/check.h"
#include "codegen/codegen.h"
#include "compile/compile.h"
#include "compile/select_kernels.h"
#include "prebuilt/layers.h"

namespace tenon {

namespace {

constexpr Isa levels[] = {Isa::Avx2, Isa::Avx512};

// All that code may gain from, where a level leaves it open.
constexpr Extensions all{
    .avx512_bf16 = true, .avx512_vnni = true, .avx512_fp16 = true, .avx512_vbmi = true, .avx_vnni = true, .amd = true, .zen4 = true};

constexpr std::string_view source = R"(// Written by make_prebuilt.
#include "codegen/prebuilt.h"

asm(R"asm(
  .pushsection .rodata
  .hidden tenon_prebuilt_bytes
  .globl tenon_prebuilt_bytes
tenon_prebuilt_bytes:
  .incbin "{}"
  .popsection
)asm");

extern "C" const unsigned char tenon_prebuilt_bytes[];

namespace tenon {{

namespace {{
{}
}} // namespace

PrebuiltTable prebuilt_kernels(Isa level) {{
  if (level == Isa::Avx512) return {{avx512, tenon_prebuilt_bytes}};
  return {{avx2, tenon_prebuilt_bytes}};
}}

}} // namespace tenon
)";

using Kernels = std::map<std::string, Kernel>; // by shape

Kernels kernels_of(const std::vector<LoadedProgram>& layers, const Target& target, ExprPool& pool) {
  Kernels out;
  PlanTarget plan(target);
  for (const LoadedProgram& layer : layers) {
    std::vector<LoweredRegion> regions = lower_regions(layer.graph, plan, true);
    for (GeneralKernel& k : general_kernels(regions, pool)) out.emplace(std::move(k.shape), std::move(k.kernel));
  }
  return out;
}

void together(const std::function<void()>& work) {
  std::jthread other(work);
  work();
}

std::vector<CodeObject> compile(const Kernels& kernels, const Target& target) {
  std::vector<const Kernel*> pointers;
  for (auto& [shape, kernel] : kernels) pointers.push_back(&kernel);
  std::vector<CodeObject> objects(pointers.size());
  Jit jit(target, kernel_symbols());
  compile_kernels(pointers, jit, together, {}, objects);
  return objects;
}

// Code that another machine of the level would have compiled otherwise is left out.
std::vector<PrebuiltKernel> compile_level(Isa level, const std::vector<LoadedProgram>& layers) {
  Target least = target_of(level, {}), most = target_of(level, all);
  for (Target* t : {&least, &most}) t->l1_bytes = 32 << 10, t->l2_bytes = 1 << 20, t->l3_bytes = 32 << 20;
  ExprPool pool;
  Kernels kernels = kernels_of(layers, least, pool);
  std::vector<CodeObject> code = compile(kernels, least), other = compile(kernels, most);
  std::vector<PrebuiltKernel> out;
  size_t i = 0;
  for (auto& [shape, kernel] : kernels) {
    if (code[i].bytes == other[i].bytes) out.push_back({shape, std::move(code[i])});
    i++;
  }
  return out;
}

std::string text_of(const std::vector<PrebuiltTable::Place>& places) {
  std::string out;
  for (const PrebuiltTable::Place& p : places)
    fmt::format_to(std::back_inserter(out), "    {{{:#x}, {}, {}, {}}},\n", p.hash, p.at, p.size, p.inflated);
  return out;
}

void write(const char* path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text << std::flush;
  require(out.good(), "{} cannot be written", path);
}

} // namespace

} // namespace tenon

int main(int argc, char** argv) {
  using namespace tenon;
  if (argc < 3 || argc > 4) return fmt::print(stderr, "usage: make_prebuilt SOURCE BYTES [LAYERS]\n"), 2;
  std::vector<LoadedProgram> layers = prebuilt_layers();
  if (argc == 4) layers.erase(layers.begin() + std::min<std::ptrdiff_t>(std::atoi(argv[3]), std::ssize(layers)), layers.end());
  for (LoadedProgram& layer : layers) lower(layer, "backend");
  std::string bytes, tables;
  for (Isa level : levels) {
    std::vector<PrebuiltKernel> kernels = compile_level(level, layers);
    tables += fmt::format("constexpr PrebuiltTable::Place {}[] = {{\n{}}};\n", level == Isa::Avx512 ? "avx512" : "avx2",
                          text_of(deflate(kernels, bytes)));
  }
  write(argv[2], bytes);
  write(argv[1], fmt::format(source, argv[2], tables));
  return 0;
}
