// Regions to loops, one after the other.
#include "compile/lower_regions.h"

#include <algorithm>

#include <fmt/core.h>

#include "backend/affine.h"
#include "backend/join.h"
#include "base/env.h"
#include "ir/key.h"
#include "ops/names.h"
#include "runtime/attention.h"

namespace tenon {

namespace {

/// Bytes that a kernel can move and find again in a last cache, however large it is: it is shared.
constexpr int64_t most_l3_bytes = 96 << 20;

/// What a region computes, whichever values it reads and gives: regions with one text differ in `values` alone.
struct RegionKey {
  std::string text;
  std::vector<ValueId> values;
};

RegionKey key_of(const Graph& g, NodeId id) {
  RegionKey out;
  std::unordered_map<ValueId, uint32_t> numbers;
  auto number = [&](ValueId v) {
    auto [known, fresh] = numbers.try_emplace(v, static_cast<uint32_t>(numbers.size()));
    if (fresh) out.values.push_back(v);
    return known->second;
  };
  Key key(g, number);
  const Node& region = g.node(id);
  const Block& body = g.block(region.blocks.at(0));
  key.add(region);
  for (NodeId n : body.nodes) {
    require(g.node(n).blocks.empty(), "{} in a region has blocks", g.node(n).op);
    key.add(g.node(n));
    for (ValueId v : g.node(n).outputs) number(v);
  }
  for (const Arg& a : body.returns) key.add(a);
  for (ValueId v : out.values) key.add(g.type(v));
  for (ValueId v : region.outputs) number(v);
  out.text = key.take();
  return out;
}

class Lowering {
public:
  Lowering(const Graph& g, const PlanTarget& target, bool forbid_fallback)
      : g_(g), target_(target), forbid_fallback_(forbid_fallback), parts_(joined_parts(g)) {}

  void block(BlockId id) {
    for (NodeId node : g_.block(id).nodes) {
      const Node& n = g_.node(node);
      if (n.op == own::loops || n.op == own::matmul || n.op == own::conv || n.op == own::attention) out.push_back(region(node));
      else
        for (BlockId inner : n.blocks) block(inner);
    }
  }

  LoweredRegion alone(NodeId id) const {
    OpId op = g_.node(id).op;
    if (op == own::loops) return loops(id);
    if (op == own::attention) return attention(id);
    return op == own::matmul ? matmul(id) : LoweredRegion{.node = id, .epilogue = kernel_of_epilogue(g_, id, target_.vector_bytes)};
  }

  std::vector<LoweredRegion> out;

private:
  struct Known {
    int number; // among `out`
    std::vector<ValueId> values;
  };

  /// Layers of a network are much the same: a region like an earlier one is that one, over its own values.
  LoweredRegion region(NodeId id) {
    RegionKey key = key_of(g_, id);
    if (writes_parts(id)) key.text += "parts";
    auto [known, fresh] = known_.try_emplace(std::move(key.text), Known{static_cast<int>(out.size()), key.values});
    return fresh ? alone(id) : over_values(known->second, id, key.values);
  }

  LoweredRegion over_values(const Known& known, NodeId id, const std::vector<ValueId>& values) const {
    LoweredRegion r = out[static_cast<size_t>(known.number)];
    r.node = id, r.same_as = known.number;
    auto rename = [&](ValueId& v) {
      if (v.valid()) v = values[static_cast<size_t>(std::ranges::find(known.values, v) - known.values.begin())];
    };
    for (RegionKernel& k : r.loops.kernels) std::ranges::for_each(k.buffers, rename);
    if (r.epilogue) std::ranges::for_each(r.epilogue->buffers, rename);
    if (r.product) rename(r.product->a.value), rename(r.product->b.value);
    if (r.attention) {
      auto& [a, block_keys, kernels] = *r.attention;
      a.scores = scores_of(g_, id);
      for (AttentionOperand* o : {&a.q, &a.k, &a.v}) rename(o->value);
      for (RegionKernel* k : {&kernels.score, &kernels.finish}) std::ranges::for_each(k->buffers, rename);
    }
    return r;
  }

  bool writes_parts(NodeId id) const {
    return std::ranges::any_of(g_.node(id).outputs, [&](ValueId v) {
      auto part = parts_.find(v);
      return part != parts_.end() && !is_complex(g_.type(part->second.whole).dtype); // a complex tensor is one part
    });
  }

  LoweredRegion loops(NodeId id) const {
    LoweredRegion r{.node = id};
    int64_t streamed = writes_parts(id) ? INT64_MAX : target_.streamed_bytes; // stores past the caches are of whole lines
    try {
      RegionKernels kernels = kernels_of_loops(g_, id, target_.vector_bytes, streamed);
      for (const RegionKernel& k : kernels.kernels) verify(k.kernel);
      r.loops = std::move(kernels);
    } catch (const Error& e) {
      if (forbid_fallback_) throw;
      r.refused = e.what();
    }
    return r;
  }

  LoweredRegion matmul(NodeId id) const {
    const Node& n = g_.node(contraction_of(g_, id));
    Inliner inliner = region_inliner(g_);
    std::vector<ValueId> operands = tensor_operands(n.args, g_);
    auto a = matmul_operand(g_, inliner, operands.at(0)), b = matmul_operand(g_, inliner, operands.at(1));
    require(a && b, "an operand of {} has no address", n.op);
    return {.node = id, .epilogue = kernel_of_epilogue(g_, id, target_.vector_bytes), .product = {{std::move(*a), std::move(*b)}}};
  }

  LoweredRegion attention(NodeId id) const {
    NodeId product = contraction_of(g_, id), scores = scores_of(g_, id);
    Inliner inliner = region_inliner(g_);
    inliner.is_inline = [&, inside = inliner.is_inline](ValueId v) {
      return inside(v) && inliner.own(g_.value(v).node).reduction == Reduction::None;
    };
    std::string why;
    auto a = match_attention(g_, product, scores, inliner, why);
    require(a.has_value(), "a region is no attention: {}", why);
    Expr keys = g_.type(tensor_operands(g_.node(product).args, g_).at(0)).sizes.back();
    int64_t block_keys = attention_block_keys(const_int(keys).value_or(any_size));
    AttentionKernels kernels = kernels_of_attention(g_, id, *a, target_.vector_bytes, attention_score_stride(block_keys));
    a->score = a->visible = {}; // they load values of this region; the kernels have them now
    return {.node = id, .attention = {{std::move(*a), block_keys, std::move(kernels)}}};
  }

  const Graph& g_;
  const PlanTarget& target_;
  bool forbid_fallback_;
  JoinedParts parts_;
  std::unordered_map<std::string, Known> known_;
};

void print(std::string& out, std::string_view what, const RegionKernel& k) {
  std::string values;
  for (ValueId v : k.buffers) values += (values.empty() ? "" : ", ") + (v.valid() ? fmt::format("%{}", v.index) : "own");
  fmt::format_to(std::back_inserter(out), "{} over ({}), {} iterations\n{}", what, values, to_string(k.iterations), to_string(k.kernel));
}

void print(std::string& out, const char* name, const MatmulOperand& o) {
  fmt::format_to(std::back_inserter(out), "{} = %{} from {}: batch {} x {}, {}, row {}, column {}\n", name, o.value.index,
                 to_string(o.offset), to_string(o.batch[0]), to_string(o.batch[1]), to_string(o.inner_batch), to_string(o.row_stride),
                 to_string(o.column_stride));
}

} // namespace

PlanTarget::PlanTarget(const Target& t)
    : vector_bytes(t.vector_bits / 8), streamed_bytes(std::min<int64_t>(static_cast<int64_t>(t.l3_bytes), most_l3_bytes)),
      caches{static_cast<int64_t>(t.l1_bytes), static_cast<int64_t>(t.l2_bytes), streamed_bytes} {
  if (env_text("TENON_PREBUILT") != "0") prebuilt = prebuilt_kernels(t.isa);
}

Inliner region_inliner(const Graph& g) {
  Inliner inliner(g);
  inliner.is_inline = [&g](ValueId v) {
    NodeId n = g.value(v).node;
    return n.valid() && g.node(n).attribute("inline") != nullptr;
  };
  return inliner;
}

static bool made_by_loops(const Graph& g, ValueId v) {
  NodeId made = g.value(v).node;
  return made.valid() && g.node(made).op == own::loops;
}

JoinedParts joined_parts(const Graph& g) {
  JoinedParts parts;
  for (NodeId id : g.block(g.top()).nodes) {
    const Node& n = g.node(id);
    if (n.op == own::as_complex)
      if (auto v = n.args[0].get<ValueId>(); made_by_loops(g, v)) parts.try_emplace(v, JoinedPart{n.outputs[0], g.pool().integer(0)});
    if (!is_join(n)) continue;
    ValueId whole = n.outputs[0];
    auto dim = static_cast<size_t>(n.args[1].get<int64_t>());
    Expr offset = g.pool().integer(0), stride = strides_of(g.pool(), g.type(whole))[dim];
    for_each_value(n.args[0], [&](ValueId v) {
      parts[v] = {whole, offset};
      offset = offset + g.type(v).sizes[dim] * stride;
    });
  }
  return parts;
}

std::vector<LoweredRegion> lower_regions(const Graph& graph, const PlanTarget& target, bool forbid_fallback) {
  Lowering lowering(graph, target, forbid_fallback);
  lowering.block(graph.top());
  return std::move(lowering.out);
}

LoweredRegion lower_region(const Graph& graph, NodeId region, const PlanTarget& target, bool forbid_fallback) {
  return Lowering(graph, target, forbid_fallback).alone(region);
}

std::string to_string(const Graph& graph, const std::vector<LoweredRegion>& regions) {
  std::string out;
  for (const LoweredRegion& r : regions) {
    fmt::format_to(std::back_inserter(out), "# {}", graph.node(r.node).op);
    for (ValueId v : graph.node(r.node).outputs) fmt::format_to(std::back_inserter(out), " %{}", v.index);
    out += '\n';
    if (r.product) print(out, "a", r.product->a), print(out, "b", r.product->b);
    for (const RegionKernel& k : r.loops.kernels) print(out, "loops", k);
    if (r.epilogue) print(out, "epilogue", *r.epilogue);
    if (r.attention) print(out, "scores", r.attention->kernels.score), print(out, "result", r.attention->kernels.finish);
    if (!r.refused.empty()) fmt::format_to(std::back_inserter(out), "interpreted: {}\n", r.refused);
    out += '\n';
  }
  return out;
}

} // namespace tenon
