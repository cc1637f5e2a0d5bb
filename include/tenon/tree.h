// Trees: the nested arguments and results of a call, as Python has them and torch.utils._pytree flattens them.
#pragma once
#include <complex>
#include <concepts>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tenon/tensor.h"

namespace tenon {

/// One flattened user input or output. `sizes` are printable: "4", or an expression over symbols such as "s77*2".
/// A number (rank 0, `is_number`) is passed as a 0-d tensor: I64 for integers, F64 for floats, Bool for booleans.
struct ArgInfo {
  std::string name = {};
  DType dtype = DType::F32;
  std::vector<std::string> sizes = {};
  bool is_number = false;
  /// Dims in the order of memory, outermost first, as the program was exported; empty: row-major, or with gaps. Results come in it.
  /// Inputs may have any strides.
  std::vector<int> dim_order = {};
  bool requires_grad = false; ///< as exported; nothing is recorded for gradients
  std::string device = "cpu"; ///< as exported, "cuda:0"; tenon runs on the CPU
};

/// A leaf, or a container of trees. Leaves convert to trees by themselves:
///   Tree::dict({{"x", tensor}, {"scales", Tree::list({1, 0.5})}, {"mask", nullptr}})
/// A value: copies share the memory of tensors alone. Distinct trees may be used from distinct threads.
class TENON_API Tree {
public:
  /// What has no type here: a device, layout or memory format ("cpu", "strided"), or as the key of a dict an enumerator or tuple.
  struct Word {
    std::string text;
    bool operator==(const Word&) const = default;
  };
  /// Dict, OrderedDict and DefaultDict have a key for each child, NamedTuple and Object the names of fields where these are known. An
  /// Object is a dataclass, or another class that was registered as a pytree node.
  enum class Kind : uint8_t { Leaf, Tuple, List, Deque, Dict, OrderedDict, DefaultDict, NamedTuple, Object };
  /// None first. An ArgInfo stands for a tensor or number where the tree tells a structure (Program::in_spec).
  using Leaf = std::variant<std::monostate, bool, int64_t, double, std::complex<double>, std::string, DType, Word, Tensor, ArgInfo>;
  using Entry = std::pair<Tree, Tree>; ///< a key and its value

  /// None, as is nullptr.
  Tree() = default;
  Tree(std::nullptr_t) {}
  template <std::same_as<bool> T> Tree(T v) : leaf_(v) {}
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  Tree(T v) : leaf_(static_cast<int64_t>(v)) {}
  template <std::floating_point T> Tree(T v) : leaf_(static_cast<double>(v)) {}
  Tree(std::complex<double> v) : leaf_(v) {}
  Tree(const char* text) : leaf_(std::string(text)) {}
  Tree(std::string text) : leaf_(std::move(text)) {}
  Tree(DType v) : leaf_(v) {}
  Tree(Word v) : leaf_(std::move(v)) {}
  Tree(Tensor v) : leaf_(std::move(v)) {}
  Tree(ArgInfo v) : leaf_(std::move(v)) {}
  explicit Tree(Leaf leaf) : leaf_(std::move(leaf)) {}

  static Tree tuple(std::vector<Tree> children);
  static Tree list(std::vector<Tree> children);
  static Tree deque(std::vector<Tree> children);
  /// Keys are leaves: strings, numbers, None. Throws Error(BadInput) for other keys, and for one that is there twice.
  static Tree dict(std::vector<Entry> entries);
  static Tree ordered_dict(std::vector<Entry> entries);
  static Tree default_dict(std::vector<Entry> entries);
  /// `type` is the name torch saved ("models.Point"), or what follows its last dot. Throws as dict does, and for names that are no strings.
  static Tree named_tuple(std::string type, std::vector<Entry> fields);
  static Tree dataclass(std::string type, std::vector<Entry> fields);
  /// Of a class that was registered with functions of its own: the children that these give.
  static Tree object(std::string type, std::vector<Tree> children);
  /// Any container. There are as many keys as children, or none; `context` is what torch saved beside them. Throws as the above do.
  static Tree branch(Kind kind, std::string type, std::vector<Tree> keys, std::vector<Tree> children, std::string context = {});

  Kind kind() const { return kind_; }
  bool is_leaf() const { return kind_ == Kind::Leaf; }
  bool is_none() const { return is_leaf() && leaf_.index() == 0; }
  bool is_dict() const { return kind_ == Kind::Dict || kind_ == Kind::OrderedDict || kind_ == Kind::DefaultDict; }
  const Leaf& leaf() const { return leaf_; } ///< None for containers
  /// The leaf of this type, or null: as<Tensor>(), as<int64_t>().
  template <class T> const T* as() const { return is_leaf() ? std::get_if<T>(&leaf_) : nullptr; }
  /// The same; throws Error(BadInput) where the tree is something else.
  template <class T> const T& get() const {
    if (auto* v = as<T>()) return *v;
    wrong_leaf();
  }
  const Tensor& tensor() const { return get<Tensor>(); }
  /// Both are leaves of one type and value, None included; NaN is the same as NaN. Tensors are never the same.
  bool is_same_leaf(const Tree& other) const;

  /// The class: "tuple", "collections.OrderedDict", "models.Point"; empty for leaves.
  const std::string& type() const { return type_; }
  /// What torch saved of a container beside its children and their keys: the state of a registered class as JSON text, mostly.
  const std::string& context() const { return context_; }
  size_t size() const { return children_.size(); }
  const std::vector<Tree>& children() const { return children_; }
  const std::vector<Tree>& keys() const { return keys_; }
  /// By key in dicts, by name or position in others; null where there is none. Keys are of one type: 1 is neither true nor 1.0.
  const Tree* find(const Tree& key) const;
  /// The same; throws Error(BadInput) where there is none.
  const Tree& operator[](const Tree& key) const;

  /// As Python would print it, with tensors as their types: "{'x': f32[2, 3], 'n': 4}".
  std::string to_string() const;

private:
  [[noreturn]] void wrong_leaf() const;

  Leaf leaf_;
  Kind kind_ = Kind::Leaf;
  std::string type_, context_;
  std::vector<Tree> keys_, children_;
};

} // namespace tenon
