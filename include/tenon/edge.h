// The Edge dialect's operators: which dtypes their arguments and results may have.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "tenon/error.h"
#include "tenon/tensor.h"

namespace tenon {

/// The dtypes that an argument ("self") or a result ("__ret_0") of an Edge operator ("edge::sigmoid.default"; ".default" may be left
/// out) has in some allowed call. Which of them go together Program::check_edge_types tells. Errors: BadInput where there is no such
/// operator or argument. Thread-safe.
TENON_API Result<std::vector<DType>> allowed_types(std::string_view op, std::string_view argument);
/// All of them, in the language of ExecuTorch's edge.yaml.
TENON_API std::string edge_types_yaml();

} // namespace tenon
