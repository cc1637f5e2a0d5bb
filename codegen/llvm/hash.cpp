#include "codegen/hash.h"

#include <llvm/Support/xxhash.h>

namespace tenon {

uint64_t hash_of(std::span<const std::byte> bytes) noexcept {
  return llvm::xxh3_64bits(llvm::ArrayRef<uint8_t>(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()));
}

} // namespace tenon
