// load_torch_save: finds the pickle in its archive, runs it, and unfolds the graph of nodes into a tree; flatten.
#include "load/pickle.h"

#include "load/pickle_machine.h"

namespace tenon {

namespace {

/// Unfolds shared nodes into a tree. The graph may be exponentially larger when unfolded, and may be cyclic.
class Unfolder {
public:
  Unfolder(const PickleGraph& graph, const PickleLimits& limits) : graph_(graph), limits_(limits), open_(graph.nodes.size()) {}

  PickleValue value(PickleRef ref) {
    require_input(++nodes_ <= limits_.tree_nodes, "the saved value has more than {} parts", limits_.tree_nodes);
    require_input(!open_[ref], "the saved value contains itself");
    require_input(++depth_ <= limits_.depth, "the saved value is nested more than {} deep", limits_.depth);
    open_[ref] = true;
    PickleValue out = convert(graph_.nodes[ref]);
    open_[ref] = false;
    depth_--;
    return out;
  }

private:
  void charge(size_t bytes) {
    bytes_ += bytes;
    require_input(bytes_ <= limits_.tree_bytes, "the saved value has more than {} bytes of text", limits_.tree_bytes);
  }
  std::string text(const std::string& s) {
    charge(s.size());
    return s;
  }
  std::vector<PickleValue> values(const std::vector<PickleRef>& refs) {
    std::vector<PickleValue> out;
    for (PickleRef r : refs) out.push_back(value(r));
    return out;
  }
  std::vector<PicklePair> pairs(const std::vector<PickleRef>& refs) {
    std::vector<PicklePair> out;
    for (size_t i = 0; i + 1 < refs.size(); i += 2) {
      PickleValue key = value(refs[i]);
      out.push_back({std::move(key), value(refs[i + 1])});
    }
    return out;
  }
  PickleValue convert(const PickleNode& n) {
    switch (n.kind) {
    case PickleKind::None: return {};
    case PickleKind::Bool: return {n.integer != 0};
    case PickleKind::Int: return {n.integer};
    case PickleKind::Float: return {n.real};
    case PickleKind::String: return {text(n.text)};
    case PickleKind::Bytes: return {PickleBytes{text(n.text)}};
    case PickleKind::Tuple: return {PickleTuple{values(n.items)}};
    case PickleKind::List: return {PickleList{values(n.items)}};
    case PickleKind::Dict: return {PickleDict{pairs(n.items)}};
    case PickleKind::Tensor: {
      const Tensor& t = graph_.tensors[static_cast<size_t>(n.integer)];
      charge(t.rank() * 2 * sizeof(int64_t));
      return {t};
    }
    case PickleKind::Global:
    case PickleKind::Storage:
    case PickleKind::Object: break;
    }
    PickleObject o;
    o.is_new = n.is_new;
    if (n.kind == PickleKind::Storage) { // a bare storage: its class, with key and length
      o.class_name = text(graph_.nodes[n.other].text);
      o.args = {PickleValue{text(n.text)}, PickleValue{n.integer}};
      return {std::move(o)};
    }
    o.class_name = text(n.text);
    o.args = values(n.items);
    o.items = pairs(n.pairs);
    if (n.other != no_ref) o.state.push_back(value(n.other));
    return {std::move(o)};
  }

  const PickleGraph& graph_;
  const PickleLimits& limits_;
  std::vector<bool> open_; // nodes on the way from the root
  size_t nodes_ = 0, bytes_ = 0;
  int depth_ = 0;
};

/// Calls `visit` on each direct part of `v`, in order; dictionary keys are not parts.
template <class F> void for_each_part(const PickleValue& v, const F& visit) {
  if (auto* t = v.as<PickleTuple>())
    for (auto& x : t->items) visit(x);
  if (auto* t = v.as<PickleList>())
    for (auto& x : t->items) visit(x);
  if (auto* t = v.as<PickleDict>())
    for (auto& x : t->items) visit(x.value);
  if (auto* t = v.as<PickleObject>()) {
    for (auto& x : t->args) visit(x);
    for (auto& x : t->items) visit(x.value);
    for (auto& x : t->state) visit(x);
  }
}

bool holds_object(const PickleValue& v) {
  bool found = false;
  for_each_part(v, [&](const PickleValue& x) { found = found || x.as<PickleObject>() || holds_object(x); });
  return found;
}

void add_tensors(const PickleValue& v, std::vector<PickleValue>& out) {
  if (v.as<Tensor>()) out.push_back(v);
  for_each_part(v, [&](const PickleValue& x) { add_tensors(x, out); });
}

void add_leaves(const PickleValue& v, std::vector<PickleValue>& out);

void add_object(const PickleValue& v, const PickleObject& o, std::vector<PickleValue>& out) {
  const PickleDict* fields = o.state.size() == 1 ? o.state[0].as<PickleDict>() : nullptr;
  bool is_dict = !o.items.empty() && !o.items[0].key.is_none();
  if (is_dict) {
    for (auto& [key, value] : o.items) add_leaves(value, out);
  } else if (o.is_new && o.state.empty() && o.items.empty() && !o.args.empty()) { // a named tuple
    for (auto& x : o.args) add_leaves(x, out);
  } else if (fields && o.is_new && o.args.empty() && holds_object(o.state[0])) {
    add_tensors(o.state[0], out);
  } else if (fields && o.is_new && o.args.empty()) {
    for (auto& [key, value] : fields->items)
      if (!value.is_none()) add_leaves(value, out);
  } else out.push_back(v);
}

void add_leaves(const PickleValue& v, std::vector<PickleValue>& out) {
  if (auto* o = v.as<PickleObject>()) add_object(v, *o, out);
  else if (v.as<PickleTuple>() || v.as<PickleList>() || v.as<PickleDict>())
    for_each_part(v, [&](const PickleValue& x) { add_leaves(x, out); });
  else out.push_back(v);
}

} // namespace

PickleValue load_torch_save(Bytes bytes, std::shared_ptr<void> owner, const PickleLimits& limits) {
  // The magic number of torch before 1.6: a pickled integer, then pickles and storages one after the other.
  constexpr std::string_view old_magic("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 14);
  if (as_text(bytes).starts_with(old_magic)) unsupported("the torch.save file has the form of torch before 1.6; save it again");
  Archive archive = Archive::view(bytes, "torch.save file", std::move(owner));
  if (auto order = archive.find("byteorder"); order && as_text(*order) != "little")
    unsupported("the torch.save file has byte order {}; only little is supported", quoted(as_text(*order)));
  TensorBuilder builder(archive);
  PickleGraph graph = run_pickle(archive.get("data.pkl"), "data.pkl", limits, builder);
  return Unfolder(graph, limits).value(graph.root);
}

std::vector<PickleValue> flatten(const PickleValue& value) {
  std::vector<PickleValue> out;
  add_leaves(value, out);
  return out;
}

} // namespace tenon
