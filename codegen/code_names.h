// What generated functions are called in perf (TENON_PERF=1) and in gdb (TENON_GDB=1).
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace tenon {

struct NamedCode {
  std::string name;
  const void* start;
  size_t bytes;
};

/// Tells perf and gdb, where they are asked for, the names of functions that lie where they will run; gdb forgets them with this object.
class CodeNames {
public:
  /// Whether anybody wants names.
  static bool wanted();

  CodeNames() = default;
  explicit CodeNames(std::span<const NamedCode> functions);

private:
  struct Entry;
  std::shared_ptr<Entry> gdb_;
};

} // namespace tenon
