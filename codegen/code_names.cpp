// perf reads /tmp/perf-PID.map, gdb an ELF file in memory that holds nothing but symbols.
#include "codegen/code_names.h"

#include <elf.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <mutex>
#include <vector>

#include <fmt/format.h>

#include "base/env.h"
#include "codegen/gdb_interface.h"

extern "C" {
[[gnu::used]] jit_descriptor __jit_debug_descriptor = {1, 0, nullptr, nullptr};
[[gnu::used, gnu::noinline]] void __jit_debug_register_code() { asm volatile("" ::: "memory"); }
}

namespace tenon {
namespace {

std::mutex mutex; // guards the descriptor and the map file

// One line "start bytes name" for each function.
void write_perf_map(std::span<const NamedCode> functions) {
  std::lock_guard lock(mutex);
  std::FILE* file = std::fopen(fmt::format("/tmp/perf-{}.map", getpid()).c_str(), "a");
  if (!file) return;
  for (const NamedCode& f : functions)
    std::fputs(fmt::format("{:x} {:x} {}\n", reinterpret_cast<uintptr_t>(f.start), f.bytes, f.name).c_str(), file);
  std::fclose(file);
}

// A section of no content at the address of each function, and a symbol for it.
std::vector<char> symbol_file(std::span<const NamedCode> functions) {
  std::string strings(1, '\0');
  auto add_string = [&](std::string_view s) {
    size_t at = strings.size();
    strings.append(s).push_back('\0');
    return static_cast<Elf64_Word>(at);
  };
  Elf64_Word text = add_string(".text"), symtab = add_string(".symtab"), strtab = add_string(".strtab");
  std::vector<Elf64_Shdr> sections(1);
  std::vector<Elf64_Sym> symbols(1);
  for (const NamedCode& f : functions) {
    auto section = static_cast<Elf64_Half>(sections.size());
    symbols.push_back({add_string(f.name), ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), STV_DEFAULT, section, 0, f.bytes});
    sections.push_back({.sh_name = text,
                        .sh_type = SHT_NOBITS,
                        .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
                        .sh_addr = reinterpret_cast<uintptr_t>(f.start),
                        .sh_offset = sizeof(Elf64_Ehdr),
                        .sh_size = f.bytes,
                        .sh_link = 0,
                        .sh_info = 0,
                        .sh_addralign = 1,
                        .sh_entsize = 0});
  }
  size_t symbol_bytes = symbols.size() * sizeof(Elf64_Sym), count = sections.size() + 2;
  size_t symbols_at = sizeof(Elf64_Ehdr) + count * sizeof(Elf64_Shdr), strings_at = symbols_at + symbol_bytes;
  sections.push_back({symtab, SHT_SYMTAB, 0, 0, symbols_at, symbol_bytes, static_cast<Elf64_Word>(count - 1), 1, 8, sizeof(Elf64_Sym)});
  sections.push_back({strtab, SHT_STRTAB, 0, 0, strings_at, strings.size(), 0, 0, 1, 0});
  Elf64_Ehdr header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                       .e_type = ET_REL,
                       .e_machine = EM_X86_64,
                       .e_version = EV_CURRENT,
                       .e_entry = 0,
                       .e_phoff = 0,
                       .e_shoff = sizeof(Elf64_Ehdr),
                       .e_flags = 0,
                       .e_ehsize = sizeof(Elf64_Ehdr),
                       .e_phentsize = 0,
                       .e_phnum = 0,
                       .e_shentsize = sizeof(Elf64_Shdr),
                       .e_shnum = static_cast<Elf64_Half>(count),
                       .e_shstrndx = static_cast<Elf64_Half>(count - 1)};
  std::vector<char> file;
  auto append = [&](const void* p, size_t n) { file.insert(file.end(), static_cast<const char*>(p), static_cast<const char*>(p) + n); };
  append(&header, sizeof header);
  append(sections.data(), count * sizeof(Elf64_Shdr));
  append(symbols.data(), symbol_bytes);
  append(strings.data(), strings.size());
  return file;
}

void tell_gdb(jit_code_entry& entry, uint32_t action) {
  __jit_debug_descriptor.relevant = &entry;
  __jit_debug_descriptor.action = action;
  __jit_debug_register_code();
}

} // namespace

struct CodeNames::Entry {
  std::vector<char> file;
  jit_code_entry entry;

  explicit Entry(std::vector<char> f) : file(std::move(f)), entry{nullptr, nullptr, file.data(), file.size()} {
    std::lock_guard lock(mutex);
    entry.next = __jit_debug_descriptor.first;
    if (entry.next) entry.next->previous = &entry;
    __jit_debug_descriptor.first = &entry;
    tell_gdb(entry, jit_register);
  }
  ~Entry() {
    std::lock_guard lock(mutex);
    (entry.previous ? entry.previous->next : __jit_debug_descriptor.first) = entry.next;
    if (entry.next) entry.next->previous = entry.previous;
    tell_gdb(entry, jit_unregister);
  }
};

bool CodeNames::wanted() {
  static const bool wanted = env_flag("TENON_PERF") || env_flag("TENON_GDB");
  return wanted;
}

CodeNames::CodeNames(std::span<const NamedCode> functions) {
  if (functions.empty()) return;
  if (env_flag("TENON_PERF")) write_perf_map(functions);
  if (env_flag("TENON_GDB")) gdb_ = std::make_shared<Entry>(symbol_file(functions));
}

} // namespace tenon
