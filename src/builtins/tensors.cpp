// What is asked of tensors without computing on them: sizes, types, elements; and tensors of numbers and lists.
#include <algorithm>
#include <cfloat>
#include <cstring>

#include "base/numeric.h"
#include "base/strided.h"
#include "builtins/arithmetic.h"
#include "builtins/elements.h"

namespace tenon::builtins {

namespace {

using Int = int64_t;

size_t dim_of(const Tensor& t, Int dim) {
  Int rank = static_cast<Int>(t.rank());
  if (rank == 0) raise("", fmt::format("Dimension specified as {} but tensor has no dimensions", dim));
  if (dim < -rank || dim >= rank)
    raise("IndexError", fmt::format("Dimension out of range (expected to be in range of [{}, {}], but got {})", -rank, rank - 1, dim));
  return static_cast<size_t>(dim < 0 ? dim + rank : dim);
}
Int first_size(const Tensor& t) {
  if (t.rank() == 0) raise("", "len() of a 0-d tensor");
  return t.sizes()[0];
}
Int element_size(const Tensor& t) { return static_cast<Int>(size_of(t.dtype())); }
Int storage_offset(const Tensor& t) { return (t.data_as<char>() - static_cast<char*>(t.storage().get())) / element_size(t); }
/// Formats have torch's numbers: 0 row-major, 2 channels last of images, 3 of volumes.
bool is_contiguous_as(const Tensor& t, Int format) {
  if (format == 0) return t.is_contiguous();
  if (format != 2 && format != 3) raise("", "is_contiguous takes a format of its own");
  size_t rank = format == 2 ? 4 : 5;
  if (t.rank() != rank) return false;
  Int expected = 1;
  for (size_t k = 0; k < rank; k++) { // channels, then the other dims from the last to the batch
    size_t d = k == 0 ? 1 : k + 1 == rank ? 0 : rank - k;
    if (t.sizes()[d] != 1 && t.strides()[d] != expected) return false;
    expected *= t.sizes()[d];
  }
  return true;
}
/// Whether the dims, sorted by stride, are those of contiguous memory.
bool is_dense(const Tensor& t) {
  std::vector<std::pair<Int, Int>> dims;
  for (size_t d = 0; d < t.rank(); d++)
    if (t.sizes()[d] != 1) dims.emplace_back(t.strides()[d], t.sizes()[d]);
  std::ranges::sort(dims);
  Int expected = 1;
  for (auto [stride, size] : dims) {
    if (stride != expected) return t.numel() == 0;
    expected *= size;
  }
  return true;
}

void check_device(const IValue& device) {
  if (!device.is_none() && !device.to_device().starts_with("cpu")) unsupported("tensors on device {}", device.to_device());
}

IValue with_grad(Tensor t, bool requires_grad) {
  bool may = is_float(t.dtype()) || is_complex(t.dtype());
  if (requires_grad && !may) raise("", "Only Tensors of floating point and complex dtype can require gradients");
  IValue v(std::move(t));
  v.tensor_box().requires_grad = requires_grad;
  return v;
}

DType dtype_of_number(const IValue& v) {
  using Tag = IValue::Tag;
  switch (v.tag()) {
  case Tag::Bool: return DType::Bool;
  case Tag::Int: return DType::I64;
  case Tag::Double: return DType::F32;
  case Tag::Complex: return DType::C64;
  default: raise("", fmt::format("Input must be of ints, floats, or bools, got {}", annotation(type_of(v))));
  }
}

void store(const IValue& v, DType dtype, char* p) {
  Complex c = v.is(IValue::Tag::Complex) ? v.to_complex() : Complex(v.is(IValue::Tag::Int) ? 0 : v.number());
  dispatch(dtype, [&](auto zero) {
    using T = decltype(zero);
    T element = v.is(IValue::Tag::Int) ? convert<T>(v.to_int()) : convert<T>(C128{c.real(), c.imag()});
    std::memcpy(p, &element, sizeof element);
  });
}

void check_fits(double d, std::string_view type) {
  if (std::isfinite(d) && std::fabs(d) > FLT_MAX) raise("", fmt::format("value cannot be converted to type {} without overflow", type));
}

/// What torch.tensor makes of a number: floats become f32, whatever dtype is asked for afterwards, and must fit.
Tensor tensor_of_number(const IValue& v) {
  Tensor t(dtype_of_number(v), {});
  if (v.is(IValue::Tag::Double)) check_fits(v.to_double(), "float");
  if (v.is(IValue::Tag::Complex))
    check_fits(v.to_complex().real(), "c10::complex<float>"), check_fits(v.to_complex().imag(), "c10::complex<float>");
  store(v, t.dtype(), t.data_as<char>());
  return t;
}

/// Of the elements that an empty list would have.
DType dtype_of_kind(TypeKind kind) {
  switch (kind) {
  case TypeKind::Bool: return DType::Bool;
  case TypeKind::Int: return DType::I64;
  case TypeKind::Complex: return DType::C64;
  default: return DType::F32;
  }
}

/// Elements of nested lists in row-major order; all lists of a dim are as long as its first.
void fill(const IValue& v, const std::vector<Int>& sizes, size_t dim, DType dtype, char*& p) {
  if (dim == sizes.size()) {
    if (DType other = dtype_of_number(v); other != dtype)
      raise("", fmt::format("Add new condition, expected Float, Complex, Int, or Bool but got{}",
                            to_string(Type::any_of({type_of(v), Type::simple(dtype == DType::F32   ? TypeKind::Float
                                                                             : dtype == DType::I64 ? TypeKind::Int
                                                                                                   : TypeKind::Bool)}))));
    store(v, dtype, p);
    p += size_of(dtype);
    return;
  }
  const List& list = v.to_list();
  if (std::ssize(list) != sizes[dim])
    raise("", fmt::format("Expected sequence of length {} at dim {} (got {})", sizes[dim], dim, list.size()));
  for (auto& e : list) fill(e, sizes, dim + 1, dtype, p);
}
Tensor tensor_of_list(const IValue& v) {
  std::vector<Int> sizes;
  const IValue* e = &v;
  while (e->is(IValue::Tag::List)) {
    const List& list = e->to_list();
    sizes.push_back(std::ssize(list));
    if (list.empty()) break;
    e = &list[0];
  }
  Tensor t(e->is(IValue::Tag::List) ? dtype_of_kind(e->list_box().element) : dtype_of_number(*e), sizes);
  char* p = t.data_as<char>();
  if (t.numel() > 0) fill(v, sizes, 0, t.dtype(), p);
  return t;
}
Tensor cast(Tensor t, const std::optional<Int>& dtype, const IValue& device) {
  check_device(device);
  return dtype ? converted(t, dtype_of_code(*dtype)) : t;
}

IValue make_tensor(const IValue& data, std::optional<Int> dtype, IValue& device, bool requires_grad) {
  return with_grad(cast(data.is(IValue::Tag::List) ? tensor_of_list(data) : tensor_of_number(data), dtype, device), requires_grad);
}
IValue as_tensor(IValue& data, std::optional<Int> dtype, IValue& device) {
  if (!data.is(IValue::Tag::Tensor)) return make_tensor(data, dtype, device, false);
  check_device(device);
  return dtype && dtype_of_code(*dtype) != data.to_tensor().dtype() ? IValue(converted(data.to_tensor(), dtype_of_code(*dtype))) : data;
}
/// The tensor itself where nothing changes, unless a copy is asked for.
IValue moved(IValue& t, std::optional<Int> dtype, bool copy) {
  DType to = dtype ? dtype_of_code(*dtype) : t.to_tensor().dtype();
  if (to != t.to_tensor().dtype()) return converted(t.to_tensor(), to);
  if (!copy) return t;
  Tensor fresh(to, t.to_tensor().sizes());
  copy_strided(t.to_tensor().view(), fresh.data());
  return fresh;
}

/// The dtypes that tolist gives as int, float, bool and complex.
bool is_listed_as(DType dtype, Int kind) {
  if (kind == 0) return dtype == DType::I64;
  if (kind == 1) return dtype == DType::F32 || dtype == DType::F64;
  return kind == 2 ? dtype == DType::Bool : is_complex(dtype);
}
IValue nested(const Tensor& t, size_t dim, const char* p) {
  if (dim == t.rank()) return load_element(p, t.dtype());
  List list;
  for (Int i = 0; i < t.sizes()[dim]; i++) list.push_back(nested(t, dim + 1, p + i * t.strides()[dim] * element_size(t)));
  return IValue::list(std::move(list));
}
/// `dim` and `kind` are those of the type that the program annotates: int 0, float 1, bool 2, complex 3.
IValue to_list(Tensor& t, Int dim, Int kind) {
  if (dim != static_cast<Int>(t.rank())) raise("", "Output annotation list dimension and runtime tensor dimension must match for tolist()");
  if (!is_listed_as(t.dtype(), kind))
    raise("", fmt::format("Output annotation element type and runtime tensor element type must match for tolist(): {} vs {}",
                          std::array{"Long", "Double", "Bool", "ComplexDouble"}[static_cast<size_t>(kind)], torch_name(t.dtype())));
  return nested(t, 0, t.data_as<char>());
}

std::vector<Int> ints_of(Tensor& t) {
  size_t dim = dim_of(t, 0);
  if (t.dtype() != DType::I32) raise("", fmt::format("expected scalar type Int but found {}", torch_name(t.dtype())));
  std::vector<Int> list;
  for (Int i = 0; i < t.sizes()[dim] && t.numel() > 0; i++) list.push_back(t.data_as<int32_t>()[i * t.strides()[dim]]);
  return list;
}
Tensor tensor_of_ints(List& list) {
  Tensor t(DType::I32, {std::ssize(list)});
  for (size_t i = 0; i < list.size(); i++) {
    t.data_as<int32_t>()[i] = static_cast<int32_t>(list[i].to_int());
    if (t.data_as<int32_t>()[i] != list[i].to_int()) raise("", "value cannot be converted to type int without overflow");
  }
  return t;
}

/// As numbers of the program become tensors: floats of 64 bits.
Tensor number_to_tensor(IValue& v) {
  bool wide = v.is(IValue::Tag::Double) || v.is(IValue::Tag::Complex);
  Tensor t(wide ? v.is(IValue::Tag::Double) ? DType::F64 : DType::C128 : dtype_of_number(v), {});
  store(v, t.dtype(), t.data_as<char>());
  return t;
}

Rows attribute_rows() {
  auto sizes = op([](Tensor& t) { return t.sizes(); }), strides = op([](Tensor& t) { return t.strides(); });
  return {
      {"aten::len.Tensor(Tensor t) -> int", op([](Tensor& t) { return first_size(t); })},
      {"aten::size.int(Tensor self, int dim) -> int", op([](Tensor& t, Int dim) { return t.sizes()[dim_of(t, dim)]; })},
      {"aten::size(Tensor self) -> int[]", sizes},
      {"aten::sym_size(Tensor self) -> SymInt[]", sizes},
      {"aten::stride.int(Tensor self, int dim) -> int", op([](Tensor& t, Int dim) { return t.strides()[dim_of(t, dim)]; })},
      {"aten::stride(Tensor self) -> int[]", strides},
      {"aten::sym_stride(Tensor self) -> SymInt[]", strides},
      {"aten::dim(Tensor self) -> int", op([](Tensor& t) { return static_cast<Int>(t.rank()); })},
      {"aten::numel(Tensor self) -> int", op([](Tensor& t) { return t.numel(); })},
      {"aten::element_size(Tensor self) -> int", op([](Tensor& t) { return element_size(t); })},
      {"prim::itemsize(Tensor a) -> int", op([](Tensor& t) { return element_size(t); })},
      {"prim::nbytes(Tensor a) -> int", op([](Tensor& t) { return t.numel() * element_size(t); })},
      {"aten::storage_offset(Tensor self) -> int", op([](Tensor& t) { return storage_offset(t); })},
      {"aten::is_contiguous(Tensor self) -> bool", op([](Tensor& t) { return t.is_contiguous(); })},
      {"aten::is_contiguous.memory_format(Tensor self, MemoryFormat memory_format) -> bool", of<is_contiguous_as>},
      {"aten::get_device(Tensor self) -> int", op([](Tensor&) { return Int{-1}; })}, // none: the processor
      {"aten::is_conj(Tensor self) -> bool", op([](Tensor&) { return false; })},
      {"aten::is_neg(Tensor self) -> bool", op([](Tensor&) { return false; })},
      {"aten::is_non_overlapping_and_dense(Tensor self) -> bool", op([](Tensor& t) { return is_dense(t); })},
      {"aten::is_floating_point(Tensor self) -> bool", op([](Tensor& t) { return is_float(t.dtype()) || is_float8(t.dtype()); })},
      {"aten::is_complex(Tensor self) -> bool", op([](Tensor& t) { return is_complex(t.dtype()); })},
      {"aten::is_signed(Tensor self) -> bool", op([](Tensor& t) { return t.dtype() != DType::Bool && !is_unsigned(t.dtype()); })},
      {"aten::is_nonzero(Tensor self) -> bool", op([](Tensor& t) { return is_true(t); })},
      {"aten::item(Tensor self) -> Scalar", op([](Tensor& t) { return item(t); })},
      {"prim::dtype(Tensor a) -> int", op([](Tensor& t) { return code_of_dtype(t.dtype()); })},
      {"prim::layout(Tensor a) -> Layout", op([](Tensor&) { return Int{0}; })}, // strided
      {"prim::device(Tensor a) -> Device", op([](Tensor&) { return IValue("cpu", IValue::Tag::Device); })},
      {"prim::requires_grad(Tensor a) -> bool", op([](IValue& t) { return t.tensor_box().requires_grad; })},
      {"prim::data(Tensor(a) a) -> Tensor(a)", op([](Tensor& t) { return Tensor(t); }), "none"},
      {"prim::name(Tensor a) -> str?", op([](Tensor&) { return IValue(); })},
      {"prim::is_cpu(Tensor a) -> bool", op([](Tensor&) { return true; })},
  };
}

Rows made_rows() {
  static constexpr std::string_view cast = "self: cast_back(grad, self_dtype, result_dtype)";
  return {
      // Graphs of torch's modules have these in branches that are seldom taken.
      {"aten::_upsample_lanczos2d_aa.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor",
       [](BuiltinCall&) { unsupported("interpolate: mode lanczos"); }},
      {"aten::_native_multi_head_attention(Tensor query, Tensor key, Tensor value, int embed_dim, int num_head, Tensor qkv_weight, Tensor "
       "qkv_bias, Tensor proj_weight, Tensor proj_bias, Tensor? mask=None, bool need_weights=True, bool average_attn_weights=True, int? "
       "mask_type=None) -> (Tensor, Tensor)",
       [](BuiltinCall&) { unsupported("aten::_native_multi_head_attention"); }},
      {"aten::_transformer_encoder_layer_fwd(Tensor src, int embed_dim, int num_heads, Tensor qkv_weight, Tensor qkv_bias, Tensor "
       "proj_weight, Tensor proj_bias, bool use_gelu, bool norm_first, float eps, Tensor norm_weight_1, Tensor norm_bias_1, Tensor "
       "norm_weight_2, Tensor norm_bias_2, Tensor ffn_weight_1, Tensor ffn_bias_1, Tensor ffn_weight_2, Tensor ffn_bias_2, Tensor? "
       "mask=None, int? mask_type=None) -> Tensor",
       [](BuiltinCall&) { unsupported("aten::_transformer_encoder_layer_fwd"); }},
      {"aten::tensor(t[] data, *, ScalarType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor", of<make_tensor>},
      {"aten::as_tensor(Tensor(a) data, *, ScalarType? dtype=None, Device? device=None) -> Tensor(b|a)", of<as_tensor>,
       "data: cast_back(grad, data_dtype, result_dtype)"},
      {"aten::as_tensor.list(t[] data, *, ScalarType? dtype=None, Device? device=None) -> Tensor", of<as_tensor>},
      {"prim::NumToTensor.Scalar(Scalar a) -> Tensor", of<number_to_tensor>},
      {"prim::NumToTensor.bool(bool a) -> Tensor", of<number_to_tensor>},
      {"prim::tolist(...) -> ...", of<to_list>},
      {"aten::_tensor_to_list(Tensor self) -> int[]", of<ints_of>},
      {"aten::_list_to_tensor(int[] self) -> Tensor", of<tensor_of_ints>},
      {"aten::cpu(Tensor(a) self) -> Tensor(b|a)", op([](IValue& t) { return t; }), "self: grad"},
      {"aten::to.prim_Device(Tensor(a) self, Device? device, int? dtype=None, bool non_blocking=False, bool copy=False) -> Tensor(b|a)",
       op([](IValue& t, IValue& device, std::optional<Int> dtype, bool, bool copy) { return check_device(device), moved(t, dtype, copy); }),
       cast},
      {"aten::to.prim_dtype(Tensor(a) self, int? dtype=None, bool non_blocking=False, bool copy=False) -> Tensor(b|a)",
       op([](IValue& t, std::optional<Int> dtype, bool, bool copy) { return moved(t, dtype, copy); }), cast},
      {"aten::to.prim_other(Tensor(a) self, bool non_blocking=False, bool copy=False) -> Tensor(b|a)",
       op([](IValue& t, bool, bool copy) { return moved(t, {}, copy); }), cast},
  };
}

Rows make_tensor_rows() {
  Rows rows = attribute_rows();
  for (std::string_view other :
       {"cuda", "xpu", "quantized", "ipu", "meta", "nested", "maia", "vulkan", "mps", "mkldnn", "sparse_csr", "xla", "sparse", "mtia"})
    rows.push_back({with_kind("prim::is_@(Tensor a) -> bool", other), op([](Tensor&) { return false; })});
  for (std::string_view kind : {"bool", "float", "int", "complex"}) {
    rows.push_back(
        {with_kind("aten::tensor.@(@ t, *, ScalarType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor", kind),
         of<make_tensor>});
    rows.push_back({with_kind("aten::as_tensor.@(@ t, *, ScalarType? dtype=None, Device? device=None) -> Tensor", kind), of<as_tensor>});
  }
  add_rows(rows, made_rows());
  return rows;
}

} // namespace

std::span<const BuiltinRow> tensor_rows() {
  static const Rows rows = make_tensor_rows();
  return rows;
}

} // namespace tenon::builtins
