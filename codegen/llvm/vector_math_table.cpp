// Functions by pieces: polynomials whose coefficients a permutation of registers picks, lane by lane. For f32 on
// AVX-512, where a register holds a coefficient of 16 pieces: erf takes half the time of its formula. Elsewhere, and
// for f64, the functions have formulas of their own.
#include <algorithm>
#include <numeric>

#include <llvm/IR/Constants.h>
#include <llvm/IR/IntrinsicsX86.h>

#include "codegen/llvm/vector_math_ops.h"

namespace tenon::vmath {
namespace {

constexpr unsigned entries = 16;
using Entries = float[entries];

/// entry[index mod 16] of each lane.
V look_up(const Math& m, V index, const Entries& entry) {
  llvm::IRBuilderBase& b = m.b;
  llvm::Constant* table = llvm::ConstantDataVector::get(b.getContext(), llvm::ArrayRef<float>(entry));
  unsigned padded = (m.lanes + entries - 1) / entries * entries;
  llvm::SmallVector<int, 32> take(padded, -1), lanes(m.lanes);
  std::iota(lanes.begin(), lanes.end(), 0);
  std::copy(lanes.begin(), lanes.end(), take.begin());
  llvm::Value* from = m.type->isVectorTy() ? index.v : b.CreateVectorSplat(1, index.v);
  from = b.CreateShuffleVector(from, take);
  llvm::Value* all = llvm::PoisonValue::get(llvm::FixedVectorType::get(b.getFloatTy(), padded));
  for (unsigned at = 0; at < padded; at += entries) {
    llvm::Value* piece = b.CreateExtractVector(llvm::FixedVectorType::get(b.getInt32Ty(), entries), from, b.getInt64(at));
    piece = b.CreateIntrinsic(llvm::Intrinsic::x86_avx512_permvar_sf_512, {}, {table, piece});
    all = b.CreateInsertVector(all->getType(), all, piece, b.getInt64(at));
  }
  return m.wrap(m.type->isVectorTy() ? b.CreateShuffleVector(all, lanes) : b.CreateExtractElement(all, uint64_t{0}));
}

/// c[0] + c[1] x + c[2] x^2 ... with the coefficients of each lane's piece.
template <size_t n> V poly(const Math& m, V x, V index, const Entries (&c)[n]) {
  V sum = look_up(m, index, c[n - 1]);
  for (size_t k = n - 1; k-- > 0;) sum = m.fma(sum, x, look_up(m, index, c[k]));
  return sum;
}

// Around k * erf_step, in powers of the distance. The step is one where erf(k * erf_step) are next to floats for small
// k. In the first piece they are of erf(x) - x.
constexpr double erf_step = 0.25468337535858154;
constexpr Entries erf_values = {0,           0.281284988, 0.528692544, 0.720093787, 0.850332439, 0.928278744, 0.96930933,  0.988305688,
                                0.996041059, 0.998811364, 0.999683917, 0.999925673, 0.999984562, 0.999997139, 0.999999523, 0.99999994};
constexpr Entries erf_slopes[] = {
    {0.128379166, 1.05751181, 0.870513499, 0.629398704, 0.399702132, 0.222949877, 0.109229058, 0.0470034033, 0.01776563, 0.00589782791,
     0.00171974418, 0.00044044925, 9.90805202e-05, 1.95767752e-05, 3.39746248e-06, 5.17879812e-07},
    {2.67796423e-07, -0.269325405, -0.443404287, -0.480889082, -0.407188356, -0.28391096, -0.166921735, -0.0837979987, -0.0362014696,
     -0.0135214413, -0.00437426241, -0.00123749417, -0.000306710048, -5.88136354e-05, -7.84373697e-06, -3.47145965e-06},
    {-0.376141012, -0.306812644, -0.139643639, 0.035147924, 0.143307015, 0.166704997, 0.133631036, 0.083927907, 0.0432452895, 0.0186920818,
     0.00686318753, 0.00215761876, 0.000583860674, 0.000136509552, 2.76527444e-05, 4.863502e-06},
    {0.000276332343, 0.127887383, 0.182206303, 0.146291152, 0.0627640709, -0.010997803, -0.0457174666, -0.0466954559, -0.0317689218,
     -0.0168331712, -0.00760247093, -0.00245953258, -0.00060912926, -0.000503970892, -0.000256879954, 6.48057612e-05},
    {0.111011952, 0.080366917, 0.00670253951, -0.0549605638, -0.0681044236, -0.0440744385, -0.0118239494, 0.00809261296, 0.0130211599,
     0.0098919617, 0.00537527073, 0.00229595718, 0.00080170756, 0.000233578903, 5.74903133e-05, 1.20505756e-05},
};

} // namespace

bool has_tables(const Math& m) { return m.e.target.avx512() && !m.f64; }

V erf_by_table(const Math& m, V x) {
  V a = m.at_most(m.abs(x), 15.49 * erf_step);
  V shifted = m.fma(a, 1 / erf_step, m.magic()), n = shifted - m.magic(), index = m.bits(shifted);
  V r = m.fma(n, -erf_step, a);
  V first = m.select(n == 0, r, look_up(m, index, erf_values));
  return m.copysign(m.fma(r, poly(m, r, index, erf_slopes), first), x);
}

} // namespace tenon::vmath
