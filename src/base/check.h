// Checks of the compile side: each throws tenon::Error with a formatted message. Internal checks name our own defects.
#pragma once
#include <fmt/core.h>

#include "tenon/error.h"

namespace tenon {

template <class... A> [[noreturn]] void bad_input(fmt::format_string<A...> f, A&&... a) {
  throw Error(ErrorKind::BadInput, fmt::format(f, std::forward<A>(a)...));
}
template <class... A> [[noreturn]] void unsupported(fmt::format_string<A...> f, A&&... a) {
  throw Error(ErrorKind::Unsupported, fmt::format(f, std::forward<A>(a)...));
}
template <class... A> [[noreturn]] void internal_error(fmt::format_string<A...> f, A&&... a) {
  throw Error(ErrorKind::Internal, fmt::format(f, std::forward<A>(a)...));
}
/// An invariant of ours: a failure is a defect of tenon.
template <class... A> void require(bool holds, fmt::format_string<A...> f, A&&... a) {
  if (!holds) [[unlikely]]
    throw Error(ErrorKind::Internal, fmt::format(f, std::forward<A>(a)...));
}
/// A condition on what the user gave.
template <class... A> void require_input(bool holds, fmt::format_string<A...> f, A&&... a) {
  if (!holds) [[unlikely]]
    throw Error(ErrorKind::BadInput, fmt::format(f, std::forward<A>(a)...));
}

} // namespace tenon
