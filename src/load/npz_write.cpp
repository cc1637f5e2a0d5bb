// Writing .npz: arrays as .npy files in a zip.
#include <algorithm>

#include "load/npy_types.h"
#include "load/npz.h"
#include "load/zip_write.h"

namespace tenon {

namespace {

/// The .npy header (version 1), padded with spaces to a multiple of 64.
std::string npy_header(const Tensor& t) {
  std::string shape;
  for (int64_t s : t.sizes()) shape += fmt::format("{}, ", s);
  if (t.rank() > 1) shape.resize(shape.size() - 2);
  else if (t.rank() == 1) shape.resize(shape.size() - 1);
  auto row = std::find_if(std::begin(npy_types), std::end(npy_types), [&](auto& r) { return r.type == t.dtype(); });
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", row->descr, shape);
  text.resize((10 + text.size() + 1 + 63) / 64 * 64 - 11, ' ');
  return Record().text("\x93NUMPY").put<uint8_t>(1).put<uint8_t>(0).u16(text.size() + 1).text(text).text("\n").str();
}

void write(ZipWriter& zip, std::span<const std::pair<std::string, Tensor>> arrays) {
  for (auto& [name, tensor] : arrays) {
    require_input(tensor.defined(), "the array {} has no value", quoted(name));
    Tensor t = tensor.contiguous();
    auto size = static_cast<size_t>(t.numel()) * size_of(t.dtype());
    zip.add(name + ".npy", as_byte_span(npy_header(t)), {static_cast<const std::byte*>(t.data()), size});
  }
}

} // namespace

void write_npz(const std::string& path, std::span<const std::pair<std::string, Tensor>> arrays) {
  write_zip(path, [&](ZipWriter& zip) { write(zip, arrays); });
}

std::vector<std::byte> write_npz(std::span<const std::pair<std::string, Tensor>> arrays) {
  std::vector<std::byte> out;
  ZipWriter zip([&](Bytes b) { out.insert(out.end(), b.begin(), b.end()); });
  write(zip, arrays);
  zip.finish();
  return out;
}

} // namespace tenon
