// Identity, hashes, optionals, devices, sizes, and what programs ask of their surroundings.
#include <chrono>
#include <cstdio>

#include "builtins/elements.h"
#include "builtins/rows.h"

namespace tenon::builtins {

namespace {

using Int = int64_t;
using Str = std::string;
using Sizes = std::vector<Int>;

// Hashes are torch's, which programs may print: those of the standard library, joined as Boost does.
size_t join_hashes(size_t seed, size_t hash) { return seed ^ (hash + 0x9e3779b9 + (seed << 6) + (seed >> 2)); }

size_t hash(const IValue& v) {
  using Tag = IValue::Tag;
  switch (v.tag()) {
  case Tag::None: return 0;
  case Tag::Bool: return std::hash<bool>()(v.to_bool());
  case Tag::Int: return std::hash<Int>()(v.to_int());
  case Tag::Double: return std::hash<double>()(v.to_double());
  case Tag::String: return std::hash<Str>()(v.to_string());
  case Tag::Device: return std::hash<Str>()(v.to_device());
  case Tag::Tensor: return std::hash<const void*>()(&v.tensor_box());
  case Tag::Tuple: {
    size_t seed = 0;
    for (auto& e : v.to_tuple()) seed = join_hashes(seed, hash(e));
    return seed;
  }
  default: raise("", fmt::format("unhashable type: '{}'", annotation(type_of(v))));
  }
}

constexpr std::string_view device_types[] = {"cpu",  "cuda", "ipu", "xpu",  "mkldnn", "opengl", "opencl", "ideep", "hip",  "ve",
                                             "fpga", "maia", "xla", "lazy", "vulkan", "mps",    "meta",   "hpu",   "mtia", "privateuseone"};

IValue device(const Str& text) {
  size_t colon = std::min(text.find(':'), text.size());
  Str type = text.substr(0, colon), index = colon < text.size() ? text.substr(colon + 1) : "";
  bool digits = index.size() < 5 && index.find_first_not_of("0123456789") == Str::npos;
  if (text.empty()) raise("", "Device string must not be empty");
  if (!digits || (colon < text.size() && index.empty()) || (index.size() > 1 && index[0] == '0'))
    raise("", fmt::format("Invalid device string: '{}'", text));
  Str known;
  for (auto d : device_types) {
    if (d == type) return IValue(text, IValue::Tag::Device);
    known += fmt::format("{}{}", known.empty() ? "" : ", ", d);
  }
  raise("", fmt::format("Expected one of {} device type at start of device string: {}", known, type));
}
IValue device_with_index(const Str& type, Int index) {
  device(type);
  return IValue(fmt::format("{}:{}", type, index), IValue::Tag::Device);
}
IValue device_type(IValue& d) { return d.to_device().substr(0, d.to_device().find(':')); }
IValue device_index(IValue& d) {
  size_t colon = d.to_device().find(':');
  return colon == Str::npos ? IValue() : IValue(Int{std::stoll(d.to_device().substr(colon + 1))});
}

Sizes sizes_of(const List& list) {
  Sizes sizes;
  for (auto& e : list) sizes.push_back(e.to_int());
  return sizes;
}
Sizes infer_size(List& a, List& b) { return broadcast_sizes(sizes_of(a), sizes_of(b)); }
void broadcast_all(BuiltinCall& c) {
  Sizes sizes;
  for (auto& a : c.args) sizes = broadcast_sizes(sizes, sizes_of(a.to_list()));
  c.results[0] = value_of(sizes);
}
/// `sizes` without, or with one in place of, the dims that a reduction runs over.
Sizes reduction_sizes(List& list, List& axes, bool keep) {
  Sizes sizes = sizes_of(list), out;
  std::vector<bool> reduced(sizes.size());
  for (auto& a : axes) {
    Int axis = a.to_int() < 0 ? a.to_int() + std::ssize(sizes) : a.to_int();
    if (axis < 0 || axis >= std::ssize(sizes)) raise("", fmt::format("axis {} of {} dims", a.to_int(), sizes.size()));
    reduced[static_cast<size_t>(axis)] = true;
  }
  for (size_t d = 0; d < sizes.size(); d++)
    if (keep || !reduced[d]) out.push_back(reduced[d] ? 1 : sizes[d]);
  return out;
}

IValue unwrap_optional(IValue& v) {
  if (v.is_none()) raise("", "Unwrapping null optional");
  return v;
}

Int time_point() { return std::chrono::steady_clock::now().time_since_epoch().count(); }
IValue the_same(IValue& v) { return v; }
bool no() { return false; }
bool yes() { return true; }

} // namespace

std::span<const BuiltinRow> object_rows() {
  static const Rows rows = {
      {"aten::__is__(t1 self, t2 obj) -> bool", op([](IValue& a, IValue& b) { return a.same(b); })},
      {"aten::__isnot__(t1 self, t2 obj) -> bool", op([](IValue& a, IValue& b) { return !a.same(b); })},
      {"aten::len.any(Any[] a) -> int", op([](IValue& l) { return std::ssize(l.is(IValue::Tag::Tuple) ? l.to_tuple() : l.to_list()); })},
      {"aten::hash.generic(t value) -> int", op([](IValue& v) { return static_cast<Int>(hash(v)); })},
      {"prim::id(AnyClassType? x) -> int", op([](IValue& v) { return v.is_none() ? 0 : reinterpret_cast<Int>(&v.to_object()); })},
      {"aten::_unwrap_optional(t(a)? optional) -> t(a)", of<unwrap_optional>},
      {"prim::unchecked_unwrap_optional(t(a)? optional) -> t(a)", of<the_same>},
      {"prim::unchecked_cast(t x) -> t", of<the_same>},
      {"prim::IfThenElse(bool cond, Any(a) x, Any(b) y) -> Any(b|a)", op([](bool cond, IValue& x, IValue& y) { return cond ? x : y; })},
      {"aten::device(str a) -> Device", of<device>},
      {"aten::device.with_index(str type, int index) -> Device", of<device_with_index>},
      {"prim::type(Device self) -> str", of<device_type>},
      {"prim::index(Device self) -> int?", of<device_index>},
      {"aten::eq.device(Device a, Device b) -> bool", op([](IValue& a, IValue& b) { return equal(a, b); })},
      {"aten::ne.device(Device a, Device b) -> bool", op([](IValue& a, IValue& b) { return !equal(a, b); })},
      {"aten::_infer_size(int[] a, int[] b) -> int[]", of<infer_size>},
      {"aten::broadcast_shapes(int[] a, int[] b) -> int[]", of<infer_size>},
      {"prim::BroadcastSizes(...) -> int[]", broadcast_all},
      {"prim::ReductionSizes(int[] size, int[] red_axes, bool keepdim=False) -> int[]", of<reduction_sizes>},
      {"aten::_size_if_not_equal(int[] self_size, int[] other_size) -> int[]?",
       op([](IValue& a, IValue& b) { return equal(a, b) ? IValue() : a; })},
      {"aten::is_scripting() -> bool", of<yes>},
      {"aten::has_torch_function(...) -> bool", of<no>},
      {"aten::_is_tracing() -> bool", of<no>},
      {"aten::_get_tracing_state() -> bool", of<no>},
      {"aten::is_autocast_enabled() -> bool", of<no>},
      {"aten::is_autocast_cpu_enabled() -> bool", of<no>},
      {"prim::TimePoint() -> int", of<time_point>},
      {"aten::warn(str message, int stacklevel=2) -> ()",
       op([](const Str& message, Int) { std::fprintf(stderr, "Warning: %s\n", message.c_str()); })},
  };
  return rows;
}

} // namespace tenon::builtins
