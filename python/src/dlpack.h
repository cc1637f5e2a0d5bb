// The structs of DLPack 1.3, as its specification lays them out in memory: what other libraries hand their tensors over in.
#pragma once
#include <cstdint>

namespace tenon::python::dl {

enum DeviceType : int32_t { Cpu = 1, CudaHost = 3 };
enum Code : uint8_t {
  Int = 0,
  UInt = 1,
  Float = 2,
  Bfloat = 4,
  Complex = 5,
  Bool = 6,
  E4M3FN = 10,
  E4M3FNUZ = 11,
  E5M2 = 12,
  E5M2FNUZ = 13
};
inline constexpr uint64_t read_only = 1;

struct Version {
  uint32_t major, minor;
};
struct Device {
  int32_t type, id;
};
struct Type {
  uint8_t code, bits;
  uint16_t lanes;
};
/// Strides are in elements; null means row-major.
struct Tensor {
  void* data;
  Device device;
  int32_t ndim;
  Type dtype;
  int64_t *shape, *strides;
  uint64_t byte_offset;
};
struct Managed {
  Tensor tensor;
  void* context;
  void (*deleter)(Managed*);
};
struct ManagedVersioned {
  Version version;
  void* context;
  void (*deleter)(ManagedVersioned*);
  uint64_t flags;
  Tensor tensor;
};

/// The table behind a type's __dlpack_c_exchange_api__. Functions return 0, or -1 with a Python exception set.
struct ExchangeApi {
  Version version;
  ExchangeApi* previous;
  void* allocate;
  int (*managed_from_object)(void* object, ManagedVersioned** out);
  int (*object_from_managed)(ManagedVersioned* managed, void** out);
  /// May be null. Fills a tensor that borrows from the object.
  int (*tensor_from_object)(void* object, Tensor* out);
  void* current_stream;
};

} // namespace tenon::python::dl
