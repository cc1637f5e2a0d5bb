// Products with weights of 4 and 8 bits that share a scale, and a shift, by group (made by the pass weight_only_products).
#include "ops/library.h"
#include "ops/table.h"

namespace tenon::ops {

namespace {

// codes [n, groups, group], integers; scale and shift [n, groups]. The value of a code is code * scale + shift.
std::vector<Type> packed_type(const Call& c) {
  int64_t bits = c.integer("bits");
  auto n = const_int(c.size("codes", 0)), groups = const_int(c.size("codes", 1)), group = const_int(c.size("codes", 2));
  if (!n || !groups || !group || *group % 8 != 0 || (bits != 4 && bits != 8))
    c.fail("groups of a multiple of 8 codes of 4 or 8 bits are needed");
  int64_t panels = (*n + 15) / 16, heads = c.has("shift") ? 2 : 1;
  return {Type::tensor(DType::U8, {integer(c, panels * *groups * (64 * heads + *group * 2 * bits))})};
}
LibraryStep pack(const Call& c) {
  LibraryStep step{
      library::pack_quantized_weight, {c.value("codes"), c.value("scale")}, integers(c, {c.integer("bits"), c.integer("low")})};
  if (c.has("shift")) step.inputs.push_back(c.value("shift"));
  return step;
}

std::vector<Type> product_type(const Call& c) {
  if (c.rank("self") != 2 || c.rank("packed") != 1) c.fail("a matrix and packed weights are needed");
  return {Type::tensor(DType::F32, {c.size("self", 0), integer(c, c.integer("n"))})};
}
LibraryStep product(const Call& c) {
  return {library::quantized_weight_mm,
          {c.value("self"), c.value("packed")},
          integers(c, {c.integer("groups"), c.integer("group"), c.integer("bits"), c.integer("low"), c.flag("shifted")})};
}

const OpRow weight_only_ops[] = {
    {.schema = "tenon::pack_quantized_weight(Tensor codes, Tensor scale, Tensor? shift, int bits, int low) -> Tensor",
     .kind = Kind::Library,
     .infer = packed_type,
     .library = pack},
    {.schema =
         "tenon::quantized_weight_mm(Tensor self, Tensor packed, int n, int groups, int group, int bits, int low, bool shifted) -> Tensor",
     .kind = Kind::Library,
     .infer = product_type,
     .library = product},
};

} // namespace

std::span<const OpRow> weight_only_rows() { return weight_only_ops; }

} // namespace tenon::ops
