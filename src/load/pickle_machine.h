// The two halves of the unpickler, between bytes and PickleValue: the stack machine that turns opcodes into a graph of
// nodes (which may share and even contain each other), and the rebuilding of tensors from storages.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "load/archive.h"
#include "load/pickle.h"

namespace tenon {

using PickleRef = uint32_t; // index of a node
inline constexpr PickleRef no_ref = UINT32_MAX;

enum class PickleKind : uint8_t { None, Bool, Int, Float, String, Bytes, Tuple, List, Dict, Global, Storage, Tensor, Object };

struct PickleNode {
  PickleKind kind = PickleKind::None;
  bool is_new = false; // Object: by __new__
  union {
    int64_t integer = 0; // Bool, Int; Storage: its number of elements; Tensor: index of PickleGraph::tensors
    double real;
  };
  std::string text;             // String, Bytes; Global and Object: "module.name"; Storage: its key
  std::vector<PickleRef> items; // Tuple, List; Dict: key, value, key, value; Object: its arguments
  std::vector<PickleRef> pairs; // Object: key, value of a dict subclass
  PickleRef other = no_ref;     // Object: its state; Storage: its class
};

struct PickleGraph {
  std::vector<PickleNode> nodes;
  std::vector<Tensor> tensors;
  PickleRef root = no_ref;
};

/// A storage of the archive that some tensor has asked for.
struct PickleStorage {
  SharedBytes raw, aligned; // `aligned` is a copy, made when `raw` does not suit a dtype
  bool checked_bools = false;
};

/// Makes tensors of the storages in `archive`; each storage is copied at most once.
class TensorBuilder {
public:
  explicit TensorBuilder(const Archive& archive) : archive_(archive) {}
  /// torch._utils._rebuild_tensor, _v2 (`dtype` no_ref) and _v3, on arguments already in the graph.
  Tensor build(const PickleGraph& graph, const std::vector<PickleRef>& args, PickleRef dtype);

private:
  PickleStorage& storage(const std::string& key);
  const Archive& archive_;
  std::map<std::string, PickleStorage> storages_;
};

/// Runs the pickle program; `what` names it in messages.
PickleGraph run_pickle(Bytes pickle, const std::string& what, const PickleLimits& limits, TensorBuilder& builder);

} // namespace tenon
