// The texts of values. Tensors are written as torch's stream operator does: columns of equal width, a common factor before them where
// numbers are large or small, and the type below.
#include <algorithm>
#include <cmath>

#include "base/numeric.h"
#include "builtins/dict.h"

namespace tenon {

namespace {

/// How the numbers of a tensor are written: "%{width}.4f" of each divided by `scale`, and the like.
struct NumberFormat {
  int width = 0;
  double scale = 1;
  char form = 'g'; // of printf: g, e, f
};

int digits(double magnitude) { return magnitude == 0 ? 1 : static_cast<int>(std::floor(std::log10(magnitude))) + 1; }

NumberFormat format_of(std::span<const double> values) {
  bool whole = std::ranges::all_of(values, [](double z) { return !std::isfinite(z) || z == std::ceil(z); });
  auto first = std::ranges::find_if(values, [](double z) { return std::isfinite(z); });
  int least = 1, most = 1;
  if (first != values.end()) {
    double low = std::fabs(*first), high = low;
    for (double z : values)
      if (std::isfinite(z)) low = std::min(low, std::fabs(z)), high = std::max(high, std::fabs(z));
    least = digits(low), most = digits(high);
  }
  if (whole) return most > 9 ? NumberFormat{11, 1, 'e'} : NumberFormat{most + 1, 1, 'g'};
  if (most - least > 4) return {std::abs(most) > 99 || std::abs(least) > 99 ? 12 : 11, 1, 'e'};
  if (most > 5 || most < 0) return {7, std::pow(10, most - 1), 'f'};
  return {most == 0 ? 7 : most + 6, 1, 'f'};
}

std::string number_text(double z, const NumberFormat& f) {
  double scaled = z / f.scale;
  if (f.form == 'g') return fmt::format("{:>{}}", fmt::format("{:.6g}", scaled), f.width);
  return f.form == 'e' ? fmt::format("{:>{}.4e}", scaled, f.width) : fmt::format("{:>{}.4f}", scaled, f.width);
}

std::string scale_text(double scale) { return scale == 1 ? "" : fmt::format("{:.6g} *\n", scale); }

constexpr int line_length = 80;

/// Rows of `columns` numbers, broken into groups of columns where they are longer than a line.
std::string matrix_text(std::span<const double> values, int64_t columns, int indent) {
  auto format = format_of(values);
  std::string margin(static_cast<size_t>(indent), ' '), text;
  int64_t per_line = std::max<int64_t>((line_length - indent) / (format.width + 1), 1), rows = std::ssize(values) / columns;
  for (int64_t first = 0; first < columns; first += per_line) {
    int64_t last = std::min(first + per_line, columns) - 1;
    if (per_line < columns) text += fmt::format("{}Columns {} to {}{}", first ? "\n" : "", first + 1, last + 1, margin);
    if (format.scale != 1) text += scale_text(format.scale) + margin;
    for (int64_t r = 0; r < rows; r++) {
      for (int64_t c = first; c <= last; c++)
        text += number_text(values[static_cast<size_t>(r * columns + c)], format) + (c == last ? "\n" : " ");
      if (r + 1 < rows) text += margin + (format.scale != 1 ? " " : "");
    }
  }
  return text;
}

std::string numbers_text(const std::vector<double>& values, const std::vector<int64_t>& sizes) {
  if (sizes.empty()) return fmt::format("{}\n", values[0]);
  if (values.empty()) return "";
  if (sizes.size() == 1) {
    auto format = format_of(values);
    std::string text = scale_text(format.scale);
    for (double z : values) text += number_text(z, format) + "\n";
    return text;
  }
  if (sizes.size() == 2) return matrix_text(values, sizes[1], 0);
  // One matrix for each index of the outer dims, of which the first runs fastest.
  std::string text;
  size_t outer = sizes.size() - 2, matrix = static_cast<size_t>(sizes[outer] * sizes[outer + 1]);
  for (size_t n = 0; n < values.size() / matrix; n++) {
    std::string index;
    size_t rest = n, place = 0;
    for (size_t d = 0; d < outer; d++) {
      size_t size = static_cast<size_t>(sizes[d]);
      index += fmt::format("{},", rest % size + 1);
      size_t stride = matrix;
      for (size_t e = d + 1; e < outer; e++) stride *= static_cast<size_t>(sizes[e]);
      place += rest % size * stride;
      rest /= size;
    }
    text += fmt::format("{}({}.,.) = \n{}", n ? "\n" : "", index, matrix_text(std::span(values).subspan(place, matrix), sizes.back(), 1));
  }
  return text;
}

std::string tensor_text(const Tensor& t) {
  if (!t.defined()) return "[ Tensor (undefined) ]";
  Tensor dense = t.contiguous();
  std::vector<double> values(static_cast<size_t>(t.numel()));
  dispatch(t.dtype(), [&](auto zero) {
    auto* p = dense.data_as<decltype(zero)>();
    for (size_t i = 0; i < values.size(); i++)
      values[i] = is_float8(t.dtype()) ? from_float8(dense.data_as<uint8_t>()[i], t.dtype()) : convert<double>(p[i]);
  });
  std::string sizes;
  for (int64_t s : t.sizes()) sizes += fmt::format("{}{}", sizes.empty() ? "" : ",", s);
  return numbers_text(values, t.sizes()) + fmt::format("[ CPU{}Type{{{}}} ]", torch_name(t.dtype()), sizes);
}

std::string float_text(double d) {
  bool whole = std::isfinite(d) && std::fabs(d) < 0x1p63 && d == std::trunc(d);
  return whole ? fmt::format("{}.", static_cast<int64_t>(d)) : std::isnan(d) ? "nan" : fmt::format("{:.17g}", d);
}

std::string complex_text(std::complex<double> c) {
  return float_text(c.real()) + (c.imag() >= 0 ? "+" : "-") + float_text(std::fabs(c.imag())) + "j";
}

std::string string_text(const std::string& s) {
  std::string text = "\"";
  for (char c : s) {
    constexpr std::string_view special = "\"\\\n\t\r\f\v\a\b", letters = "\"\\ntrfvab";
    if (size_t i = special.find(c); i != special.npos) text += std::string("\\") + letters[i];
    else if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) text += fmt::format("\\{:03o}", static_cast<unsigned>(c));
    else text += c;
  }
  return text + "\"";
}

using TextOf = std::string (*)(const IValue&);

std::string joined(const std::vector<IValue>& items, TextOf text_of) {
  std::string s;
  for (size_t i = 0; i < items.size(); i++) s += (i ? ", " : "") + text_of(items[i]);
  return s;
}

/// Lists may be elements of themselves.
struct Nesting {
  Nesting() {
    if (depth >= 500) raise("RecursionError", "maximum recursion depth exceeded while getting the repr of an object");
    depth++;
  }
  ~Nesting() { depth--; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;
  static thread_local int depth;
};
thread_local int Nesting::depth = 0;

/// What str() and repr() write alike, given how they write elements.
std::string text_with(const IValue& v, TextOf text_of) {
  Nesting nesting;
  using Tag = IValue::Tag;
  switch (v.tag()) {
  case Tag::None: return "None";
  case Tag::Bool: return v.to_bool() ? "True" : "False";
  case Tag::Int: return fmt::format("{}", v.to_int());
  case Tag::Double: return float_text(v.to_double());
  case Tag::Complex: return complex_text(v.to_complex());
  case Tag::Tensor: return tensor_text(v.to_tensor());
  case Tag::String: return v.to_string();
  case Tag::Device: return v.to_device();
  case Tag::List: return "[" + joined(v.to_list(), text_of) + "]";
  case Tag::Tuple: return "(" + joined(v.to_tuple(), text_of) + (v.to_tuple().size() == 1 ? ",)" : ")");
  case Tag::Object: return fmt::format("<{} object at {}>", v.to_object().class_name, static_cast<const void*>(&v.to_object()));
  case Tag::Dict: break;
  }
  std::string s = "{";
  for (auto& [key, value] : v.to_dict().items()) s += (s == "{" ? "" : ", ") + text_of(key) + ": " + text_of(value);
  return s + "}";
}

} // namespace

std::string str(const IValue& v) { return text_with(v, str); }

std::string repr(const IValue& v) {
  if (v.is(IValue::Tag::String)) return string_text(v.to_string());
  if (v.is(IValue::Tag::Device)) return fmt::format("torch.device({})", string_text(v.to_device()));
  return text_with(v, repr);
}

} // namespace tenon
