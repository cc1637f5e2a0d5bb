// The contract between the generated matrix micro-kernels and the drivers that call them: what a family of kernels reads
// and sums, the arguments of a register tile, and the key by which a kernel is asked for.
#pragma once
#include <array>
#include <cstdint>

#include "tenon/tensor.h"

namespace tenon {

/// What a matrix micro-kernel adds to its sum before it stores: nothing, what C holds, or one row of `init` for all
/// rows.
enum class GemmInit : int64_t { Zero, C, Row };

/// One register tile: c[m][n] = init + sum over p < positions, k of a(p, m)[k] * b[p][k][n]. Row m of A at position p
/// starts `first` bytes behind rows[p * pointers + m / row_step], (m % row_step) * a_stride bytes further on, where
/// `pointers` is the tile's rows / row_step. Packed B has the tile's full width in every row, zero-padded; in place, row
/// k of B starts `b_stride` bytes after row k-1. Tiles of the same shape share their pointers.
struct GemmArgs {
  const void* const* rows;
  int64_t first;     // bytes
  const void* zeros; // the row of padding, window kernels alone
  const void* b;
  void* c;
  const void* init;
  int64_t c_stride; // bytes
  int64_t b_stride; // bytes; B in place and dot products alone
  int64_t a_stride; // bytes from a row to the next; families with a row_step above 1, and kernels that look for the next tile's rows. Of an
                    // A by k: from a k to the next
  int64_t depth;    // k / group
  int64_t positions;
  int64_t columns; // valid columns, read by masked kernels, and by those that weave a B in place
  GemmInit mode;
  /// k of a last, partial group (GemmFamily::reads_rest), where positions is 1 or B is held: A has no more, packed B is zero-padded.
  int64_t rest = 0;
  int64_t b_ahead = 0; // B in place: bytes from one step's lines that are asked for to the next step's, b_stride; 0: none are
  int64_t part = 128;  // k of a part, some multiple of 16: f32 sums of more are added up in parts, which keeps rounding errors small
  /// A series of so many tiles of the same shape, and the bytes from one to the next in A (`first`), B, C and `init`. The kernel leaves
  /// the arguments of the last one. More than one: not for GemmKind::Stream. Held: single rows.
  int64_t tiles = 1;
  int64_t next_a = 0, next_b = 0, next_c = 0, next_init = 0;
  /// Memory that is asked for meanwhile, of keys that do (GemmFamily::ahead_k): `ahead_lines` cache lines for every ahead_k of a
  /// position. The kernel leaves `ahead` behind them. Tile registers: so many lines in each step of k, a power of two from 2 on, at most
  /// as many as the step reads of B; each tile of Packed starts `next_b` behind the last one's start; null: nothing.
  const void* ahead = nullptr;
  int64_t ahead_lines = 0; // at most GemmFamily::most_ahead
  /// Tile registers, Packed: rows of A that are asked for meanwhile, `rows_ahead_of_tile` for each tile of a series that has no `ahead`, as
  /// many bytes of each as the tile reads of its own; null: none. The kernel leaves it behind those of all tiles but the last.
  const void* rows_ahead = nullptr;
  int64_t rows_ahead_stride = 0; // bytes
  void* packed = nullptr;        // GemmKind::Packing, of single tiles: where B goes
  static constexpr int rows_ahead_of_tile = 2;
};
using GemmFn = void (*)(GemmArgs*);

/// How a matrix kernel reads: B packed; B in place (positions must be 1); B packed and A the windows of a convolution,
/// whose padding it skips where it can: a position whose first pointer is null adds nothing, and one whose first or
/// last row is `zeros` goes without that row. Dot: columns of B that lie together along k, `b_stride` bytes apart, and rows of
/// A that do; a tile has as many columns as the key has vectors, `depth` counts single k, positions must be 1.
/// DotRows: the same where B stays in cache and rows stream past it: the next tile's are looked for.
/// Stream: a single row of A, by `columns` columns of a row-major B that are read in whole rows; C, of one row, is to stay in cache.
/// Held: all k of B, or packed groups of k, as many as the key has rows, `b_stride` bytes apart, stay in registers; `tiles` rows of A,
/// `a_stride` bytes apart, stream past them; `positions` such products of a batch, whose A, B and C lie next_a, next_b and next_c apart.
/// depth is not looked at.
/// Packing: as InPlace, and B is stored as packed ones lie, with the last row of a compensated family, in tiles of at most
/// GemmFamily::packing_rows rows.
/// PackedRows: B packed where its panel stays in cache and rows stream past it, tile registers alone.
enum class GemmKind : uint8_t { Packed, InPlace, Windows, Dot, DotRows, Stream, Held, Packing, PackedRows };
inline constexpr bool is_dot(GemmKind k) { return k == GemmKind::Dot || k == GemmKind::DotRows; }

/// A family of matrix micro-kernels: one arithmetic in register tiles of many shapes.
struct GemmFamily {
  static constexpr int max_rows = 32, max_vectors = 16;
  static constexpr int max_dot_rows = 6, dot_columns = 4, row_dot_columns = 8; // of tiles of several rows, of one
  static constexpr int most_ahead = 32;                                        // cache lines
  static constexpr int most_held_together = 4;                                 // vectors of a row of C

  const char* name;
  DType a, b, sum;                                      // A as the kernels read it, B as it is packed, C
  int lanes;                                            // columns of a vector of sums
  int group;                                            // neighbours in k that lie together in packed B and that one instruction sums
  int k_step;                                           // packed B, and A, hold whole multiples of so many k
  int row_step;                                         // rows of A behind one pointer: 16 for tile registers, else 1
  double speed;                                         // multiply-adds per cycle at best
  std::array<uint8_t, max_vectors + 1> rows{};          // the most rows of a tile by its vectors; 0: no tile has that width
  std::array<uint8_t, max_vectors + 1> in_place_rows{}; // the same for a row-major B in place, in panels of whole groups of vectors
  std::array<uint8_t, row_dot_columns + 1> dot_rows{};  // the most rows of a tile of dot products by its columns; 0: there are none
  int held = 0;                                         // the most vectors of a B that stays in registers (GemmKind::Held); 0: none
  std::array<uint8_t, max_vectors + 1> packing_rows{};  // the same for tiles that pack B (GemmKind::Packing); 0: none does
  int ahead_k = 0;                                      // GemmArgs::ahead
  bool embeds = false;     // a product takes A's element from memory, for all lanes: tiles of one vector are not bound by loads
  bool reads_rest = false; // kernels take a k that is no multiple of the group, without padding of A

  /// The instruction takes A's elements to be unsigned: kernels add 128 to them, and packed panels end with a row of I32 that
  /// takes it away again, which is what sums start from. Dot products see to it themselves.
  bool compensated = false;

  /// Tile registers: C gets all rows and columns of a tile, the driver's scratch takes what is beyond the matrix.
  bool is_tiled() const { return row_step > 1; }
  bool reads_in_place() const { return in_place_rows[1] > 0; }
  bool operator==(const GemmFamily&) const = default;
};

/// A register tile of `rows` x `vectors` vectors. Masked: the last vector may be partial. A by k: its rows are neighbours in memory, and
/// lie behind one pointer; positions must be 1. For packed B and B in place, of families that sum single k.
struct GemmKey {
  int family, rows, vectors;
  bool masked = false;
  GemmKind kind = GemmKind::Packed;
  bool a_by_k = false;
  auto operator<=>(const GemmKey&) const = default;
};

} // namespace tenon
