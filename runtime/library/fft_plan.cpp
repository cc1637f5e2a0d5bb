// Factors, tables of roots, and the plans that are kept.
#include "runtime/library/fft.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <numbers>

namespace tenon::library {

namespace {

constexpr double no_way = std::numeric_limits<double>::infinity();

// exp(-2 pi i k / n): the angle is brought into an eighth of the circle with whole numbers, and so stays exact.
template <class T> void put_root(int64_t k, int64_t n, T* out) {
  using Wide = std::conditional_t<std::is_same_v<T, float>, double, long double>;
  k %= n;
  int64_t eighths = 8 * k, part = eighths / n; // n < 2^59
  int64_t rest = part % 2 ? (part + 1) * n - eighths : eighths - part * n;
  Wide angle = std::numbers::pi_v<Wide> * static_cast<Wide>(rest) / static_cast<Wide>(4 * n), c = std::cos(angle), s = std::sin(angle);
  if ((part + 1) / 2 % 2) std::swap(c, s);
  if (part >= 2 && part < 6) c = -c;
  if (part < 4) s = -s;
  out[0] = static_cast<T>(c), out[1] = static_cast<T>(s);
}

// Operations per element of a stage.
double stage_cost(int64_t radix) {
  switch (radix) {
  case 2: return 5;
  case 3: return 9;
  case 4: return 8;
  case 5: return 13;
  case 7: return 17;
  case 8: return 11;
  default: return 2.0 * static_cast<double>(radix) + 10;
  }
}

// Empty where a prime factor is too large. The first stage has no factors to multiply by, so large radices come first.
std::vector<int64_t> radices_of(int64_t n) {
  std::vector<int64_t> out;
  int twos = 0;
  for (; n % 2 == 0; n /= 2) twos++;
  for (; twos >= 5 || twos == 3; twos -= 3) out.push_back(8);
  for (; twos >= 2; twos -= 2) out.push_back(4);
  if (twos) out.push_back(2);
  for (int64_t p = 3; p <= max_radix && n > 1; p += 2)
    for (; n % p == 0; n /= p) out.push_back(p);
  if (n > 1) return {};
  std::sort(out.rbegin(), out.rend());
  return out;
}

double smooth_cost(int64_t n) {
  if (n == 1) return 0;
  std::vector<int64_t> radices = radices_of(n);
  double sum = radices.empty() ? no_way : 0;
  for (int64_t p : radices) sum += stage_cost(p);
  return sum;
}

// A cheap length for a convolution of n elements, by `cost` of a whole transform.
template <class F> int64_t convolution_length(int64_t n, F&& cost) {
  int64_t best = 0;
  double least = no_way;
  for (int64_t odd : {1, 3, 5, 9, 15}) {
    int64_t m = odd;
    while (m < 2 * n - 1) m *= 2;
    if (double c = cost(m); c < least) least = c, best = m;
  }
  return best;
}
double whole_cost(int64_t n) { return smooth_cost(n) * static_cast<double>(n); }
double convolved_cost(int64_t n) { return (2 * whole_cost(convolution_length(n, whole_cost))) / static_cast<double>(n) + 40; }

double block_cost(int64_t n) { return std::min(smooth_cost(n), n > max_radix ? convolved_cost(n) : no_way); }

// The best way to cut a line; rows is 0 where there is none.
struct Split {
  int64_t rows = 0, columns = 0;
  double cost = no_way;
};
Split split_of(int64_t n, int64_t lanes) {
  Split best;
  for (int64_t d = 2; d * d <= n; d++) {
    if (n % d != 0) continue;
    double small = block_cost(d), large = block_cost(n / d);
    for (bool turned : {false, true}) {
      int64_t rows = turned ? n / d : d, columns = n / rows;
      auto blocks = [&](int64_t x) { return static_cast<double>((x + lanes - 1) / lanes); };
      double cost = static_cast<double>(rows) * blocks(columns) * ((turned ? large : small) + 12) +
                    static_cast<double>(columns) * blocks(rows) * ((turned ? small : large) + 10);
      if (std::max(rows, columns) > 4096) cost *= static_cast<double>(std::max(rows, columns)) / 2048; // out of cache
      if (cost < best.cost) best = {rows, columns, cost};
    }
  }
  return best;
}
double side_cost(int64_t n) { return is_matrix_side(n) ? smooth_cost(n) : no_way; }
// The rows of the best matrix for a line; 0 where there is none.
template <class T> int64_t matrix_rows(int64_t n, int64_t lanes) {
  int64_t best = 0;
  double least = no_way;
  constexpr int64_t most_bytes = 128 << 10;
  if (2 * n * static_cast<int64_t>(sizeof(T)) > most_bytes || n % (lanes * lanes) != 0) return 0;
  for (int64_t rows = lanes; rows * rows <= n; rows += lanes)
    if (n % rows == 0 && n / rows % lanes == 0)
      if (double cost = side_cost(rows) + side_cost(n / rows); cost <= least && cost < no_way) best = rows, least = cost;
  return best;
}

double convolved_line_cost(int64_t n, int64_t lanes) {
  auto cost = [&](int64_t m) { return split_of(m, lanes).cost; };
  return 2 * cost(convolution_length(n, cost)) + 20 * static_cast<double>(n);
}

template <class T> std::vector<T> chirp_of(int64_t n) {
  std::vector<T> out(static_cast<size_t>(2 * n));
  auto m = static_cast<uint64_t>(2 * n);
  uint64_t square = 0; // k^2 modulo 2n
  for (uint64_t k = 0; k < static_cast<uint64_t>(n); k++) {
    put_root(static_cast<int64_t>(square), 2 * n, &out[2 * k]);
    square = (square + 2 * k + 1) % m;
  }
  return out;
}
// The conjugate chirp, of k and of -k, divided by the length m.
template <class T> std::vector<T> kernel_of(const std::vector<T>& chirp, int64_t m) {
  std::vector<T> out(static_cast<size_t>(2 * m), T(0));
  auto n = static_cast<int64_t>(chirp.size() / 2);
  for (int64_t k = 0; k < n; k++)
    for (int64_t at : {k, (m - k) % m}) {
      out[static_cast<size_t>(2 * at)] = chirp[static_cast<size_t>(2 * k)] / static_cast<T>(m);
      out[static_cast<size_t>(2 * at + 1)] = -chirp[static_cast<size_t>(2 * k + 1)] / static_cast<T>(m);
    }
  return out;
}

} // namespace

template <class T>
FftCosts<T>::FftCosts(int64_t n)
    : block(static_cast<double>(n) * block_cost(n)),
      line(n < 16 ? no_way : std::min(split_of(n, fft_kernels<T>().lanes).cost, convolved_line_cost(n, fft_kernels<T>().lanes))) {}

template <class T> bool fft_has_matrix(int64_t n) { return matrix_rows<T>(n, fft_kernels<T>().lanes) > 0; }

template <class T> FftPlan<T>::FftPlan(int64_t n) : n(n) {
  if (smooth_cost(n) <= block_cost(n)) {
    int64_t done = 1;
    std::vector<std::pair<size_t, size_t>> places;
    for (int64_t p : radices_of(n)) {
      int64_t together = done * p;
      size_t turns = table.size();
      table.resize(turns + static_cast<size_t>(2 * done * (p - 1)));
      T* to = &table[turns];
      for (int64_t j = 0; j < done; j++)
        for (int64_t k = 1; k < p; k++, to += 2) put_root(j * k, together, to);
      size_t roots = table.size();
      table.resize(roots + static_cast<size_t>(2 * p));
      for (int64_t k = 0; k < p; k++) put_root(k, p, &table[roots + static_cast<size_t>(2 * k)]);
      places.emplace_back(turns, roots);
      stages.push_back({static_cast<int>(p), done, n / together, nullptr, nullptr});
      done = together;
    }
    for (size_t i = 0; i < stages.size(); i++) stages[i].turns = &table[places[i].first], stages[i].roots = &table[places[i].second];
    return;
  }
  convolution = fft_cached<FftPlan>(convolution_length(n, whole_cost));
  int64_t m = convolution->n;
  chirp = chirp_of<T>(n);
  // transformed in doubles: it is multiplied by every time
  std::vector<double> wide = kernel_of(chirp_of<double>(n), m);
  const auto& k = fft_kernels<double>();
  auto plan = fft_cached<FftPlan<double>>(m);
  std::vector<double> memory(static_cast<size_t>(4 * m * k.lanes + 16));
  auto* z = reinterpret_cast<double*>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64);
  for (int64_t j = 0; j < m; j++)
    for (int64_t part = 0; part < 2; part++) z[(2 * j + part) * k.lanes] = wide[static_cast<size_t>(2 * j + part)];
  z = plan->run(z, z + 2 * m * k.lanes, false);
  kernel.resize(static_cast<size_t>(2 * m));
  for (size_t j = 0; j < kernel.size(); j++) kernel[j] = static_cast<T>(z[static_cast<int64_t>(j) * k.lanes]);
}

template <class T> T* FftPlan<T>::run(T* here, T* there, bool inverse) const {
  const auto& k = fft_kernels<T>();
  if (!convolution) return k.transform(stages.data(), static_cast<int64_t>(stages.size()), here, there, inverse);
  k.multiply(here, chirp.data(), n, inverse);
  std::fill(here + 2 * n * k.lanes, here + 2 * convolution->n * k.lanes, T(0));
  T* z = convolution->run(here, there, inverse);
  k.multiply(z, kernel.data(), convolution->n, inverse);
  z = convolution->run(z, z == here ? there : here, !inverse);
  k.multiply(z, chirp.data(), n, inverse);
  return z;
}

template <class T> void FftLinePlan<T>::make_matrix(int64_t lanes) {
  int64_t high = matrix_rows<T>(n, lanes);
  if (high == 0) return;
  int64_t wide = n / high;
  down = fft_cached<FftPlan<T>>(high), across = fft_cached<FftPlan<T>>(wide);
  matrix_turns.resize(static_cast<size_t>(2 * n));
  T* to = matrix_turns.data();
  for (int64_t k = 0; k < high; k += lanes)
    for (int64_t c = 0; c < wide; c++, to += 2 * lanes)
      for (int64_t l = 0; l < lanes; l++) {
        T root[2];
        put_root((k + l) * c, n, root);
        to[l] = root[0], to[lanes + l] = root[1];
      }
  matrix = FftMatrix<T>{high, wide, down->stages.data(), across->stages.data(), matrix_turns.data()};
}

template <class T> FftLinePlan<T>::FftLinePlan(int64_t n) : n(n) {
  int64_t w = fft_kernels<T>().lanes;
  if (make_matrix(w); matrix) return;
  Split split = split_of(n, w);
  if (split.cost <= convolved_line_cost(n, w)) {
    rows = split.rows, columns = split.columns;
    down = fft_cached<FftPlan<T>>(rows), across = fft_cached<FftPlan<T>>(columns);
    lane_turns.resize(static_cast<size_t>(2 * rows * w));
    for (int64_t r = 0; r < rows; r++)
      for (int64_t l = 0; l < w; l++) {
        T root[2];
        put_root(r * l, n, root);
        lane_turns[static_cast<size_t>(2 * r * w + l)] = root[0], lane_turns[static_cast<size_t>((2 * r + 1) * w + l)] = root[1];
      }
    int64_t blocks = (columns + w - 1) / w;
    block_turns.resize(static_cast<size_t>(2 * blocks * rows));
    for (int64_t b = 0; b < blocks; b++)
      for (int64_t r = 0; r < rows; r++) put_root(b * w * r, n, &block_turns[static_cast<size_t>(2 * (b * rows + r))]);
    return;
  }
  int64_t m = convolution_length(n, [&](int64_t x) { return split_of(x, w).cost; });
  convolution = fft_cached<FftLinePlan>(m);
  chirp = chirp_of<T>(n);
  kernel.resize(static_cast<size_t>(2 * m));
  std::vector<T> from = kernel_of(chirp, m);
  fft_line<T>(*convolution, from.data(), kernel.data(), false, T(1), nullptr);
}

template <class T> FftRealRoots<T>::FftRealRoots(int64_t n) {
  int64_t w = fft_kernels<T>().lanes, blocks = (n / 2 + w) / w;
  each.resize(static_cast<size_t>(2 * (n / 2 + 1))), vectors.resize(static_cast<size_t>(2 * blocks)),
      lanes.resize(static_cast<size_t>(2 * w));
  for (int64_t k = 0; k <= n / 2; k++) put_root(k, 2 * n, &each[static_cast<size_t>(2 * k)]);
  for (int64_t b = 0; b < blocks; b++) put_root(b * w, 2 * n, &vectors[static_cast<size_t>(2 * b)]);
  for (int64_t l = 0; l < w; l++) {
    T root[2];
    put_root(l, 2 * n, root);
    lanes[static_cast<size_t>(l)] = root[0], lanes[static_cast<size_t>(w + l)] = root[1];
  }
}

// The last used comes first; those that are in use live on when they are dropped here.
template <class P> std::shared_ptr<const P> fft_cached(int64_t n) {
  static std::mutex mutex;
  static std::vector<std::pair<int64_t, std::shared_ptr<const P>>> kept;
  constexpr size_t most = 64, most_bytes = size_t{64} << 20;
  {
    std::lock_guard lock(mutex);
    for (size_t i = 0; i < kept.size(); i++)
      if (kept[i].first == n) {
        std::rotate(kept.begin(), kept.begin() + static_cast<int64_t>(i), kept.begin() + static_cast<int64_t>(i) + 1);
        return kept[0].second;
      }
  }
  auto made = std::make_shared<const P>(n); // it may ask for others
  std::lock_guard lock(mutex);
  kept.insert(kept.begin(), {n, made});
  size_t bytes = 0, count = 0;
  for (; count < kept.size() && count < most; count++)
    if ((bytes += kept[count].second->bytes()) > most_bytes && count > 0) break;
  kept.resize(count);
  return made;
}

#define TENON_FFT(T)                                                                                                                       \
  template bool fft_has_matrix<T>(int64_t);                                                                                                \
  template struct FftPlan<T>;                                                                                                              \
  template struct FftLinePlan<T>;                                                                                                          \
  template struct FftRealRoots<T>;                                                                                                         \
  template std::shared_ptr<const FftPlan<T>> fft_cached<FftPlan<T>>(int64_t);                                                              \
  template std::shared_ptr<const FftLinePlan<T>> fft_cached<FftLinePlan<T>>(int64_t);                                                      \
  template std::shared_ptr<const FftRealRoots<T>> fft_cached<FftRealRoots<T>>(int64_t);                                                    \
  template struct FftCosts<T>;                                                                                                             \
  template std::shared_ptr<const FftCosts<T>> fft_cached<FftCosts<T>>(int64_t);
TENON_FFT(float)
TENON_FFT(double)
#undef TENON_FFT

} // namespace tenon::library
