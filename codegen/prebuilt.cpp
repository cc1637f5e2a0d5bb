#include "codegen/prebuilt.h"

#include <algorithm>

#include <zlib.h>

#include "base/check.h"
#include "codegen/hash.h"

namespace tenon {

namespace {

uint64_t hash_of_shape(std::string_view shape) { return hash_of(std::as_bytes(std::span(shape))); }

} // namespace

std::shared_ptr<const CodeObject> PrebuiltTable::find(std::string_view shape) const {
  uint64_t hash = hash_of_shape(shape);
  for (auto place = std::ranges::lower_bound(places_, hash, {}, &Place::hash); place != places_.end() && place->hash == hash; place++) {
    std::vector<char> text(place->inflated);
    uLongf size = place->inflated;
    int code = uncompress(reinterpret_cast<Bytef*>(text.data()), &size, bytes_ + place->at, place->size);
    require(code == Z_OK && size == text.size(), "prebuilt kernels are damaged");
    if (shape != text.data()) continue; // of the same hash
    auto function = text.begin() + static_cast<ptrdiff_t>(shape.size()) + 1;
    auto object = std::find(function, text.end(), '\0') + 1;
    return std::make_shared<const CodeObject>(std::string(function, object - 1), std::vector<char>(object, text.end()));
  }
  return nullptr;
}

std::vector<PrebuiltTable::Place> deflate(std::span<const PrebuiltKernel> kernels, std::string& bytes) {
  std::vector<PrebuiltTable::Place> places;
  for (const PrebuiltKernel& k : kernels) {
    std::string text = k.shape + '\0' + k.code.name + '\0' + std::string(k.code.bytes.begin(), k.code.bytes.end());
    uLongf size = compressBound(text.size());
    size_t at = bytes.size();
    bytes.resize(at + size);
    int code = compress2(reinterpret_cast<Bytef*>(bytes.data() + at), &size, reinterpret_cast<const Bytef*>(text.data()), text.size(),
                         Z_BEST_COMPRESSION);
    require(code == Z_OK, "zlib refuses to deflate");
    bytes.resize(at + size);
    require(bytes.size() <= UINT32_MAX, "too many prebuilt kernels");
    places.push_back({hash_of_shape(k.shape), static_cast<uint32_t>(at), static_cast<uint32_t>(size), static_cast<uint32_t>(text.size())});
  }
  std::ranges::sort(places, {}, &PrebuiltTable::Place::hash);
  return places;
}

} // namespace tenon
