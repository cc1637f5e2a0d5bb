// Results and facts as text and as JSON.
#pragma once
#include <string>
#include <vector>

#include "tenon/ivalue.h"
#include "tenon/tensor.h"

namespace tenon::cli {

/// "out0: f32[4, 10] = 0.26, -0.23, ..."
std::string text_of(const std::string& name, const Tensor& t);
/// {"name": "out0", "dtype": "f32", "sizes": [4, 10], "values": [...]}: the first six; NaN and infinities are strings.
std::string json_of(const std::string& name, const Tensor& t);
/// A tensor as above; other values of a script as {"name": "out0", "value": "[a, b]"}, which is what Python's str gives.
std::string json_of(const std::string& name, const IValue& value);

/// One JSON object, field by field.
class JsonObject {
public:
  JsonObject& text(std::string_view name, std::string_view value);
  JsonObject& flag(std::string_view name, bool value);
  JsonObject& count(std::string_view name, uint64_t value);
  JsonObject& number(std::string_view name, double value, int decimals = 4);
  /// JSON as it is.
  JsonObject& json(std::string_view name, const std::string& value);
  std::string str() const { return "{" + fields_ + "}"; }

private:
  std::string fields_;
};

} // namespace tenon::cli
