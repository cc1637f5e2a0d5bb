// The operators that autocast on a CPU converts: to the lower dtype, to f32, or to the widest among their operands.
#include "fx/autocast.h"

#include <algorithm>
#include <cctype>

namespace tenon {

namespace {

constexpr std::string_view lowered[] = {"_addmm_activation",
                                        "_convolution",
                                        "_native_multi_head_attention",
                                        "addbmm",
                                        "addmm",
                                        "baddbmm",
                                        "bmm",
                                        "chain_matmul",
                                        "conv1d",
                                        "conv2d",
                                        "conv3d",
                                        "conv_tbc",
                                        "conv_transpose1d",
                                        "conv_transpose2d",
                                        "conv_transpose3d",
                                        "inner",
                                        "linalg_multi_dot",
                                        "linalg_vecdot",
                                        "linear",
                                        "matmul",
                                        "mkldnn_rnn_layer",
                                        "mm",
                                        "prelu",
                                        "scaled_dot_product_attention",
                                        "tensordot"};
constexpr std::string_view widened[] = {"cat", "index_copy", "stack"};
constexpr std::string_view raised[] = {"_lu_with_info",
                                       "adaptive_avg_pool3d",
                                       "adaptive_max_pool3d",
                                       "avg_pool3d",
                                       "binary_cross_entropy",
                                       "binary_cross_entropy_with_logits",
                                       "cdist",
                                       "cholesky_inverse",
                                       "cholesky_solve",
                                       "cosine_embedding_loss",
                                       "cross_entropy_loss",
                                       "ctc_loss",
                                       "fake_quantize_per_tensor_affine",
                                       "fft_fft",
                                       "fft_fft2",
                                       "fft_fftn",
                                       "fft_hfft",
                                       "fft_ifft",
                                       "fft_ifft2",
                                       "fft_ifftn",
                                       "fft_ihfft",
                                       "fft_irfft",
                                       "fft_irfft2",
                                       "fft_irfftn",
                                       "fft_rfft",
                                       "fft_rfft2",
                                       "fft_rfftn",
                                       "fractional_max_pool2d",
                                       "fractional_max_pool3d",
                                       "geqrf",
                                       "grid_sampler",
                                       "grid_sampler_2d",
                                       "grid_sampler_3d",
                                       "hinge_embedding_loss",
                                       "huber_loss",
                                       "inverse",
                                       "kl_div",
                                       "l1_loss",
                                       "linalg_cholesky",
                                       "linalg_cholesky_ex",
                                       "linalg_cond",
                                       "linalg_eig",
                                       "linalg_eigh",
                                       "linalg_eigvals",
                                       "linalg_eigvalsh",
                                       "linalg_householder_product",
                                       "linalg_inv",
                                       "linalg_inv_ex",
                                       "linalg_lstsq",
                                       "linalg_matrix_rank",
                                       "linalg_qr",
                                       "linalg_solve",
                                       "linalg_svd",
                                       "linalg_svdvals",
                                       "linalg_tensorinv",
                                       "linalg_tensorsolve",
                                       "lu_solve",
                                       "margin_ranking_loss",
                                       "max_pool3d",
                                       "max_unpool2d",
                                       "max_unpool3d",
                                       "mse_loss",
                                       "multi_margin_loss",
                                       "multilabel_margin_loss",
                                       "multilabel_margin_loss_forward",
                                       "nanquantile",
                                       "nll_loss",
                                       "nll_loss2d",
                                       "orgqr",
                                       "ormqr",
                                       "pinverse",
                                       "poisson_nll_loss",
                                       "polar",
                                       "prod",
                                       "quantile",
                                       "reflection_pad1d",
                                       "reflection_pad2d",
                                       "replication_pad1d",
                                       "replication_pad2d",
                                       "replication_pad3d",
                                       "smooth_l1_loss",
                                       "soft_margin_loss",
                                       "stft",
                                       "svd",
                                       "trace",
                                       "triangular_solve",
                                       "triplet_margin_loss",
                                       "view_as_complex"};

// Whether a matrix product takes part: some label of two operands is summed.
bool contracts(const ArgList& args) {
  if (args.empty() || !args[0].is<std::string>()) return false;
  const std::string& equation = args[0].get<std::string>();
  size_t arrow = equation.find("->");
  std::string_view inputs = std::string_view(equation).substr(0, arrow),
                   output = arrow == equation.npos ? "" : std::string_view(equation).substr(arrow);
  return std::any_of(inputs.begin(), inputs.end(), [&](char c) {
    return std::isalpha(static_cast<unsigned char>(c)) && output.find(c) == output.npos && inputs.find(c) < inputs.rfind(',') &&
           inputs.rfind(c) > inputs.find(',', inputs.find(c));
  });
}

bool any_f32(const Graph& g, const ArgList& args) {
  bool found = false;
  for (const Arg& a : args) for_each_value(a, [&](ValueId v) { found |= g.type(v).is_tensor() && g.type(v).dtype == DType::F32; });
  return found;
}

} // namespace

std::optional<DType> autocast_type(std::string_view op, DType lower, const Graph& graph, const ArgList& args) {
  if (!op.starts_with("aten::")) return std::nullopt;
  op.remove_prefix(6);
  op = op.substr(0, op.find('.'));
  auto among = [&](auto& names) { return std::find(std::begin(names), std::end(names), op) != std::end(names); };
  if (among(lowered) || (op == "einsum" && contracts(args))) return lower;
  if (among(raised)) return DType::F32;
  if (among(widened)) return any_f32(graph, args) ? DType::F32 : lower;
  return std::nullopt;
}

} // namespace tenon
