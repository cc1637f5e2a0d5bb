// What names and expressions stand for while a script is compiled: values of the graph, and all that is none: functions, classes, modules,
// folders of names, lists that are unrolled. And the constants that __init__ and defaults compute.
#pragma once
#include <functional>

#include "ir/graph.h"
#include "script/ast.h"

namespace tenon::script {

struct Scope;
struct Instance;
struct Constant;
struct Sugared;
using InstanceP = std::shared_ptr<Instance>;
using Constants = std::vector<Constant>;

struct FunctionRef {
  std::shared_ptr<const Def> def;
  const Scope* scope = nullptr;
  InstanceP self; // of a method
};
struct ClassRef {
  std::shared_ptr<const ClassDef> def;
  const Scope* scope = nullptr;
};
/// "torch.nn.functional", "math", "torch.float32": what an import may reach.
struct Path {
  std::string path;
};

/// A call that __init__ makes of tensors: it is emitted where its result is used.
struct Deferred {
  std::string callee; // "torch.zeros", "+", ".view"
  Constants args;
  std::vector<std::pair<std::string, Constant>> keywords;
};
enum class Holder : uint8_t { Plain, Parameter, Buffer };
struct TensorConstant {
  std::shared_ptr<const Deferred> call; // null where only its name in the state_dict matters
  Holder holder = Holder::Plain;
  bool persistent = true;
  std::string name = {}; // in the state_dict, once it is an attribute
};

/// A value of Python's that is known when compiling.
struct Constant {
  using List = std::shared_ptr<Constants>;
  struct Tuple {
    std::shared_ptr<Constants> items;
  };
  using Dict = std::shared_ptr<std::vector<std::pair<Constant, Constant>>>;
  std::variant<std::monostate, bool, int64_t, double, std::complex<double>, std::string, List, Tuple, Dict, InstanceP,
               std::shared_ptr<TensorConstant>, FunctionRef, ClassRef, Path>
      v;

  template <class T> const T* as() const { return std::get_if<T>(&v); }
  bool is_none() const { return v.index() == 0; }
};

/// An instance of a module class: what __init__ made of it.
struct Instance {
  ClassRef cls;
  std::string path = {}; // "" for the program's own, "block.fc"
  std::vector<std::pair<std::string, Constant>> attributes = {};

  const Constant* find(std::string_view name) const;
  void set(const std::string& name, Constant value);
};

struct Imported {
  std::string path;
};
/// The names of a source.
struct Scope {
  using Global = std::variant<std::shared_ptr<const Def>, std::shared_ptr<const ClassDef>, Imported, Exp>;
  std::shared_ptr<const Source> source;
  std::map<std::string, Global, std::less<>> names = {};

  std::map<std::string, Error, std::less<>> broken = {}; ///< those that are no valid syntax

  const Global* find(std::string_view name) const;
  /// Throws the error of a function or class that is no valid syntax.
  void refuse_broken(std::string_view name) const;
};
/// The names of a source's statements outside of functions. `keep` holds the text.
std::unique_ptr<Scope> make_scope(std::shared_ptr<const Source> source);
/// A part of torch that is itself written as a script: "torch.nn.functional". Null where there is none. Thread-safe.
const Scope* library_scope(std::string_view path);

/// An operator, and the object it is called on.
struct Operator {
  OpId name;
  std::optional<ValueId> self;
};
/// A function called on a value, as its method.
struct BoundFunction {
  FunctionRef fn;
  ValueId self;
};
/// A function that is known to the compiler: "isinstance", "range".
struct Form {
  std::string name;
};
/// Unrolled: a list of modules, pairs of a static zip.
struct Unrolled {
  std::vector<Sugared> items;
};
/// range(...), zip(...), enumerate(...).
struct Iterable {
  std::string kind;
  std::vector<Sugared> of;
};
/// A method of an unrolled list or module dict: "items".
struct StaticMethod {
  InstanceP self;
  std::string name;
};
/// A value of Python outside of the function, which cannot be used.
struct Closed {
  std::string python_type;
};

struct Sugared {
  std::variant<ValueId, FunctionRef, ClassRef, Path, InstanceP, Operator, BoundFunction, Form, Unrolled, Iterable, StaticMethod, Closed> v;

  template <class T> const T* as() const { return std::get_if<T>(&v); }
};

/// torch's and math's constants, by path: "torch.float32", "math.pi".
std::optional<Constant> constant_of_path(std::string_view path);

} // namespace tenon::script
