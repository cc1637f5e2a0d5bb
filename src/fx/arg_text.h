// Arguments of nodes as torch writes them, in and out: in the lists of a graph's print, and in its Python code.
#pragma once
#include <unordered_map>

#include "base/lexer.h"
#include "fx/graph.h"

namespace tenon {

enum class ArgStyle : uint8_t {
  Graph,  // (%x, 2, same, cpu): nodes have a mark, strings are bare where they can be
  Python, // (x, 2, 'same', device(type='cpu')): strings are quoted
};

/// The names of nodes in one graph, by which arguments find them.
using NodeNames = std::unordered_map<std::string, uint32_t>;

/// Reads arguments at a lexer's place. Throws Error(BadInput) with the line.
class ArgParser {
public:
  ArgParser(Lexer& lexer, const NodeNames& names, ExprPool& pool) : lex_(lexer), names_(names), pool_(pool) {}

  Arg parse(ArgStyle style);
  /// The elements up to `end`, its opening bracket being read. `text_at`: the element that is free text, which may hold commas.
  ArgList parse_list(ArgStyle style, std::string_view end, int text_at = -1);
  Arg node_named(std::string_view name);

private:
  std::optional<Arg> parse_bracketed(ArgStyle style);
  std::optional<Arg> parse_complex();
  Arg parse_number();
  Arg parse_word(ArgStyle style, const std::string& word);
  Arg parse_device();
  Arg parse_free_text();

  Lexer& lex_;
  const NodeNames& names_;
  ExprPool& pool_;
};

std::string text_of(const FxGraph& graph, const Arg& arg, ArgStyle style);
/// Elements from `begin` on, with commas between them.
std::string text_of_list(const FxGraph& graph, const ArgList& list, size_t begin, ArgStyle style);
/// Free text as it is where it is read back so, else as text_of.
std::string text_of_free_text(const FxGraph& graph, const Arg& arg);
/// A target as torch spells it today: of torch.op.aten.add, as documents have it, torch.ops.aten.add.
std::string spelled_target(std::string_view target);
/// Of operators whose last positional argument is free text in a graph's print, its place; -1 for others.
int place_of_text(std::string_view target);

} // namespace tenon
