// Core ATen: which operators torch tags core, and what others are in that dialect.
#pragma once
#include "ir/builder.h"
#include "ops/table.h"

namespace tenon::ops {

/// Full names, sorted.
std::span<const std::string_view> core_names();

/// What an operator is in core ATen, by full name: operators computed as they are, that torch takes apart, and those whose
/// decomposition goes past an operator of core. No values: it stays, or its row's decomposition serves.
struct CoreRule {
  std::string_view name;
  Decompose decompose;
};
std::span<const CoreRule> core_rules();
std::span<const CoreRule> core_pointwise_rules();
Values attention_in_core(Builder& b, const Call& c);

} // namespace tenon::ops
