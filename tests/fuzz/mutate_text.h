// A mutator for texts of a language: words, lines and blocks are moved, copied and replaced by others of the same text, so that most of
// what comes of it is still read. libFuzzer's own mutations of bytes come besides.
#pragma once
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <vector>

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace tenon::fuzz {

class TextMutator {
public:
  TextMutator(std::string_view text, unsigned seed) : text_(text), random_(seed) {}

  /// `words` are those of the language.
  std::string run(const std::vector<std::string_view>& words) {
    switch (below(6)) {
    case 0: replace_word(words[below(words.size())]); break;
    case 1: replace_word(std::string(word().first)); break;
    case 2: replace_number(); break;
    case 3: copy_lines(); break;
    case 4: drop_lines(); break;
    default: swap_words(); break;
    }
    return text_;
  }

private:
  size_t below(size_t n) { return random_() % std::max<size_t>(n, 1); }

  static int kind(char c) {
    return std::isspace(static_cast<unsigned char>(c)) ? 0 : std::isalnum(static_cast<unsigned char>(c)) || c == '_' ? 1 : 2;
  }
  // A word, number or sign of the text, and where it stands.
  std::pair<std::string_view, size_t> word() {
    if (text_.empty()) return {"", 0};
    size_t at = below(text_.size());
    while (at < text_.size() && kind(text_[at]) == 0) at++;
    if (at == text_.size()) return {"", at};
    size_t begin = at, end = at + 1;
    if (kind(text_[at]) == 1) {
      while (begin > 0 && kind(text_[begin - 1]) == 1) begin--;
      while (end < text_.size() && kind(text_[end]) == 1) end++;
    }
    return {std::string_view(text_).substr(begin, end - begin), begin};
  }
  void replace_word(std::string with) {
    auto [old, at] = word();
    text_.replace(at, old.size(), with);
  }
  void replace_word(std::string_view with) { replace_word(std::string(with)); }
  void replace_number() {
    static constexpr std::string_view extreme[] = {
        "0", "-1", "1", "2", "63", "-9223372036854775808", "9223372036854775807", "1e308", "1000000000000", "0.5", "nan"};
    for (int tries = 0; tries < 20; tries++) {
      auto [old, at] = word();
      if (old.empty() || !std::isdigit(static_cast<unsigned char>(old[0]))) continue;
      text_.replace(at, old.size(), extreme[below(std::size(extreme))]);
      return;
    }
  }
  void swap_words() {
    auto [a, a_at] = word();
    auto [b, b_at] = word();
    std::string first(a), second(b);
    if (a_at + first.size() > b_at) return;
    text_.replace(b_at, second.size(), first);
    text_.replace(a_at, first.size(), second);
  }
  // The begins of one to four lines on end.
  std::pair<size_t, size_t> lines() {
    size_t begin = text_.empty() ? 0 : below(text_.size());
    while (begin > 0 && text_[begin - 1] != '\n') begin--;
    size_t end = begin;
    for (size_t n = 1 + below(4); n > 0 && end < text_.size(); n--) {
      size_t next = text_.find('\n', end);
      end = next == text_.npos ? text_.size() : next + 1;
    }
    return {begin, end};
  }
  void copy_lines() {
    auto [begin, end] = lines();
    std::string copy = text_.substr(begin, end - begin);
    if (size_t shift = below(3); shift > 0) // as a block of the lines before
      for (size_t at = 0; at < copy.size(); at = copy.find('\n', at) == copy.npos ? copy.size() : copy.find('\n', at) + 1)
        copy.insert(at, std::string(4, ' '));
    text_.insert(below(2) ? end : lines().first, copy);
  }
  void drop_lines() {
    auto [begin, end] = lines();
    text_.erase(begin, end - begin);
  }

  std::string text_;
  std::minstd_rand random_;
};

/// What LLVMFuzzerCustomMutator does; the first `head` bytes are no text and stay.
inline size_t mutate_text(uint8_t* data, size_t size, size_t max_size, unsigned seed, size_t head,
                          const std::vector<std::string_view>& words) {
  if (seed % 4 == 0 || size <= head) return LLVMFuzzerMutate(data, size, max_size);
  std::string text = TextMutator({reinterpret_cast<const char*>(data) + head, size - head}, seed).run(words);
  size_t n = std::min(text.size(), max_size - head);
  std::memcpy(data + head, text.data(), n);
  return head + n;
}

} // namespace tenon::fuzz
