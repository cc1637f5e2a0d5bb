// Reading .npy (the format is described in numpy/lib/_format_impl.py) and .npz.
#include "load/npz.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "load/npy_types.h"

namespace tenon {

namespace {

struct NpyHeader {
  std::string descr;
  bool fortran = false;
  std::vector<int64_t> shape;
};

/// Reads the Python dictionary that an .npy header is: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class HeaderParser {
public:
  HeaderParser(std::string_view text, const std::string& what) : text_(text), what_(what) {}

  NpyHeader parse() {
    NpyHeader h;
    int seen = 0;
    expect('{');
    while (!accept('}')) {
      std::string key = string();
      expect(':');
      int bit = key == "descr" ? 1 : key == "fortran_order" ? 2 : key == "shape" ? 4 : 0;
      if (bit == 0 || (seen & bit) != 0) fail("an unexpected or repeated key " + quoted(key));
      seen |= bit;
      if (bit == 1) h.descr = dtype();
      else if (bit == 2) h.fortran = boolean();
      else h.shape = tuple();
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_spaces();
    if (at_ != text_.size()) fail("text after the dictionary");
    if (seen != 7) fail("descr, fortran_order or shape is missing");
    return h;
  }

private:
  [[noreturn]] void fail(const std::string& why) const {
    bad_input("{}: the .npy header is not readable at its character {}: {}", what_, at_, why);
  }
  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) at_++;
  }
  bool accept(char c) {
    skip_spaces();
    if (at_ == text_.size() || text_[at_] != c) return false;
    at_++;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(fmt::format("'{}' expected", c));
  }
  std::string string() {
    skip_spaces();
    char quote = at_ < text_.size() ? text_[at_] : ' ';
    if (quote != '\'' && quote != '"') fail("a string expected");
    size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) fail("a string without end");
    std::string out(text_.substr(at_ + 1, end - at_ - 1));
    if (out.size() > 64) fail("an overlong string");
    at_ = end + 1;
    return out;
  }
  std::string dtype() {
    skip_spaces();
    if (at_ < text_.size() && text_[at_] == '[') unsupported("{}: arrays of records are not supported", what_);
    return string();
  }
  bool boolean() {
    skip_spaces();
    for (bool value : {false, true})
      if (std::string_view word = value ? "True" : "False"; text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return value;
      }
    fail("True or False expected");
  }
  std::vector<int64_t> tuple() {
    std::vector<int64_t> out;
    expect('(');
    while (!accept(')')) {
      skip_spaces();
      int64_t n = 0;
      auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), n);
      if (error != std::errc() || n < 0) fail("a size expected");
      at_ = static_cast<size_t>(end - text_.data());
      accept('L'); // Python 2 wrote long integers so
      out.push_back(n);
      if (out.size() > 64) fail("more than 64 dimensions");
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return out;
  }

  std::string_view text_;
  const std::string& what_;
  size_t at_ = 0;
};

DType dtype_of(const std::string& descr, const std::string& what, NpyU2 u2) {
  for (auto& row : npy_types)
    if (descr == row.descr || (row.descr[0] == '<' && descr[0] == '=' && descr.substr(1) == row.descr.substr(1)))
      if (row.type != DType::BF16 || u2 == NpyU2::AsBF16) return row.type;
  unsupported("{}: arrays of dtype {} are not supported", what, quoted(descr));
}

std::vector<int64_t> fortran_strides(std::span<const int64_t> sizes) {
  std::vector<int64_t> reversed(sizes.rbegin(), sizes.rend());
  auto strides = contiguous_strides(reversed);
  std::reverse(strides.begin(), strides.end());
  return strides;
}

/// The header's text; the cursor is left at the data.
std::string_view header_text(ByteReader& in, const std::string& what) {
  require_input(in.left() >= 10 && in.text(6) == "\x93NUMPY", "{} is not an .npy file: its first bytes are not \\x93NUMPY", what);
  auto major = in.read<uint8_t>();
  in.read<uint8_t>(); // minor
  require_input(major >= 1 && major <= 3, "{}: .npy version {} is not known", what, major);
  uint32_t size = major == 1 ? in.read<uint16_t>() : in.read<uint32_t>();
  return in.text(size);
}

} // namespace

NpyArray read_npy(Bytes bytes, std::shared_ptr<void> owner, const std::string& what, NpyU2 u2) {
  ByteReader in(bytes, what);
  NpyHeader h = HeaderParser(header_text(in, what), what).parse();
  DType type = dtype_of(h.descr, what, u2);
  size_t size = 0;
  require_input(count_bytes(h.shape, size_of(type), size), "{}: the array's size overflows", what);
  require_input(size == in.left(), "{}: the header tells of {} bytes of data, but {} follow at offset {}", what, size, in.left(), in.at());
  Bytes data = in.take(size);
  if (type == DType::Bool)
    for (std::byte b : data) require_input(b <= std::byte{1}, "{}: a bool is stored as {}, not 0 or 1", what, static_cast<int>(b));
  if (!is_aligned(data.data(), type)) {
    SharedBytes copy = copy_bytes(data, what);
    data = copy.bytes, owner = std::move(copy.owner);
  }
  auto* p = const_cast<std::byte*>(data.data());
  if (!owner) owner = std::shared_ptr<void>(std::shared_ptr<void>(), p); // borrowed, but defined
  auto strides = h.fortran ? fortran_strides(h.shape) : contiguous_strides(h.shape);
  return {what, std::move(h.descr), Tensor(type, std::move(h.shape), std::move(strides), std::move(owner), p)};
}

std::vector<NpyArray> read_npz(const Archive& archive, NpyU2 u2) {
  std::vector<NpyArray> out;
  uint64_t budget = Archive::max_inflated; // of all entries together
  for (std::string_view entry : archive.names()) {
    std::string name = std::string(archive.top()) + std::string(entry);
    require_input(name.ends_with(".npy"), "{}: entry {} is not an .npy file", quoted(archive.name()), quoted(name));
    SharedBytes data = archive.read(entry, budget);
    if (archive.entry(entry)->deflated) budget -= data.bytes.size();
    else archive.check_crc(entry, data.bytes);
    out.push_back(read_npy(data.bytes, data.owner, fmt::format("{}: entry {}", quoted(archive.name()), quoted(name)), u2));
    out.back().name = name.substr(0, name.size() - 4);
  }
  return out;
}

std::vector<NpyArray> read_npz(const std::string& path, NpyU2 u2) { return read_npz(Archive::map(path), u2); }

} // namespace tenon
