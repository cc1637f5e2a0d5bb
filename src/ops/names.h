// Ids of the operators that stages know by name. What an operator is and does says its row; a stage that makes or matches one names it by
// these: the overload follows the name but for the default one.
#pragma once
#include "ir/op_id.h"

namespace tenon::aten {
inline const OpId _batch_norm_with_update = "aten::_batch_norm_with_update.default";
inline const OpId _make_dual = "aten::_make_dual.default";
inline const OpId _native_batch_norm_legit = "aten::_native_batch_norm_legit.default";
inline const OpId _native_batch_norm_legit_functional = "aten::_native_batch_norm_legit_functional.default";
inline const OpId _to_copy = "aten::_to_copy.default";
inline const OpId _unpack_dual = "aten::_unpack_dual.default";
inline const OpId add_Tensor = "aten::add.Tensor";
inline const OpId alias = "aten::alias.default";
inline const OpId arange_start_step = "aten::arange.start_step";
inline const OpId batch_norm = "aten::batch_norm.default";
inline const OpId bmm_dtype = "aten::bmm.dtype";
inline const OpId complex = "aten::complex.default";
inline const OpId constant_pad_nd = "aten::constant_pad_nd.default";
inline const OpId convolution = "aten::convolution.default";
inline const OpId convolution_dtype = "aten::convolution.dtype";
inline const OpId copy = "aten::copy.default";
inline const OpId copy_ = "aten::copy_.default";
inline const OpId diagonal = "aten::diagonal.default";
inline const OpId div_Tensor = "aten::div.Tensor";
inline const OpId embedding = "aten::embedding.default";
inline const OpId expand = "aten::expand.default";
inline const OpId fill_Scalar = "aten::fill.Scalar";
inline const OpId fill_Tensor = "aten::fill.Tensor";
inline const OpId flip = "aten::flip.default";
inline const OpId full = "aten::full.default";
inline const OpId imag = "aten::imag.default";
inline const OpId matmul = "aten::matmul.default";
inline const OpId mean_dim = "aten::mean.dim";
inline const OpId mm_dtype = "aten::mm.dtype";
inline const OpId movedim_int = "aten::movedim.int";
inline const OpId mul_Tensor = "aten::mul.Tensor";
inline const OpId native_batch_norm = "aten::native_batch_norm.default";
inline const OpId neg = "aten::neg.default";
inline const OpId permute = "aten::permute.default";
inline const OpId real = "aten::real.default";
inline const OpId resize_ = "aten::resize_.default";
inline const OpId resize_as_ = "aten::resize_as_.default";
inline const OpId select_int = "aten::select.int";
inline const OpId slice_Tensor = "aten::slice.Tensor";
inline const OpId squeeze_dims = "aten::squeeze.dims";
inline const OpId sub_Tensor = "aten::sub.Tensor";
inline const OpId sum_dim_IntList = "aten::sum.dim_IntList";
inline const OpId to_dtype = "aten::to.dtype";
inline const OpId unsqueeze = "aten::unsqueeze.default";
inline const OpId view = "aten::view.default";
inline const OpId where_self = "aten::where.self";
inline const OpId zero = "aten::zero.default";
} // namespace tenon::aten

namespace tenon::edge {
inline const OpId _embedding_bag = "edge::_embedding_bag.default";
inline const OpId _embedding_bag_forward_only = "edge::_embedding_bag_forward_only.default";
inline const OpId _pad_circular = "edge::_pad_circular.default";
inline const OpId _to_copy = "edge::_to_copy.default";
inline const OpId add_Tensor = "edge::add.Tensor";
inline const OpId amax = "edge::amax.default";
inline const OpId amin = "edge::amin.default";
inline const OpId arange_start_step = "edge::arange.start_step";
inline const OpId argmax = "edge::argmax.default";
inline const OpId argmin = "edge::argmin.default";
inline const OpId as_strided = "edge::as_strided.default";
inline const OpId bitwise_and_Tensor = "edge::bitwise_and.Tensor";
inline const OpId bitwise_not = "edge::bitwise_not.default";
inline const OpId bitwise_right_shift_Tensor = "edge::bitwise_right_shift.Tensor";
inline const OpId bmm = "edge::bmm.default";
inline const OpId bmm_dtype = "edge::bmm.dtype";
inline const OpId cat = "edge::cat.default";
inline const OpId col2im = "edge::col2im.default";
inline const OpId complex = "edge::complex.default";
inline const OpId constant_pad_nd = "edge::constant_pad_nd.default";
inline const OpId convolution = "edge::convolution.default";
inline const OpId convolution_dtype = "edge::convolution.dtype";
inline const OpId diagonal_scatter = "edge::diagonal_scatter.default";
inline const OpId div_Tensor = "edge::div.Tensor";
inline const OpId exp = "edge::exp.default";
inline const OpId expand = "edge::expand.default";
inline const OpId full = "edge::full.default";
inline const OpId logical_not = "edge::logical_not.default";
inline const OpId mm = "edge::mm.default";
inline const OpId mm_dtype = "edge::mm.dtype";
inline const OpId mul_Tensor = "edge::mul.Tensor";
inline const OpId narrow = "edge::narrow.default";
inline const OpId neg = "edge::neg.default";
inline const OpId permute = "edge::permute.default";
inline const OpId reflection_pad1d = "edge::reflection_pad1d.default";
inline const OpId reflection_pad2d = "edge::reflection_pad2d.default";
inline const OpId reflection_pad3d = "edge::reflection_pad3d.default";
inline const OpId replication_pad1d = "edge::replication_pad1d.default";
inline const OpId replication_pad2d = "edge::replication_pad2d.default";
inline const OpId replication_pad3d = "edge::replication_pad3d.default";
inline const OpId select_int = "edge::select.int";
inline const OpId select_scatter = "edge::select_scatter.default";
inline const OpId slice_Tensor = "edge::slice.Tensor";
inline const OpId slice_scatter = "edge::slice_scatter.default";
inline const OpId squeeze_dims = "edge::squeeze.dims";
inline const OpId sub_Tensor = "edge::sub.Tensor";
inline const OpId unfold = "edge::unfold.default";
inline const OpId unsqueeze = "edge::unsqueeze.default";
inline const OpId view = "edge::view.default";
inline const OpId view_as_real = "edge::view_as_real.default";
inline const OpId where_self = "edge::where.self";
} // namespace tenon::edge

namespace tenon::prim {
inline const OpId Assert = "prim::Assert";
inline const OpId Constant = "prim::Constant";
inline const OpId Delegate = "prim::Delegate";
inline const OpId If = "prim::If";
inline const OpId Item = "prim::Item";
inline const OpId Print = "prim::Print";
inline const OpId Scan = "prim::Scan";
inline const OpId While = "prim::While";
} // namespace tenon::prim

// Those that no other library has.
namespace tenon::own {
inline const OpId amax_or_lowest = "tenon::amax_or_lowest.default";
inline const OpId as_complex = "tenon::as_complex.default";
inline const OpId join = "tenon::join";
inline const OpId pack_quantized_weight = "tenon::pack_quantized_weight.default";
inline const OpId quantized_weight_mm = "tenon::quantized_weight_mm.default";
inline const OpId resample_cubic = "tenon::resample_cubic.default";
inline const OpId resample_linear = "tenon::resample_linear.default";
inline const OpId resample_nearest = "tenon::resample_nearest.default";
inline const OpId resample_nearest_exact = "tenon::resample_nearest_exact.default";
inline const OpId to_layout = "tenon::to_layout";
} // namespace tenon::own

// ---- without rows

// Of sizes, numbers and checks in exported programs: they become expressions, and nodes of prim.
namespace tenon::aten {
inline const OpId _assert_async = "aten::_assert_async.default";
inline const OpId _assert_async_msg = "aten::_assert_async.msg";
inline const OpId _assert_scalar = "aten::_assert_scalar.default";
inline const OpId _assert_tensor_metadata = "aten::_assert_tensor_metadata.default";
inline const OpId _local_scalar_dense = "aten::_local_scalar_dense.default";
inline const OpId can_cast = "aten::can_cast.default";
inline const OpId item = "aten::item.default";
inline const OpId promote_types = "aten::promote_types.default";
inline const OpId result_type_Scalar = "aten::result_type.Scalar";
inline const OpId result_type_Scalar_Scalar = "aten::result_type.Scalar_Scalar";
inline const OpId result_type_Scalar_Tensor = "aten::result_type.Scalar_Tensor";
inline const OpId result_type_Tensor = "aten::result_type.Tensor";
inline const OpId sym_constrain_range = "aten::sym_constrain_range.default";
inline const OpId sym_constrain_range_for_size = "aten::sym_constrain_range_for_size.default";
inline const OpId sym_numel = "aten::sym_numel.default";
inline const OpId sym_size_int = "aten::sym_size.int";
inline const OpId sym_storage_offset = "aten::sym_storage_offset.default";
inline const OpId sym_stride_int = "aten::sym_stride.int";
} // namespace tenon::aten

// Parameters and returns of a block, for those who look for a node.
namespace tenon::prim {
inline const OpId Param = "prim::Param";
inline const OpId Return = "prim::Return";
} // namespace tenon::prim

// Regions of a Backend graph.
namespace tenon::own {
inline const OpId attention = "tenon::attention";
inline const OpId conv = "tenon::conv";
inline const OpId loops = "tenon::loops";
inline const OpId matmul = "tenon::matmul";
} // namespace tenon::own
