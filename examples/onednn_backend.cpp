// A backend over oneDNN that takes linear layers with constant f32 weights, as a shared library:
//   g++ -std=c++20 -O2 -shared -fPIC onednn_backend.cpp $(pkg-config --cflags tenon) -ldnnl -fopenmp -o onednn_backend.so
//   tenon run --backend ./onednn_backend.so model.pt2
// Weights are packed once, as oneDNN likes them for the number of rows that the program has, and those bytes are what runs.
#include <tenon/backend.h>

#include <omp.h>
#include <oneapi/dnnl/dnnl.hpp>

#include <cstring>
#include <map>
#include <mutex>

namespace {

using namespace tenon;
using Desc = dnnl::memory::desc;
using Type = dnnl::memory::data_type;
using Tag = dnnl::memory::format_tag;

const dnnl::engine& cpu() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

// ---- bytes: this, the packed weights, the bias

struct Header {
  int32_t version[3]; // of oneDNN, whose packed weights are its own affair
  int32_t has_bias;
  int64_t in, out;
  dnnl_memory_desc_t weights;
  uint64_t weights_at, bias_at;
};

void get_version(int32_t* version) {
  const dnnl_version_t* v = dnnl_version();
  version[0] = v->major, version[1] = v->minor, version[2] = v->patch;
}

using Linear = dnnl::inner_product_forward;
Linear::primitive_desc describe(int64_t rows, const Header& h, const Desc& weights) {
  Desc x({rows, h.in}, Type::f32, Tag::ab), y({rows, h.out}, Type::f32, Tag::ab), bias({h.out}, Type::f32, Tag::a);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user); // calls may run side by side
  auto kind = dnnl::prop_kind::forward_inference;
  return {h.has_bias ? Linear::desc(kind, x, weights, bias, y) : Linear::desc(kind, x, weights, y), attributes, cpu()};
}

// ---- compiling: linear layers are add(mm(x, permute(w)), b) in Edge graphs, perhaps with a view between

bool is_weight(const ir::Arg& a, size_t rank) {
  if (!a.is<ir::Value>() || a.get<ir::Value>().node().kind() != "prim::Constant") return false;
  ir::Type t = a.get<ir::Value>().type();
  return t.dtype == DType::F32 && t.sizes.size() == rank;
}

bool is_linear(const ir::Match& m) { // of inputs x, w, then b where there is one
  if (!is_weight(m.inputs[1], 2)) return false;
  ir::Size out = m.inputs[1].get<ir::Value>().type().sizes[0];
  for (ir::Node n : m.nodes)
    if (n.kind() == "edge::view.default" && (n.output().type().sizes.empty() || !(n.output().type().sizes.back() == out))) return false;
  return m.inputs.size() == 2 || (is_weight(m.inputs[2], 1) && m.inputs[2].get<ir::Value>().type().sizes[0] == out);
}

ir::Value product(ir::Graph& g, ir::Value x, ir::Value w) {
  return g.insert("aten::mm.default", {x, g.insert("aten::permute.default", {w, std::vector<int64_t>{1, 0}})});
}

std::vector<ir::Rewrite> linear_layers() {
  ir::Rewrite viewed{.inputs = 4,
                     .pattern =
                         [](ir::Graph& g, auto& x) {
                           ir::Value y = g.insert("aten::view.default", {product(g, x[0], x[1]), x[3]});
                           return std::vector{g.insert("aten::add.Tensor", {y, x[2]})};
                         },
                     .replacement = {},
                     .filter = is_linear};
  ir::Rewrite biased{
      .inputs = 3,
      .pattern = [](ir::Graph& g, auto& x) { return std::vector{g.insert("aten::add.Tensor", {product(g, x[0], x[1]), x[2]})}; },
      .replacement = {},
      .filter = is_linear};
  ir::Rewrite plain{.inputs = 2,
                    .pattern = [](ir::Graph& g, auto& x) { return std::vector{product(g, x[0], x[1])}; },
                    .replacement = {},
                    .filter = is_linear};
  return {viewed, biased, plain};
}

Tensor tensor_of(const ir::Graph& graph, const char* kind, const char* arg) {
  for (ir::Node n : graph.nodes())
    if (n.kind() == kind)
      if (auto t = n.get<Tensor>(arg)) return t->contiguous();
  return {};
}

std::vector<std::byte> preprocess(const ir::Graph& graph, const std::vector<std::string>&) {
  Tensor w = tensor_of(graph, "edge::permute.default", "self"), bias = tensor_of(graph, "edge::add.Tensor", "other");
  Header h{};
  get_version(h.version);
  h.has_bias = bias.defined(), h.out = w.sizes()[0], h.in = w.sizes()[1];
  std::optional<int64_t> rows = graph.inputs()[0].type().sizes[0].number;
  Desc packed = describe(rows.value_or(128), h, Desc({h.out, h.in}, Type::f32, Tag::any)).weights_desc();
  h.weights = packed.data;
  h.weights_at = (sizeof h + 63) / 64 * 64;
  h.bias_at = (h.weights_at + packed.get_size() + 63) / 64 * 64;
  std::vector<std::byte> bytes(h.bias_at + (h.has_bias ? static_cast<size_t>(h.out) * sizeof(float) : 0));
  std::memcpy(bytes.data(), &h, sizeof h);
  dnnl::memory from(Desc({h.out, h.in}, Type::f32, Tag::ab), cpu(), w.data()), to(packed, cpu(), bytes.data() + h.weights_at);
  dnnl::stream stream(cpu());
  dnnl::reorder(from, to).execute(stream, from, to);
  stream.wait();
  if (h.has_bias) std::memcpy(bytes.data() + h.bias_at, bias.data(), static_cast<size_t>(h.out) * sizeof(float));
  return bytes;
}

// ---- running

struct Handle {
  Header header;
  const std::byte* bytes;
  std::mutex mutex;
  std::map<int64_t, Linear::primitive_desc> described; // by number of rows

  Linear::primitive_desc of(int64_t rows) {
    std::lock_guard lock(mutex);
    auto at = described.find(rows);
    if (at == described.end()) {
      if (described.size() > 64) described.clear();
      at = described.emplace(rows, describe(rows, header, Desc(header.weights))).first;
    }
    return at->second;
  }
};

// Whether what the header says lies within the bytes.
bool fits(const Header& h, size_t size) {
  constexpr int64_t most = int64_t{1} << 31;
  if (h.in < 1 || h.out < 1 || h.in > most || h.out > most) return false;
  size_t weights = Desc(h.weights).get_size(), bias = h.has_bias ? static_cast<size_t>(h.out) * sizeof(float) : 0;
  return h.weights_at <= size && weights <= size - h.weights_at && h.bias_at <= size && bias <= size - h.bias_at;
}

const char* init(const void* bytes, size_t size, void*, void** handle) {
  Header h;
  int32_t here[3];
  if (size < sizeof h) return "these are no bytes of this backend";
  std::memcpy(&h, bytes, sizeof h);
  get_version(here);
  if (!std::equal(here, here + 3, h.version)) return "the weights were packed by another version of oneDNN: compile again";
  if (!fits(h, size)) return "the bytes are damaged";
  *handle = new Handle{.header = h, .bytes = static_cast<const std::byte*>(bytes), .mutex = {}, .described = {}};
  return nullptr;
}

const char* execute(void* handle, const tenon_delegate_call* call) {
  auto& linear = *static_cast<Handle*>(handle);
  const Header& h = linear.header;
  omp_set_num_threads(call->threads); // of the calling thread's teams
  Linear::primitive_desc d = linear.of(call->inputs[0].sizes[0]);
  auto memory = [](const Desc& desc, const void* data) { return dnnl::memory(desc, cpu(), const_cast<void*>(data)); };
  std::unordered_map<int, dnnl::memory> args{{DNNL_ARG_SRC, memory(d.src_desc(), call->inputs[0].data)},
                                             {DNNL_ARG_WEIGHTS, memory(d.weights_desc(), linear.bytes + h.weights_at)},
                                             {DNNL_ARG_DST, memory(d.dst_desc(), call->outputs[0].data)},
                                             {DNNL_ARG_SCRATCHPAD, dnnl::memory(d.scratchpad_desc(), cpu())}};
  if (h.has_bias) args.emplace(DNNL_ARG_BIAS, memory(d.bias_desc(), linear.bytes + h.bias_at));
  dnnl::stream stream(cpu());
  Linear(d).execute(stream, args);
  stream.wait();
  return nullptr;
}

void destroy(void* handle) { delete static_cast<Handle*>(handle); }

const tenon_backend backends[] = {{"onednn", init, execute, destroy, nullptr}};

} // namespace

extern "C" const tenon_backend* tenon_backends(size_t* count) {
  *count = 1;
  return backends;
}

extern "C" TENON_API void tenon_describe_backend(Backend* backend) {
  backend->partitioner = {.predicate = {}, .table = {}, .patterns = linear_layers(), .merge = false};
  backend->preprocess = preprocess;
}
