// Scaled dot-product attention as product, scale, mask, softmax, product: the chain that fusion recognises. Scores and softmax
// are in f32 for the reduced floats; rows without any key left give zeros.
#include "ops/autocast.h"
#include "ops/body.h"
#include "ops/core.h"
#include "ops/matmul.h"
#include "ops/table.h"

namespace tenon::ops {

namespace {

struct Attention {
  V out, logsumexp; // logsumexp: [..., L], in the dtype of the scores
};

struct Operands {
  V q, k, v, mask; // mask: optional
  bool causal;
  double dropout;
  Arg scale;
};

// Row i sees columns up to i.
V causal(Builder& b, V scores) {
  V row = b.unsqueeze(b.arange(scores.size(-2), DType::I64), 1), column = b.arange(scores.size(-1), DType::I64);
  V nothing = b.scalar(-INFINITY, scores.dtype());
  return b.where(b.call1("aten::ge.Tensor", {row, column}), scores, nothing);
}

V masked(Builder& b, V scores, V mask) {
  if (mask.dtype() == DType::Bool) return b.where(mask, scores, b.scalar(-INFINITY, scores.dtype()));
  return scores + b.to(mask, scores.dtype());
}

// Each key head once for every query head of its group: [..., Hk, S, E] seen as [..., H, S, E].
V for_groups(Builder& b, V k, V q) {
  std::vector<Expr> sizes = k.sizes();
  size_t head = sizes.size() - 3;
  Expr heads = sizes[head];
  sizes.insert(sizes.begin() + static_cast<ptrdiff_t>(head) + 1, floor_div(q.size(-3), heads));
  V all = b.expand(b.unsqueeze(k, static_cast<int64_t>(head) + 1), sizes);
  sizes.erase(sizes.begin() + static_cast<ptrdiff_t>(head));
  sizes[head] = q.size(-3);
  return b.reshape(all, sizes);
}

// The masked products of queries and keys; those of a group, and its values, are repeated in `a`.
V scores_of(Builder& b, Operands& a) {
  V q = a.q;
  bool grouped =
      q.rank() >= 3 && a.k.rank() >= 3 && q.size(-3) != a.k.size(-3) && !is_const_int(a.k.size(-3), 1) && !is_const_int(q.size(-3), 1);
  if (grouped) require_input(a.v.rank() >= 3, "attention: values of {} dims for keys of {}", a.v.rank(), a.k.rank());
  if (grouped) a.k = for_groups(b, a.k, q), a.v = for_groups(b, a.v, q);
  V scores = matmul(b, q, b.transpose(a.k, -1, -2), compute_type(q.dtype())) * a.scale;
  if (a.causal) scores = causal(b, scores);
  return a.mask ? masked(b, scores, a.mask) : scores;
}

Attention attend(Builder& b, Operands a) {
  DType wide = compute_type(a.q.dtype());
  V scores = scores_of(b, a);
  V top = b.call1("tenon::amax_or_lowest.default", {scores, {-1}, true});
  if (a.mask) { // a row of -inf alone: exp(-inf - 0) = 0
    V zero = b.scalar(0, wide);
    top = b.where(b.call1("aten::eq.Scalar", {top, -INFINITY}), zero, top);
  }
  V e = b.call1("aten::exp.default", {scores - top}), sum = b.sum(e, {-1}, true);
  V divisor = sum;
  if (a.mask) {
    V one = b.scalar(1, wide);
    divisor = b.where(b.call1("aten::eq.Scalar", {sum, 0}), one, sum);
  }
  V weights = b.to(e / divisor, a.v.dtype());
  if (a.dropout > 0) weights = b.call1("aten::dropout.default", {weights, a.dropout, true});
  V out = b.matmul(weights, a.v);
  V lse = b.squeeze(b.call1("aten::log.default", {divisor}) + top, -1); // 0 where all is masked, as in torch
  return {out, lse};
}

Operands operands(Builder& b, const Call& c, std::string_view mask) {
  Operands a{b.input(c, "query"), b.input(c, "key"), b.input(c, "value"), {}, c.flag("is_causal"), c.number("dropout_p"), {}};
  if (c.has(mask)) a.mask = b.input(c, mask);
  a.scale = c.has("scale") ? c["scale"] : Arg(1.0 / sqrt(cast(a.q.size(-1), DType::F64)));
  return a;
}

Values attention(Builder& b, const Call& c) { return attend(b, operands(b, c, "attn_mask")).out; }

// With softmax as one operator.
V attention_by_softmax(Builder& b, Operands a) {
  V scores = scores_of(b, a);
  V weights = b.to(b.call1(a.mask ? "aten::_safe_softmax.default" : "aten::softmax.int", {scores, -1}), a.v.dtype());
  if (a.dropout > 0) weights = b.call1("aten::dropout.default", {weights, a.dropout, true});
  return b.matmul(weights, a.v);
}

// What draws random numbers is not one call.
bool without_dropout(const Call& c) { return c.number("dropout_p") == 0; }

Values flash_attention(Builder& b, const Call& c) {
  Operands a = operands(b, c, "attn_mask");
  V lse = b.to(attend(b, a).logsumexp, compute_type(a.q.dtype()));
  V out = b.call1("aten::scaled_dot_product_attention.default",
                  {c["query"], c["key"], c["value"], c["attn_mask"], c["dropout_p"], c["is_causal"]}, {{"scale", c["scale"]}});
  return {out, lse};
}

const OpRow attention_ops[] = {
    {.schema = "aten::scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0., "
               "bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor",
     .decompose = attention,
     .late = without_dropout,
     .dtypes = float_types,
     .types = "attn_mask=same|bool|f32",
     .autocast = to_lower,
     .vjp = "result: attention_of(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)"},
    {.schema = "aten::_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, float dropout_p=0., bool "
               "is_causal=False, *, "
               "Tensor? attn_mask=None, float? scale=None) -> (Tensor output, Tensor logsumexp)",
     .decompose = flash_attention},
};

} // namespace

Values attention_in_core(Builder& b, const Call& c) { return attention_by_softmax(b, operands(b, c, "attn_mask")); }

std::span<const OpRow> attention_rows() { return attention_ops; }

} // namespace tenon::ops
