#include "script/values.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "script/parser.h"

namespace tenon::script {

const Constant* Instance::find(std::string_view name) const {
  for (auto& [n, v] : attributes)
    if (n == name) return &v;
  return nullptr;
}

void Instance::set(const std::string& name, Constant value) {
  for (auto& [n, v] : attributes)
    if (n == name) return void(v = std::move(value));
  attributes.emplace_back(name, std::move(value));
}

const Scope::Global* Scope::find(std::string_view name) const {
  auto it = names.find(name);
  return it == names.end() ? nullptr : &it->second;
}

namespace {

void add_names(Scope& scope, const Stmts& statements) {
  for (auto& s : statements) {
    if (auto* d = s->as<DefStmt>()) scope.names[d->def->name] = d->def;
    else if (auto* c = s->as<ClassStmt>()) scope.names[c->cls->name] = c->cls;
    else if (auto* i = s->as<Import>()) scope.names[i->name] = Imported{i->path};
    else if (auto* a = s->as<Assign>()) {
      if (auto* n = a->targets[0]->as<Name>(); n && a->value) scope.names[n->id] = a->value;
    }
  }
}

} // namespace

void Scope::refuse_broken(std::string_view name) const {
  if (auto it = broken.find(name); it != broken.end()) throw it->second;
}

std::unique_ptr<Scope> make_scope(std::shared_ptr<const Source> source) {
  auto scope = std::make_unique<Scope>();
  scope->source = source;
  add_names(*scope, parse_module(*source, scope->broken));
  return scope;
}

std::optional<Constant> constant_of_path(std::string_view path) {
  struct Named {
    std::string_view name;
    int64_t value;
  };
  // Numbers of c10's enumerations.
  static constexpr Named torch[] = {{"uint8", 0},
                                    {"int8", 1},
                                    {"int16", 2},
                                    {"short", 2},
                                    {"int32", 3},
                                    {"int", 3},
                                    {"int64", 4},
                                    {"long", 4},
                                    {"float16", 5},
                                    {"half", 5},
                                    {"float32", 6},
                                    {"float", 6},
                                    {"float64", 7},
                                    {"double", 7},
                                    {"complex32", 8},
                                    {"chalf", 8},
                                    {"complex64", 9},
                                    {"cfloat", 9},
                                    {"complex128", 10},
                                    {"cdouble", 10},
                                    {"bool", 11},
                                    {"bfloat16", 15},
                                    {"strided", 0},
                                    {"sparse_coo", 1},
                                    {"contiguous_format", 0},
                                    {"preserve_format", 1},
                                    {"channels_last", 2},
                                    {"channels_last_3d", 3},
                                    {"float8_e5m2", 23},
                                    {"float8_e4m3fn", 24}};
  constexpr double inf = std::numeric_limits<double>::infinity();
  static const std::map<std::string_view, double> reals{{"pi", M_PI}, {"e", M_E}, {"tau", 2 * M_PI}, {"inf", inf}, {"nan", std::nan("")}};
  for (std::string_view folder : {"torch.", "math."}) {
    if (!path.starts_with(folder)) continue;
    std::string_view name = path.substr(folder.size());
    if (auto it = reals.find(name); it != reals.end()) return Constant{it->second};
    if (folder == "math.") continue;
    if (auto* n = std::find_if(std::begin(torch), std::end(torch), [&](auto& t) { return t.name == name; }); n != std::end(torch))
      return Constant{n->value};
  }
  return std::nullopt;
}

} // namespace tenon::script
