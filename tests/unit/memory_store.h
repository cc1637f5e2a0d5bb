// An ObjectStore in memory.
#pragma once
#include <map>
#include <mutex>

#include "codegen/llvm/jit.h"

namespace tenon {

struct MemoryStore : ObjectStore {
  std::optional<std::vector<char>> find(const std::string& key) override {
    std::lock_guard lock(mutex);
    auto it = objects.find(key);
    return it == objects.end() ? std::nullopt : std::optional(it->second);
  }
  void put(const std::string& key, std::span<const char> object) override {
    std::lock_guard lock(mutex);
    objects[key].assign(object.begin(), object.end());
  }
  void forget() {
    std::lock_guard lock(mutex);
    objects.clear();
  }

  std::mutex mutex;
  std::map<std::string, std::vector<char>> objects;
};

} // namespace tenon
