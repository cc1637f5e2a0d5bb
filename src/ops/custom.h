// Operators and kernels that the user registered at run time; find_op() finds them like the rows of the table.
#pragma once
#include "ir/op.h"
#include "tenon/custom_op.h"

namespace tenon::ops {

/// Throws Error(BadInput) for what is wrong with the description, or where the name has another meaning.
void register_custom(const tenon_op& op);
void register_kernel(const tenon_kernel& kernel);
/// By full name, "mine::gate.default"; null where there is none. Thread-safe; the pointer stays valid.
const OpDef* find_custom(std::string_view name);
/// What the steps of all custom operators with a function call, and those of kernels. The first of its integers is the operator's number,
/// the same in every process.
const char* call_custom(const LibraryCall& call);
/// What the operator or kernel of that number says of itself; empty where none is registered.
std::string custom_text(int64_t number);
/// For a custom operator that writes arguments: the one that returns their new values after its results. Null for others.
const OpDef* functional_custom(const OpDef& def);

/// Nodes from `first` on that call operators of the user get these: a node that had them has become several.
void keep_attributes(Graph& graph, size_t first, const std::vector<Attribute>& attributes);

/// A registered kernel, as programs see it.
struct Kernel {
  std::string name;
  const OpDef* op;                        // that it computes
  DTypes dtypes;                          // of tensor arguments
  const OpDef *row_major, *channels_last; // what its nodes call; null where it does not take that layout
  const OpDef* step;                      // that has a step for its arguments
};
/// Those whose name is `name`, or begins with what stands before a '*' at its end, in the order of their registration.
std::vector<Kernel> find_kernels(std::string_view name);
/// "aten::gelu.default by mine::gelu" for what nodes of a kernel call; the name of others.
std::string text_of(const OpDef& def);

} // namespace tenon::ops
