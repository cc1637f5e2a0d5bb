// DLPack's table of functions, as its version 1.3 lays it out in memory: what a type has that hands over tensors without Python's calls.
#pragma once
#include <tenon/dlpack.h>

namespace tenon::python {

/// The table behind a type's __dlpack_c_exchange_api__. Functions return 0, or -1 with a Python exception set.
struct ExchangeApi {
  DLPackVersion version;
  ExchangeApi* previous;
  void* allocate;
  int (*managed_from_object)(void* object, DLManagedTensorVersioned** out);
  int (*object_from_managed)(DLManagedTensorVersioned* managed, void** out);
  /// May be null. Fills a tensor that borrows from the object.
  int (*tensor_from_object)(void* object, DLTensor* out);
  void* current_stream;
};

} // namespace tenon::python
