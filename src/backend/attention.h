// Attention among the nodes of a graph: softmax(score(Q K^T)) V, whoever wrote it and however. The score is any
// expression of an element of Q K^T and of what can be read at its batch, row and key: scales, masks, biases,
// comparisons of indices.
#pragma once
#include "backend/region.h"

namespace tenon {

/// The nodes from Q K^T on that lead to the product with V and to nothing else.
struct AttentionNodes {
  NodeId scores;
  std::vector<NodeId> between; ///< scores first; without the product
};
/// The nodes that use a value; null where it is needed in memory.
using AttentionUses = std::function<const std::vector<NodeId>*(ValueId)>;
/// Empty where `product` does not end an attention; `why` says so where one was near.
std::optional<AttentionNodes> find_attention(const Graph& graph, NodeId product, const AttentionUses& uses, std::string& why);

/// How an operand lies in memory: element (digits of the batch, row, column) is at offset + digits*batch +
/// row*row_stride + column*column_stride of `value`'s buffer, times `factor`.
struct AttentionOperand {
  ValueId value = {};
  Expr offset = {};
  std::vector<Expr> batch = {};
  Expr row_stride = {}, column_stride = {};
  double factor = 1;
};

struct Attention {
  NodeId scores = {};          // Q K^T
  Expr batch, row, key;        // the index of the weights that multiply V; 0 where there is but one
  Expr score;                  // over these; Load(value of `scores`, {}) is the element of Q K^T, f32
  bool empty_is_zero = false;  // rows without a key left give 0, and not NaN
  std::vector<Expr> digits;    // the batch index is a number of these digits, the first counts most
  AttentionOperand q, k, v;    // rows of k and v are keys
  Expr upper = {}, lower = {}; // keys beyond row + upper, or before row + lower, have no weight; may be empty
  Expr visible;                // the score of keys within these bounds
};
inline constexpr size_t most_attention_digits = 4;

/// The attention that ends in `product`, where the inliner writes out what lies between. Empty where it is none; `why`
/// tells the reason, and `operand` is the value that has no address, where that is the reason.
std::optional<Attention> match_attention(const Graph& graph, NodeId product, NodeId scores, Inliner& inliner, std::string& why,
                                         ValueId* operand = nullptr);
/// The contraction Q K^T in the body of a tenon::attention region.
NodeId scores_of(const Graph& graph, NodeId region);

} // namespace tenon
