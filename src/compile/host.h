// What tenon makes of the machine it runs on: what it generates code for, and what that code does at best. For reports.
#pragma once
#include <string>
#include <vector>

namespace tenon {

struct Host {
  std::string isa = {};                            ///< "avx512", "avx2"; empty: the CPU has neither
  std::string refused = {};                        ///< why not
  std::vector<std::string> extensions = {};        ///< of those that code is generated for, what the CPU has: "avx512-vnni", "amx-bf16"
  std::vector<std::string> families = {};          ///< of matrix kernels, those that the machine runs
  size_t l1_bytes = 0, l2_bytes = 0, l3_bytes = 0; ///< data caches; L1 and L2 of one core, L3 as the core sees it
};
Host describe_host();
/// Of LLVM, which is linked.
std::string llvm_version();

/// Measured on so many threads at once, by matrix kernels on operands in L1, and by a copy of more than the caches hold.
struct HostSpeed {
  int threads = 0;
  struct Peak {
    std::string type, family; ///< "f32", "bf16", "int8"; the kernels that are fastest at it
    double flops_per_ns = 0;
  };
  std::vector<Peak> peaks;
  double bytes_per_ns = 0; ///< read and written
  double handover_ns = 0;  ///< until one of two threads sees what the other wrote; 0: one thread, or no two ran side by side
};
/// Takes some tens of milliseconds. 0 threads: all that the process may use. Throws where the CPU has no code.
HostSpeed measure_host(int threads);

} // namespace tenon
