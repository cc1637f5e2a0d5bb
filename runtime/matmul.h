// Batched matrix product with sizes given at run time, over the generated micro-kernels. A plan holds every decision for
// one combination of sizes and strides; running it takes no more decisions.
#pragma once
#include <cstdint>
#include <string>

#include "runtime/gemm_block.h"
#include "runtime/parallel.h"

namespace tenon {

/// Sums of every m_step-th row of [m0, m1) x columns [n0, n1) of a batch's C, final and still in cache: row m0 + i * m_step
/// starts at sums + i * stride elements of the product's sum type. Not written by the epilogue.
struct SumTile {
  const void* sums;
  int64_t stride;
  int64_t batch, m0, m1, n0, n1;
  int64_t m_step = 1;
};
/// Called once for every tile; the tiles cover C exactly once, and different threads report at the same time. Nothing is
/// reported where m or n is 0.
struct Epilogue {
  /// What `fn` reads or writes where a tile is, dense as [batch][m][n]: drivers look for it ahead.
  struct Beside {
    const char* data = nullptr;
    int64_t element_bytes = 0;
    bool operator==(const Beside&) const = default;
  };

  void (*fn)(void* ctx, const SumTile& tile) = nullptr;
  void* ctx = nullptr;
  Beside beside[2] = {};
  bool operator==(const Epilogue&) const = default;
};

/// C = A * B. Batches are two nested loops: batch b = i * batch[1] + j. Strides are in elements and may be 0 or negative,
/// those of C must keep its elements apart. C has the sum type: F64 for F64, I32 for 8-bit integers, else F32.
struct Matmul {
  int64_t batch[2] = {1, 1};
  int64_t m = 0, n = 0, k = 0;
  DType a_type = DType::F32, b_type = DType::F32;
  const void* a = nullptr;
  int64_t a_row = 0, a_k = 1, a_batch[2] = {0, 0};
  /// In place; or packed panels (then b_k and b_n mean nothing, b_batch counts bytes) for the family of number `family`.
  const void* b = nullptr;
  bool packed = false;
  int family = -1;       // -1: the plan chooses, by the sizes
  int panel_vectors = 0; // of packed B; 0: as the sizes say
  int64_t b_k = 0, b_n = 1, b_batch[2] = {0, 0};
  void* c = nullptr; // null: the sums go to the epilogue alone
  int64_t c_row = 0, c_batch[2] = {0, 0};
  bool repeated = false; // again and again with the same B, in a scan
  Epilogue epilogue = {};
  bool operator==(const Matmul&) const = default;
};

/// Whether A is windows of a convolution, which leave padding out: compensated families would take away what was not added.
enum class Windows : bool { No, Yes };
/// A family of half a vector, for windows of few channels alone: some machines run two such in the time of a whole one.
bool is_narrow(const KernelTable& kernels, const GemmFamily& family);
/// The family, not a narrow one, that computes products of such operands soonest, by its number in the table; -1 where none does. Sizes may
/// be any_size.
int choose_family(const KernelTable& kernels, DType a, DType b, int64_t m, int64_t n, int64_t k, Windows windows = Windows::No);
/// Without tile registers: the best family that may read B where it lies; -1 where none does.
int in_place_family(const KernelTable& kernels, DType a, DType b);
/// Cycles of a product on one core, with B from memory.
double product_cycles(const GemmFamily& family, DType a, int64_t m, int64_t n, int64_t k);
/// Cycles that tile registers take beside their products: sums come through memory, rows of part of a step of k are copied.
double around_tiles(const GemmFamily& family, const Matmul& m);
inline constexpr double converted_per_cycle = 8; // elements of A
/// `n`, 256 where it is any_size, as whole multiples of `to`, one at least.
double padded(int64_t n, int64_t to);

/// Bytes of a k x n matrix packed for a family.
int64_t packed_b_bytes(const KernelTable& kernels, int family, int64_t k, int64_t n);

/// How B is read: packed ahead of time; packed by each item; row-major, where A has few rows; the same row by row, where A has one; by dot
/// products, its columns where they are, or gathered by each item.
enum class BUse : uint8_t { Packed, Pack, InPlace, Stream, Dot, GatherDot };

/// C^T = B^T * A^T, for few columns.
Matmul exchanged(const Matmul& m);

struct MatmulPlan {
  static constexpr int64_t most_batch_tiles = 256;
  int family = -1;
  BUse use = BUse::Packed;
  bool exchanged = false;   // the product of B^T and A^T: few columns as few rows
  bool pack_a = false;      // rows of another type or with elements apart; those of a last, partial tile always are
  bool a_by_k = false;      // rows are read as they lie, side by side
  bool a_near = false;      // a cache holds all rows: tiles of one vector ask for none ahead
  bool b_ahead = false;     // lines of a B in place are asked for ahead
  int held = 0;             // vectors of B that stay in registers, with all their k, while rows stream past; 0: the kernels go by tiles
  bool direct = false;      // the kernels write C itself
  double work = 0;          // cycles of the product of a batch
  bool looks_ahead = false; // for what the epilogue or the stores of C touch
  bool reads_ahead = false; // asks for the next block's rows of A
  Panels panels = {};
  TileKernels kernels = {};
  bool packs_in_tiles = false; // the first tiles of an item pack B while they read it, by kernels of their own
  TileKernels packing = {};
  int tile_rows = 1;
  int64_t block_k = 0;                        // k that are summed before the next rows
  int64_t panel_k = 0;                        // GemmKind::PackedRows: k of a panel of B that stay in L1 while rows stream past; else 0
  int64_t block_rows = 0, super_rows = 0;     // rows whose A stays in cache, rows whose sums wait for the next block_k
  int64_t chunk_panels = 0, group_panels = 0; // panels whose B stays in cache, panels of a SumTile
  bool one_block = false;                     // of few tiles is a batch: they are set up once, for all batches
  bool held_batch = false;                    // all of B is held: the kernels take one batch after the other
  int64_t batch_series = 1;                   // of batches that are set up once: so many are a series for each tile
  bool rows_first = false;                    // all panels for a tile of rows, before the next tile
  Splits splits = {};                         // items of a batch
  bool brief = false;                         // shared out to threads that are awake alone
  int64_t splits_k = 1, split_k = 0;          // parts of the sums, of so many k, which are added up in the end; no more than one if batched
  int64_t c_stride = 0;                       // elements of a row of sums in scratch
  int64_t turned_stride = 0;                  // the same of sums that are turned back where there is no C
  int64_t a_bytes = 0, b_bytes = 0, c_bytes = 0, turned_bytes = 0; // scratch of one worker

  int64_t part_bytes = 0; // the sums of one part of k
  int threads = 1;

  bool in_place() const { return use != BUse::Packed && use != BUse::Pack; }
  /// Sums of the exchanged product `m` are turned back.
  bool turned(const Matmul& m) const { return exchanged && m.m > 1; }
  int64_t private_bytes() const { return a_bytes + b_bytes + c_bytes + turned_bytes; }
  /// With a share of what all workers share, which lies behind the private parts of all.
  int64_t worker_bytes() const { return private_bytes() + (splits_k > 1 ? (splits_k * part_bytes / threads + 127) / 64 * 64 : 0); }
};

/// Whether products by B, a constant, of so few rows that they take less time than packing it, may read it where it lies.
bool reads_at_once(const KernelTable& kernels, const Caches& caches, const Matmul& m);

/// Generates the micro-kernels that plans for such products may need, so that no call has to: sizes may be any_size,
/// strides that are not known are 0. Of pointers only c is looked at, whether it is given.
void prepare_matmul(const KernelTable& kernels, const Matmul& m);

/// Of `m`, what pointers hold is not read, only which are given. Generates the micro-kernels that are missing.
MatmulPlan plan_matmul(const KernelTable& kernels, const Caches& caches, int threads, const Matmul& m);

/// Whether products by B, a constant of few columns, are done sooner by dot products than with it packed, which leaves lanes empty.
bool pays_as_dots(const KernelTable& kernels, const Caches& caches, const Matmul& m);

/// Whether products by B, a constant, take about as long where it is left where it lies as where it is packed ahead, which takes time and
/// memory of its own.
bool pays_to_leave(const KernelTable& kernels, const Caches& caches, const Matmul& m);

/// For reports: the kernel, how B is read, the items that workers share.
std::string describe_matmul(const KernelTable& kernels, const MatmulPlan& plan, const Matmul& m);

/// scratch: plan.worker_bytes() for each of the workers' threads, 64-byte aligned, private to this call.
void run_matmul(const KernelTable& kernels, const Workers& workers, const MatmulPlan& plan, const Matmul& m, void* scratch) noexcept;

/// The items that such a call shares out, and a range of them in one worker, where plan.splits_k is 1; backward: the last one first.
int64_t items_of(const MatmulPlan& plan, const Matmul& m);
void run_matmul_items(const KernelTable& kernels, const MatmulPlan& plan, const Matmul& m, void* scratch, int64_t begin, int64_t end,
                      int worker, bool backward) noexcept;

} // namespace tenon
