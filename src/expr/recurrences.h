// P(k + 1) of orthogonal polynomials by P(k) and P(k - 1), in numbers or expressions (DLMF 18.9).
#pragma once

namespace tenon {

template <class X> X next_chebyshev(X x, double, X p, X before) { return x * 2.0 * p - before; } // of all four kinds
template <int Factor, class X> X next_hermite(X x, double k, X p, X before) { return (x * p - before * k) * double{Factor}; }
template <class X> X next_laguerre(X x, double k, X p, X before) { return ((2 * k + 1 - x) * p - before * k) / (k + 1); }
template <class X> X next_legendre(X x, double k, X p, X before) { return (x * (2 * k + 1) * p - before * k) / (k + 1); }

} // namespace tenon
