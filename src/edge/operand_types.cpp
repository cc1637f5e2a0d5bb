// Reads what rows say of dtypes.
#include "edge/operand_types.h"

#include <algorithm>
#include <map>

#include "base/numeric.h"
#include "ir/promote.h"

namespace tenon {

namespace {

constexpr DTypes one(DType t) { return set_of({t}); }

// ---- words

struct SetWord {
  std::string_view word;
  DTypes types;
};
constexpr SetWord set_words[] = {
    {"bool", bool_type},   {"ints", int_types},        {"floats", float_types},  {"reduced", reduced_types},
    {"reals", real_types}, {"complex", complex_types}, {"float8", float8_types}, {"any", any_type},
};

struct FunctionWord {
  std::string_view word;
  DType (*of)(DType);
};
constexpr FunctionWord function_words[] = {
    {"same", [](DType t) { return t; }},
    {"float", [](DType t) { return is_float(t) || is_complex(t) ? t : DType::F32; }}, // integers become f32
    {"sum", [](DType t) { return is_float(t) || is_complex(t) ? t : DType::I64; }},   // integers become i64
    {"truth", [](DType t) { return t == DType::U8 ? DType::U8 : DType::Bool; }},      // of any and all
    {"part", [](DType t) { return part_type(t); }},                                   // c64 becomes f32
    {"complex_of", [](DType t) { return is_complex(t) ? t : complex_type(t); }},      // f32 becomes c64
};

// What one word, or several between bars, stand for where operands that are not named are `shared`.
DTypes types_of(const OpDef& def, std::string_view words, DType shared) {
  DTypes out = 0;
  for (size_t at = 0; at <= words.size();) {
    size_t end = std::min(words.find('|', at), words.size());
    std::string_view word = words.substr(at, end - at);
    DTypes found = 0;
    for (int t = 0; t < num_dtypes; t++)
      if (name_of(static_cast<DType>(t)) == word) found = one(static_cast<DType>(t));
    for (auto& s : set_words)
      if (s.word == word) found = s.types;
    for (auto& f : function_words)
      if (f.word == word) found = one(f.of(shared));
    require(found != 0 || word == "none", "{}: no dtypes are called '{}'", def.signature.name, word);
    out |= found;
    at = end + 1;
  }
  return out;
}

// ---- the text

struct Clause {
  std::string_view domain;
  std::map<std::string_view, std::string_view> args;
  std::vector<std::string_view> results;
};

Clause read_clause(const OpDef& def, std::string_view text) {
  Clause out;
  bool results = false;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find(' ', at), text.size());
    std::string_view token = text.substr(at, end - at);
    at = end + 1;
    if (token.empty()) continue;
    size_t equals = token.find('=');
    if (token == "->") results = true;
    else if (results) out.results.push_back(token);
    else if (token.ends_with(':')) out.domain = token.substr(0, token.size() - 1);
    else if (equals != token.npos && def.signature.find(token.substr(0, equals)) >= 0)
      out.args[token.substr(0, equals)] = token.substr(equals + 1);
    else internal_error("{}: '{}' says no dtypes of an argument", def.signature.name, token);
  }
  return out;
}

std::vector<Clause> read_clauses(const OpDef& def) {
  std::vector<Clause> out;
  for (size_t at = 0; at <= def.types.size();) {
    size_t end = std::min(def.types.find(';', at), def.types.size());
    out.push_back(read_clause(def, def.types.substr(at, end - at)));
    at = end + 1;
  }
  return out;
}

// ---- combinations

// What a result is where the text does not say it.
std::string_view default_result(const OpDef& def) {
  if (def.kind != Kind::Pointwise) return "same";
  if (def.promote == Promote::Compare || def.promote == Promote::Logical) return "bool";
  return def.promote == Promote::Float ? "float" : "same";
}

bool is_operand(const OpDef& def, size_t i) {
  ArgType type = def.signature.args[i].type;
  return type == ArgType::Tensor || (type == ArgType::Scalar && def.kind == Kind::Pointwise);
}

OperandTypes combination(const OpDef& def, const Clause& clause, DType shared) {
  OperandTypes out;
  for (size_t i = 0; i < def.signature.args.size(); i++) {
    if (!is_operand(def, i)) continue;
    const SchemaArg& arg = def.signature.args[i];
    auto said = clause.args.find(arg.name);
    bool number = arg.type == ArgType::Scalar && is_kept(def, i);
    DTypes types = said != clause.args.end() ? types_of(def, said->second, shared) : number ? one(DType::F64) : one(shared);
    out.args.emplace_back(arg.name, types);
  }
  for (size_t i = 0; i < def.signature.returns.size(); i++)
    out.results.push_back(types_of(def, i < clause.results.size() ? clause.results[i] : default_result(def), shared));
  return out;
}

} // namespace

std::vector<OperandTypes> operand_types(const OpDef& def) {
  std::vector<OperandTypes> out;
  for (const Clause& clause : read_clauses(def))
    for (int t = 0; t < num_dtypes; t++) {
      auto shared = static_cast<DType>(t);
      DTypes domain = clause.domain.empty() ? def.dtypes : types_of(def, clause.domain, shared);
      if (!has(domain, shared)) continue;
      OperandTypes now = combination(def, clause, shared);
      out.push_back(std::move(now));
    }
  return out;
}

} // namespace tenon
