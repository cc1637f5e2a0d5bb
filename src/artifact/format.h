// How a file of a compiled program is laid out: header, weights, description.
#pragma once
#include "artifact/artifact.h"
#include "artifact/fields.h"
#include "artifact/stream.h"

namespace tenon {

template <class A> void fields(A& a, CodeObject& o) { a(o.name, o.bytes); }

namespace artifact {

inline constexpr char magic[8] = {'T', 'E', 'N', 'O', 'N', '\r', '\n', 0};
/// Of the fields, of what they mean, and of what code and packed weights look like.
inline constexpr uint32_t format = 7;
inline constexpr uint64_t alignment = 4096;      // of weights in the file
inline constexpr uint64_t slack = 64;            // bytes that kernels may read behind weights
inline constexpr uint64_t piece_bytes = 4 << 20; // of data with a checksum of its own

struct Header {
  char magic[8];
  uint32_t format;
  uint32_t reserved;
  uint64_t data_bytes; // weights, behind the header's page
  uint64_t description_bytes, description_hash;
};

struct StoredTensor {
  DType dtype;
  std::vector<int64_t> sizes;
  uint64_t at; // in the data
};
struct StoredBytes {
  uint64_t at, bytes;
};

/// What lies behind the data.
struct Index {
  Description description;
  std::vector<StoredTensor> constants, state;
  std::vector<StoredBytes> packed;
  std::vector<uint64_t> hashes; // of the data's pieces
};

template <class A> void fields(A& a, Description& d) {
  a(d.name, d.signature, d.isa, d.target, d.has_narrow, d.key, d.plan, d.objects, d.operators);
}
template <class A> void fields(A& a, StoredTensor& t) { a(t.dtype, t.sizes, t.at); }
template <class A> void fields(A& a, StoredBytes& b) { a(b.at, b.bytes); }
template <class A> void fields(A& a, Index& i) { a(i.description, i.constants, i.state, i.packed, i.hashes); }

} // namespace artifact
} // namespace tenon
