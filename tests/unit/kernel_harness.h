// Compares compiled kernels with the interpreter of the loop IR, on both instruction levels, with every buffer against an
// unreadable page: first its end, then its start.
#pragma once
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <functional>

#include "codegen/codegen.h"

namespace tenon::harness {

/// Memory between two unreadable pages.
class GuardedMemory {
public:
  GuardedMemory(size_t bytes, bool at_start);
  ~GuardedMemory() { munmap(map_, size_); }
  GuardedMemory(const GuardedMemory&) = delete;
  char* data() const { return data_; }

private:
  char *map_, *data_;
  size_t size_;
};

std::vector<Isa> levels();
Jit& jit_for(Isa isa);

/// Contents of a buffer, as bytes; what a test does not fill is random.
struct Data {
  size_t count = 0;
  std::vector<char> bytes = {};
  template <class T> static Data of(const std::vector<T>& v) {
    Data d{.count = v.size()};
    d.bytes.resize(v.size() * sizeof(T));
    if (!v.empty()) std::memcpy(d.bytes.data(), v.data(), d.bytes.size());
    return d;
  }
  static Data random(DType type, size_t count, uint32_t seed);
};

struct Case {
  Kernel kernel;
  std::vector<Data> data = {}; // per buffer; of outputs and scratch the count
  std::vector<int64_t> scalars = {};
  int64_t begin = 0, end = 1;
  double tolerance = 0; // relative to 1 + |expected|; 0: equal bits, but any NaN
  bool expect_error = false;
};

struct Outcome {
  std::vector<std::vector<char>> buffers;
  int64_t error[3] = {0, 0, 0};
};

Outcome run(const Case& c, KernelFn f, bool at_start);
void compare(const Case& c, const Outcome& got, const Outcome& want, const std::string& level);
void check(Case c);

// ---- building kernels

inline Stmt loop(Expr axis, int lanes, std::vector<Stmt> body) { return {Loop{axis, lanes, std::move(body)}}; }
inline Stmt store(int buffer, Expr offset, Expr value) { return {Store{buffer, offset, value}}; }
inline Stmt reduce(std::vector<Accumulator> a, std::vector<Stmt> body) { return {ReduceRegion{std::move(a), std::move(body)}}; }
inline Stmt add(int reg, Expr value, Expr position = {}) { return {Accumulate{reg, value, position}}; }
inline KernelBuffer input(DType t) { return {BufferKind::Input, t}; }
inline KernelBuffer output(DType t) { return {BufferKind::Output, t}; }

/// One parallel iteration over `n` elements: out[i] = body(i).
struct Pointwise {
  ExprPool pool = {};
  Expr p = {}, i = {};

  Case make(std::vector<KernelBuffer> buffers, int64_t n, int lanes, bool dynamic, const std::function<Expr(Pointwise&)>& body);
};

} // namespace tenon::harness
