// Graphs and types as canonical text, in TorchScript's style; ir/parse.h says how it reads and reads it back:
//   symbol s77 in [1, 64]
//   graph(%x : Float(s77, 8)):
//     %0 : Float(s77, 8) = aten::mul.Tensor(%x, 2.0)
//     return (%0)
#include <algorithm>
#include <charconv>
#include <unordered_set>

#include "ir/graph.h"
#include "ir/op.h"
#include "ir/symbols.h"

namespace tenon {

namespace {

std::string quote(std::string_view text, char mark) {
  std::string s(1, mark);
  for (char c : text) {
    if (c == mark || c == '\\') s += {'\\', c};
    else if (c == '\n') s += "\\n";
    else if (c == '\t') s += "\\t";
    else if (static_cast<unsigned char>(c) < 32) s += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else s += c;
  }
  return s + mark;
}

std::string text_of_double(double d) {
  if (std::isnan(d)) return "nan";
  if (std::isinf(d)) return d < 0 ? "-inf" : "inf";
  std::string s = fmt::format("{}", d);
  return s.find_first_of(".en") == std::string::npos ? s + ".0" : s;
}

// The shortest digits that read back as the same float, by way of a double.
std::string text_of_float(float f) {
  if (!std::isfinite(f)) return text_of_double(f);
  std::string s = fmt::format("{}", f);
  if (static_cast<float>(std::stod(s)) != f) return text_of_double(f);
  return s.find_first_of(".e") == std::string::npos ? s + ".0" : s;
}

// "%" and a name for each value, unique in the whole graph: its own, with a number where another value has it too;
// values without a name are numbered in the order of the text.
class ValueNames {
public:
  explicit ValueNames(const Graph& g) : g_(g) { add_block(g.top()); }
  std::string operator[](ValueId id) const {
    const std::string& name = names_.get(id);
    return name.empty() ? fmt::format("%?{}", id.index) : name; // used, but nowhere defined: only in a broken graph
  }

private:
  void add_block(BlockId id) {
    for (ValueId v : g_.block(id).params) add(v);
    for (NodeId n : g_.block(id).nodes) {
      for (ValueId v : g_.node(n).outputs) add(v);
      for (BlockId b : g_.node(n).blocks) add_block(b);
    }
  }
  void add(ValueId id) {
    const std::string& own = g_.value(id).name;
    if (own.empty()) {
      names_[id] = fmt::format("%{}", next_++);
      return;
    }
    std::string name = "%";
    if (own[0] >= '0' && own[0] <= '9') name += '_';
    for (char c : own) name += std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' ? c : '_';
    std::string unique = name;
    for (int k = 1; !used_.insert(unique).second; k++) unique = fmt::format("{}.{}", name, k);
    names_[id] = unique;
  }

  const Graph& g_;
  SideTable<ValueId, std::string> names_;
  std::unordered_set<std::string> used_;
  size_t next_ = 0;
};

// Tensors up to this size are written with their elements; of larger ones the text says only dtype, sizes and number.
constexpr int64_t inline_elements = 16;

std::string text_of_tensor(const Tensor& given, TensorId id) {
  std::string sizes, values;
  for (int64_t s : given.sizes()) sizes += fmt::format("{}{}", sizes.empty() ? "" : ", ", s);
  std::string head = fmt::format("tensor<{} [{}]", name_of(given.dtype()), sizes);
  if (given.numel() > inline_elements || is_complex(given.dtype())) return fmt::format("{} @{}>", head, id.index);
  Tensor t = given.contiguous();
  dispatch(t.dtype(), [&]<class T>(T) {
    for (int64_t i = 0; i < t.numel(); i++) {
      T v = t.data_as<T>()[i];
      if constexpr (std::is_same_v<T, bool>) values += v ? " True" : " False";
      else if constexpr (std::is_integral_v<T>) values += fmt::format(" {}", static_cast<int64_t>(v));
      else if constexpr (std::is_same_v<T, double>) values += " " + text_of_double(v);
      else if constexpr (!is_complex_v<T>) values += " " + text_of_float(static_cast<float>(v));
    }
  });
  return head + values + ">";
}

std::string text_of_symbols(const Graph& g) {
  std::string s;
  for (Expr n : symbols_of(g)) {
    if (n->lo == INT64_MIN && n->hi == INT64_MAX) continue;
    s += fmt::format("symbol {} in [{}, {}]\n", n->name, n->lo == INT64_MIN ? "-inf" : std::to_string(n->lo),
                     n->hi == INT64_MAX ? "inf" : std::to_string(n->hi));
  }
  return s;
}

class Printer {
public:
  explicit Printer(const Graph& g) : g_(g) {}

  std::string value(ValueId id) const {
    if (!names_) names_.emplace(g_); // a walk over the whole graph, which immediates do without
    return (*names_)[id];
  }

  std::string arg(const Arg& a) const {
    struct Visit {
      const Printer& p;
      std::string operator()(std::monostate) const { return "None"; }
      std::string operator()(ValueId v) const { return p.value(v); }
      std::string operator()(bool b) const { return b ? "True" : "False"; }
      std::string operator()(int64_t i) const { return std::to_string(i); }
      std::string operator()(double d) const { return text_of_double(d); }
      std::string operator()(std::complex<double> c) const {
        return fmt::format("complex({}, {})", text_of_double(c.real()), text_of_double(c.imag()));
      }
      std::string operator()(const std::string& s) const { return quote(s, '"'); }
      std::string operator()(DType t) const { return fmt::format("dtype<{}>", name_of(t)); }
      std::string operator()(const Word& w) const { return quote(w.text, '\''); }
      std::string operator()(Expr e) const { return "{" + to_string(e) + "}"; }
      std::string operator()(const GraphP&) const { return "<Graph>"; }
      std::string operator()(TensorId t) const { return text_of_tensor(p.g_.tensor(t), t); }
      std::string operator()(const ArgList& l) const {
        std::string s;
        for (auto& e : l) s += (s.empty() ? "" : ", ") + p.arg(e);
        return "[" + s + "]";
      }
    };
    return std::visit(Visit{*this}, a.v);
  }

  std::string node(NodeId id, const std::string& indent) const {
    const Node& n = g_.node(id);
    std::string s = indent;
    for (size_t i = 0; i < n.outputs.size(); i++)
      s += fmt::format("{}{} : {}", i ? ", " : "", value(n.outputs[i]), text_of(g_.value(n.outputs[i])));
    s += (n.outputs.empty() ? "" : " = ") + n.op.name();
    if (!n.attributes.empty()) {
      std::string attributes;
      for (auto& a : n.attributes) attributes += (attributes.empty() ? "" : ", ") + a.name + "=" + arg(a.value);
      s += "[" + attributes + "]";
    }
    s += "(" + args(n) + ")";
    if (n.origin) s += comment(*n.origin);
    s += "\n";
    for (size_t i = 0; i < n.blocks.size(); i++) s += block(n.blocks[i], fmt::format("block{}", i), indent + "  ", "->");
    return s;
  }

  std::string block(BlockId id, const std::string& title, const std::string& indent, std::string_view ret) const {
    const Block& b = g_.block(id);
    std::string params;
    for (ValueId p : b.params) params += (params.empty() ? "" : ", ") + value(p) + " : " + text_of(g_.value(p));
    std::string s = fmt::format("{}{}({}):\n", indent, title, params);
    for (NodeId n : b.nodes) s += node(n, indent + "  ");
    std::string returns;
    for (auto& r : b.returns) returns += (returns.empty() ? "" : ", ") + arg(r);
    return s + fmt::format("{}  {} ({})\n", indent, ret, returns);
  }

private:
  // Keyword-only arguments by name, those that equal their default left out.
  std::string args(const Node& n) const {
    std::string s;
    size_t last = n.args.size();
    if (n.def)
      while (last > 0 && n.def->signature.args.size() == n.args.size() && n.def->signature.args[last - 1].has_default &&
             n.args[last - 1] == n.def->signature.args[last - 1].fallback)
        last--;
    for (size_t i = 0; i < last; i++) {
      bool keyword = n.def && i < n.def->signature.args.size() && n.def->signature.args[i].keyword_only;
      if (keyword && n.def->signature.args[i].has_default && n.args[i] == n.def->signature.args[i].fallback) continue;
      s += (s.empty() ? "" : ", ") + (keyword ? n.def->signature.args[i].name + "=" : "") + arg(n.args[i]);
    }
    return s;
  }

  static std::string text_of(const Value& v) { return to_string(v.type, v.meta); }

  // `  # File "model.py", line 12, in forward, module layers.0`
  static std::string comment(const Origin& origin) {
    std::string_view frame = user_frame(origin);
    std::string path = module_path(origin);
    if (frame.empty()) return {};
    return fmt::format("  # {}{}{}", frame, path.empty() ? "" : ", module ", path);
  }

  const Graph& g_;
  mutable std::optional<ValueNames> names_;
};

} // namespace

std::string to_string(const Graph& graph) { return text_of_symbols(graph) + Printer(graph).block(graph.top(), "graph", "", "return"); }
std::string to_string(const Graph& graph, NodeId node) { return Printer(graph).node(node, ""); }
std::string to_string(const Graph& graph, const Arg& arg) { return Printer(graph).arg(arg); }

} // namespace tenon
