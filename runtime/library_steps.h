// The library steps there are: hand-written functions for what generated code does not cover. The rows of src/ops/library_*.cpp
// name them. Beside each: its inputs; its `ints`; its `numbers`. A returned message lives until the calling thread's next step.
// A step whose output sizes depend on values (marked D) calls `allocate` for every output; the others find their outputs allocated.
#pragma once
#include "runtime/library.h"

namespace tenon::library {

// Along a dim. Values and i64 positions; NaN is greatest.
const char* sort(const LibraryCall&);         ///< self; dim, descending, stable
const char* topk(const LibraryCall&);         ///< self; dim, k, largest, sorted
const char* kthvalue(const LibraryCall&);     ///< self; dim, k counted from 1
const char* median(const LibraryCall&);       ///< self; dim, ignore NaN
const char* mode(const LibraryCall&);         ///< self; dim
const char* cumulate(const LibraryCall&);     ///< self; dim, product instead of sum. Same dtype in and out
const char* logcumsumexp(const LibraryCall&); ///< self; dim
const char* cummax(const LibraryCall&);       ///< self; dim
const char* cummin(const LibraryCall&);       ///< self; dim

/// How an element that is written joins the one that is there.
enum class Update : int64_t { Assign, Add, Mul, Mean, Max, Min };
/// self, index, source (or none: the value); dim, Update, include self, index is a vector along dim, value; value.
/// Integers take the value from ints, floats from numbers.
const char* scatter(const LibraryCall&);
/// self, values, the given indices; accumulate, then for each dim of self whether it has an index. Negative indices count from
/// the end.
const char* index_put(const LibraryCall&);
const char* masked_scatter(const LibraryCall&); ///< self, mask of its sizes, source
/// Whether a step's output starts as its first input and may have the same memory.
bool writes_over(LibraryFn step);

const char* nonzero(const LibraryCall&);           ///< D. self
const char* nonzero_static(const LibraryCall&);    ///< self; fill value. Output [size, rank]
const char* masked_select(const LibraryCall&);     ///< D. self, mask (broadcast together)
const char* repeat_interleave(const LibraryCall&); ///< D. repeats; -1 or the size asserted
const char* unique(const LibraryCall&);            ///< D. self; consecutive only, want inverse, want counts
const char* unique_dim(const LibraryCall&);        ///< D. self; consecutive only, want inverse, want counts, dim

const char* searchsorted(const LibraryCall&); ///< sorted sequence, values, sorter?; right. Sequence of rank 1, or one per row of values
const char* isin(const LibraryCall&);         ///< elements, test elements of the same dtype; invert
const char* hash_tensor(const LibraryCall&);  ///< self; then for each dim of self whether it is reduced. u64 xor of the bits, as f64 or i64
const char* bincount(const LibraryCall&);     ///< D. self, weights?; minlength
/// self; bins, range given; low, high. Histogram of all elements.
const char* histc(const LibraryCall&);
/// self [.., D], weight? ; D counts of bins, has weight, density, range given; low and high for each of D. Outputs: histogram [bins...],
/// then the edges of each dim.
const char* histogram_counts(const LibraryCall&);
/// self [.., D], D tensors of edges, weight?; has weight, density. Output: histogram.
const char* histogram_edges(const LibraryCall&);

/// weight, indices, offsets, per-sample weights?; mode (0 sum 1 mean 2 max), include last offset, padding index or -1. Outputs: bags,
/// offset2bag, bag sizes, max indices.
/// codes [n, groups, group] of i8 or u8, scale [n, groups], perhaps shift; bits, what a code of 0 stands for. Output: bytes, in panels.
const char* pack_quantized_weight(const LibraryCall&);
/// f32 [m, k], what pack_quantized_weight made; groups, group, bits, what a code of 0 stands for, whether there are shifts.
const char* quantized_weight_mm(const LibraryCall&);
const char* embedding_bag(const LibraryCall&);
const char* embedding_renorm(const LibraryCall&); ///< weight, indices; ; max norm, p
/// data, lengths or offsets; reduce (0 sum 1 mean 2 max 3 min 4 prod), axis, offsets given, initial given; initial.
const char* segment_reduce(const LibraryCall&);

// Random steps: element i of a call is a function of the call's seed and i alone.
/// The seed for random step number `step` of a run: each needs one of its own, or two of them would draw the same numbers.
uint64_t step_seed(uint64_t run_seed, uint64_t step);
const char* random_uniform(const LibraryCall&);     ///< ; ; low, high
const char* random_normal(const LibraryCall&);      ///< ; ; mean, deviation
const char* random_integers(const LibraryCall&);    ///< ; low, high (not included)
const char* random_permutation(const LibraryCall&); ///< none
const char* random_poisson(const LibraryCall&);     ///< rates
const char* random_binomial(const LibraryCall&);    ///< counts, probabilities
const char* multinomial(const LibraryCall&);        ///< weights; with replacement
/// Whether a step draws random numbers: it is not folded, and two equal calls are not one.
bool is_random(LibraryFn step);

// Complex tensors: real and imaginary part of an element lie side by side.
const char* complex_of_parts(const LibraryCall&); ///< real, imaginary, of equal sizes
const char* complex_part(const LibraryCall&);     ///< self; 0 real 1 imaginary
const char* view_as_real(const LibraryCall&);     ///< self; output [sizes..., 2]
/// How a transform is normalised, as torch numbers it: not, by the root of n, by n.
enum class FftScale : int64_t { None, Root, Full };
/// self, real or complex; forward, FftScale, input and output as parts, dims... in the order given. The last dim named may hold one
/// half only: of the output where self is real, of self where the output is real. Complex numbers as parts: reals with a last dim of 2.
const char* fft(const LibraryCall&);
/// self [batch, time], window of the length?; length, hop, half a spectrum, FftScale, output as parts. Output [batch, frequency, frame].
const char* stft(const LibraryCall&);

// Linear algebra, of f32 and f64 matrices in the last two dims; every operand has the same batch dims.
/// Who asks, for the message about a matrix that cannot be factored.
enum class LinalgCheck : int64_t { LuFactor, LdlFactor, Inverse, Solve, Cholesky };
const char* linalg_check(const LibraryCall&);               ///< info; LinalgCheck. No output
const char* linalg_lu_factor(const LibraryCall&);           ///< A. Outputs: LU, i32 pivots from 1, i32 info
const char* linalg_lu_solve(const LibraryCall&);            ///< LU, pivots, B; A is left of X, transposed
const char* linalg_lu_unpack(const LibraryCall&);           ///< LU, pivots; want L and U, want P. Outputs: P, L, U
const char* linalg_cholesky(const LibraryCall&);            ///< A; upper. Outputs: factor, i32 info
const char* linalg_solve_triangular(const LibraryCall&);    ///< A, B; upper, A is left of X, unit diagonal
const char* linalg_geqrf(const LibraryCall&);               ///< A. Outputs: R and reflectors, tau
const char* linalg_householder_product(const LibraryCall&); ///< reflectors, tau
const char* linalg_ormqr(const LibraryCall&);               ///< reflectors, tau, other; Q is left, transposed
const char* linalg_ldl_factor(const LibraryCall&);          ///< A. Outputs: LD, i32 pivots, i32 info
const char* linalg_ldl_solve(const LibraryCall&);           ///< LD, pivots, B
const char* linalg_matrix_exp(const LibraryCall&);          ///< A
const char* linalg_eigh(const LibraryCall&);                ///< A; from the lower triangle, with vectors. Outputs: values, vectors
const char* linalg_eig(const LibraryCall&);                 ///< A; with vectors. Outputs, complex: values, vectors
const char* linalg_svd(const LibraryCall&);                 ///< A; full, with vectors. Outputs: U, S, Vh
enum class LstsqDriver : int64_t { Gels, Gelsy, Gelsd, Gelss };
const char* linalg_lstsq(const LibraryCall&); ///< A, B; driver; rcond or -1. Outputs: solution, residuals, i64 rank, singular values; those
                                              ///< not asked for are empty

const char* nms(const LibraryCall&);       ///< D. boxes, scores; ; threshold
const char* roi_align(const LibraryCall&); ///< input, rois; sampling ratio, aligned; scale
const char*
deform_conv2d(const LibraryCall&); ///< input, weight, offset, mask, bias; strides, pads, dilations (h, w), groups, offset groups, use mask

/// input [n, groups * c, in...], gradient [n, groups * o, out...]; strides, pads, dilations of the dims, groups. Output [groups * o, c,
/// taps...].
const char* conv_weight_gradient(const LibraryCall&);

} // namespace tenon::library
