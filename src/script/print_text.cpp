// Script graphs as text.
#include <unordered_set>

#include "expr/eval.h"
#include "script/text.h"

namespace tenon::script {

namespace {

// As C's printf("%.17g") writes it, with a point behind whole numbers.
std::string text_of_float(double d) {
  if (std::isnan(d)) return "nan";
  if (std::isinf(d)) return d < 0 ? "-inf" : "inf";
  std::string s = fmt::format("{:.17g}", d);
  return s.find_first_of(".e") == s.npos ? s + "." : s;
}

std::string quoted(std::string_view text) {
  std::string s = "\"";
  for (char c : text) switch (c) {
    case '"': s += "\\\""; break;
    case '\\': s += "\\\\"; break;
    case '\n': s += "\\n"; break;
    case '\t': s += "\\t"; break;
    default: s += static_cast<unsigned char>(c) < 32 ? fmt::format("\\x{:02x}", c) : std::string(1, c);
    }
  return s + "\"";
}

// A name for each value: its hint, made unique; or a number.
class ValueNames {
public:
  explicit ValueNames(const Graph& g) : g_(g) {
    for_each_value_of(g.top(), [&](ValueId v) { given_.insert(g_.value(v).name); });
    for_each_value_of(g.top(), [&](ValueId v) { name(v); });
  }
  const std::string& operator[](ValueId v) const { return names_.get(v); }

private:
  template <class F> void for_each_value_of(BlockId id, const F& f) {
    for (ValueId p : g_.block(id).params) f(p);
    for (NodeId n : g_.block(id).nodes) {
      for (BlockId inner : g_.node(n).blocks) for_each_value_of(inner, f);
      for (ValueId v : g_.node(n).outputs) f(v);
    }
  }
  void name(ValueId v) {
    std::string own = g_.value(v).name;
    if (own.empty()) {
      do own = std::to_string(next_++);
      while (used_.contains(own) || given_.contains(own));
    }
    std::string unique = own;
    for (int k = 1; !used_.insert(unique).second; k++) unique = fmt::format("{}.{}", own, k);
    names_[v] = "%" + unique;
  }

  const Graph& g_;
  SideTable<ValueId, std::string> names_;
  std::unordered_set<std::string> used_, given_;
  int next_ = 0;
};

class TextPrinter {
public:
  TextPrinter(const Graph& g, Spelling spelling) : g_(g), names_(g), old_(spelling == Spelling::Of2018) {}

  std::string graph() const {
    const Block& top = g_.block(g_.top());
    std::string s = "graph(" + params(top, old_ ? "\n      " : ",\n      ") + (old_ ? ") {\n" : "):\n");
    for (NodeId n : top.nodes) s += node(n, "  ");
    return s + "  return (" + list(top.returns) + (old_ ? ");\n}\n" : ")\n");
  }

private:
  std::string type(const Value& v) const {
    std::string s = to_string(v.type, v.meta);
    if (!old_) return s;
    if (v.type.is(TypeKind::Dynamic)) return "Dynamic";
    if (v.type.is(TypeKind::Tuple)) return "Tuple";
    return v.type.is(TypeKind::List) && v.type.element().is(TypeKind::Dynamic) ? "Dynamic[]" : s;
  }
  std::string declared(ValueId v) const { return names_[v] + " : " + type(g_.value(v)); }

  std::string params(const Block& b, std::string_view between) const {
    std::string s;
    for (ValueId p : b.params) s += (s.empty() ? "" : std::string(between)) + declared(p);
    return s;
  }
  std::string list(const ArgList& args) const {
    std::string s;
    for (const Arg& a : args) s += (s.empty() ? "" : ", ") + (a.is<ValueId>() ? names_[a.get<ValueId>()] : constant(a, {}));
    return s;
  }

  std::string node(NodeId id, const std::string& indent) const {
    const Node& n = g_.node(id);
    std::string s, attributes;
    for (ValueId v : n.outputs) s += (s.empty() ? "" : ", ") + declared(v);
    for (const Attribute& a : n.attributes)
      attributes += (attributes.empty() ? "[" : ", ") + a.name + "=" +
                    constant(a.value, n.outputs.size() == 1 ? g_.type(n.outputs[0]) : Type::simple(TypeKind::Any));
    if (!attributes.empty()) attributes += "]";
    s = indent + s + " = " + n.op.name() + attributes + "(" + list(n.args) + ")";
    if (n.origin && !n.origin->range.empty()) s += " # " + n.origin->range;
    s += "\n";
    for (size_t i = 0; i < n.blocks.size(); i++) s += block(n.blocks[i], i, indent + "  ");
    return s;
  }

  std::string block(BlockId id, size_t number, const std::string& indent) const {
    const Block& b = g_.block(id);
    std::string s = fmt::format("{}block{}({}){}\n", indent, number, params(b, ", "), old_ ? " {" : ":");
    for (NodeId n : b.nodes) s += node(n, indent + "  ");
    return s + fmt::format("{}  -> ({})\n{}", indent, list(b.returns), old_ ? indent + "}\n" : "");
  }

  // Elements of lists and tuples write booleans in words, a constant by itself as a number.
  std::string constant(const Arg& a, const Type& t, bool inside = false) const {
    if (a.is_none()) return "None";
    if (a.is<bool>()) return inside ? (a.get<bool>() ? "True" : "False") : (a.get<bool>() ? "1" : "0");
    if (a.is<int64_t>()) return std::to_string(a.get<int64_t>());
    if (a.is<double>()) return text_of_float(a.get<double>());
    if (a.is<std::string>())
      return inside && t.is(TypeKind::Device) ? "torch.device(" + quoted(a.get<std::string>()) + ")" : quoted(a.get<std::string>());
    if (a.is<Word>()) return a.get<Word>().text;
    if (a.is<std::complex<double>>()) {
      auto c = a.get<std::complex<double>>();
      return text_of_float(c.real()) + (std::signbit(c.imag()) ? "" : "+") + text_of_float(c.imag()) + "j";
    }
    if (a.is<TensorId>()) return tensor(g_.tensor(a.get<TensorId>()));
    if (a.is<ArgList>()) return constants(a.get<ArgList>(), t);
    if (a.is<GraphP>()) {
      std::string text = TextPrinter(*a.get<GraphP>(), old_ ? Spelling::Of2018 : Spelling::Today).graph();
      return text.substr(0, text.size() - 1);
    }
    internal_error("a constant of a script graph that has no text");
  }

  std::string constants(const ArgList& items, const Type& t) const {
    bool is_tuple = t.is(TypeKind::Tuple);
    if (items.empty() && t.is(TypeKind::List)) return fmt::format("annotate({}, [])", annotation(t));
    std::string s;
    for (size_t i = 0; i < items.size(); i++) {
      Type of = is_tuple && i < t.elements().size() ? t.element(i) : t.is(TypeKind::List) ? t.element() : Type::simple(TypeKind::Any);
      s += (i ? ", " : "") + constant(items[i], of, true);
    }
    return is_tuple ? "(" + s + (items.size() == 1 ? ",)" : ")") : "[" + s + "]";
  }

  static std::string tensor(const Tensor& t) {
    if (t.numel() != 1 || is_complex(t.dtype())) return "<Tensor>";
    return dispatch(t.dtype(), [&]<class T>(T) -> std::string {
      if (is_float(t.dtype())) return "{" + text_of_float(convert<double>(*t.data_as<T>())) + "}";
      return fmt::format("{{{}}}", convert<int64_t>(*t.data_as<T>()));
    });
  }

  const Graph& g_;
  ValueNames names_;
  bool old_;
};

} // namespace

std::string to_text(const Graph& graph, Spelling spelling) { return TextPrinter(graph, spelling).graph(); }

} // namespace tenon::script
