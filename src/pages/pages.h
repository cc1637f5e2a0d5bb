// Pages for a browser: one file each, which loads nothing. Data is JSON in the page; scripts and styles are the files beside this one,
// which are built in (embed.py).
#pragma once
#include <string>
#include <string_view>

namespace tenon::pages {

/// `kind` is the page's script: "explain" or "bench". `json` is an object that it shows.
std::string page(std::string_view kind, std::string_view title, std::string_view json);

} // namespace tenon::pages
