// What torch.save wrote, read without Python: the pickle becomes a tree of plain values, tensors share the archive's
// memory, and nothing is executed - a class or function that is not in a short list becomes an inert PickleObject.
#pragma once
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "load/bytes.h"

namespace tenon {

struct PickleValue;
struct PicklePair;
struct PickleBytes {
  std::string data;
};
/// Also torch.Size.
struct PickleTuple {
  std::vector<PickleValue> items;
};
/// Also collections.deque.
struct PickleList {
  std::vector<PickleValue> items;
};
/// Also OrderedDict and defaultdict; pairs in the order of insertion.
struct PickleDict {
  std::vector<PicklePair> items;
};
/// An object of any other class, or the class itself, by name only: "torch.device" with args ("cpu"), "torch.float32"
/// without args, "builtins.complex" with args (re, im), a named tuple with its fields as args.
struct PickleObject {
  std::string class_name;
  std::vector<PickleValue> args;
  std::vector<PickleValue> state; ///< none or one: usually a dict of attributes
  std::vector<PicklePair> items;  ///< of a dict subclass; keys None for a list or set subclass
  bool is_new = false;            ///< made by cls.__new__(cls, *args) and not by a call
};

struct PickleValue {
  using Variant = std::variant<std::monostate, bool, int64_t, double, std::string, PickleBytes, PickleTuple, PickleList, PickleDict, Tensor,
                               PickleObject>;
  Variant value;

  bool is_none() const { return value.index() == 0; }
  template <class T> const T* as() const { return std::get_if<T>(&value); }
};

struct PicklePair {
  PickleValue key, value;
};

/// What one archive may cost; real ones stay far below.
struct PickleLimits {
  size_t pickle_bytes = size_t{64} << 20;  ///< of data.pkl
  size_t objects = size_t{1} << 21;        ///< values the pickle makes, stacks or remembers
  size_t copied_bytes = size_t{256} << 20; ///< copies of shared values while it runs
  size_t tree_nodes = size_t{1} << 20;     ///< values of the tree, each mention of a shared one counted
  size_t tree_bytes = size_t{256} << 20;   ///< text, bytes and shapes in the tree
  int depth = 100;
};

/// Reads a torch.save archive (the zip form, torch 1.6 and later) that starts and ends with `bytes`. Tensors are views
/// of it, or of a copy of their storage where that is misaligned, and keep `owner` alive (or, where it is null, rely on
/// the caller to). Errors: BadInput for damage, Unsupported for a tensor of a dtype, layout or byte order tenon has
/// not.
PickleValue load_torch_save(Bytes bytes, std::shared_ptr<void> owner, const PickleLimits& limits = {});

/// The leaves in the order of torch.utils._pytree: tuples, named tuples, lists, values of dicts as inserted; None is a
/// leaf. How a registered class flattens is not in the file; guessed is the common practice: a dataclass gives its
/// fields but for None, a dict subclass its values, and an object holding further objects (a cache of layers) just its
/// tensors. Any other object is a leaf. A caller who has the spec should compare the count.
std::vector<PickleValue> flatten(const PickleValue& value);

} // namespace tenon
