// Builds the table once, on first use: rows with their schemas parsed, by name.
#include "ops/table.h"

#include "ops/collective.h"
#include "ops/complex.h"
#include "ops/core.h"

#include <array>
#include <map>

#include "ops/custom.h"

namespace tenon {

namespace {

using Table = std::map<std::string, OpDef, std::less<>>;

// One file each.
auto all_rows() {
  return std::to_array<std::span<const OpRow>>({
      ops::arithmetic_rows(),
      ops::compare_rows(),
      ops::math_rows(),
      ops::special_rows(),
      ops::activation_rows(),
      ops::convert_rows(),
      ops::backward_rows(),
      ops::backward_linear_rows(),
      ops::backward_layer_rows(),
      ops::loss_rows(),
      ops::class_loss_rows(),
      ops::distance_rows(),
      ops::quantize_rows(),
      ops::quantize_blocks_rows(),
      ops::float8_rows(),
      ops::view_rows(),
      ops::view_alias_rows(),
      ops::slice_rows(),
      ops::create_rows(),
      ops::create_range_rows(),
      ops::create_matrix_rows(),
      ops::collective_rows(),
      ops::combine_rows(),
      ops::pad_rows(),
      ops::rearrange_rows(),
      ops::index_rows(),
      ops::difference_rows(),
      ops::reduce_rows(),
      ops::softmax_rows(),
      ops::vector_norm_rows(),
      ops::norm_rows(),
      ops::matmul_rows(),
      ops::einsum_rows(),
      ops::grouped_mm_rows(),
      ops::weight_only_rows(),
      ops::conv_rows(),
      ops::pool_rows(),
      ops::window_rows(),
      ops::resample_rows(),
      ops::grid_sample_rows(),
      ops::attention_rows(),
      ops::rnn_rows(),
      ops::library_sort_rows(),
      ops::library_scatter_rows(),
      ops::library_select_rows(),
      ops::library_random_rows(),
      ops::library_nn_rows(),
      ops::complex_rows(),
      ops::fft_rows(),
      ops::linalg_rows(),
      ops::linalg_solve_rows(),
      ops::prim_rows(),
  });
}

void attach_complex_rules(Table& t) {
  for (auto rules : {ops::complex_rules(), ops::complex_matrix_rules()})
    for (const ops::ComplexRule& rule : rules) {
      auto it = t.find(rule.name);
      require(it != t.end(), "a complex rule for {}, which has no row", rule.name);
      it->second.on_complex = rule.decompose;
    }
}

void mark_core(Table& t) {
  for (std::string_view name : ops::core_names())
    if (auto it = t.find(name); it != t.end()) it->second.is_core = true; // torch has some that write operands, or ask for strides
  for (auto rules : {ops::core_rules(), ops::core_pointwise_rules()})
    for (const ops::CoreRule& rule : rules) {
      auto it = t.find(rule.name);
      require(it != t.end() && !it->second.is_core, "a core rule for {}, which has no row or is core", rule.name);
      it->second.to_core = rule.decompose;
    }
}

const Table& table() {
  static const Table built = [] {
    Table t;
    std::string duplicates;
    for (auto rows : all_rows())
      for (const OpRow& row : rows) {
        OpDef def{row, parse_schema(row.schema)};
        std::string name = def.signature.name;
        if (!t.emplace(name, std::move(def)).second) duplicates += name + " ";
      }
    require(duplicates.empty(), "two rows for {}", duplicates);
    attach_complex_rules(t);
    mark_core(t);
    return t;
  }();
  return built;
}

} // namespace

const OpDef* find_op(std::string_view name) {
  std::string key(name);
  if (name.starts_with("edge::")) key = "aten::" + key.substr(6);
  auto it = table().find(key);
  if (it == table().end()) it = table().find(key + ".default");
  if (it != table().end()) return &it->second;
  return ops::find_custom(key.rfind('.') == key.npos || key.rfind('.') < key.find("::") ? key + ".default" : key);
}

std::string functional_name(std::string_view name) {
  size_t begin = name.find("::"), dot = name.find('.', begin == name.npos ? 0 : begin);
  if (begin == name.npos || dot == name.npos || dot < 2 || name[dot - 1] != '_' || name[dot - 2] == '_') return std::string(name);
  return std::string(name.substr(0, dot - 1)) + std::string(name.substr(dot));
}

std::vector<const OpDef*> all_ops() {
  std::vector<const OpDef*> out;
  for (auto& [name, def] : table()) out.push_back(&def);
  return out;
}

} // namespace tenon
