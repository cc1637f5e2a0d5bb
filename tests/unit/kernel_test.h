// What the tests of matrix and convolution kernels share: buffers that end at an inaccessible page, and the instruction
// sets.
#pragma once
#include <sys/mman.h>

#include <cstdint>
#include <random>
#include <span>
#include <stdexcept>
#include <vector>

#include "codegen/x86/micro_kernels.h"
#include "tenon/error.h"

namespace tenon {

/// f32 elements whose last one is followed by a page that may not be touched.
class GuardedBuffer {
public:
  explicit GuardedBuffer(int64_t n) {
    size_t page = 4096, bytes = static_cast<size_t>(n) * 4, whole = (bytes + page - 1) / page * page + page;
    void* p = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) throw std::runtime_error("mmap");
    base_ = static_cast<char*>(p);
    whole_ = whole;
    mprotect(base_ + whole - page, page, PROT_NONE);
    values = {reinterpret_cast<float*>(base_ + whole - page - bytes), static_cast<size_t>(n)};
  }
  ~GuardedBuffer() { munmap(base_, whole_); }
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;

  float* data() { return values.data(); }
  void fill_random(uint32_t seed) {
    std::minstd_rand r(seed + 1);
    for (float& v : values) v = static_cast<float>(r() % 2001) / 1000.f - 1.f;
  }
  std::span<float> values;

private:
  char* base_;
  size_t whole_;
};

inline std::vector<Isa> available_isas() {
  std::vector<Isa> all;
  for (Isa isa : {Isa::Avx2, Isa::Avx512}) {
    try {
      all.push_back(resolve_isa(isa));
    } catch (const Error&) {
    }
  }
  return all;
}

} // namespace tenon
