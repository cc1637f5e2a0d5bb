// Builds the table once, on first use: rows by name. A row's schema is parsed when the row is found first.
#include "ops/table.h"

#include "ops/collective.h"
#include "ops/complex.h"
#include "ops/core.h"

#include <array>
#include <map>
#include <mutex>

#include "ops/custom.h"

namespace tenon {

namespace {

struct Entry {
  OpDef def; // but for the signature, until that is parsed
  std::once_flag parsed;
};
using Table = std::map<std::string, Entry, std::less<>>;

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
      ops::backward_sample_rows(),
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
      it->second.def.on_complex = rule.decompose;
    }
}

void mark_core(Table& t) {
  for (std::string_view name : ops::core_names())
    if (auto it = t.find(name); it != t.end()) it->second.def.is_core = true; // torch has some that write operands, or ask for strides
  for (auto rules : {ops::core_rules(), ops::core_pointwise_rules()})
    for (const ops::CoreRule& rule : rules) {
      auto it = t.find(rule.name);
      require(it != t.end() && !it->second.def.is_core, "a core rule for {}, which has no row or is core", rule.name);
      it->second.def.to_core = rule.decompose;
    }
}

std::string name_of(const OpRow& row) { // as parse_schema has it
  std::string name(row.schema.substr(0, row.schema.find('(')));
  return name.find('.') == name.npos ? name + ".default" : name;
}

Table make_table() {
  Table t;
  std::string duplicates;
  for (auto rows : all_rows())
    for (const OpRow& row : rows) {
      auto [it, fresh] = t.try_emplace(name_of(row));
      if (fresh) static_cast<OpRow&>(it->second.def) = row;
      else duplicates += it->first + " ";
    }
  require(duplicates.empty(), "two rows for {}", duplicates);
  attach_complex_rules(t);
  mark_core(t);
  return t;
}

Table& table() {
  static Table built = make_table();
  return built;
}

const OpDef* parsed(Entry& e) {
  std::call_once(e.parsed, [&] { e.def.signature = parse_schema(e.def.schema); });
  return &e.def;
}

} // namespace

const OpDef* find_op(std::string_view name) {
  std::string key(name);
  if (name.starts_with("edge::")) key = "aten::" + key.substr(6);
  auto it = table().find(key);
  if (it == table().end()) it = table().find(key + ".default");
  if (it != table().end()) return parsed(it->second);
  return ops::find_custom(key.rfind('.') == key.npos || key.rfind('.') < key.find("::") ? key + ".default" : key);
}

std::string functional_name(std::string_view name) {
  size_t begin = name.find("::"), dot = name.find('.', begin == name.npos ? 0 : begin);
  if (begin == name.npos || dot == name.npos || dot < 2 || name[dot - 1] != '_' || name[dot - 2] == '_') return std::string(name);
  return std::string(name.substr(0, dot - 1)) + std::string(name.substr(dot));
}

std::vector<const OpDef*> all_ops() {
  std::vector<const OpDef*> out;
  for (auto& [name, entry] : table()) out.push_back(parsed(entry));
  return out;
}

} // namespace tenon
