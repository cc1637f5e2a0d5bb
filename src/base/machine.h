// What the system says of the machine and of what this process may use of it, for reports. Every file may be missing, as they are in
// containers: what is not known stays empty.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

struct CpuFacts {
  std::string model;
  int online = 0;                     ///< logical CPUs of the machine
  int cores = 0;                      ///< physical ones; 0: not known
  int allowed = 0;                    ///< logical CPUs that the process may run on
  std::string allowed_list;           ///< "0-3,8"
  int allowed_cores = 0;              ///< physical cores that they belong to; 0: not known
  std::optional<double> quota;        ///< of the control groups, in CPUs
  std::optional<uint64_t> throttled;  ///< periods in which a group was held up by its quota
  std::vector<std::string> governors; ///< those in use
  std::optional<bool> boost;          ///< clocks above the nominal one
  std::optional<double> load;         ///< threads that run or want to, over the last minute
  bool is_virtual = false;            ///< a guest of a hypervisor
  bool has_amx = false;               ///< the CPU, whatever the system lets processes use
};

struct MemoryFacts {
  std::optional<uint64_t> total, available, swap_used; ///< bytes
  std::optional<uint64_t> limit, used;                 ///< of the control group with the least limit
  std::string huge_pages;                              ///< transparent ones: "always", "madvise", "never"
};

struct NumaNode {
  int number = 0;
  std::string cpus;
  std::optional<uint64_t> bytes;
};

struct MachineFacts {
  std::string system; ///< the kernel's release
  CpuFacts cpu;
  MemoryFacts memory;
  std::vector<NumaNode> nodes;
};

/// `root` is what paths begin with, for tests; affinity and release are this process's all the same.
MachineFacts machine_facts(const std::string& root = "");

} // namespace tenon
