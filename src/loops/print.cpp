// Kernels as text: loops and statements by indentation, expressions infix, loads as b0[offset].
#include <deque>
#include <unordered_map>

#include "loops/kernel.h"

namespace tenon {

namespace {

constexpr std::string_view reduction_names[] = {"none", "sum", "prod", "max", "min", "any", "all", "argmax", "argmin"};

// An expression that is a graph of shared parts: as a tree it may be of any size. Parts that it has several times come first, by names.
class SharedText {
public:
  explicit SharedText(Expr e) { count(e); }
  /// Of the tree, no more than that it is too large.
  size_t size(Expr e) {
    if (auto it = sizes_.find(e.get()); it != sizes_.end()) return it->second;
    size_t n = 1;
    for (Expr a : e->args) n = std::min(n + size(a), most_nodes + 1);
    return sizes_[e.get()] = n;
  }
  std::string print(Expr e) {
    std::string value = to_string(replaced(e, true));
    return parts_ + value;
  }
  static constexpr size_t most_nodes = 1000;

private:
  void count(Expr e) {
    if (uses_[e.get()]++ == 0)
      for (Expr a : e->args) count(a);
  }
  Expr replaced(Expr e, bool top = false) {
    if (e->args.empty()) return e;
    if (auto it = done_.find(e.get()); it != done_.end()) return it->second;
    ExprNode n = *e;
    for (Expr& a : n.args) a = replaced(a);
    Expr copy(&nodes_.emplace_back(std::move(n)));
    if (!top && e->op != Op::Axis && uses_[e.get()] > 1) {
      std::string name = fmt::format("t{}", names_++);
      parts_ += fmt::format("{} = {}; ", name, to_string(copy));
      copy = Expr(&nodes_.emplace_back(ExprNode{.op = Op::Symbol, .type = DType::I64, .name = name}));
    }
    return done_[e.get()] = copy;
  }

  std::unordered_map<const ExprNode*, size_t> sizes_, uses_;
  std::unordered_map<const ExprNode*, Expr> done_;
  std::deque<ExprNode> nodes_;
  std::string parts_;
  int names_ = 0;
};

std::string tree_text(Expr e) {
  if (!e) return to_string(e);
  SharedText shared(e);
  return shared.size(e) <= SharedText::most_nodes ? to_string(e) : shared.print(e);
}

// Expr text names operands in0, in1 ...: here they are buffers.
std::string text(Expr e) {
  std::string s = tree_text(e);
  for (size_t at = 0; (at = s.find("in", at)) != std::string::npos;) {
    size_t end = at + 2;
    while (end < s.size() && s[end] >= '0' && s[end] <= '9') end++;
    bool word = at > 0 && (std::isalnum(static_cast<unsigned char>(s[at - 1])) || s[at - 1] == '_');
    if (!word && end > at + 2 && end < s.size() && s[end] == '[') s.replace(at, 2, "b");
    at++;
  }
  return s;
}

void print(const std::vector<Stmt>& body, int depth, std::string& out) {
  auto line = [&](std::string_view s) { out += std::string(static_cast<size_t>(depth) * 2, ' ') + std::string(s) + "\n"; };
  for (const Stmt& s : body) {
    if (auto* l = std::get_if<Loop>(&s.v)) {
      std::string extent = text(l->axis->args[0]);
      if (l->lanes > 1) line(fmt::format("vector {} < {} lanes {}", text(l->axis), extent, l->lanes));
      else line(fmt::format("for {} < {}{}", text(l->axis), extent, l->tile > 1 ? fmt::format(" tile {}", l->tile) : ""));
      print(l->body, depth + 1, out);
    } else if (auto* r = std::get_if<ReduceRegion>(&s.v)) {
      std::string list;
      for (const Accumulator& a : r->accumulators)
        list += fmt::format("{}r{} = {} {}{}", list.empty() ? "" : ", ", a.reg, reduction_names[static_cast<size_t>(a.op)], name_of(a.type),
                            a.loses_nan ? " loses nan"
                            : a.widened ? " in f64"
                                        : "");
      line("reduce " + list);
      print(r->body, depth + 1, out);
    } else if (auto* st = std::get_if<Store>(&s.v)) line(fmt::format("b{}[{}] = {}", st->buffer, text(st->offset), text(st->value)));
    else if (auto* t = std::get_if<Turn>(&s.v))
      line(fmt::format("b{}[{}] by {} = turned b{}[{}] by {}, {} x {}", t->to, text(t->to_offset), text(t->to_step), t->from,
                       text(t->from_offset), text(t->from_step), text(t->rows), text(t->columns)));
    else {
      auto& a = std::get<Accumulate>(s.v);
      line(fmt::format("r{} <- {}{}", a.reg, text(a.value), a.position ? " at " + text(a.position) : ""));
    }
  }
}

} // namespace

std::string to_string(const Kernel& k) {
  std::string list, scalars;
  for (size_t i = 0; i < k.buffers.size(); i++) {
    const KernelBuffer& b = k.buffers[i];
    std::string_view kind = b.kind == BufferKind::Input     ? ""
                            : b.kind == BufferKind::Scratch ? "scratch "
                            : b.streamed                    ? "out streamed "
                                                            : "out ";
    list += fmt::format("{}b{}: {}{}", i ? ", " : "", i, kind, name_of(b.dtype));
    if (b.scratch_offset) list += " at " + text(b.scratch_offset);
  }
  for (Expr s : k.scalars) scalars += (scalars.empty() ? "; " : ", ") + text(s);
  std::string out = fmt::format("kernel {}({}{})  parallel {} < {}", k.name, list, scalars, text(k.parallel), text(k.parallel->args[0]));
  if (k.flushes_denormals) out += "  flushes denormals";
  if (k.reads_streams) out += "  reads streams";
  if (k.scratch_bytes) out += "  scratch " + text(k.scratch_bytes);
  out += "\n";
  print(k.body, 1, out);
  return out;
}

} // namespace tenon
