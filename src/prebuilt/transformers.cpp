// Attention, and the blocks of transformers.
#include <array>

#include "prebuilt/layer.h"

namespace tenon {

namespace {

enum class Mask { None, Causal, Keys, Pairs, Added, CausalPairs };

constexpr int64_t heads = 6;

struct Rows {
  Expr batch, length;
};

// What each query may look at, as scaled_dot_product_attention takes it.
Arg mask_of(Layer& l, Mask mask, const Rows& rows) {
  Expr one = l.b().integer(1);
  auto [batch, length] = rows;
  if (mask == Mask::Keys) return l.b().expand(l.input({batch, one, one, length}, DType::Bool), {batch, one, length, length});
  if (mask == Mask::Pairs) return l.input({batch, one, length, length}, DType::Bool);
  if (mask == Mask::Added) return l.input({batch, one, length, length});
  if (mask != Mask::CausalPairs) return Arg();
  auto places = [&](int64_t dim) {
    V at = l.b().arange(length, DType::I64);
    return l.b().reshape(at, dim == 2 ? std::vector{one, one, length, one} : std::vector{one, one, one, length});
  };
  V causal = l.call("aten::le.Tensor", {places(3), places(2)});
  V present = l.call("aten::to.dtype", {l.input({batch, length}, DType::I64), DType::Bool});
  V sequence = l.b().reshape(l.b().arange(batch, DType::I64), {batch, one, one, one});
  V both = l.call("aten::__and__.Tensor", {causal, l.call("aten::index.Tensor", {present, ArgList{sequence, places(3)}})});
  return l.b().expand(both, {batch, one, length, length});
}

// Cosines and sines of the angles by which heads are turned.
struct Angles {
  V cos, sin;
};
Angles angles_of(Layer& l, int64_t head, Expr length) {
  Expr one = l.b().integer(1);
  V at = l.b().reshape(l.b().to(l.b().arange(length, DType::I64), DType::F32), {one, length, one}) * l.weight({head / 2});
  V both = l.call("aten::cat", {ArgList{at, at}, int64_t{-1}});
  return {l.b().unsqueeze(l.call("aten::cos", {both}), 1), l.b().unsqueeze(l.call("aten::sin", {both}), 1)};
}
V turned(Layer& l, V x, const Angles& by, int64_t head) {
  Expr half = l.b().integer(head / 2);
  V swapped = l.call("aten::cat", {ArgList{-l.b().slice(x, 3, half, half), l.b().slice(x, 3, l.b().integer(0), half)}, int64_t{-1}});
  return x * by.cos + swapped * by.sin;
}

struct Style {
  int64_t head = 64;
  bool rms = false, before = true, bias = true, joined = false, gated = false, turns = false, residual_first = true;
  double epsilon = 1e-5;
  Mask mask = Mask::None;
  Activation activation = call_of("aten::gelu");
  int64_t keys = heads; // heads of keys and values
};

class Transformer {
public:
  Transformer(Layer& l, const Style& s, const Rows& rows) : l_(l), s_(s), rows_(rows), mask_(mask_of(l, s.mask, rows)) {
    if (s.turns) angles_ = angles_of(l, s.head, rows.length);
  }

  V norm(V x) {
    V weight = l_.weight({width_});
    if (s_.rms) return rms_norm(l_, x, weight, s_.epsilon);
    return l_.call("aten::layer_norm", {x, ArgList{width_}, weight, l_.weight({width_}), s_.epsilon});
  }
  V block(V x) {
    auto add = [&](V a, V b) { return s_.residual_first ? a + b : b + a; };
    if (!s_.before) x = norm(add(x, attention(x)));
    else x = add(x, attention(norm(x)));
    if (!s_.before) return norm(add(x, feed_forward(x)));
    return add(x, feed_forward(norm(x)));
  }
  V attention(V x) {
    auto [q, k, v] = s_.joined ? joined_parts(x) : std::array{part(x, heads), part(x, s_.keys), part(x, s_.keys)};
    if (s_.turns) q = turned(l_, q, *angles_, s_.head), k = turned(l_, k, *angles_, s_.head);
    std::vector<Attribute> grouped;
    if (s_.keys != heads) grouped.push_back({"enable_gqa", true});
    V y = l_.call("aten::scaled_dot_product_attention", {q, k, v, mask_, 0.0, s_.mask == Mask::Causal}, grouped);
    y = l_.b().reshape(l_.b().transpose(y, 1, 2), {rows_.batch, rows_.length, l_.b().integer(width_)});
    return l_.linear(y, width_, s_.bias);
  }

private:
  // One product for queries, keys and values.
  std::array<V, 3> joined_parts(V x) {
    Builder& b = l_.b();
    V y = b.reshape(l_.linear(x, 3 * width_, s_.bias), {rows_.batch, rows_.length, b.integer(3), b.integer(heads), b.integer(s_.head)});
    y = b.permute(y, {2, 0, 3, 1, 4});
    return {b.select(y, 0, b.integer(0)), b.select(y, 0, b.integer(1)), b.select(y, 0, b.integer(2))};
  }
  V part(V x, int64_t count) {
    V y = l_.linear(x, count * s_.head, s_.bias);
    return l_.b().transpose(l_.b().reshape(y, {rows_.batch, rows_.length, l_.b().integer(count), l_.b().integer(s_.head)}), 1, 2);
  }
  V feed_forward(V x) {
    V y = s_.activation(l_, l_.linear(x, 2 * width_, s_.bias));
    if (s_.gated) y = y * l_.linear(x, 2 * width_, s_.bias);
    return l_.linear(y, width_, s_.bias);
  }

  Layer& l_;
  const Style& s_;
  Rows rows_;
  const int64_t width_ = heads * s_.head;
  Arg mask_;
  std::optional<Angles> angles_;
};

std::vector<Rows> sequences(Layer& l) {
  Expr one = l.b().integer(1), some = l.b().integer(96);
  return {
      {one, some}, {l.b().integer(3), some}, {l.symbol("batch"), some}, {one, l.symbol("length")}, {l.symbol("batch"), l.symbol("length")}};
}

void add_attention(std::vector<LoadedProgram>& out, const Style& style, size_t rows) {
  Layer l;
  Rows r = sequences(l)[rows];
  V x = l.input({r.batch, r.length, l.b().integer(heads * style.head)});
  l.gives(Transformer(l, style, r).attention(x));
  out.push_back(l.done());
}

void add_transformer(std::vector<LoadedProgram>& out, const Style& style, size_t rows) {
  Layer l;
  Rows r = sequences(l)[rows];
  Transformer t(l, style, r);
  V tokens = l.input({r.batch, r.length}, DType::I64);
  V x = l.call("aten::embedding", {l.weight({100, heads * style.head}), tokens});
  if (!style.turns) {
    V place = l.call("aten::embedding", {l.weight({512, heads * style.head}), l.b().unsqueeze(l.b().arange(r.length, DType::I64), 0)});
    x = x + place;
  }
  if (!style.before) x = t.norm(x);
  for (int block = 0; block < 2; block++) x = t.block(x);
  if (style.before) x = t.norm(x);
  l.gives(l.linear(x, 100, false));
  out.push_back(l.done());
}

// Of an image's patches, behind a token of the image's class.
void add_image_transformer(std::vector<LoadedProgram>& out, const Style& style, Expr (*batch_of)(Layer&)) {
  Layer l;
  Builder& b = l.b();
  constexpr int64_t side = 12, patch = 14;
  int64_t width = heads * style.head;
  Expr batch = batch_of(l), one = b.integer(1), size = b.integer(side * patch);
  Rows rows{batch, b.integer(side * side + 1)};
  Transformer t(l, style, rows);
  V image = l.input({batch, b.integer(3), size, size});
  V x = l.call("aten::conv2d", {image, l.weight({width, 3, patch, patch}), l.weight({width}), ArgList{patch, patch}});
  x = b.transpose(l.call("aten::flatten.using_ints", {x, int64_t{2}}), 1, 2);
  x = l.call("aten::cat", {ArgList{b.expand(l.weight({1, 1, width}), {batch, one, b.integer(width)}), x}, int64_t{1}});
  x = x + l.weight({1, side * side + 1, width});
  for (int block = 0; block < 2; block++) x = t.block(x);
  l.gives(l.linear(b.select(t.norm(x), 1, b.integer(0)), 10));
  out.push_back(l.done());
}

} // namespace

void add_attention(std::vector<LoadedProgram>& out) {
  for (size_t rows : {0, 1, 2, 3, 4})
    for (int64_t head : {16, 32, 64, 80, 96, 128})
      for (Mask mask : {Mask::None, Mask::Causal, Mask::Keys, Mask::Pairs, Mask::Added})
        add_attention(out, {.head = head, .mask = mask}, rows);
}

void add_transformers(std::vector<LoadedProgram>& out) {
  Activation relu = call_of("aten::relu"), silu = call_of("aten::silu"), gelu = call_of("aten::gelu");
  Activation rough = [](Layer& l, V x) { return l.call("aten::gelu", {x}, {{"approximate", std::string("tanh")}}); };
  std::vector<Style> styles = {
      {.before = false, .residual_first = false, .epsilon = 1e-12, .mask = Mask::Keys, .activation = gelu},
      {.before = false, .mask = Mask::None, .activation = relu},
      {.before = false, .mask = Mask::Pairs, .activation = gelu},
      {.mask = Mask::Causal, .activation = rough},
      {.residual_first = false, .mask = Mask::Causal, .activation = rough},
      {.residual_first = false, .mask = Mask::CausalPairs, .activation = rough},
      {.mask = Mask::None, .activation = gelu},
      {.residual_first = false, .epsilon = 1e-12, .mask = Mask::None, .activation = gelu},
      {.epsilon = 1e-6, .mask = Mask::None, .activation = gelu},
      {.rms = true, .bias = false, .epsilon = 1e-6, .mask = Mask::Added, .activation = relu},
  };
  for (double epsilon : {1e-5, 1e-6})
    for (int64_t keys : {heads, heads / 3})
      for (int64_t head : {64, 128})
        for (Mask mask : {Mask::Causal, Mask::CausalPairs})
          styles.push_back({.head = head,
                            .rms = true,
                            .bias = false,
                            .gated = true,
                            .turns = true,
                            .epsilon = epsilon,
                            .mask = mask,
                            .activation = silu,
                            .keys = keys});
  for (double epsilon : {1e-5, 1e-6, 1e-12})
    for (bool joined : {false, true})
      for (auto batch : {+[](Layer& l) { return l.b().integer(1); }, +[](Layer& l) { return l.b().integer(3); },
                         +[](Layer& l) { return l.symbol("batch"); }})
        add_image_transformer(out, {.joined = joined, .epsilon = epsilon}, batch);
  for (const Style& s : styles)
    for (size_t rows : {0, 1, 2, 3, 4}) add_transformer(out, s, rows);
}

} // namespace tenon
