// Call: arguments by name, with the conversions that torch allows (a number for a list, negative dims).
#include "ir/call.h"

#include "ir/op.h"

namespace tenon {

void Call::fail(const std::string& why) const { bad_input("{}: {}", def.signature.name, why); }

const Arg& Call::operator[](std::string_view name) const {
  int i = def.signature.find(name);
  require(i >= 0 && static_cast<size_t>(i) < args.size(), "{} has no argument {}", def.signature.name, name);
  return args[static_cast<size_t>(i)];
}

ValueId Call::value(std::string_view name) const {
  const Arg& a = (*this)[name];
  if (!a.is<ValueId>()) fail(fmt::format("argument {} is not a tensor", name));
  return a.get<ValueId>();
}

std::vector<ValueId> Call::values(std::string_view name) const {
  std::vector<ValueId> out;
  for_each_value((*this)[name], [&](ValueId v) { out.push_back(v); });
  return out;
}

int64_t wrap_dim(int64_t dim, size_t rank, std::string_view op) {
  auto r = static_cast<int64_t>(rank == 0 ? 1 : rank);
  require_input(dim >= -r && dim < r, "{}: Dimension out of range (expected to be in range of [{}, {}], but got {})", op, -r, r - 1, dim);
  return dim < 0 ? dim + r : dim;
}

Expr Call::size(std::string_view name, int64_t dim) const {
  const Type& t = type(name);
  if (t.sizes.empty()) return pool().integer(1);
  return t.sizes[static_cast<size_t>(wrap_dim(dim, t.rank(), def.signature.name))];
}

Expr to_expr(ExprPool& pool, const Arg& a) {
  if (auto* i = std::get_if<int64_t>(&a.v)) return pool.integer(*i);
  if (auto* b = std::get_if<bool>(&a.v)) return pool.boolean(*b);
  if (auto* d = std::get_if<double>(&a.v)) return pool.number(*d, DType::F64);
  if (auto* e = std::get_if<Expr>(&a.v)) return *e;
  return {};
}

Expr Call::scalar(std::string_view name) const {
  Expr e = to_expr(pool(), (*this)[name]);
  if (!e) fail(fmt::format("argument {} is not a number", name));
  return e;
}

Expr Call::sym(std::string_view name) const {
  Expr e = scalar(name);
  if (is_float(e->type)) fail(fmt::format("argument {} is not an integer", name));
  return e->type == DType::Bool ? cast(e, DType::I64) : e;
}

int64_t Call::integer(std::string_view name) const {
  auto v = const_int(sym(name));
  if (!v) unsupported("{}: argument {} must be known at compile time, but is {}", def.signature.name, name, to_string(sym(name)));
  return *v;
}

std::vector<Expr> Call::syms(std::string_view name) const {
  const Arg& a = (*this)[name];
  std::vector<Expr> out;
  if (a.is_none()) return out;
  int index = def.signature.find(name);
  if (!a.is<ArgList>()) out.push_back(sym(name));
  else
    for (const Arg& e : a.get<ArgList>()) {
      out.push_back(to_expr(pool(), e));
      if (!out.back() || is_float(out.back()->type)) fail(fmt::format("argument {} is not a list of integers", name));
    }
  const SchemaArg& schema = def.signature.args[static_cast<size_t>(index)];
  auto want = static_cast<size_t>(schema.fixed_length);
  if (want <= 1 || out.size() == want) return out; // int[1] is a list of any length that may be written as one number
  bool may_be_empty = schema.has_default && schema.fallback.is<ArgList>() && schema.fallback.get<ArgList>().empty();
  if (out.size() != 1 && !(out.empty() && may_be_empty))
    fail(fmt::format("argument {} has {} numbers instead of {}", name, out.size(), want));
  if (out.size() == 1) out.assign(want, out[0]);
  return out;
}

std::vector<int64_t> Call::integers(std::string_view name) const {
  std::vector<int64_t> out;
  for (Expr e : syms(name)) {
    auto v = const_int(e);
    if (!v) unsupported("{}: argument {} must be known at compile time, but holds {}", def.signature.name, name, to_string(e));
    out.push_back(*v);
  }
  return out;
}

int64_t Call::dim(std::string_view name, size_t rank) const { return wrap_dim(integer(name), rank, def.signature.name); }

std::vector<int64_t> Call::dims(std::string_view name, size_t rank, bool empty_is_all) const {
  std::vector<int64_t> out;
  for (int64_t d : integers(name)) {
    int64_t w = wrap_dim(d, rank, def.signature.name);
    if (std::find(out.begin(), out.end(), w) != out.end())
      fail(fmt::format("{}(): duplicate dims are not allowed. {} appears twice in {}", OpId(def.signature.name).base(), w, name));
    if (rank > 0) out.push_back(w);
  }
  if (out.empty() && (empty_is_all || rank == 0))
    for (size_t d = 0; d < rank; d++) out.push_back(static_cast<int64_t>(d));
  return out;
}

bool Call::flag(std::string_view name) const {
  const Arg& a = (*this)[name];
  if (a.is<bool>()) return a.get<bool>();
  if (a.is<int64_t>()) return a.get<int64_t>() != 0;
  if (a.is_none()) return false;
  unsupported("{}: argument {} must be known at compile time", def.signature.name, name);
}

double Call::number(std::string_view name) const {
  Expr e = scalar(name);
  if (!e->is_const()) unsupported("{}: argument {} must be known at compile time, but is {}", def.signature.name, name, to_string(e));
  return e->number();
}

std::string Call::text(std::string_view name) const {
  const Arg& a = (*this)[name];
  if (a.is<Word>()) return a.get<Word>().text;
  if (a.is<std::string>()) return a.get<std::string>();
  if (a.is_none()) return {};
  fail(fmt::format("argument {} is not a text", name));
}

std::optional<DType> Call::dtype(std::string_view name) const {
  const Arg& a = (*this)[name];
  if (a.is_none()) return std::nullopt;
  if (a.is<Word>() && a.get<Word>().text == "long") return DType::I64;
  if (!a.is<DType>()) fail(fmt::format("argument {} is not a dtype", name));
  return a.get<DType>();
}

} // namespace tenon
