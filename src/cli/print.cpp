// The first elements of a tensor stand for it.
#include "cli/print.h"

#include <cmath>

#include <fmt/ranges.h>

#include "base/json_text.h"
#include "expr/eval.h"

namespace tenon::cli {

static std::vector<double> first_values(const Tensor& t) {
  std::vector<double> values;
  Tensor dense = t.contiguous();
  dispatch(t.dtype(), [&]<class T>(T) {
    for (int64_t i = 0; i < std::min<int64_t>(t.numel(), 6); i++) values.push_back(convert<double>(dense.data_as<T>()[i]));
  });
  return values;
}

static std::string json_number(double v, const std::string& text) {
  if (std::isfinite(v)) return text;
  return std::isnan(v) ? "\"nan\"" : v > 0 ? "\"inf\"" : "\"-inf\"";
}

std::string text_of(const std::string& name, const Tensor& t) {
  std::string values = json_join(first_values(t), [](double v) { return fmt::format("{:.6g}", v); });
  return fmt::format("{}: {}[{}] = {}{}", name, name_of(t.dtype()), fmt::join(t.sizes(), ", "), values, t.numel() > 6 ? ", ..." : "");
}

std::string json_of(const std::string& name, const Tensor& t) {
  return JsonObject()
      .text("name", name)
      .text("dtype", name_of(t.dtype()))
      .json("sizes", fmt::format("[{}]", fmt::join(t.sizes(), ", ")))
      .json("values", json_array(first_values(t), [](double v) { return json_number(v, fmt::format("{:.9g}", v)); }))
      .str();
}

std::string json_of(const std::string& name, const IValue& value) {
  if (value.is(IValue::Tag::Tensor)) return json_of(name, value.to_tensor());
  return JsonObject().text("name", name).text("value", tenon::str(value)).str();
}

JsonObject& JsonObject::json(std::string_view name, const std::string& value) {
  fields_ += (fields_.empty() ? "" : ", ") + json_quote(name) + ": " + value;
  return *this;
}
JsonObject& JsonObject::text(std::string_view name, std::string_view value) { return json(name, json_quote(value)); }
JsonObject& JsonObject::flag(std::string_view name, bool value) { return json(name, value ? "true" : "false"); }
JsonObject& JsonObject::count(std::string_view name, uint64_t value) { return json(name, std::to_string(value)); }
JsonObject& JsonObject::number(std::string_view name, double value, int decimals) {
  return json(name, json_number(value, fmt::format("{:.{}f}", value, decimals)));
}

} // namespace tenon::cli
