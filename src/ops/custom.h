// Operators that the user registered at run time; find_op() finds them like the rows of the table.
#pragma once
#include "ir/op.h"
#include "tenon/custom_op.h"

namespace tenon::ops {

/// Throws Error(BadInput) for what is wrong with the description, or where the name has another meaning.
void register_custom(const tenon_op& op);
/// By full name, "mine::gate.default"; null where there is none. Thread-safe; the pointer stays valid.
const OpDef* find_custom(std::string_view name);
/// What the steps of all custom operators with a function call. The first of its integers is the operator's number, the same in every
/// process.
const char* call_custom(const LibraryCall& call);
/// Schema and shape rule of the operator of that number; empty where none is registered.
std::string custom_text(int64_t number);
/// For a custom operator that writes arguments: the one that returns their new values after its results. Null for others.
const OpDef* functional_custom(const OpDef& def);

} // namespace tenon::ops
