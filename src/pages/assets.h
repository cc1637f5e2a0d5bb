// The files that pages are made of, built in.
#pragma once
#include <string_view>

namespace tenon::pages {

/// By its name: "page.css". Throws Internal where there is none.
std::string_view asset(std::string_view name);

} // namespace tenon::pages
