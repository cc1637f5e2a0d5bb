// Words that texts, tables and pages of an explanation share.
#pragma once
#include <string>

#include "tenon/explain.h"

namespace tenon {

const char* name_of(ExplainedStep::Kind kind);
const char* name_of(ExplainedBuffer::Place place);
/// How many steps of control flow it is in.
int depth_of(const Explanation& explanation, const ExplainedStep& step);
/// A step that matters and could be twice as fast.
bool is_far(const ExplainedStep& step);
/// "arithmetic" or "memory".
const char* bound_name(const ExplainedStep& step);
/// `layers.0, File "m.py", line 7, in forward`.
std::string to_string(const SourceLine& line);
/// All of a step's, as one text.
std::string sources(const ExplainedStep& step);
/// `m.py:7 layers.0`: the first one, without the folders of its file.
std::string short_source(const ExplainedStep& step);

} // namespace tenon
