// choose_kernels: which nodes the user's kernels compute. A kernel says which operator it is for, in which dtypes and layout; the layout is
// that of the first tensor, as torch recorded it.
#include <algorithm>

#include <fmt/ranges.h>

#include "aten/passes.h"
#include "ir/dim_order.h"
#include "ops/custom.h"

namespace tenon {

namespace {

struct Asked : ops::Kernel {
  std::vector<std::string> taken, refused = {}; // nodes
};

std::vector<Asked> kernels_of(const LoadedProgram& program) {
  std::vector<Asked> all;
  for (const std::string& name : program.kernels) {
    std::vector<ops::Kernel> found = ops::find_kernels(name);
    require_input(!found.empty(), "no kernel {} is registered", name);
    for (ops::Kernel& k : found)
      if (std::ranges::none_of(all, [&](const Asked& a) { return a.row_major == k.row_major && a.channels_last == k.channels_last; }))
        all.push_back({std::move(k), {}});
  }
  return all;
}

bool is_channels_last(const Type& t) {
  for (const char* format : {"channels_last", "channels_last_3d"})
    if (std::vector<int> order = order_of_format(format, t.rank()); !order.empty() && lies_in_order(t, order)) return true;
  return false;
}

// What the kernel's node calls, or why it does not take this one.
const OpDef* form_for(const Graph& g, const Node& n, const ops::Kernel& k, std::string& why) {
  auto& schema = k.op->signature.args;
  bool first = true, channels_last = false;
  for (size_t i = 0; i < n.args.size(); i++)
    for_each_value(n.args[i], [&](ValueId v) {
      const Type& t = g.type(v);
      if (!t.is_tensor()) return;
      if (!(k.dtypes >> static_cast<int>(t.dtype) & 1)) why = fmt::format("{} is {}", schema[i].name, name_of(t.dtype));
      if (std::exchange(first, false)) channels_last = is_channels_last(t);
    });
  const OpDef* form = channels_last ? k.channels_last : k.row_major;
  if (!why.empty()) return nullptr;
  if (!form) return why = channels_last ? "its memory is channels-last" : "its memory is not channels-last", nullptr;
  for (ValueId v : n.outputs)
    if (!g.type(v).is_tensor()) return why = "a result is no tensor", nullptr;
  try { // its arguments and results are such as a step can have
    k.step->library(Call(g, *k.step, n.args, n.attributes));
    infer_types(g, *form, n.args);
  } catch (const Error& e) {
    return why = e.what(), nullptr;
  }
  return form;
}

} // namespace

bool choose_kernels(LoadedProgram& program) {
  std::vector<Asked> kernels = kernels_of(program);
  program.kernels.clear();
  if (kernels.empty()) return false;
  Rewriter r(program.graph, program.is_edge);
  bool changed = false;
  auto take = [&](NodeId id, const OpDef& form) {
    const Node& n = r.from.node(id);
    changed = true;
    if (program.is_edge) {
      size_t first = r.to.num_nodes();
      Values now = r.builder.call_full(form, r(n.args));
      ops::keep_attributes(r.to, first, n.attributes);
      for (size_t i = 0; i < n.outputs.size(); i++) r.set(n.outputs[i], now[i]);
      return;
    }
    r.copy_node(id); // with the types that are recorded
    Node& made = r.to.node(r.to.value(r[n.outputs.at(0)]).node);
    made.op = form.signature.name, made.def = &form;
  };
  r.node = [&](NodeId id) {
    const Node& n = r.from.node(id);
    for (Asked& k : kernels) {
      if (n.def != k.op || n.outputs.empty()) continue;
      const std::string& given = r.from.value(n.outputs[0]).name;
      std::string name = "%" + (given.empty() ? std::to_string(n.outputs[0].index) : given), why;
      if (const OpDef* form = form_for(r.from, n, k, why)) {
        k.taken.push_back(name);
        return take(id, *form);
      }
      k.refused.push_back(fmt::format("{}: {}", name, why));
    }
    r.copy_node(id);
  };
  rewrite_program(program, r, changed);
  for (const Asked& k : kernels) {
    program.notes.push_back(fmt::format("kernel {} of {} takes {}", k.name, k.op->signature.name,
                                        k.taken.empty() ? "no node" : fmt::format("{}", fmt::join(k.taken, ", "))));
    for (const std::string& why : k.refused) program.notes.push_back("  not " + why);
  }
  return changed;
}

} // namespace tenon
