// What is done to a script graph before it becomes code.
#pragma once
#include "ir/graph.h"

namespace tenon::executor {

/// Constants are made once, at the beginning; operators on numbers and strings that are known are computed; branches whose condition is
/// known go; elements of tuples that are made in sight are taken as they are; what is computed for nothing goes.
void simplify(Graph& graph);

} // namespace tenon::executor
