// Fourier transforms: three library steps (complex to complex, real to complex, complex to real), everything else in
// terms of them; short-time transforms by overlapping frames.
#include "ops/autocast.h"
#include "ops/complex.h"
#include "ops/library.h"
#include "ops/pointwise.h"
#include "ops/shape.h"
#include "ops/table.h"

namespace tenon::ops {

namespace {

// ---- the steps

std::vector<int64_t> dims_of(const Call& c) { return c.dims("dim", c.rank("self"), false); }

std::vector<Type> transformed(const Call& c, DType dtype, Expr last) {
  Type t = typed(c, "self", dtype);
  if (c.rank("self") == 0 || (dims_of(c).empty() && dtype != c.type("self").dtype)) c.fail("no dim to transform");
  if (last) t.sizes[static_cast<size_t>(dims_of(c).back())] = last;
  return {t};
}
Expr half(Expr n) { return floor_div(n, n->pool->integer(2)) + 1.0; }

void check_operand(const Call& c, bool complex) {
  DType t = c.type("self").dtype;
  if (is_complex(t) != complex || (!complex && t != DType::F32 && t != DType::F64))
    unsupported("{} of {}", c.def.signature.name, name_of(t));
  if (!complex && dims_of(c).empty()) c.fail("no dim to transform");
}

std::vector<Type> c2c_types(const Call& c) {
  check_operand(c, true);
  return transformed(c, c.type("self").dtype, {});
}
std::vector<Type> r2c_types(const Call& c) {
  check_operand(c, false);
  return transformed(c, complex_type(c.type("self").dtype), c.flag("onesided") ? half(c.size("self", dims_of(c).back())) : Expr());
}
std::vector<Type> c2r_types(const Call& c) {
  check_operand(c, true);
  return transformed(c, part_type(c.type("self").dtype), c.sym("last_dim_size"));
}

// What is complex may be real numbers with a last dim of size 2: tenon::fft and tenon::stft have a flag for it. Who
// wants the parts of a transform takes another one that gives them so; the first one is then often used by nobody.
Type with_parts(Type t, bool parts) {
  if (!parts || !is_complex(t.dtype)) return t;
  t.dtype = part_type(t.dtype);
  t.sizes.push_back(t.sizes.at(0)->pool->integer(2));
  return t;
}

enum class Way : int64_t { Complex, ToHalf, ToWhole, ToReal };

std::vector<Type> fft_types(const Call& c) {
  Type t = c.type("self");
  if (c.flag("parts_in")) t.sizes.pop_back(), t.dtype = complex_type(t.dtype);
  auto way = static_cast<Way>(c.integer("way"));
  if (!is_complex(t.dtype) && t.dtype != DType::F32 && t.dtype != DType::F64)
    unsupported("{} of {}", c.def.signature.name, name_of(t.dtype));
  if (c.integer("way") < 0 || c.integer("way") > 3 || is_complex(t.dtype) != (way == Way::Complex || way == Way::ToReal))
    c.fail("a way that does not fit");
  std::vector<int64_t> dims = c.dims("dim", t.rank(), false);
  if (dims.empty()) c.fail("no dim to transform");
  Expr& last = t.sizes[static_cast<size_t>(dims.back())];
  if (way == Way::ToHalf) last = half(last);
  if (way == Way::ToReal) last = c.sym("last");
  t.dtype = way == Way::ToReal ? part_type(t.dtype) : complex_type(part_type(t.dtype));
  return {with_parts(Type::tensor(t.dtype, t.sizes), c.flag("parts_out"))};
}
LibraryStep fft_step(const Call& c) {
  LibraryStep s{library::fft,
                {c.value("self")},
                integers(c, {c.flag("forward"), c.integer("normalization"), c.flag("parts_in"), c.flag("parts_out")})};
  for (int64_t d : c.dims("dim", c.rank("self") - c.flag("parts_in"), false)) s.ints.push_back(integer(c, d));
  return s;
}
LibraryStep step(const Call& c, bool forward) {
  LibraryStep s{library::fft, {c.value("self")}, integers(c, {forward, c.integer("normalization"), 0, 0})};
  for (int64_t d : dims_of(c)) s.ints.push_back(integer(c, d));
  return s;
}

template <Way W> Values by_parts(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  std::vector<int64_t> dims = dims_of(c);
  if (dims.empty()) return W == Way::Complex ? Values{x} : Values{};
  if (!b.edge()) return {};
  bool made = is_complex(x.dtype()) && is_made_of_parts(x);
  Way way = W == Way::ToHalf && !c.flag("onesided") ? Way::ToWhole : W;
  bool forward = W == Way::Complex ? c.flag("forward") : W == Way::ToHalf;
  Expr last = W == Way::ToReal ? c.sym("last_dim_size") : b.integer(0);
  if (made) x = interleaved(parts(x));
  return b.call("tenon::fft", {x, static_cast<int64_t>(way), made, false, dims, c.integer("normalization"), forward, last});
}

std::vector<Type> stft_types(const Call& c) {
  const Type& t = c.type("self");
  Expr n = integer(c, c.integer("n_fft")), count = floor_div(c.size("self", 1) - n, integer(c, c.integer("hop"))) + 1.0;
  Type out = Type::tensor(complex_type(t.dtype), {t.sizes[0], c.flag("onesided") ? half(n) : n, count});
  return {with_parts(out, c.flag("parts_out"))};
}
LibraryStep stft_step(const Call& c) {
  LibraryStep s{library::stft,
                {c.value("self")},
                integers(c, {c.integer("n_fft"), c.integer("hop"), c.flag("onesided"), c.integer("normalization"), c.flag("parts_out")})};
  if (c.has("window")) s.inputs.push_back(c.value("window"));
  return s;
}

// ---- transforms as torch.fft has them

int64_t scale_code(const Call& c, bool forward) {
  std::string norm = c.text("norm");
  if (norm == "ortho") return 1;
  if (!norm.empty() && norm != "forward" && norm != "backward") c.fail("norm is none of backward, forward, ortho");
  return (norm == "forward") == forward ? 2 : 0;
}

V as_real(V x) { return is_float(x.dtype()) ? x : x.builder().to(x, DType::F32); }
V to_complex(V x) {
  if (is_complex(x.dtype())) return x;
  x = as_real(x);
  return x.builder().to(x, complex_type(x.dtype()));
}
V to_float(V x) { return is_complex(x.dtype()) ? x : as_real(x); }
V conj(V x) { return x.builder().call1("aten::_conj.default", {x}); }

// Cut, or filled with zeros, to length n along dim.
V resize(V x, int64_t dim, Expr n) {
  Builder& b = x.builder();
  Expr size = x.size(dim);
  if (!n || n == size || is_const_int(n, -1)) return x;
  std::vector<Expr> pad(2 * x.rank(), b.integer(0));
  pad[2 * (x.rank() - 1 - static_cast<size_t>(dim)) + 1] = n - size;
  return b.call1("aten::constant_pad_nd.default", {x, pad, 0});
}

V c2c(V x, const std::vector<int64_t>& dims, int64_t scale, bool forward) {
  return x.builder().call1("aten::_fft_c2c.default", {x, dims, scale, forward});
}
V r2c(V x, const std::vector<int64_t>& dims, int64_t scale, bool onesided) {
  return x.builder().call1("aten::_fft_r2c.default", {x, dims, scale, onesided});
}
V c2r(V x, const std::vector<int64_t>& dims, int64_t scale, Expr n) {
  return x.builder().call1("aten::_fft_c2r.default", {x, dims, scale, n});
}

// The dims of a transform and their lengths; an empty length keeps the size.
struct Extent {
  std::vector<int64_t> dims;
  std::vector<Expr> lengths;
};

Extent one_dim(const Call& c) {
  if (c.rank("self") == 0) c.fail("self has no dims");
  return {{c.dim("dim", c.rank("self"))}, {c.has("n") ? c.sym("n") : Expr()}};
}
Extent many_dims(const Call& c) {
  Extent e;
  size_t rank = c.rank("self");
  std::vector<Expr> s = c.has("s") ? c.syms("s") : std::vector<Expr>();
  if (c.has("dim")) e.dims = c.dims("dim", rank, false);
  else
    for (size_t d = c.has("s") ? rank - std::min(rank, s.size()) : 0; d < rank; d++) e.dims.push_back(static_cast<int64_t>(d));
  if (c.has("s") && s.size() != e.dims.size()) c.fail("s and dim differ in length");
  for (size_t k = 0; k < e.dims.size(); k++) e.lengths.push_back(k < s.size() && !is_const_int(s[k], -1) ? s[k] : Expr());
  return e;
}
V resize(V x, const Extent& e) {
  for (size_t k = 0; k < e.dims.size(); k++) x = resize(x, e.dims[k], e.lengths[k]);
  return x;
}

using Extents = Extent (*)(const Call&);

template <Extents E> Values forward(Builder& b, const Call& c) {
  Extent e = E(c);
  V x = to_float(b.input(c, "self"));
  if (e.dims.empty()) return to_complex(x);
  x = resize(x, e);
  return is_complex(x.dtype()) ? c2c(x, e.dims, scale_code(c, true), true) : r2c(x, e.dims, scale_code(c, true), false);
}
template <Extents E> Values inverse(Builder& b, const Call& c) {
  Extent e = E(c);
  return c2c(resize(to_complex(b.input(c, "self")), e), e.dims, scale_code(c, false), false);
}

// Half a spectrum from real numbers; `Hermitian`: the conjugate, with the scale of an inverse.
template <Extents E, bool Hermitian> Values to_half(Builder& b, const Call& c) {
  Extent e = E(c);
  V x = b.input(c, "self");
  if (is_complex(x.dtype())) c.fail("needs a real tensor");
  if (e.dims.empty()) c.fail("needs a dim");
  V y = r2c(resize(as_real(x), e), e.dims, scale_code(c, !Hermitian), true);
  return Hermitian ? conj(y) : y;
}
// Real numbers from half a spectrum.
template <Extents E, bool Hermitian> Values from_half(Builder& b, const Call& c) {
  Extent e = E(c);
  if (e.dims.empty()) c.fail("needs a dim");
  V x = to_complex(b.input(c, "self"));
  Expr n = e.lengths.back() ? e.lengths.back() : (x.size(e.dims.back()) - 1.0) * 2.0;
  e.lengths.back() = half(n);
  if (Hermitian) x = conj(x);
  return c2r(resize(x, e), e.dims, scale_code(c, Hermitian), n);
}

// ---- short-time transforms

struct Frames {
  int64_t length, hop;
  V window; // of that length; none
};

Frames frames_of(Builder& b, const Call& c, DType dtype) {
  Frames f{c.integer("n_fft"), 0, {}};
  f.hop = c.integer("hop_length", f.length / 4);
  int64_t window_length = c.integer("win_length", f.length);
  if (f.length <= 0 || f.hop <= 0 || window_length <= 0 || window_length > f.length)
    c.fail("needs 0 < hop_length, and 0 < win_length <= n_fft");
  if (c.has("window")) f.window = b.input(c, "window");
  else if (window_length < f.length) f.window = b.full({b.integer(window_length)}, 1, dtype);
  int64_t left = (f.length - window_length) / 2;
  if (f.window && window_length < f.length)
    f.window = b.call1("aten::constant_pad_nd.default", {f.window, std::vector<int64_t>{left, f.length - window_length - left}, 0});
  return f;
}

void check_signal(const Call& c, size_t dims) {
  if (c.rank("self") != dims && c.rank("self") != dims + 1) c.fail(fmt::format("self has neither {} nor {} dims", dims, dims + 1));
  if (c.has("window") && c.rank("window") != 1) c.fail("window has other than one dim");
}

V transform_frames(Builder& b, const Call& c, V x) {
  bool batched = x.rank() == 2;
  if (!batched) x = b.unsqueeze(x, 0);
  Frames f = frames_of(b, c, part_type(x.dtype()));
  int64_t scale = c.flag("normalized") ? 1 : 0;
  bool onesided = c.has("onesided") ? c.flag("onesided") : !is_complex(x.dtype());
  V y;
  if ((x.dtype() == DType::F32 || x.dtype() == DType::F64) && (!f.window || f.window.dtype() == x.dtype())) {
    y = b.call1("tenon::stft", {x, f.window ? Arg(f.window) : Arg(), f.length, f.hop, onesided, scale, false});
  } else {
    y = b.call1("aten::unfold.default", {x, -1, f.length, f.hop});
    if (f.window) y = y * f.window;
    y = is_complex(y.dtype()) ? c2c(y, {2}, scale, true) : r2c(y, {2}, scale, onesided);
    y = b.transpose(y, 1, 2);
  }
  if (!batched) y = b.squeeze(y, 0);
  return c.flag("return_complex") ? y : b.call1("aten::view_as_real.default", {y});
}

Values stft(Builder& b, const Call& c) {
  check_signal(c, 1);
  return transform_frames(b, c, b.input(c, "self"));
}
Values stft_centered(Builder& b, const Call& c) {
  check_signal(c, 1);
  V x = b.input(c, "self");
  if (c.flag("center")) {
    Expr p = b.integer(c.integer("n_fft") / 2);
    std::vector<Expr> sizes = x.sizes(), padded(3 - x.rank(), b.integer(1));
    padded.insert(padded.end(), sizes.begin(), sizes.end());
    x = b.call1("aten::pad.default", {b.reshape(x, padded), std::vector<Expr>{p, p}, c["pad_mode"]});
    sizes.back() = sizes.back() + p * 2.0;
    x = b.reshape(x, sizes);
  }
  return transform_frames(b, c, x);
}

// [batch, frames, length], each frame `hop` after the one before it, added up. Frames are cut into pieces of `hop`;
// piece r of all frames lies side by side, r pieces after the start.
V overlap_add(V frames, int64_t hop) {
  Builder& b = frames.builder();
  Expr batch = frames.size(0), count = frames.size(1), length = frames.size(2);
  int64_t pieces = (*const_int(length) + hop - 1) / hop;
  V x = b.reshape(resize(frames, 2, b.integer(pieces * hop)), {batch, count, b.integer(pieces), b.integer(hop)});
  V sum;
  for (int64_t r = 0; r < pieces; r++) {
    V piece = b.select(x, 2, b.integer(r));
    piece = b.call1("aten::constant_pad_nd.default", {piece, std::vector<int64_t>{0, 0, r, pieces - 1 - r}, 0});
    sum = sum ? sum + piece : piece;
  }
  sum = b.reshape(sum, {batch, (count + static_cast<double>(pieces - 1)) * static_cast<double>(hop)});
  return b.slice(sum, 1, b.integer(0), length + (count - 1.0) * static_cast<double>(hop));
}

Values istft(Builder& b, const Call& c) {
  check_signal(c, 2);
  V x = to_complex(b.input(c, "self"));
  bool batched = x.rank() == 3;
  if (!batched) x = b.unsqueeze(x, 0);
  Frames f = frames_of(b, c, part_type(x.dtype()));
  bool complex = c.flag("return_complex"), onesided = c.has("onesided") ? c.flag("onesided") : x.size(1) != b.integer(f.length);
  int64_t scale = c.flag("normalized") ? 1 : 2;
  x = b.transpose(x, 1, 2);
  if (!complex && !onesided) x = b.slice(x, 2, b.integer(0), b.integer(f.length / 2 + 1));
  V y = complex ? c2c(x, {2}, scale, false) : c2r(x, {2}, scale, b.integer(f.length));
  V window = f.window ? f.window : b.full({b.integer(f.length)}, 1, part_type(x.dtype()));
  V weight = b.expand(b.reshape(window * window, {b.integer(1), b.integer(1), b.integer(f.length)}),
                      {b.integer(1), y.size(1), b.integer(f.length)});
  y = overlap_add(y * window, f.hop), weight = overlap_add(weight, f.hop);
  Expr start = b.integer(c.flag("center") ? f.length / 2 : 0), have = y.size(1) - start;
  Expr want = c.has("length") ? c.sym("length") : c.flag("center") ? have - start : have;
  Expr taken = c.has("length") ? min(want, have) : want;
  y = b.slice(y, 1, start, taken) / b.slice(weight, 1, start, taken);
  y = resize(y, 1, want);
  return batched ? y : b.squeeze(y, 0);
}

const OpRow fft_ops[] = {
    {.schema = "aten::_fft_c2c(Tensor self, SymInt[] dim, int normalization, bool forward) -> Tensor",
     .kind = Kind::Library,
     .infer = c2c_types,
     .decompose = by_parts<Way::Complex>,
     .library = [](const Call& c) { return step(c, c.flag("forward")); },
     .dtypes = complex_types},
    {.schema = "aten::_fft_r2c(Tensor self, int[] dim, int normalization, bool onesided) -> Tensor",
     .kind = Kind::Library,
     .infer = r2c_types,
     .decompose = by_parts<Way::ToHalf>,
     .library = [](const Call& c) { return step(c, true); },
     .dtypes = full_floats,
     .types = "-> complex_of"},
    {.schema = "aten::_fft_c2r(Tensor self, int[] dim, int normalization, SymInt last_dim_size) -> Tensor",
     .kind = Kind::Library,
     .infer = c2r_types,
     .decompose = by_parts<Way::ToReal>,
     .library = [](const Call& c) { return step(c, false); },
     .dtypes = complex_types,
     .types = "-> part"},
    {.schema = "tenon::fft(Tensor self, int way, bool parts_in, bool parts_out, int[] dim, int normalization, bool "
               "forward, SymInt last) -> Tensor",
     .kind = Kind::Library,
     .infer = fft_types,
     .library = fft_step},
    {.schema = "tenon::stft(Tensor self, Tensor? window, int n_fft, int hop, bool onesided, int normalization, bool "
               "parts_out) -> Tensor",
     .kind = Kind::Library,
     .infer = stft_types,
     .library = stft_step},

    composite("aten::fft_fft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor", forward<one_dim>, to_f32),
    composite("aten::fft_ifft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor", inverse<one_dim>, to_f32),
    composite("aten::fft_rfft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor", to_half<one_dim, false>, to_f32),
    composite("aten::fft_irfft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor", from_half<one_dim, false>, to_f32),
    composite("aten::fft_hfft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor", from_half<one_dim, true>, to_f32),
    composite("aten::fft_ihfft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor", to_half<one_dim, true>, to_f32),
    composite("aten::fft_fft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> Tensor", forward<many_dims>, to_f32),
    composite("aten::fft_ifft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> Tensor", inverse<many_dims>, to_f32),
    composite("aten::fft_rfft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> Tensor", to_half<many_dims, false>,
              to_f32),
    composite("aten::fft_irfft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> Tensor",
              from_half<many_dims, false>, to_f32),
    composite("aten::fft_hfft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> Tensor", from_half<many_dims, true>),
    composite("aten::fft_ihfft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> Tensor", to_half<many_dims, true>),
    composite("aten::fft_fftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor", forward<many_dims>, to_f32),
    composite("aten::fft_ifftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor", inverse<many_dims>, to_f32),
    composite("aten::fft_rfftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor", to_half<many_dims, false>,
              to_f32),
    composite("aten::fft_irfftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor", from_half<many_dims, false>,
              to_f32),
    composite("aten::fft_hfftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor", from_half<many_dims, true>),
    composite("aten::fft_ihfftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor", to_half<many_dims, true>),
    composite("aten::stft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, "
              "bool normalized=False, bool? onesided=None, "
              "bool? return_complex=None, bool? align_to_window=None) -> Tensor",
              stft, to_f32),
    composite("aten::stft.center(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, "
              "bool center=True, str pad_mode=\"reflect\", "
              "bool normalized=False, bool? onesided=None, bool? return_complex=None, bool? align_to_window=None) -> Tensor",
              stft_centered, to_f32),
    composite("aten::istft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, "
              "bool center=True, bool normalized=False, "
              "bool? onesided=None, int? length=None, bool return_complex=False) -> Tensor",
              istft),
};

} // namespace

std::span<const OpRow> fft_rows() { return fft_ops; }

} // namespace tenon::ops
