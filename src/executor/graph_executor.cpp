#include "executor/graph_executor.h"

#include <algorithm>
#include <set>

#include "compile/build_plan.h"
#include "compile/compile.h"
#include "compile/explain.h"
#include "executor/interpreter.h"
#include "executor/simplify.h"
#include "ir/call.h"
#include "ir/collective.h"
#include "ops/names.h"
#include "runtime/library_steps.h"

namespace tenon::executor {

using Tag = IValue::Tag;

namespace {

// Beyond these, arguments that did not come lately are forgotten.
constexpr size_t most_entries = 1024;
// Plans for sizes of their own; further sizes share one, where one can serve all.
constexpr size_t most_known = 8;
// Kinds of arguments that get plans: texts and bools are part of them, and may be any number.
constexpr size_t most_patterns = 64;

// What a plan may depend on: dtypes, sizes, whole numbers. Floats are inputs of plans.
void add_key(std::vector<int64_t>& key, const IValue& v) {
  key.push_back(static_cast<int64_t>(v.tag()));
  switch (v.tag()) {
  case Tag::Bool: return key.push_back(v.to_bool());
  case Tag::Int: return key.push_back(v.to_int());
  case Tag::Tensor: {
    const Tensor& t = v.to_tensor();
    key.back() |= static_cast<int64_t>(t.dtype()) << 8 | static_cast<int64_t>(t.rank()) << 16 | int64_t{t.is_contiguous()} << 32;
    key.insert(key.end(), t.sizes().begin(), t.sizes().end());
    return;
  }
  case Tag::String:
  case Tag::Device: {
    const std::string& s = v.is(Tag::String) ? v.to_string() : v.to_device();
    key.push_back(static_cast<int64_t>(s.size()));
    for (char c : s) key.push_back(c);
    return;
  }
  case Tag::List:
  case Tag::Tuple: {
    auto& items = v.is(Tag::List) ? v.to_list() : v.to_tuple();
    key.push_back(static_cast<int64_t>(items.size()));
    for (const IValue& e : items) add_key(key, e);
    return;
  }
  default: return;
  }
}

// Good until the next call in this thread.
const std::vector<int64_t>& key_of(std::span<const IValue> args) {
  thread_local std::vector<int64_t> key;
  key.clear();
  for (const IValue& a : args) add_key(key, a);
  return key;
}

// The same where sizes count by which of them are equal, and numbers do not.
void add_pattern(std::vector<int64_t>& key, const IValue& v, std::map<int64_t, int64_t>& classes) {
  if (v.is(Tag::Int)) return key.push_back(static_cast<int64_t>(v.tag()));
  if (v.is(Tag::List) || v.is(Tag::Tuple)) {
    auto& items = v.is(Tag::List) ? v.to_list() : v.to_tuple();
    key.push_back(static_cast<int64_t>(v.tag())), key.push_back(static_cast<int64_t>(items.size()));
    for (const IValue& e : items) add_pattern(key, e, classes);
    return;
  }
  size_t begin = key.size();
  add_key(key, v);
  if (v.is(Tag::Tensor))
    for (size_t i = begin + 1; i < key.size(); i++)
      if (key[i] > 1) key[i] = -1 - classes.try_emplace(key[i], static_cast<int64_t>(classes.size())).first->second;
}

const IValue& at_path(std::span<const IValue> args, std::span<const uint32_t> path) {
  const IValue* v = &args[path[0]];
  for (uint32_t i : path.subspan(1)) v = v->is(Tag::List) ? &v->to_list()[i] : &v->to_tuple()[i];
  return *v;
}

// Reasons are told, but not without end: they may speak of sizes.
void note(std::set<std::string>& reasons, const std::string& why) {
  if (reasons.size() < 16) reasons.insert(why);
}

bool has_random_step(const Graph& g) {
  for (uint32_t i = 0; i < g.num_nodes(); i++) {
    const Node& n = g.node(NodeId{i});
    if (n.def && n.def->library && library::is_random(n.def->library(Call(g, *n.def, n.args)).function)) return true;
  }
  return false;
}

} // namespace

struct GraphExecutor::Plan {
  std::vector<Leaf> leaves;
  std::vector<Recipe> results;
  bool writes_arguments = false;
  std::unique_ptr<PlanRunner> runner;
  std::string text; // of its graph

  /// None where it cannot serve the call after all, for the reason in `why`.
  std::optional<std::vector<IValue>> run(std::span<const IValue> args, std::string& why);
  IValue build(const Recipe& r, std::span<const IValue> args, std::vector<Tensor>& outputs) const;
};

struct GraphExecutor::Entry {
  Key key;
  std::shared_ptr<Plan> plan;
  bool is_refused = false;
};

struct GraphExecutor::Pattern {
  int calls = 0;
  size_t known = 0;           // plans for sizes of their own
  std::shared_ptr<Plan> open; // for all
  bool is_open_refused = false;
  std::set<std::string> why;
};

IValue GraphExecutor::Plan::build(const Recipe& r, std::span<const IValue> args, std::vector<Tensor>& outputs) const {
  using Kind = Recipe::Kind;
  switch (r.kind) {
  case Kind::Constant: return r.constant;
  case Kind::Argument: return at_path(args, r.path);
  case Kind::Tensor: return outputs[r.output];
  case Kind::Bool: return *outputs[r.output].data_as<bool>();
  case Kind::Int: return *outputs[r.output].data_as<int64_t>();
  case Kind::Float: return *outputs[r.output].data_as<double>();
  case Kind::Rows: {
    const Tensor& t = outputs[r.output];
    std::vector<IValue> rows;
    std::vector<int64_t> sizes(t.sizes().begin() + 1, t.sizes().end()), strides(t.strides().begin() + 1, t.strides().end());
    for (int64_t i = 0; i < t.sizes()[0]; i++)
      rows.emplace_back(Tensor(t.dtype(), sizes, strides, t.storage(),
                               static_cast<char*>(t.data()) + i * t.strides()[0] * static_cast<int64_t>(size_of(t.dtype()))));
    return IValue::list(std::move(rows));
  }
  default: break;
  }
  std::vector<IValue> items;
  for (const Recipe& e : r.items) items.push_back(build(e, args, outputs));
  return r.kind == Kind::List ? IValue::list(std::move(items)) : IValue::tuple(std::move(items));
}

// Whether two of them may show the same memory.
static bool overlap(std::span<const TensorView> views) {
  auto end = [](const TensorView& v) {
    int64_t last = 0;
    for (size_t d = 0; d < v.sizes.size(); d++) last += v.sizes[d] == 0 ? 0 : (v.sizes[d] - 1) * v.strides[d];
    return static_cast<const char*>(v.data) + (last + 1) * static_cast<int64_t>(size_of(v.dtype));
  };
  for (size_t i = 0; i < views.size(); i++)
    for (size_t k = 0; k < i; k++)
      if (views[i].data < end(views[k]) && views[k].data < end(views[i])) return true;
  return false;
}

std::optional<std::vector<IValue>> GraphExecutor::Plan::run(std::span<const IValue> args, std::string& why) {
  std::vector<TensorView> views;
  views.reserve(leaves.size());
  std::vector<std::pair<int64_t, double>> numbers(leaves.size()); // where numbers lie for the call
  for (size_t i = 0; i < leaves.size(); i++) {
    const IValue& v = at_path(args, leaves[i].path);
    if (!leaves[i].is_number) views.push_back(v.to_tensor().view());
    else if (v.is(Tag::Int)) numbers[i].first = v.to_int(), views.push_back({DType::I64, &numbers[i].first, {}, {}});
    else numbers[i].second = v.to_double(), views.push_back({DType::F64, &numbers[i].second, {}, {}});
  }
  if (writes_arguments && overlap(views)) {
    why = "arguments that overlap, where one is written";
    return std::nullopt;
  }
  std::vector<Tensor> outputs;
  if (Status s = runner->run(views, outputs); !s) {
    if (writes_arguments) throw s.error();
    why = s.error().what(); // the interpreter says it in torch's words
    return std::nullopt;
  }
  std::vector<IValue> out;
  out.reserve(results.size());
  for (const Recipe& r : results) out.push_back(build(r, args, outputs));
  return out;
}

static Graph simplified(Graph graph) {
  simplify(graph);
  return graph;
}

// Plans are of tensors.
static bool has_tensors(const Graph& g) {
  for (uint32_t i = 0; i < g.num_values(); i++)
    if (g.type(ValueId{i}).is_any_tensor()) return true;
  return false;
}

GraphExecutor::GraphExecutor(Graph graph, ExecutorOptions options)
    : graph_(simplified(std::move(graph))), options_(options), code_(build_code(graph_)) {
  if (options_.forbid_fallback) options_.calls_before_plan = 0;
  if (has_tensors(graph_)) return;
  options_.interpret = true;
  note(failures_, "a program without tensors");
}
GraphExecutor::~GraphExecutor() = default;

std::shared_ptr<GraphExecutor::Plan> GraphExecutor::compile(std::span<const IValue> args, Sizes sizes) {
  Lifted lifted = lift(graph_, args, sizes);
  auto is_row_major = [&](size_t leaf) { return at_path(args, lifted.leaves[leaf].path).to_tensor().is_contiguous(); };
  if (!std::all_of(lifted.row_major.begin(), lifted.row_major.end(), is_row_major))
    unsupported("writes to tensors beside arguments that are not row-major");
  if (lifted.results.empty() || lifted.program.graph.block(lifted.program.graph.top()).nodes.empty())
    unsupported("a program without tensors");
  Options options;
  options.threads = options_.threads;
  lower(lifted.program, "edge", options);
  if (has_random_step(lifted.program.graph)) unsupported("random numbers");
  if (has_collectives(lifted.program.graph)) unsupported("collectives in scripts");
  lower(lifted.program, "backend", options);
  std::string text = to_string(lifted.program.graph);
  Compiled compiled = build_plan(std::move(lifted.program), options, {}, {});
  auto plan = std::make_shared<Plan>();
  plan->leaves = std::move(lifted.leaves), plan->results = std::move(lifted.results), plan->writes_arguments = lifted.writes_arguments;
  plan->text = std::move(text);
  plan->runner = std::make_unique<PlanRunner>(compiled.plan, Workers(options.threads, options.pool), options_.profile);
  return plan;
}

std::shared_ptr<GraphExecutor::Plan> GraphExecutor::plan_for(Pattern& pattern, std::span<const IValue> args) {
  auto attempt = [&](auto&& make) -> decltype(make()) {
    try {
      return make();
    } catch (const Error& e) {
      note(pattern.why, e.what());
      return {};
    }
  };
  bool is_first = pattern.known == 0 && !pattern.open;
  if (!is_first && !pattern.is_open_refused) {
    // A plan for all sizes takes for granted that the call is good.
    if (!attempt([&] { return lift(graph_, args, Sizes::Known), true; })) return nullptr;
    if (!pattern.open) pattern.open = attempt([&] { return compile(args, Sizes::Open); });
    pattern.is_open_refused = !pattern.open;
    if (pattern.open) return pattern.open;
  }
  if (pattern.known >= most_known) return nullptr;
  auto plan = attempt([&] { return compile(args, Sizes::Known); });
  pattern.known += plan != nullptr;
  return plan;
}

// What is known of arguments with this key. Under the mutex.
GraphExecutor::Entry& GraphExecutor::find(const Key& key) {
  if (last_ && last_->key == key) return *last_;
  if (entries_.size() > most_entries && !entries_.contains(key)) entries_.clear();
  std::shared_ptr<Entry>& entry = entries_[key];
  if (!entry) entry = std::make_shared<Entry>(Entry{.key = key, .plan = nullptr});
  return *(last_ = entry);
}

// The plan that serves a call, where there is one now. Under the mutex.
std::shared_ptr<GraphExecutor::Plan> GraphExecutor::choose(std::span<const IValue> args) {
  Entry& entry = find(key_of(args));
  if (entry.plan || entry.is_refused) return entry.plan;
  Pattern* pattern = pattern_of(args);
  if (pattern && pattern->calls++ < options_.calls_before_plan) return nullptr;
  if (pattern) entry.plan = plan_for(*pattern, args);
  else note(failures_, "too many kinds of arguments");
  entry.is_refused = !entry.plan;
  return entry.plan;
}

// Null where there are too many kinds already.
GraphExecutor::Pattern* GraphExecutor::pattern_of(std::span<const IValue> args) {
  Key key;
  std::map<int64_t, int64_t> classes;
  for (const IValue& a : args) add_pattern(key, a, classes);
  auto it = patterns_.find(key);
  if (it == patterns_.end() && patterns_.size() >= most_patterns) return nullptr;
  return &patterns_[key];
}

bool GraphExecutor::matches(std::span<const IValue> args) {
  std::scoped_lock lock(mutex_);
  return find(key_of(args)).plan != nullptr;
}

std::vector<IValue> GraphExecutor::run(std::vector<IValue> args, Printer printer) {
  std::string why;
  if (!options_.interpret) {
    std::shared_ptr<Plan> plan;
    {
      std::scoped_lock lock(mutex_);
      plan = choose(args);
    }
    if (plan)
      if (auto results = plan->run(args, why)) return std::move(*results);
  }
  if (options_.forbid_fallback) {
    std::vector<std::string> reasons = why_interpreted();
    unsupported("the interpreter would run this call: {}", !why.empty() ? why : reasons.empty() ? "it has no plan" : reasons.back());
  }
  std::vector<IValue> results = executor::run(code_, std::move(args), std::move(printer));
  if (!why.empty()) { // a plan failed where the interpreter did not
    std::scoped_lock lock(mutex_);
    note(failures_, why);
  }
  return results;
}

std::vector<std::string> GraphExecutor::why_interpreted() const {
  std::scoped_lock lock(mutex_);
  std::vector<std::string> out(failures_.begin(), failures_.end());
  for (auto& [key, p] : patterns_) out.insert(out.end(), p.why.begin(), p.why.end());
  return out;
}

// Under the mutex.
template <class F> void GraphExecutor::for_each_plan(const F& f) const {
  std::set<const Plan*> plans;
  for (auto& [key, e] : entries_)
    if (e->plan && plans.insert(e->plan.get()).second) f(*e->plan);
}

size_t GraphExecutor::num_plans() const {
  std::scoped_lock lock(mutex_);
  size_t n = 0;
  for_each_plan([&](const Plan&) { n++; });
  return n;
}

std::string GraphExecutor::explain() const {
  std::scoped_lock lock(mutex_);
  std::string out;
  for_each_plan([&](const Plan& p) { out += p.text; });
  return out;
}

std::vector<Explanation> GraphExecutor::explanations() const {
  std::scoped_lock lock(mutex_);
  std::vector<Explanation> out;
  for_each_plan([&](const Plan& p) {
    Explanation& e = out.emplace_back(tenon::explain(*p.runner));
    e.stats.steps = p.runner->plan().num_steps, e.stats.fallback_steps = p.runner->plan().fallback_steps;
    e.stats.kernels_compiled = static_cast<int>(p.runner->plan().kernels.size());
    e.stats.arena_bytes = p.runner->arena_bytes();
  });
  return out;
}

} // namespace tenon::executor
