// The table of `tenon explain`.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include <fmt/core.h>

#include "cli/commands.h"
#include "pages/words.h"

namespace tenon::cli {

namespace {

struct SortKey {
  const char* name;
  bool (*before)(const ExplainedStep& a, const ExplainedStep& b);
};
constexpr SortKey keys[] = {
    {"number", [](auto& a, auto& b) { return a.number < b.number; }},
    {"time", [](auto& a, auto& b) { return a.share > b.share; }},
    {"bytes", [](auto& a, auto& b) { return a.bytes > b.bytes; }},
    {"flops", [](auto& a, auto& b) { return a.flops > b.flops; }},
    {"bound", [](auto& a, auto& b) { return a.times_bound() > b.times_bound(); }},
    {"loss", [](auto& a,
                auto& b) { return a.share - a.share / std::max(a.times_bound(), 1.) > b.share - b.share / std::max(b.times_bound(), 1.); }},
    {"kernel", [](auto& a, auto& b) { return a.code < b.code; }},
    {"operators", [](auto& a, auto& b) { return a.operators < b.operators; }},
    {"source", [](auto& a, auto& b) { return short_source(a) < short_source(b); }},
};

size_t width_of(std::string_view text) { // of UTF-8
  return static_cast<size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; }));
}

std::string cut(std::string_view text, size_t width) {
  if (width_of(text) <= width) return std::string(text);
  if (width == 0) return {};
  std::string s;
  size_t n = 0;
  for (char c : text) {
    if ((c & 0xc0) != 0x80 && ++n == width) break;
    s += c;
  }
  return s + "…";
}

/// Eighths of a character, as blocks.
std::string bar(double share, int width) {
  constexpr const char* parts[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  int eighths = static_cast<int>(std::lround(std::clamp(share, 0., 1.) * 8 * width));
  std::string s;
  for (int i = 0; i < eighths / 8; i++) s += "█";
  return s + parts[eighths % 8];
}

std::string short_number(double v) {
  if (v <= 0) return "";
  constexpr const char* units[] = {"", "k", "M", "G", "T"};
  int u = 0;
  for (; v >= 1000 && u < 4; u++) v /= 1000;
  return v < 10 && u > 0 ? fmt::format("{:.1f}{}", v, units[u]) : fmt::format("{:.0f}{}", v, units[u]);
}

struct Column {
  std::string title;
  bool right;   // numbers
  size_t least; // what it may be cut to; 0: not at all
  std::vector<std::string> cells = {};
  size_t width = 0;
};

constexpr int bar_width = 12;

std::vector<Column> columns_of(const Explanation& e, const std::vector<size_t>& order, bool bars) {
  std::vector<Column> c = {{"step", false, 0}, {"us", true, 0}, {"share", true, 0}};
  if (bars) c.push_back({"", false, 0});
  for (const char* title : {"bytes", "flops", "x bound"}) c.push_back({title, true, 0});
  c.push_back({"operators", false, 14}), c.push_back({"kernel", false, 12}), c.push_back({"source", false, 14});
  double most = 0;
  for (const ExplainedStep& s : e.steps) most = std::max(most, s.share);
  for (size_t i : order) {
    const ExplainedStep& s = e.steps[i];
    size_t at = 0;
    auto cell = [&](std::string text) { c[at++].cells.push_back(std::move(text)); };
    bool timed = s.calls > 0;
    cell(std::string(static_cast<size_t>(depth_of(e, s)) * 2, ' ') + std::to_string(s.number));
    cell(timed ? fmt::format("{:.2f}", s.us) : "");
    cell(timed ? fmt::format("{:.1f}%", 100 * s.share) : "");
    if (bars) cell(bar(most > 0 ? s.share / most : 0, bar_width));
    cell(short_number(s.bytes)), cell(short_number(s.flops));
    cell(s.bound_us() > 0 ? fmt::format("{}{:.1f}", is_far(s) ? "!" : "", s.times_bound()) : "");
    cell(s.refused.empty() ? s.operators : s.operators + " (refused: " + s.refused + ")");
    cell(s.code);
    cell(short_source(s));
  }
  for (Column& x : c) {
    x.width = width_of(x.title);
    for (auto& cell : x.cells) x.width = std::max(x.width, width_of(cell));
  }
  return c;
}

/// Leaves out columns that can be missed where all would be cut too short; then cuts the widest of those that may be cut, until all fit.
void fit(std::vector<Column>& columns, size_t width) {
  auto total = [&](bool at_least) {
    size_t n = 2 * (columns.size() - 1);
    for (const Column& c : columns) n += at_least && c.least > 0 ? std::min(c.least, c.width) : c.width;
    return n;
  };
  for (std::string_view title : {"flops", "bytes", "kernel", "x bound", ""})
    if (total(true) > width) std::erase_if(columns, [&](const Column& c) { return c.title == title; });
  while (total(false) > width) {
    Column* widest = nullptr;
    for (Column& c : columns)
      if (c.least > 0 && c.width > c.least && (!widest || c.width > widest->width)) widest = &c;
    if (!widest) return;
    widest->width--;
  }
}

std::string line_of(const std::vector<Column>& columns, const std::function<std::string(const Column&)>& cell) {
  std::string line;
  for (const Column& c : columns) {
    std::string text = cut(cell(c), c.width), space(c.width - width_of(text), ' ');
    line += (&c == &columns[0] ? "" : "  ") + (c.right ? space + text : text + space);
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

} // namespace

std::string table_of(const Explanation& e, const std::string& sort, int width, bool bars) {
  if (e.steps.empty()) return {};
  std::vector<size_t> order(e.steps.size());
  std::iota(order.begin(), order.end(), size_t{0});
  for (const SortKey& k : keys)
    if (k.name == sort) std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return k.before(e.steps[a], e.steps[b]); });
  std::vector<Column> columns = columns_of(e, order, bars);
  std::erase_if(columns,
                [](const Column& c) { return std::ranges::all_of(c.cells, [](auto& x) { return x.empty(); }); }); // nothing was timed
  if (width > 0) fit(columns, static_cast<size_t>(width));
  std::string text = line_of(columns, [](const Column& c) { return c.title; });
  for (size_t row = 0; row < order.size(); row++) text += line_of(columns, [&](const Column& c) { return c.cells[row]; });
  return text;
}

} // namespace tenon::cli
