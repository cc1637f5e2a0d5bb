// Kernels as text: loops and statements by indentation, expressions infix, loads as b0[offset].
#include "loops/kernel.h"

namespace tenon {

namespace {

constexpr std::string_view reduction_names[] = {"none", "sum", "prod", "max", "min", "any", "all", "argmax", "argmin"};

// Expr text names operands in0, in1 ...: here they are buffers.
std::string text(Expr e) {
  std::string s = to_string(e);
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
  if (k.scratch_bytes) out += "  scratch " + text(k.scratch_bytes);
  out += "\n";
  print(k.body, 1, out);
  return out;
}

} // namespace tenon
