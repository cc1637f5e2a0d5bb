// LAPACK, reference implementation, for f32 and f64: overloads of what the steps call. Matrices are column-major; every
// size is by pointer; hidden arguments are the lengths of the texts. The archives are linked statically and run on one
// thread.
#pragma once
#include <algorithm>
#include <cstddef>
#include <vector>

namespace tenon::library::lapack {

#define TENON_LAPACK(T, p)                                                                                                                 \
  extern "C" {                                                                                                                             \
  void p##geqrf_(const int*, const int*, T*, const int*, T*, T*, const int*, int*);                                                        \
  void p##orgqr_(const int*, const int*, const int*, T*, const int*, const T*, T*, const int*, int*);                                      \
  void p##ormqr_(const char*, const char*, const int*, const int*, const int*, const T*, const int*, const T*, T*, const int*, T*,         \
                 const int*, int*, size_t, size_t);                                                                                        \
  void p##syevd_(const char*, const char*, const int*, T*, const int*, T*, T*, const int*, int*, const int*, int*, size_t, size_t);        \
  void p##gesdd_(const char*, const int*, const int*, T*, const int*, T*, T*, const int*, T*, const int*, T*, const int*, int*, int*,      \
                 size_t);                                                                                                                  \
  void p##geev_(const char*, const char*, const int*, T*, const int*, T*, T*, T*, const int*, T*, const int*, T*, const int*, int*,        \
                size_t, size_t);                                                                                                           \
  void p##sytrf_(const char*, const int*, T*, const int*, int*, T*, const int*, int*, size_t);                                             \
  void p##sytrs_(const char*, const int*, const int*, const T*, const int*, const int*, T*, const int*, int*, size_t);                     \
  void p##gels_(const char*, const int*, const int*, const int*, T*, const int*, T*, const int*, T*, const int*, int*, size_t);            \
  void p##gelsy_(const int*, const int*, const int*, T*, const int*, T*, const int*, int*, const T*, int*, T*, const int*, int*);          \
  void p##gelss_(const int*, const int*, const int*, T*, const int*, T*, const int*, T*, const T*, int*, T*, const int*, int*);            \
  void p##gelsd_(const int*, const int*, const int*, T*, const int*, T*, const int*, T*, const T*, int*, T*, const int*, int*, int*);      \
  }                                                                                                                                        \
  template <> struct Routines<T> {                                                                                                         \
    static constexpr auto geqrf = p##geqrf_;                                                                                               \
    static constexpr auto orgqr = p##orgqr_;                                                                                               \
    static constexpr auto ormqr = p##ormqr_;                                                                                               \
    static constexpr auto syevd = p##syevd_;                                                                                               \
    static constexpr auto gesdd = p##gesdd_;                                                                                               \
    static constexpr auto geev = p##geev_;                                                                                                 \
    static constexpr auto sytrf = p##sytrf_;                                                                                               \
    static constexpr auto sytrs = p##sytrs_;                                                                                               \
    static constexpr auto gels = p##gels_;                                                                                                 \
    static constexpr auto gelsy = p##gelsy_;                                                                                               \
    static constexpr auto gelss = p##gelss_;                                                                                               \
    static constexpr auto gelsd = p##gelsd_;                                                                                               \
  };

template <class T> struct Routines;
TENON_LAPACK(float, s)
TENON_LAPACK(double, d)
#undef TENON_LAPACK

/// Calls f(work, lwork) to learn the size of the workspace, then with that much.
template <class T, class F> void with_work(F&& f) {
  T size = 1;
  int lwork = -1;
  f(&size, &lwork);
  std::vector<T> work(static_cast<size_t>(std::max<T>(size, 1)) + 1);
  lwork = static_cast<int>(work.size());
  f(work.data(), &lwork);
}

} // namespace tenon::library::lapack
