// DLPack's tensors as tenon's, and the other way.
#include <algorithm>
#include <memory>

#include "capi/handles.h"

namespace tenon::capi {

namespace {

struct DTypeRow {
  int32_t dtype; // of tenon.c.h
  DType own;
  uint8_t code, bits;
};
constexpr DTypeRow dtypes[] = {
    {TENON_BOOL, DType::Bool, kDLBool, 8},
    {TENON_U8, DType::U8, kDLUInt, 8},
    {TENON_I8, DType::I8, kDLInt, 8},
    {TENON_I16, DType::I16, kDLInt, 16},
    {TENON_I32, DType::I32, kDLInt, 32},
    {TENON_I64, DType::I64, kDLInt, 64},
    {TENON_F16, DType::F16, kDLFloat, 16},
    {TENON_BF16, DType::BF16, kDLBfloat, 16},
    {TENON_F32, DType::F32, kDLFloat, 32},
    {TENON_F64, DType::F64, kDLFloat, 64},
    {TENON_C64, DType::C64, kDLComplex, 64},
    {TENON_C128, DType::C128, kDLComplex, 128},
    {TENON_U64, DType::U64, kDLUInt, 64},
    {TENON_F8E4M3FN, DType::F8E4M3FN, kDLFloat8_e4m3fn, 8},
    {TENON_F8E5M2, DType::F8E5M2, kDLFloat8_e5m2, 8},
    {TENON_F8E4M3FNUZ, DType::F8E4M3FNUZ, kDLFloat8_e4m3fnuz, 8},
    {TENON_F8E5M2FNUZ, DType::F8E5M2FNUZ, kDLFloat8_e5m2fnuz, 8},
};
static_assert(std::size(dtypes) == num_dtypes);
consteval bool in_order() {
  for (int i = 0; i < num_dtypes; i++)
    if (dtypes[i].dtype != i || dtypes[i].own != static_cast<DType>(i)) return false;
  return true;
}
static_assert(in_order());

constexpr const char* device_names[] = {
    "",       "CPU",    "CUDA",    "",    "OpenCL", "", "", "Vulkan", "Metal", "VPI", "ROCm", "", "an extension", "CUDA's managed memory",
    "oneAPI", "WebGPU", "Hexagon", "MAIA"};

// Memory that the CPU reads as any other, pinned for a device or not.
bool is_host(int32_t device) { return device == kDLCPU || device == kDLCUDAHost || device == kDLROCMHost; }

std::string device_name(const DLDevice& device) {
  auto type = static_cast<uint32_t>(device.device_type);
  if (type >= std::size(device_names) || !*device_names[type]) return "a device of the unknown type " + std::to_string(type);
  return std::string(device_names[type]) + " (device " + std::to_string(device.device_id) + ")";
}

void check(const DLTensor* t, const std::string& what, bool with_data) {
  need(t, what.c_str());
  if (!is_host(t->device.device_type))
    throw Error(ErrorKind::Unsupported, what + " lies on " + device_name(t->device) + "; tenon runs on the CPU");
  if (t->ndim < 0) refuse(what + " has " + std::to_string(t->ndim) + " dims");
  if (t->ndim > 0) need(t->shape, (what + "'s shape").c_str());
  std::span<const int64_t> sizes(t->shape, static_cast<size_t>(t->ndim));
  if (std::ranges::any_of(sizes, [](int64_t s) { return s < 0; })) refuse(what + " has a negative size");
  if (with_data && std::ranges::find(sizes, 0) == sizes.end() && !t->data) refuse(what + " has no memory");
}

/// The tensor, and the struct that shows it.
struct Managed {
  DLManagedTensorVersioned shown{};
  Tensor tensor;
};

} // namespace

DType dtype_of(const DLDataType& dtype) {
  if (dtype.lanes != 1) refuse("elements have " + std::to_string(dtype.lanes) + " lanes; tenon takes one");
  for (const DTypeRow& row : dtypes)
    if (row.code == dtype.code && row.bits == dtype.bits) return row.own;
  refuse("there is no dtype for DLPack's type code " + std::to_string(dtype.code) + " with " + std::to_string(dtype.bits) + " bits");
}

TensorView view_of(const DLTensor* t, const std::string& what, bool with_data) {
  check(t, what, with_data);
  TensorView view;
  try {
    view.dtype = dtype_of(t->dtype);
  } catch (const Error& e) {
    refuse(what + ": " + e.what());
  }
  if (t->data) view.data = static_cast<char*>(t->data) + t->byte_offset;
  auto rank = static_cast<size_t>(t->ndim);
  view.sizes = {t->shape, rank};
  if (t->strides) view.strides = {t->strides, rank};
  return view;
}

Tensor tensor_of(const DLTensor* t, const std::string& what, std::shared_ptr<void> storage) {
  static char nothing; // a Tensor without storage is none
  TensorView view = view_of(t, what);
  std::vector<int64_t> sizes(view.sizes.begin(), view.sizes.end()), strides(view.strides.begin(), view.strides.end());
  if (view.strides.empty()) strides = contiguous_strides(sizes);
  if (!storage) storage = std::shared_ptr<void>(&nothing, [](void*) {});
  return Tensor(view.dtype, std::move(sizes), std::move(strides), std::move(storage), view.data);
}

DLManagedTensorVersioned* managed(Tensor tensor) {
  auto m = std::make_unique<Managed>();
  m->tensor = std::move(tensor);
  const Tensor& t = m->tensor;
  const DTypeRow& row = dtypes[static_cast<size_t>(t.dtype())];
  m->shown = {.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION},
              .manager_ctx = m.get(),
              .deleter = [](DLManagedTensorVersioned* self) { delete static_cast<Managed*>(self->manager_ctx); },
              .flags = 0,
              .dl_tensor = {.data = t.data(),
                            .device = {kDLCPU, 0},
                            .ndim = static_cast<int32_t>(t.rank()),
                            .dtype = {row.code, row.bits, 1},
                            .shape = const_cast<int64_t*>(t.sizes().data()),
                            .strides = const_cast<int64_t*>(t.strides().data()),
                            .byte_offset = 0}};
  return &m.release()->shown;
}

Views::Views(size_t count) {
  if (count > few_.size()) many_.resize(count);
  views_ = {count > few_.size() ? many_.data() : few_.data(), count};
}

Views::Views(const DLTensor* const* tensors, size_t count, const char* what, bool with_data) : Views(count) {
  if (count > 0) need(tensors, what);
  for (size_t i = 0; i < count; i++) views_[i] = view_of(tensors[i], std::string(what) + " " + std::to_string(i), with_data);
}

} // namespace tenon::capi

using namespace tenon::capi;

int32_t tenon_dtype_to_dlpack(int32_t dtype, DLDataType* out, tenon_error** error) {
  return guarded(error, [&] {
    need(out, "out");
    if (dtype < 0 || dtype >= tenon::num_dtypes) refuse("there is no dtype " + std::to_string(dtype));
    *out = {dtypes[dtype].code, dtypes[dtype].bits, 1};
  });
}
int32_t tenon_dtype_from_dlpack(const DLDataType* dtype, int32_t* out, tenon_error** error) {
  return guarded(error, [&] {
    need(out, "out");
    *out = static_cast<int32_t>(dtype_of(*need(dtype, "dtype")));
  });
}
const char* tenon_dtype_name(int32_t dtype) {
  if (dtype < 0 || dtype >= tenon::num_dtypes) return nullptr;
  return tenon::name_of(static_cast<tenon::DType>(dtype)).data(); // of a literal, which ends in 0
}

size_t tenon_tensors_count(const tenon_tensors* tensors) { return tensors ? tensors->tensors.size() : 0; }
const char* tenon_tensors_name(const tenon_tensors* tensors, size_t i) {
  return i < tenon_tensors_count(tensors) ? tensors->tensors[i].name.c_str() : nullptr;
}
int32_t tenon_tensors_get(const tenon_tensors* tensors, size_t i, DLManagedTensorVersioned** out, tenon_error** error) {
  return guarded(error, [&] {
    need(out, "out");
    if (i >= need(tensors, "tensors")->tensors.size()) refuse("there is no tensor " + std::to_string(i));
    *out = managed(tensors->tensors[i].tensor);
  });
}
void tenon_tensors_free(tenon_tensors* tensors) { delete tensors; }
