// Copies of windows.
#include "runtime/conv_rows.h"

#include <cstdint>
#include <cstring>

#include "runtime/gemm_pack.h"

namespace tenon {
namespace {

template <class T> void copy_ends(char* to, const char* from, int64_t bytes) {
  T first, last;
  std::memcpy(&first, from, sizeof first);
  std::memcpy(&last, from + bytes - sizeof last, sizeof last);
  std::memcpy(to, &first, sizeof first);
  std::memcpy(to + bytes - sizeof last, &last, sizeof last);
}

/// Short runs, by moves that overlap.
void copy_bytes(char* to, const char* from, int64_t bytes) {
  if (bytes > 256) return void(std::memcpy(to, from, static_cast<size_t>(bytes)));
  if (bytes >= 16) {
    for (int64_t i = 0; i + 16 < bytes; i += 16) std::memcpy(to + i, from + i, 16);
    std::memcpy(to + bytes - 16, from + bytes - 16, 16);
  } else if (bytes >= 8) {
    copy_ends<uint64_t>(to, from, bytes);
  } else if (bytes >= 4) {
    copy_ends<uint32_t>(to, from, bytes);
  } else {
    for (int64_t i = 0; i < bytes; i++) to[i] = from[i];
  }
}

/// Few bytes mostly, k missing to a k_step.
void clear(char* to, int64_t bytes) {
  if (bytes > 16) return void(std::memset(to, 0, static_cast<size_t>(bytes)));
  for (char* end = to + bytes; to < end; to++) *to = 0;
}

struct Copier {
  const WindowRows& from;
  int64_t piece, in_bytes, a_bytes; // elements of a piece; bytes of an element before and after
  MoveFn convert;                   // null: the types are equal

  void copy(const char* run, char* to) const {
    if (!convert) return copy_bytes(to, run, piece * in_bytes);
    MoveArgs args{run, to, 0, 0, 1, piece};
    convert(&args);
  }

  /// Row i of a tile.
  void copy_row(const RowTile& t, int i, int64_t positions, char* to) const {
    const ConvLayout::Part& part = from.part;
    int64_t rest = (part.depth - part.run) * a_bytes;
    for (int64_t q = 0; q < positions; q++) {
      char* next = to + q * part.depth * a_bytes;
      for (int64_t w = 0; w < from.pieces; w++, next += piece * a_bytes) {
        const void* const* rows = t.rows + (q * from.pieces + w) * t.count;
        auto* run = static_cast<const char*>(rows[i]);
        bool outside = rows[0] == nullptr || run == from.padding;
        copy(outside ? from.padding : run + t.first + from.first, next);
      }
      if (rest > 0) clear(next, rest);
    }
  }
};

} // namespace

void copy_windows(const KernelTable& kernels, const GemmFamily& f, const WindowRows& from, std::span<const RowTile> tiles,
                  int64_t positions, char* to, int64_t stride) noexcept {
  Copier copier{from, from.part.run / from.pieces, static_cast<int64_t>(size_of(from.type)), static_cast<int64_t>(size_of(f.a)), nullptr};
  if (auto c = conversion_of(from.type, f.a)) copier.convert = kernels.convert(*c);
  for (const RowTile& t : tiles)
    for (int i = 0; i < t.count; i++, to += stride) copier.copy_row(t, i, positions, to);
}

} // namespace tenon
