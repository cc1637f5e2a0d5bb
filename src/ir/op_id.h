// OpId: the name of an operator, interned. Names repeat by the thousand in a program; as ids they are copied and compared as pointers are.
#pragma once
#include <fmt/format.h>

#include <concepts>
#include <functional>
#include <string>
#include <string_view>

namespace tenon {

class OpId;
/// What is no OpId, but text.
template <class T>
concept OperatorName = std::convertible_to<const T&, std::string_view> && !std::same_as<T, OpId>;

/// The full name of an operator: "aten::add.Tensor", "prim::If"; by default the empty one. Two are equal where their texts are.
/// Thread-safe. The process keeps every name for good, those that files bring too: some bytes more than what was read of them, once for
/// each name.
class OpId {
public:
  constexpr OpId() = default;
  template <OperatorName T> OpId(const T& name) : text_(intern(name)) {}

  const std::string& name() const { return text_ ? *text_ : no_name(); }
  operator std::string_view() const { return name(); } ///< lives as long as the process
  bool empty() const { return !text_; }
  std::string_view dialect() const; ///< "aten"; empty where the name has no "::"
  std::string_view base() const;    ///< "add": without dialect and overload

  bool operator==(const OpId&) const = default;
  /// By text: for names that come from elsewhere.
  template <OperatorName T> bool operator==(const T& name) const { return std::string_view(*this) == std::string_view(name); }

private:
  static const std::string* intern(std::string_view name);
  static const std::string& no_name();

  friend std::hash<OpId>;
  const std::string* text_ = nullptr; // null for the empty name
};

} // namespace tenon

template <> struct std::hash<tenon::OpId> {
  size_t operator()(tenon::OpId id) const noexcept { return std::hash<const void*>()(id.text_); }
};
template <> struct fmt::formatter<tenon::OpId> : fmt::formatter<std::string_view> {
  auto format(tenon::OpId id, format_context& context) const { return formatter<std::string_view>::format(id, context); }
};
