// The table of names: it only grows, so what it holds stays where it is.
#include "ir/op_id.h"

#include <mutex>
#include <shared_mutex>
#include <unordered_set>

namespace tenon {

namespace {

struct HashOfText {
  using is_transparent = void;
  size_t operator()(std::string_view s) const { return std::hash<std::string_view>()(s); }
};

struct InternedNames {
  std::shared_mutex lock;
  std::unordered_set<std::string, HashOfText, std::equal_to<>> texts; // elements of nodes: their addresses last
};

} // namespace

const std::string* OpId::intern(std::string_view name) {
  static InternedNames& names = *new InternedNames; // ids outlive whatever is destroyed when the process ends
  if (name.empty()) return nullptr;
  {
    std::shared_lock reading(names.lock);
    if (auto it = names.texts.find(name); it != names.texts.end()) return &*it;
  }
  std::unique_lock writing(names.lock);
  return &*names.texts.emplace(name).first;
}

const std::string& OpId::no_name() {
  static const std::string& none = *new std::string;
  return none;
}

std::string_view OpId::dialect() const {
  size_t end = name().find("::");
  return end == name().npos ? std::string_view() : std::string_view(name()).substr(0, end);
}

std::string_view OpId::base() const {
  size_t end = name().find("::");
  std::string_view s = std::string_view(name()).substr(end == name().npos ? 0 : end + 2);
  return s.substr(0, s.find('.'));
}

} // namespace tenon
