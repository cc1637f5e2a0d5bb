// Typed 32-bit ids and arenas indexed by them: ValueId cannot be used where a NodeId is meant.
#pragma once
#include <compare>
#include <cstdint>
#include <deque>
#include <functional>

namespace tenon {

template <class Tag> struct Id {
  uint32_t index = UINT32_MAX;
  constexpr bool valid() const { return index != UINT32_MAX; }
  constexpr auto operator<=>(const Id&) const = default;
};

/// Owns elements of type T; ids stay valid for ever, and so do references to elements.
template <class I, class T> class Arena {
public:
  I add(T value) {
    items_.push_back(std::move(value));
    return I{static_cast<uint32_t>(items_.size() - 1)};
  }
  T& operator[](I id) { return items_[id.index]; }
  const T& operator[](I id) const { return items_[id.index]; }
  size_t size() const { return items_.size(); }

private:
  std::deque<T> items_; // not a vector: a decomposition holds the type of its operand while it appends nodes
};

/// A value of type T for each id, made on first use; ids never seen read as the default.
template <class I, class T> class SideTable {
public:
  explicit SideTable(T fallback = {}) : fallback_(std::move(fallback)) {}
  T& operator[](I id) {
    if (id.index >= items_.size()) items_.resize(id.index + 1, fallback_);
    return items_[id.index];
  }
  const T& get(I id) const { return id.index < items_.size() ? items_[id.index] : fallback_; }

private:
  T fallback_;
  std::deque<T> items_; // not a vector: T may be bool
};

} // namespace tenon

template <class Tag> struct std::hash<tenon::Id<Tag>> {
  size_t operator()(tenon::Id<Tag> id) const noexcept { return id.index; }
};
