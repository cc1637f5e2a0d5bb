// Copies of windows.
#include "runtime/conv_rows.h"

#include <cstring>

#include "runtime/gemm_pack.h"

namespace tenon {
namespace {

/// Short runs, by moves that overlap.
void copy_bytes(char* to, const char* from, int64_t bytes) {
  if (bytes < 16 || bytes > 256) return void(std::memcpy(to, from, static_cast<size_t>(bytes)));
  int64_t i = 0;
  for (; i + 16 <= bytes; i += 16) std::memcpy(to + i, from + i, 16);
  if (i < bytes) std::memcpy(to + bytes - 16, from + bytes - 16, 16);
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
      if (rest > 0) std::memset(next, 0, static_cast<size_t>(rest));
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
