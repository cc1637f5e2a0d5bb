// The rows of collective operations.
#pragma once
#include <span>

#include "ir/op.h"

namespace tenon::ops {

std::span<const OpRow> collective_rows();

} // namespace tenon::ops
