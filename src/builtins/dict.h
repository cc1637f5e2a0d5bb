// A dict: pairs in the order of insertion, found by their keys.
#pragma once
#include <unordered_map>

#include "builtins/ivalue.h"

namespace tenon {

/// Keys are ints, floats, bools, strings, complex numbers, tuples of these, or tensors (by identity). Numbers are equal across int, float
/// and bool.
struct DictBox : Boxed {
  struct Hash {
    size_t operator()(const IValue& key) const;
  };
  struct Equal {
    bool operator()(const IValue& a, const IValue& b) const;
  };

  size_t size() const { return places.size(); }
  /// Null where there is none. Good until the next insertion or removal.
  IValue* find(const IValue& key);
  void set(const IValue& key, IValue value);
  bool erase(const IValue& key);
  void clear();
  /// The pair that was inserted first; there must be one.
  std::pair<IValue, IValue> first() const;
  /// In order; erased pairs left out.
  std::vector<std::pair<IValue, IValue>> items() const;

private:
  void compact();
  struct Entry {
    IValue key = {}, value = {};
    bool erased = false;
  };
  std::vector<Entry> entries;
  size_t begin = 0; // of the first entry that is not erased
  std::unordered_map<IValue, size_t, Hash, Equal> places;
};

} // namespace tenon
