// What the tests of matrix and convolution kernels share: buffers that end at an inaccessible page, and the instruction
// sets.
#pragma once
#include <sys/mman.h>

#include <cstdint>
#include <random>
#include <span>
#include <stdexcept>
#include <vector>

#include "base/numeric.h"
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

/// Elements of any type whose last one is followed by a page that may not be touched.
class TypedBuffer {
public:
  TypedBuffer(DType t, int64_t n) : type(t), count(n), bytes_((n * static_cast<int64_t>(size_of(t)) + 3) / 4) {}

  char* data() { return reinterpret_cast<char*>(bytes_.data()) + bytes_.values.size() * 4 - static_cast<size_t>(count) * size_of(type); }
  double get(int64_t i) {
    return dispatch(type, [&]<class T>(T v) {
      std::memcpy(&v, data() + i * static_cast<int64_t>(sizeof v), sizeof v);
      return convert<double>(v);
    });
  }
  void set(int64_t i, double to) {
    dispatch(type, [&]<class T>(T v) {
      v = convert<T>(to);
      std::memcpy(data() + i * static_cast<int64_t>(sizeof v), &v, sizeof v);
    });
  }
  std::vector<double> numbers() {
    std::vector<double> all;
    for (int64_t i = 0; i < count; i++) all.push_back(get(i));
    return all;
  }
  /// Fractions within [-1, 1], or integers of the type's whole range (of I32: small ones).
  void fill_random(uint32_t seed) {
    std::minstd_rand r(seed + 1);
    for (int64_t i = 0; i < count; i++) {
      int v = static_cast<int>(r() % 2001);
      set(i, is_float(type) ? v / 1000. - 1 : type == DType::U8 ? v % 256 : type == DType::I8 ? v % 256 - 128 : v - 1000);
    }
  }

  DType type;
  int64_t count;

private:
  GuardedBuffer bytes_;
};

/// The machines this one can stand for: with and without tile registers, dot products of bf16, VNNI, AVX-512.
inline std::vector<Target> available_targets() {
  std::vector<Target> all;
  for (Isa isa : {Isa::Avx2, Isa::Avx512}) try {
      all.push_back(host_target(isa));
    } catch (const Error&) {}
  Target best = all.back();
  if (best.amx_bf16 || best.amx_int8) {
    best.amx_bf16 = best.amx_int8 = false;
    all.push_back(best);
  }
  if (best.avx512_bf16 && !best.fast_bf16) {
    best.fast_bf16 = true;
    all.push_back(best);
  }
  if (best.avx512() && !best.halves_loads) {
    all.push_back(best);
    all.back().halves_loads = true;
  }
  if (best.avx512_vnni) {
    best.avx512_vnni = best.fast_bf16 = false;
    all.push_back(best);
  }
  if (all[0].avx_vnni) {
    all.push_back(all[0]);
    all.back().avx_vnni = false;
  }
  return all;
}

inline std::vector<Isa> available_isas() {
  std::vector<Isa> all;
  for (Isa isa : {Isa::Avx2, Isa::Avx512}) {
    try {
      all.push_back(resolve_isa(isa));
    } catch (const Error&) {}
  }
  return all;
}

} // namespace tenon
