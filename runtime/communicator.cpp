// Communicator handles, and the arithmetic of reductions.
#include "runtime/communicator.h"

#include <algorithm>

#include "base/check.h"
#include "expr/eval.h"

namespace tenon {

Communicator::Impl::Impl(const tenon_communicator& t, std::shared_ptr<Impl> r, std::shared_ptr<void> l)
    : table(t), root(std::move(r)), library(std::move(l)) {}

Communicator::Impl::~Impl() {
  if (table.release) table.release(table.data);
}

namespace {

constexpr const char* kinds[] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all"};
constexpr const char* reductions[] = {"sum", "avg", "product", "min", "max"};

// Sums of unsigned integers wrap; those of f16 and bf16 are rounded to these.
template <Op O, class T> T apply(T a, T b) {
  if constexpr (std::is_same_v<T, bool>) return O == Op::Add || O == Op::Max ? a || b : a && b;
  else if constexpr (std::is_same_v<T, F16> || std::is_same_v<T, BF16>)
    return T(apply<O, float>(static_cast<float>(a), static_cast<float>(b)));
  else if constexpr (std::is_floating_point_v<T>) {
    if (O == Op::Min || O == Op::Max) // NaN of either
      return std::isnan(b) ? b : apply_binary_float<O, T>(a, b);
    return apply_binary_float<O, T>(a, b);
  } else if constexpr (O == Op::Add || O == Op::Mul) {
    auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
    return static_cast<T>(O == Op::Add ? x + y : x * y);
  } else return O == Op::Min ? std::min(a, b) : std::max(a, b);
}

template <Op O> void combine_all(DType dtype, const void* in, void* inout, int64_t count) {
  dispatch(dtype, [&]<class T>(T) {
    if constexpr (!is_complex_v<T>) {
      auto* x = static_cast<const T*>(in);
      auto* y = static_cast<T*>(inout);
      for (int64_t i = 0; i < count; i++) y[i] = apply<O, T>(y[i], x[i]);
    }
  });
}

} // namespace

const char* name_of(tenon_collective_kind kind) { return kinds[kind]; }
const char* name_of(tenon_reduction reduction) { return reductions[reduction]; }

bool find_reduction(std::string_view name, tenon_reduction& out) {
  auto at = std::find(std::begin(reductions), std::end(reductions), name);
  if (at == std::end(reductions)) return false;
  return out = static_cast<tenon_reduction>(at - std::begin(reductions)), true;
}

const char* reduction_refusal(tenon_reduction reduction, DType dtype) {
  if (is_float8(dtype)) return "floats of 8 bits are not reduced";
  if (reduction == TENON_AVG && !is_float(dtype) && !is_complex(dtype)) return "averages are of floats";
  if (is_complex(dtype) && reduction != TENON_SUM && reduction != TENON_AVG) return "of complex numbers there are sums and averages alone";
  return nullptr;
}

void combine(tenon_reduction reduction, DType dtype, const void* in, void* inout, int64_t count) {
  if (is_complex(dtype)) return combine(reduction, part_type(dtype), in, inout, 2 * count);
  switch (reduction) {
  case TENON_SUM:
  case TENON_AVG: return combine_all<Op::Add>(dtype, in, inout, count);
  case TENON_PRODUCT: return combine_all<Op::Mul>(dtype, in, inout, count);
  case TENON_MIN: return combine_all<Op::Min>(dtype, in, inout, count);
  case TENON_MAX: return combine_all<Op::Max>(dtype, in, inout, count);
  }
}

void divide(DType dtype, void* inout, int64_t count, int ranks) {
  if (is_complex(dtype)) return divide(part_type(dtype), inout, 2 * count, ranks);
  dispatch(dtype, [&]<class T>(T) {
    auto* x = static_cast<T*>(inout);
    if constexpr (std::is_floating_point_v<T>)
      for (int64_t i = 0; i < count; i++) x[i] /= static_cast<T>(ranks);
    else if constexpr (std::is_same_v<T, F16> || std::is_same_v<T, BF16>)
      for (int64_t i = 0; i < count; i++) x[i] = T(static_cast<float>(x[i]) / static_cast<float>(ranks));
  });
}

} // namespace tenon
