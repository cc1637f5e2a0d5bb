// Functions by pieces: polynomials whose coefficients a permutation of registers picks, lane by lane. For f32, where a
// register holds a coefficient of 16 pieces (AVX-512) or of 8 (AVX2): erf takes half the time of its formula, which f64
// has.
#include <algorithm>
#include <numeric>

#include <llvm/IR/Constants.h>
#include <llvm/IR/IntrinsicsX86.h>

#include "codegen/llvm/vector_math_ops.h"

namespace tenon::vmath {
namespace {

/// entry[index mod n] of each lane.
template <size_t n> V look_up(const Math& m, V index, const float (&entry)[n]) {
  static_assert(n == 8 || n == 16);
  llvm::IRBuilderBase& b = m.b;
  llvm::Constant* table = llvm::ConstantDataVector::get(b.getContext(), llvm::ArrayRef<float>(entry));
  auto permute = n == 16 ? llvm::Intrinsic::x86_avx512_permvar_sf_512 : llvm::Intrinsic::x86_avx2_permps;
  unsigned padded = (m.lanes + n - 1) / n * n;
  llvm::SmallVector<int, 32> take(padded, -1), lanes(m.lanes);
  std::iota(lanes.begin(), lanes.end(), 0);
  std::copy(lanes.begin(), lanes.end(), take.begin());
  llvm::Value* from = m.type->isVectorTy() ? index.v : b.CreateVectorSplat(1, index.v);
  from = b.CreateShuffleVector(from, take);
  llvm::Value* all = llvm::PoisonValue::get(llvm::FixedVectorType::get(b.getFloatTy(), padded));
  for (unsigned at = 0; at < padded; at += n) {
    llvm::Value* piece = b.CreateExtractVector(llvm::FixedVectorType::get(b.getInt32Ty(), n), from, b.getInt64(at));
    piece = b.CreateIntrinsic(permute, {}, {table, piece});
    all = b.CreateInsertVector(all->getType(), all, piece, b.getInt64(at));
  }
  return m.wrap(m.type->isVectorTy() ? b.CreateShuffleVector(all, lanes) : b.CreateExtractElement(all, uint64_t{0}));
}

/// c[0] + c[1] x + c[2] x^2 ... with the coefficients of each lane's piece.
template <size_t terms, size_t n> V poly(const Math& m, V x, V index, const float (&c)[terms][n]) {
  V sum = look_up(m, index, c[terms - 1]);
  for (size_t k = terms - 1; k-- > 0;) sum = m.fma(sum, x, look_up(m, index, c[k]));
  return sum;
}

// erf around k * step, in powers of the distance. The step is one where erf(k * step) are next to floats for small k. In
// the first piece they are of erf(x) - x.
template <size_t n, size_t terms> struct ErfPieces {
  double step;
  float values[n], slopes[terms][n];
};
constexpr ErfPieces<16, 5> narrow_pieces{
    0.25468337535858154,
    {0, 0.281284988, 0.528692544, 0.720093787, 0.850332439, 0.928278744, 0.96930933, 0.988305688, 0.996041059, 0.998811364, 0.999683917,
     0.999925673, 0.999984562, 0.999997139, 0.999999523, 0.99999994},
    {{0.128379166, 1.05751181, 0.870513499, 0.629398704, 0.399702132, 0.222949877, 0.109229058, 0.0470034033, 0.01776563, 0.00589782791,
      0.00171974418, 0.00044044925, 9.90805202e-05, 1.95767752e-05, 3.39746248e-06, 5.17879812e-07},
     {2.67796423e-07, -0.269325405, -0.443404287, -0.480889082, -0.407188356, -0.28391096, -0.166921735, -0.0837979987, -0.0362014696,
      -0.0135214413, -0.00437426241, -0.00123749417, -0.000306710048, -5.88136354e-05, -7.84373697e-06, -3.47145965e-06},
     {-0.376141012, -0.306812644, -0.139643639, 0.035147924, 0.143307015, 0.166704997, 0.133631036, 0.083927907, 0.0432452895, 0.0186920818,
      0.00686318753, 0.00215761876, 0.000583860674, 0.000136509552, 2.76527444e-05, 4.863502e-06},
     {0.000276332343, 0.127887383, 0.182206303, 0.146291152, 0.0627640709, -0.010997803, -0.0457174666, -0.0466954559, -0.0317689218,
      -0.0168331712, -0.00760247093, -0.00245953258, -0.00060912926, -0.000503970892, -0.000256879954, 6.48057612e-05},
     {0.111011952, 0.080366917, 0.00670253951, -0.0549605638, -0.0681044236, -0.0440744385, -0.0118239494, 0.00809261296, 0.0130211599,
      0.0098919617, 0.00537527073, 0.00229595718, 0.00080170756, 0.000233578903, 5.74903133e-05, 1.20505756e-05}}};
constexpr ErfPieces<8, 7> wide_pieces{
    0.532564103603363,
    {0, 0.548645854, 0.868014634, 0.97614634, 0.997410119, 0.999834001, 0.999993801, 0.999999881},
    {{0.128379166, 0.849725187, 0.3628681, 0.0878751278, 0.0120678525, 0.000939811813, 4.15048344e-05, 1.03944933e-06},
     {-1.98661692e-08, -0.452532768, -0.386501253, -0.140397459, -0.025707569, -0.00250255037, -0.000132627596, -3.87551108e-06},
     {-0.376125216, -0.122573227, 0.153492704, 0.120249599, 0.0324865878, 0.00412928592, 0.000268689007, 9.28435111e-06},
     {-2.57427328e-05, 0.18344301, 0.0471131764, -0.0492574759, -0.0260391496, -0.00466357591, -0.000384656538, -1.59576612e-05},
     {0.113099501, -0.00230336492, -0.0661053583, -0.00459934911, 0.01243822, 0.00372909964, 0.000411460787, 2.10640719e-05},
     {-0.00129338889, -0.0473740064, 0.0102277175, 0.0154630719, -0.00172049471, -0.0020666651, -0.0003474353, -2.35114276e-05},
     {-0.0241880957, 0.00761124771, 0.0122843962, -0.00583487749, -0.00184709101, 0.000668251538, 0.000211743274, 1.91893414e-05}}};

template <size_t n, size_t terms> V erf_of(const Math& m, V x, const ErfPieces<n, terms>& p) {
  V a = m.at_most(m.abs(x), (n - 0.51) * p.step);
  V shifted = m.fma(a, 1 / p.step, m.magic()), k = shifted - m.magic(), index = m.bits(shifted);
  V r = m.fma(k, -p.step, a);
  V first = m.select(k == 0, r, look_up(m, index, p.values));
  return m.copysign(m.fma(r, poly(m, r, index, p.slopes), first), x);
}

} // namespace

V erf_by_table(const Math& m, V x) { return m.e.target.avx512() ? erf_of(m, x, narrow_pieces) : erf_of(m, x, wide_pieces); }

} // namespace tenon::vmath
