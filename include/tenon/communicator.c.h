// Communication between the processes that run the parts of one program, as a table of C functions: what a shim for MPI, or for another
// library, gives tenon. C99 and C++.
#pragma once
#include "tenon/custom_op.c.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Collective operations. Along dim 0, in the order of ranks:
enum tenon_collective_kind {
  TENON_ALL_REDUCE,     ///< output[i] = reduction over ranks of input[i]
  TENON_ALL_GATHER,     ///< output: the inputs of all ranks, one after the other
  TENON_REDUCE_SCATTER, ///< output: this rank's part of what all_reduce gives
  TENON_BROADCAST,      ///< output = the input of rank `root`; other inputs are not read
  TENON_ALL_TO_ALL      ///< parts of the input go to the ranks; output: what they sent here, one after the other
};

/// Sums and averages of complex numbers are those of their parts; of Bool, TENON_SUM and TENON_MAX are "or", TENON_PRODUCT and TENON_MIN
/// "and". TENON_AVG is of floats and complex numbers alone. Minima and maxima are NaN where an element is.
enum tenon_reduction { TENON_SUM, TENON_AVG, TENON_PRODUCT, TENON_MIN, TENON_MAX };

/// One collective operation, as one rank sees it. Memory is dense; input and output do not overlap. The table is the caller's and lives as
/// long as `start`; memory must stay until `wait` returns.
typedef struct tenon_collective {
  int32_t kind;      ///< enum tenon_collective_kind
  int32_t reduction; ///< enum tenon_reduction
  int32_t dtype;     ///< enum tenon_dtype
  int32_t root;      ///< of TENON_BROADCAST
  const void* input;
  void* output;
  int64_t input_count, output_count; ///< elements
  /// TENON_ALL_TO_ALL: elements of the input for each rank, and of the output from each; null for the others.
  const int64_t* input_counts;
  const int64_t* output_counts;
} tenon_collective;

/// A rank's end of a group of processes. Functions return null, or what went wrong: a text that lives until the calling thread's next call.
/// tenon calls them from one thread at a time, but not always the same one, and begins the operations of a program in the program's
/// order, whatever is computed between them: ranks that run the same program agree on it.
typedef struct tenon_communicator {
  uint32_t struct_size TENON_ZERO; ///< sizeof(tenon_communicator)
  int32_t rank TENON_ZERO, size TENON_ZERO;
  void* data TENON_ZERO; ///< for all functions
  /// Begins an operation; its request goes to `wait`, once.
  const char* (*start)(void* data, const tenon_collective* call, void** request)TENON_ZERO;
  /// Returns when the output is there, or with an error: of this rank, of another one (its text names the rank), or because it took too
  /// long.
  const char* (*wait)(void* data, void* request)TENON_ZERO;
  /// Called now and then while operations are under way, for libraries that get on only inside of calls; takes microseconds. May be null.
  void (*progress)(void* data) TENON_ZERO;
  /// Tells the other ranks that this one has failed, so that what they wait for ends with an error. Every call after it is an error, too.
  void (*abort)(void* data, const char* message) TENON_ZERO;
  /// The group of some of the ranks, in the order given, which has to be the same on all of them; each of them calls it, and this one is
  /// among them. May be null.
  const char* (*subgroup)(void* data, const int32_t* ranks, int32_t count, struct tenon_communicator* out)TENON_ZERO;
  void (*release)(void* data) TENON_ZERO; ///< may be null
} tenon_communicator;

/// What tenon offers to those who implement one.
typedef struct tenon_communicator_host {
  uint32_t struct_size;
  /// inout[i] = reduction of in[i] and inout[i]; an average is a sum here.
  void (*combine)(int32_t reduction, int32_t dtype, const void* in, void* inout, int64_t count);
  /// inout[i] /= ranks, the end of an average.
  void (*divide)(int32_t dtype, void* inout, int64_t count, int32_t ranks);
} tenon_communicator_host;

/// What a shared library of a communicator exports. `arguments` is what stands behind the first colon of the text that names it ("" where
/// there is none), `host` lives as long as the process.
TENON_C_API const char* tenon_open_communicator(const char* arguments, const tenon_communicator_host* host, tenon_communicator* out);

#ifdef __cplusplus
}
#endif
