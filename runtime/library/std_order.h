// std::sort of libstdc++, element for element: where torch sorts with it, equal elements come in the order it leaves
// them in. The partition finds what is to be exchanged by blocks, without branches to mispredict, and exchanges the
// same pairs.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>

namespace tenon::library {

// Parts [first, last) at the pivot, which stands before it: pairs off the leftmost not less than the pivot with the
// rightmost not greater, until they meet.
template <class Less> uint64_t* part_at(uint64_t* first, uint64_t* last, uint64_t pivot, Less less) {
  constexpr int64_t block = 64;
  uint8_t left[block], right[block];
  int64_t lefts = 0, rights = 0, left_at = 0, right_at = 0; // found and not yet exchanged: [at, count)
  uint64_t *left_block = first,
           *right_block = last; // the blocks [left_block, + block), [right_block - block, right_block)
  while (true) {
    if (left_at == lefts) {
      uint64_t* from = lefts || left_block != first ? left_block + block : first;
      if (right_block - from < 2 * block) break;
      left_block = from, left_at = lefts = 0;
      for (int64_t i = 0; i < block; i++) left[lefts] = static_cast<uint8_t>(i), lefts += !less(left_block[i], pivot);
      if (lefts == 0) {
        first = left_block + block;
        left_block = first;
        continue;
      }
    }
    if (right_at == rights) {
      uint64_t* to = rights ? right_block - block : right_block;
      if (to - left_block < 2 * block) break;
      right_block = to, right_at = rights = 0;
      for (int64_t i = 0; i < block; i++) right[rights] = static_cast<uint8_t>(i), rights += !less(pivot, right_block[-1 - i]);
      if (rights == 0) {
        last = right_block - block;
        right_block = last;
        continue;
      }
    }
    for (; left_at < lefts && right_at < rights; left_at++, right_at++) {
      first = left_block + left[left_at], last = right_block - 1 - right[right_at];
      std::swap(*first++, *last);
    }
  }
  while (true) { // what is left between
    while (less(*first, pivot)) first++;
    do last--;
    while (less(pivot, *last));
    if (first >= last) return first;
    std::swap(*first++, *last);
  }
}

template <class Less> void sort_parts_as_std(uint64_t* first, uint64_t* last, int depth, Less less) {
  for (; last - first > 16; depth--) {
    if (depth == 0) return std::partial_sort(first, last, last, less);
    uint64_t *a = first + 1, *b = first + (last - first) / 2, *c = last - 1; // their median is the pivot
    uint64_t* median = less(*a, *b) ? (less(*b, *c) ? b : less(*a, *c) ? c : a) : (less(*a, *c) ? a : less(*b, *c) ? c : b);
    std::swap(*first, *median);
    uint64_t* cut = part_at(first + 1, last, *first, less);
    sort_parts_as_std(cut, last, depth - 1, less);
    last = cut;
  }
}

template <class Less> void sort_as_std(uint64_t* words, int64_t n, Less less) {
  if (n < 2) return;
  sort_parts_as_std(words, words + n, 2 * (static_cast<int>(std::bit_width(static_cast<uint64_t>(n))) - 1), less);
  for (int64_t i = 1; i < n; i++) { // nearly in order
    uint64_t word = words[i];
    int64_t k = i;
    for (; k > 0 && less(word, words[k - 1]); k--) words[k] = words[k - 1];
    words[k] = word;
  }
}

} // namespace tenon::library
