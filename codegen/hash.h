// A checksum that is quick over large memory; finds damage, not malice.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace tenon {

/// XXH3, 64 bits. Files keep what it gives.
uint64_t hash_of(std::span<const std::byte> bytes) noexcept;

} // namespace tenon
