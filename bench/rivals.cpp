// oneDNN, if the build found it.
#include "bench/rivals.h"

#include <vector>

#ifdef HAVE_ONEDNN
#include <omp.h>
#include <oneapi/dnnl/dnnl.hpp>

#include <unordered_map>
#endif

namespace tenon::bench {

#ifdef HAVE_ONEDNN
namespace {

struct DnnlRun {
  int threads;
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  dnnl::primitive primitive{};
  std::unordered_map<int, dnnl::memory> args{};
};
using Tag = dnnl::memory::format_tag;
constexpr auto f32 = dnnl::memory::data_type::f32;

dnnl::memory view(const DnnlRun& r, const dnnl::memory::desc& d, const float* p) {
  return dnnl::memory(d, r.engine, const_cast<float*>(p));
}
/// Weights in the layout the primitive likes best, as an engine with constant weights would hold them.
dnnl::memory reordered(DnnlRun& r, const dnnl::memory::desc& from, const float* p, const dnnl::memory::desc& to) {
  dnnl::memory source = view(r, from, p), m(to, r.engine);
  dnnl::reorder(source, m).execute(r.stream, source, m);
  r.stream.wait();
  return m;
}

RivalRun* dnnl_conv(const RivalConv& c) {
  auto* r = new DnnlRun{.threads = c.threads};
  omp_set_num_threads(c.threads);
  dnnl::memory::desc in({c.batch, c.in_channels, c.in_h, c.in_w}, f32, Tag::nhwc);
  dnnl::memory::desc out({c.batch, c.out_channels, c.out_h, c.out_w}, f32, Tag::nhwc);
  dnnl::memory::dims dims{c.groups, c.out_channels / c.groups, c.in_channels / c.groups, c.kernel, c.kernel};
  if (c.groups == 1) dims.erase(dims.begin());
  dnnl::memory::desc given(dims, f32, c.groups == 1 ? Tag::oihw : Tag::goihw), any(dims, f32, Tag::any);
  dnnl::memory::desc bias({c.out_channels}, f32, Tag::a);
  dnnl::convolution_forward::desc d(dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, in, any, bias, out,
                                    {c.stride, c.stride}, {c.pad, c.pad}, {c.pad, c.pad});
  dnnl::convolution_forward::primitive_desc pd(d, r->engine);
  r->primitive = dnnl::convolution_forward(pd);
  r->args = {{DNNL_ARG_SRC, view(*r, in, c.input)},
             {DNNL_ARG_WEIGHTS, reordered(*r, given, c.weights, pd.weights_desc())},
             {DNNL_ARG_BIAS, view(*r, bias, c.bias)},
             {DNNL_ARG_DST, view(*r, out, c.output)}};
  return reinterpret_cast<RivalRun*>(r);
}

void dnnl_run(RivalRun* run) {
  auto* r = reinterpret_cast<DnnlRun*>(run);
  omp_set_num_threads(r->threads);
  r->primitive.execute(r->stream, r->args);
  r->stream.wait();
}
void dnnl_release(RivalRun* run) { delete reinterpret_cast<DnnlRun*>(run); }

} // namespace
#endif

std::span<const Rival> rivals() {
  static const std::vector<Rival> all = [] {
    std::vector<Rival> found;
#ifdef HAVE_ONEDNN
    found.push_back({"onednn", dnnl_conv, dnnl_run, dnnl_release});
#endif
    return found;
  }();
  return all;
}

} // namespace tenon::bench
