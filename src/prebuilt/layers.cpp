#include "prebuilt/layers.h"

#include "prebuilt/layer.h"

namespace tenon {

std::vector<LoadedProgram> prebuilt_layers() {
  std::vector<LoadedProgram> out;
  add_products(out);
  add_norms(out);
  add_softmaxes(out);
  add_residual_blocks(out);
  add_inverted_residuals(out);
  add_pooled_stages(out);
  add_wide_blocks(out);
  add_attention(out);
  add_transformers(out);
  return out;
}

} // namespace tenon
