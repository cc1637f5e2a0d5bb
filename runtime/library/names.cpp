// The library steps by their names.
#include "runtime/library_names.h"

#include <algorithm>

#include "runtime/collective_steps.h"
#include "runtime/library_steps.h"

namespace tenon::library {

namespace {

struct Named {
  std::string_view name;
  LibraryFn step;
};

#define STEP(name) {#name, name}
constexpr Named steps[] = {
    STEP(sort),
    STEP(topk),
    STEP(kthvalue),
    STEP(median),
    STEP(mode),
    STEP(cumulate),
    STEP(logcumsumexp),
    STEP(cummax),
    STEP(cummin),
    STEP(scatter),
    STEP(index_put),
    STEP(masked_scatter),
    STEP(nonzero),
    STEP(nonzero_static),
    STEP(masked_select),
    STEP(repeat_interleave),
    STEP(unique),
    STEP(unique_dim),
    STEP(searchsorted),
    STEP(isin),
    STEP(hash_tensor),
    STEP(bincount),
    STEP(histc),
    STEP(histogram_counts),
    STEP(histogram_edges),
    STEP(pack_quantized_weight),
    STEP(quantized_weight_mm),
    STEP(embedding_bag),
    STEP(embedding_renorm),
    STEP(segment_reduce),
    STEP(random_uniform),
    STEP(random_normal),
    STEP(random_integers),
    STEP(random_permutation),
    STEP(random_poisson),
    STEP(random_binomial),
    STEP(multinomial),
    STEP(complex_of_parts),
    STEP(complex_part),
    STEP(view_as_real),
    STEP(fft),
    STEP(stft),
    STEP(linalg_check),
    STEP(linalg_lu_factor),
    STEP(linalg_lu_solve),
    STEP(linalg_lu_unpack),
    STEP(linalg_cholesky),
    STEP(linalg_solve_triangular),
    STEP(linalg_geqrf),
    STEP(linalg_householder_product),
    STEP(linalg_ormqr),
    STEP(linalg_ldl_factor),
    STEP(linalg_ldl_solve),
    STEP(linalg_matrix_exp),
    STEP(linalg_eigh),
    STEP(linalg_eig),
    STEP(linalg_svd),
    STEP(linalg_lstsq),
    STEP(nms),
    STEP(roi_align),
    STEP(deform_conv2d),
    STEP(conv_weight_gradient),
    STEP(all_reduce),
    STEP(all_gather),
    STEP(reduce_scatter),
    STEP(broadcast),
    STEP(all_to_all),
    STEP(wait_tensor),
};
#undef STEP

} // namespace

std::string_view name_of(LibraryFn step) noexcept {
  auto at = std::find_if(std::begin(steps), std::end(steps), [&](const Named& s) { return s.step == step; });
  return at == std::end(steps) ? std::string_view() : at->name;
}

LibraryFn find(std::string_view name) noexcept {
  auto at = std::find_if(std::begin(steps), std::end(steps), [&](const Named& s) { return s.name == name; });
  return at == std::end(steps) ? nullptr : at->step;
}

} // namespace tenon::library
