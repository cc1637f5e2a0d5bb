// The verifier: what holds for every graph, and what each dialect adds. Passes are checked with it after each step under
// TENON_VERIFY=1 and in all tests.
#pragma once
#include "ir/op.h"

namespace tenon {

enum class Dialect : uint8_t {
  Any,  ///< a graph: SSA with scopes, operators that exist, arguments and results as the schemas say, types as the rows infer them, blocks
        ///< that fit
  Aten, ///< and no edge:: or tenon:: operator
  Core, ///< and functional: operators that torch tags core, and those that nothing takes apart
  Edge, ///< and functional: edge:: operators without decomposition or with a late one, tenon:: rows, prim::; pointwise operands are tensors
        ///< of one dtype
  Backend, ///< and regions (tenon::loops, tenon::matmul, tenon::conv, tenon::attention) of defined operators; outside them library steps
           ///< and prim::
  Script,  ///< TorchScript: operators without overloads, values alone as arguments. Scopes are looked at here, all else in script/lint.h
};
std::string_view name_of(Dialect dialect);

/// Throws Error(Internal) that names what is wrong, the node and its source line.
void verify(const Graph& graph, Dialect dialect = Dialect::Any);
/// The same for a graph that a file or text gave: BadInput where scopes, arguments, results or blocks do not fit. The types of
/// results are not looked at: to_edge derives them anyway, and compares. Operators without a row are listed when the program is compiled.
void verify_given(const Graph& graph, Dialect dialect = Dialect::Aten);

/// Why a node is not of the dialect; empty where it is. Its blocks are not looked at. `in_region`: inside a Backend region.
std::string refusal(const Graph& graph, const Node& node, Dialect dialect, bool in_region = false);
/// Whether every node is of the dialect.
bool is_aten(const Graph& graph);
bool is_core(const Graph& graph);
bool is_edge(const Graph& graph);

/// Throws BadInput that names a value whose memory is not in torch.contiguous_format, and says how many there are: what the ATen dialect
/// asks of graphs (its fifth property), and torch.export does not keep. tenon takes both.
void verify_contiguous(const Graph& graph);
/// Whether the argument may stand where the schema has `s`.
bool fits(const Graph& graph, const SchemaArg& s, const Arg& a);

/// tenon::loops, tenon::matmul, tenon::conv, tenon::attention: a node whose block is computed in one step.
bool is_region(const Node& node);

} // namespace tenon
