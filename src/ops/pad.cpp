// Padding: constant, reflected, replicated, circular. `pad` lists (before, after) from the last dim on; negative amounts crop.
#include <algorithm>

#include "ops/autocast.h"
#include "ops/jvp.h"
#include "ops/shape.h"
#include "ops/table.h"

namespace tenon::ops {

namespace {

std::vector<Type> padded(const Call& c, const std::vector<Expr>& pad) {
  std::vector<Expr> sizes = c.type("self").sizes;
  if (pad.size() % 2) c.fail("Padding length must be divisible by 2");
  if (pad.size() / 2 > sizes.size())
    c.fail(fmt::format(
        "Padding length should be less than or equal to two times the input dimension but got padding length {} and input of dimension {}",
        pad.size(), sizes.size()));
  for (size_t k = 0; k < pad.size() / 2; k++) {
    Expr& s = sizes[sizes.size() - 1 - k];
    s = s + pad[2 * k] + pad[2 * k + 1];
    if (s->hi < 0) c.fail("a size would be negative");
  }
  return self_with(c, sizes);
}

Compute constant_define(const DefineArgs& d) {
  std::vector<Expr> index = d.axes, pad = d.call.syms("pad");
  Expr inside = d.pool.boolean(true), zero = d.integer(0);
  for (size_t k = 0; k < pad.size() / 2; k++) {
    Expr& i = index[index.size() - 1 - k];
    i = i - pad[2 * k];
    inside = logical_and(inside, logical_and(le(zero, i), lt(i, d.call.size("self", -1 - static_cast<int64_t>(k)))));
  }
  Expr x = d.load("self", index);
  return {.axes = d.axes, .body = select(inside, x, cast(d.call.scalar("value"), x->type))};
}

Values constant_identity(Builder& b, const Call& c) {
  for (Expr p : c.syms("pad"))
    if (!is_const_int(p, 0)) return {};
  return b.input(c, "self");
}

// What is read at a place before the first element of a dim, and after its last.
using Fold = Expr (*)(Expr at, Expr size);
Expr reflect_before(Expr at, Expr) { return -at; }
Expr reflect_after(Expr at, Expr size) { return size * 2.0 - 2.0 - at; }
Expr replicate_before(Expr at, Expr) { return constant_like(0, at); }
Expr replicate_after(Expr, Expr size) { return size - 1.0; }
Expr wrap_before(Expr at, Expr size) { return at + size; }
Expr wrap_after(Expr at, Expr size) { return at - size; }

Compute fold_define(const DefineArgs& d, std::string_view argument, Fold before, Fold after) {
  std::vector<Expr> index = d.axes, pad = d.call.syms(argument);
  for (size_t k = 0; k < pad.size() / 2; k++) {
    Expr& i = index[index.size() - 1 - k];
    Expr at = i - pad[2 * k], size = d.call.size("self", -1 - static_cast<int64_t>(k));
    i = select(lt(at, d.integer(0)), before(at, size), select(lt(at, size), at, after(at, size)));
  }
  return {.axes = d.axes, .body = d.load("self", index)};
}

Compute reflect_define(const DefineArgs& d) { return fold_define(d, "padding", reflect_before, reflect_after); }
Compute replicate_define(const DefineArgs& d) { return fold_define(d, "padding", replicate_before, replicate_after); }
Compute circular_define(const DefineArgs& d) { return fold_define(d, "pad", wrap_before, wrap_after); }

// torch crops first, and wraps what is left.
Values crop_first(Builder& b, const Call& c) {
  std::vector<Expr> crop = c.syms("pad"), grow = crop;
  bool any = false;
  for (size_t k = 0; k < crop.size(); k++) {
    any |= crop[k]->hi < 0;
    (crop[k]->hi < 0 ? grow : crop)[k] = b.integer(0);
  }
  if (!any) return {};
  return b.call("aten::_pad_circular.default", {b.call1("aten::constant_pad_nd.default", {c["self"], crop}), grow});
}

std::vector<Type> padding_types(const Call& c) { return padded(c, c.syms("padding")); }
std::vector<Type> pad_types(const Call& c) { return padded(c, c.syms("pad")); }

Values pad(Builder& b, const Call& c, std::string_view mode) {
  if (mode == "constant") return b.call("aten::constant_pad_nd.default", {c["self"], c["pad"], c.has("value") ? c["value"] : Arg(0)});
  if (mode == "circular") return b.call("aten::_pad_circular.default", {c["self"], c["pad"]});
  if (mode != "reflect" && mode != "replicate") c.fail(fmt::format("mode {} is not known", mode));
  size_t dims = c.syms("pad").size() / 2;
  if (dims < 1 || dims > 3) c.fail("one to three dims can be padded");
  return b.call(fmt::format("aten::{}_pad{}d.default", mode == "reflect" ? "reflection" : "replication", dims), {c["self"], c["pad"]});
}

Values pad_text(Builder& b, const Call& c) { return pad(b, c, c.text("mode")); }
Values pad_enum(Builder& b, const Call& c) {
  constexpr std::string_view modes[] = {"constant", "reflect", "replicate", "circular"};
  int64_t mode = c.integer("mode");
  if (mode < 0 || mode > 3) c.fail(fmt::format("mode {} is not known", mode));
  return pad(b, c, modes[mode]);
}

const OpRow pad_ops[] = {
    {.schema = "aten::constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor",
     .kind = Kind::View,
     .infer = pad_types,
     .define = constant_define,
     .decompose = constant_identity,
     .jvp = jvp_linear,
     .layout_follows = true,
     .vjp = "self: torch.constant_pad_nd(grad, negated(pad), 0)"},
    {.schema = "aten::reflection_pad1d(Tensor self, SymInt[2] padding) -> Tensor",
     .kind = Kind::View,
     .infer = padding_types,
     .define = reflect_define,
     .dtypes = real_types,
     .autocast = to_f32,
     .vjp = "self: torch.reflection_pad1d_backward(grad, self, padding)"},
    {.schema = "aten::reflection_pad2d(Tensor self, SymInt[4] padding) -> Tensor",
     .kind = Kind::View,
     .infer = padding_types,
     .define = reflect_define,
     .dtypes = real_types,
     .autocast = to_f32,
     .vjp = "self: torch.reflection_pad2d_backward(grad, self, padding)"},
    {.schema = "aten::reflection_pad3d(Tensor self, SymInt[6] padding) -> Tensor",
     .kind = Kind::View,
     .infer = padding_types,
     .define = reflect_define,
     .dtypes = real_types,
     .vjp = "self: torch.reflection_pad3d_backward(grad, self, padding)"},
    {.schema = "aten::replication_pad1d(Tensor self, SymInt[2] padding) -> Tensor",
     .kind = Kind::View,
     .infer = padding_types,
     .define = replicate_define,
     .dtypes = real_types,
     .autocast = to_f32,
     .vjp = "self: torch.replication_pad1d_backward(grad, self, padding)"},
    {.schema = "aten::replication_pad2d(Tensor self, SymInt[4] padding) -> Tensor",
     .kind = Kind::View,
     .infer = padding_types,
     .define = replicate_define,
     .dtypes = real_types,
     .autocast = to_f32,
     .vjp = "self: torch.replication_pad2d_backward(grad, self, padding)"},
    {.schema = "aten::replication_pad3d(Tensor self, SymInt[6] padding) -> Tensor",
     .kind = Kind::View,
     .infer = padding_types,
     .define = replicate_define,
     .dtypes = real_types,
     .autocast = to_f32,
     .vjp = "self: torch.replication_pad3d_backward(grad, self, padding)"},
    {.schema = "aten::_pad_circular(Tensor self, SymInt[] pad) -> Tensor",
     .kind = Kind::View,
     .infer = pad_types,
     .define = circular_define,
     .decompose = crop_first},
    {.schema = "aten::pad(Tensor self, SymInt[] pad, str mode='constant', float? value=None) -> Tensor",
     .decompose = pad_text,
     .vjp = "self: of_padded(grad, self, pad, mode)"},
    {.schema = "aten::_pad_enum(Tensor self, SymInt[] pad, int mode, float? value=None) -> Tensor", .decompose = pad_enum},
};

} // namespace

std::span<const OpRow> pad_rows() { return pad_ops; }

} // namespace tenon::ops
