// The syntax tree of a script: what the parser makes and the emitter reads. Chained comparisons are `and`s of pairs and f-strings are calls
// of format, as in torch.
#pragma once
#include <complex>
#include <map>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "script/source.h"

namespace tenon::script {

struct Expression;
using Exp = std::shared_ptr<const Expression>;
using Exps = std::vector<Exp>;

struct Name {
  std::string id;
};
struct Literal { // monostate: None
  std::variant<std::monostate, bool, int64_t, double, std::complex<double>, std::string> value;
};
struct Ellipsis {};
struct Select { // value.attr
  Exp value;
  std::string attr;
};
struct Slice { // only within a Subscript
  Exp lower, upper, step;
};
struct Subscript { // x[a, b] has two indices
  Exp value;
  Exps indices;
};
struct Keyword {
  std::string name;
  Exp value;
};
struct Call {
  Exp callee;
  Exps args;
  std::vector<Keyword> keywords;
};
struct Star {
  Exp value;
};
struct Unary {
  std::string op; // "-", "~", "not", "+"
  Exp value;
};
struct Binary { // also comparisons, "in", "not in", "is", "is not"
  std::string op;
  Exp left, right;
};
struct Logical {
  bool is_and;
  Exp left, right;
};
struct Ternary {
  Exp condition, then, otherwise;
};
struct TupleLit {
  Exps items;
};
struct ListLit {
  Exps items;
};
struct DictLit {
  Exps keys, values;
};
struct Comprehension { // [element for target in iter], of a dict {key: element for ...}
  Exp key, element, target, iter;
};

struct Expression {
  Range range;
  std::variant<Name, Literal, Ellipsis, Select, Slice, Subscript, Call, Star, Unary, Binary, Logical, Ternary, TupleLit, ListLit, DictLit,
               Comprehension>
      v;
  int depth = 1; // of the tree

  template <class T> const T* as() const { return std::get_if<T>(&v); }
};

struct Statement;
using Stmts = std::vector<std::shared_ptr<const Statement>>;

struct ExprStmt {
  Exp value;
};
struct Assign {
  Exps targets;
  Exp annotation, value; // value: null in `x: int`
};
struct AugAssign {
  Exp target;
  std::string op; // "+"
  Exp value;
};
struct If {
  Exp condition;
  Stmts then, otherwise;
};
struct While {
  Exp condition;
  Stmts body;
};
struct For {
  Exp target, iter;
  Stmts body;
};
struct Return {
  Exp value;
};
struct Break {};
struct Continue {};
struct Pass {};
struct Assert {
  Exp condition, message;
};
struct Raise {
  Exp value;
};
struct Delete {
  Exps targets;
};
struct With {
  Exps contexts;
  Stmts body;
};
struct Import { // `import a.b as c`: path a.b, name c; `from a import b`: path a.b, name b
  std::string path, name;
};

struct Param {
  Range range;
  std::string name;
  Exp annotation, fallback;
  bool keyword_only = false;
};
/// What the language leaves out, found while parsing: an error only once the function is compiled.
struct Refusal {
  Range range;
  std::string message;
};
struct Def {
  Range range;
  std::string name;
  std::vector<Param> params;
  Exp returns;
  Stmts body;
  Exps decorators;
  std::optional<Refusal> refusal;
};
struct DefStmt {
  std::shared_ptr<const Def> def;
};
struct ClassDef {
  Range range;
  std::string name;
  Exps bases, decorators;
  Stmts body;
};
struct ClassStmt {
  std::shared_ptr<const ClassDef> cls;
};

struct Statement {
  Range range;
  std::variant<ExprStmt, Assign, AugAssign, If, While, For, Return, Break, Continue, Pass, Assert, Raise, Delete, With, Import, DefStmt,
               ClassStmt>
      v;

  template <class T> const T* as() const { return std::get_if<T>(&v); }
};

template <class... F> struct Overloaded : F... {
  using F::operator()...;
};
template <class... F> Overloaded(F...) -> Overloaded<F...>;

} // namespace tenon::script
