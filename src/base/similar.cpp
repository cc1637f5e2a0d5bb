// Edit distance with swaps of neighbours.
#include "base/similar.h"

#include <algorithm>
#include <vector>

#include <fmt/ranges.h>

namespace tenon {

static size_t changes_between(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), now(b.size() + 1); // by prefixes of b
  for (size_t j = 0; j <= b.size(); j++) last[j] = j;
  for (size_t i = 1; i <= a.size(); i++) {
    now[0] = i;
    for (size_t j = 1; j <= b.size(); j++) {
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) now[j] = std::min(now[j], before[j - 2] + 1);
    }
    std::swap(before, last), std::swap(last, now);
  }
  return last[b.size()];
}

std::string_view similar_word(std::string_view word, std::span<const std::string_view> words) {
  std::string_view best;
  size_t least = 1 + (word.size() + 1) / 3; // so many changes make another word
  for (std::string_view w : words) {
    bool begins = word.size() >= 3 && w.starts_with(word);
    size_t changes = begins ? 1 : changes_between(word, w);
    if (changes < least) best = w, least = changes;
  }
  return best;
}

std::string did_you_mean(std::string_view word, std::span<const std::string_view> words) {
  std::string_view best = similar_word(word, words);
  return best.empty() ? "" : fmt::format("; did you mean {}?", best);
}

std::string there_are(std::string_view word, std::span<const std::string_view> words) {
  std::string meant = did_you_mean(word, words);
  return fmt::format("{} {}", meant.empty() ? "; there are" : meant + " There are", fmt::join(words, ", "));
}

} // namespace tenon
