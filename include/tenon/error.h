// Errors of the public API: one exception type on the compile side, Result<T> at the boundary, Status on the run side.
#pragma once
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

#define TENON_API [[gnu::visibility("default")]]

namespace tenon {

/// What went wrong. BadInput: the bytes, text or tensors given are wrong. Unsupported: the program is valid, but uses
/// something tenon cannot run. Internal: a defect of tenon.
enum class ErrorKind { BadInput, Unsupported, Internal };

/// The one error type. `what()` is a full sentence; `where` names the file, node or source line concerned (may be empty).
class TENON_API Error : public std::runtime_error {
public:
  Error(ErrorKind kind, const std::string& message, std::string where = {})
      : std::runtime_error(message), kind(kind), where(std::move(where)) {}
  ErrorKind kind;
  std::string where;
};

/// Outcome of a call on the run side; success costs no allocation.
class [[nodiscard]] TENON_API Status {
public:
  Status() = default;
  Status(Error error) : error_(std::make_shared<Error>(std::move(error))) {}
  bool ok() const { return !error_; }
  explicit operator bool() const { return ok(); }
  /// The error; call only when !ok().
  const Error& error() const { return *error_; }
  /// Throws the error, if there is one.
  void check() const {
    if (error_) throw *error_;
  }

private:
  std::shared_ptr<const Error> error_;
};

/// A value or an Error. Test it (`if (r)`), or call value(), which throws the Error.
template <class T> class [[nodiscard]] Result {
public:
  Result(T value) : state_(std::move(value)) {}
  Result(Error error) : state_(std::move(error)) {}
  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  const Error& error() const { return std::get<1>(state_); }
  T& value() & {
    check();
    return std::get<0>(state_);
  }
  T value() && {
    check();
    return std::get<0>(std::move(state_));
  }
  T* operator->() { return &value(); }
  T& operator*() & { return value(); }

private:
  void check() const {
    if (!ok()) throw std::get<1>(state_);
  }
  std::variant<T, Error> state_;
};

} // namespace tenon
