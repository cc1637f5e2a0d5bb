// Complex values by their parts, for the files that say what operators are on them.
#pragma once
#include "ir/builder.h"
#include "ops/table.h"

namespace tenon::ops {

struct Parts {
  V re, im;
};

inline Parts parts(V x) { return {x.builder().real(x), x.builder().imag(x)}; }
inline V whole(Parts z) { return z.re.builder().complex(z.re, z.im); }
/// Whether x is put together of parts here; and [..., 2] of such, without a copy where they were taken of that.
bool is_made_of_parts(V x);
V interleaved(Parts z);
/// |z|, without overflow on the way.
V modulus(Parts z);

/// Rules beside complex_rules(): reductions, products of matrices, what writes elements.
std::span<const ComplexRule> complex_matrix_rules();

} // namespace tenon::ops
