// What a misspelt word was meant to be.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace tenon {

/// The word most like `word`, if it takes few changes, of letters that are wrong, missing, too many or swapped; else empty.
std::string_view similar_word(std::string_view word, std::span<const std::string_view> words);
/// "; did you mean X?", or nothing.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> words);
/// "; did you mean X? There are A, B, X", or "; there are A, B, X".
std::string there_are(std::string_view word, std::span<const std::string_view> words);

} // namespace tenon
