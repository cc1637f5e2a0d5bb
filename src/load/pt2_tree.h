// Pytrees as torch writes them: a JSON text for in_spec, one for out_spec.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "load/json.h"
#include "tenon/tree.h"

namespace tenon {

/// Of named tuples, by the name of the class.
using FieldNames = std::map<std::string, std::vector<std::string>, std::less<>>;

FieldNames read_field_names(json::Element graph_module);
/// With an ArgInfo for each leaf. Fields of a dataclass that were None at export are None: they have no leaf.
Tree read_tree(std::string_view text, const FieldNames& fields);

} // namespace tenon
