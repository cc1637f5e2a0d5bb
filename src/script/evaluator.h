// What runs when compiling: __init__ of modules, defaults of parameters, constants of classes. The Python that modules' constructors are
// written in, on constants; tensors stay calls that are not made yet.
#pragma once
#include "script/values.h"

namespace tenon::script {

class Evaluator {
public:
  /// An instance of a module class. Throws Error(BadInput).
  InstanceP instantiate(const ClassRef& cls, const Constants& args, const std::vector<std::pair<std::string, Constant>>& keywords,
                        Range at);
  Constant evaluate(const Exp& e, const Scope& scope);
  /// What a module's name in its class body or a global stands for; empty where it is nothing that can be computed.
  std::optional<Constant> try_evaluate(const Exp& e, const Scope& scope);

private:
  using Locals = std::map<std::string, Constant>;
  using Keywords = std::vector<std::pair<std::string, Constant>>;
  struct Frame {
    const Scope* scope;
    Locals locals;
    ClassRef cls; // whose method runs
    Constant returned;
  };
  enum class Flow : uint8_t { Next, Break, Continue, Return };

  Flow run(const Stmts& body, Frame& f);
  Flow run_one(const Statement& s, Frame& f);
  Flow run_for(const For& s, Frame& f);
  void assign(const Exp& target, Constant value, Frame& f);
  Constant eval(const Exp& e, Frame& f);
  Constant name(const Exp& e, const Name& n, Frame& f);
  Constant select(const Exp& e, const Select& s, Frame& f);
  Constant subscript(const Exp& e, const Subscript& s, Frame& f);
  Constant comprehension(const Comprehension& c, Frame& f);
  Constant call(const Exp& e, const Call& c, Frame& f);
  Constant call_path(Range at, const std::string& path, const Constants& args, const Keywords& keywords);
  Constant call_method(const Exp& e, const Select& s, const Constants& args, const Keywords& keywords, Frame& f);
  Constant call_function(const FunctionRef& fn, const ClassRef& cls, const Constants& args, const Keywords& keywords, Range at);
  bool call_super(const Exp& e, const std::string& method, const Constants& args, const Keywords& keywords, Frame& f);
  Constant register_on(Range at, const InstanceP& self, const std::string& method, const Constants& args, const Keywords& keywords);
  void fill_sequential(const InstanceP& self, const Constants& args);
  Constants items(const Constant& c, Range at);
  void step(Range at);

  size_t steps = 0;
  int depth = 0;
};

/// The method, in the class or those it derives from.
std::optional<FunctionRef> find_method(const ClassRef& cls, std::string_view name, ClassRef* holder = nullptr);
std::vector<ClassRef> base_classes(const ClassRef& cls);
/// Whether it derives from torch.nn.Module.
bool is_module(const ClassRef& cls);
/// What a constant is, in Python's words: "int", "list".
std::string python_type(const Constant& c);
bool truth(const Constant& c);

/// a `op` b of numbers and strings; a deferred call where one is a tensor.
Constant arithmetic(Range at, const std::string& op, const Constant& a, const Constant& b);
/// len, range, int, max ...; empty where there is no such.
std::optional<Constant> builtin_of_python(Range at, const std::string& name, const Constants& args);
Constant deferred(std::string callee, Constants args, std::vector<std::pair<std::string, Constant>> keywords = {});

/// Names of parameters and buffers, as in the state_dict; of submodules. Throws Error(BadInput) for modules within themselves.
void name_attributes(const InstanceP& module, const std::string& path, int depth = 0);

} // namespace tenon::script
