// Attention is recognised by expressions: the weights, with everything between the two contractions written out, must
// be exp(x - max(x)) / sum(exp(x - max(x))) at each index, whichever views, casts and permutations lead there.
#include "backend/attention.h"

#include <deque>
#include <unordered_set>

#include "backend/affine.h"
#include "ops/names.h"

namespace tenon {

namespace {

constexpr int64_t first_axis = 800; // axis numbers of these queries
constexpr size_t most_nodes = 64;   // between the contractions, and looked at above the second

Expr without_casts(Expr e) {
  while (e->op == Op::Cast && is_float(e->type) && is_float(e->args[0]->type)) e = e->args[0];
  return e;
}

bool is_number(Expr e, double v) { return e->is_const() && e->number() == v; }
bool is_minus_infinity(Expr e) { return without_casts(e)->is_const() && is_float(e->type) && without_casts(e)->number() == -INFINITY; }

bool depends_on_axis(Expr e, Expr axis) {
  return axis->op == Op::Axis && contains(e, [&](const ExprNode& n) { return &n == axis.get(); });
}

// A load, or select(load == when, instead, load).
struct Guarded {
  Expr load;
  bool is_guarded = false;
};
std::optional<Guarded> guarded_load(Expr e, double when, double instead) {
  e = without_casts(e);
  if (e->op == Op::Load) return Guarded{e};
  if (e->op != Op::Select || !is_number(e->args[1], instead)) return std::nullopt;
  Expr condition = e->args[0], load = without_casts(e->args[2]);
  bool fits =
      condition->op == Op::Eq && without_casts(condition->args[0]) == load && is_number(condition->args[1], when) && load->op == Op::Load;
  return fits ? std::optional(Guarded{load, true}) : std::nullopt;
}

// Which keys of a row may have weight, from the conditions under which a score is not -inf.
class KeyBounds {
public:
  KeyBounds(Expr row, Expr key) : row_(row), key_(key) {}
  Expr upper, lower;
  Substitution known; // the conditions that the bounds say

  void score(Expr e) {
    if (e->op == Op::Cast && is_float(e->args[0]->type)) return score(e->args[0]);
    if (e->op == Op::Add) return score(e->args[0]), score(e->args[1]);
    if (e->op != Op::Select) return;
    if (is_minus_infinity(e->args[2])) condition(e->args[0], true), score(e->args[1]);
    else if (is_minus_infinity(e->args[1])) condition(e->args[0], false), score(e->args[2]);
  }

private:
  // What follows where the condition is `sense`.
  void condition(Expr c, bool sense) {
    switch (c->op) {
    case Op::Not: return condition(c->args[0], !sense);
    case Op::And:
    case Op::Or:
      if ((c->op == Op::And) == sense && c->type == DType::Bool) condition(c->args[0], sense), condition(c->args[1], sense);
      return;
    case Op::Eq:
    case Op::Ne: return number(c, sense == (c->op == Op::Eq));
    case Op::Lt:
    case Op::Le: {
      Expr a = c->args[0], b = c->args[1];
      if (a->type != DType::I64) return;
      bool strict = (c->op == Op::Lt) == sense;
      if (at_most_zero((sense ? a - b : b - a) + (strict ? 1.0 : 0.0))) known.set(c, c->pool->boolean(sense));
      return;
    }
    default: return;
    }
  }

  // select(c, a, b) == n for numbers a, b: c or its contrary; the same for a truth value cast to a number.
  void number(Expr c, bool equal) {
    Expr e = c->args[0], n = c->args[1];
    if (!n->is_const()) return;
    while (e->op == Op::Cast && e->args[0]->op != Op::Load && (e->args[0]->op == Op::Select || e->args[0]->op == Op::Cast)) e = e->args[0];
    if (e->op == Op::Cast && e->args[0]->type == DType::Bool && (n->number() == 0 || n->number() == 1))
      return condition(e->args[0], (n->number() == 1) == equal);
    if (e->op != Op::Select || !e->args[1]->is_const() || !e->args[2]->is_const()) return;
    bool first = e->args[1]->number() == n->number(), second = e->args[2]->number() == n->number();
    if (first != second) condition(e->args[0], first == equal);
  }

  bool at_most_zero(Expr e) {
    if (key_->op != Op::Axis || row_->op != Op::Axis) return false;
    Expr axes[] = {row_, key_};
    auto a = as_affine(e, axes);
    if (!a || contains(a->rest, [](const ExprNode& n) { return n.op == Op::Axis || n.op == Op::Load; })) return false;
    bool is_upper = is_const_int(a->coefficients[0], -1) && is_const_int(a->coefficients[1], 1);
    bool is_lower = is_const_int(a->coefficients[0], 1) && is_const_int(a->coefficients[1], -1);
    Expr& bound = is_upper ? upper : lower;
    if ((!is_upper && !is_lower) || bound) return false;
    bound = is_upper ? e->pool->integer(0) - a->rest : a->rest;
    return true;
  }

  Expr row_, key_;
};

class AttentionMatcher {
public:
  AttentionMatcher(const Graph& g, NodeId product, NodeId scores, Inliner& inliner, std::string& why)
      : g_(g), pool_(g.pool()), inliner_(inliner), why_(why) {
    out_.scores = scores;
    operands_ = tensor_operands(g.node(product).args, g);
  }

  std::optional<Attention> run() {
    if (!find_axes() || !find_softmax() || !find_score() || !find_operands()) return std::nullopt;
    KeyBounds bounds(out_.row, out_.key);
    bounds.score(out_.score);
    out_.upper = bounds.upper, out_.lower = bounds.lower;
    out_.visible = bounds.known.apply(out_.score);
    return std::move(out_);
  }
  ValueId at_fault = {};

private:
  bool no(std::string why) {
    why_ = std::move(why);
    return false;
  }
  Expr axis(int64_t number, Expr extent) { return is_const_int(extent, 1) ? pool_.integer(0) : pool_.axis(first_axis + number, extent); }

  bool find_axes() {
    const Type& t = g_.type(operands_.at(0));
    size_t rank = t.rank();
    if (rank < 2 || rank > 3 || is_const_int(t.sizes[rank - 1], 0)) return false;
    count_ = rank == 3 ? t.sizes[0] : pool_.integer(1);
    out_.batch = axis(0, count_);
    out_.row = axis(1, t.sizes[rank - 2]);
    out_.key = axis(2, t.sizes[rank - 1]);
    return true;
  }

  std::vector<Expr> index(Expr batch, Expr row, Expr column, ValueId v) const {
    std::vector<Expr> i{row, column};
    if (g_.type(v).rank() == 3) i.insert(i.begin(), batch);
    return i;
  }

  // What the load reads is the reduction of over the keys; empty where it is none.
  Expr reduced(Expr load, Reduction kind) {
    NodeId n = g_.value(ValueId{static_cast<uint32_t>(load->bits)}).node;
    if (!n.valid() || !has_definition(g_.node(n))) return {};
    const Compute& c = inliner_.definition(n);
    if (c.reduction != kind || c.reduce_axes.size() != 1 || c.reduce_axes[0]->args[0] != g_.type(operands_[0]).sizes.back()) return {};
    Substitution s;
    for (size_t d = 0; d < c.axes.size(); d++) s.set(c.axes[d], load->args.at(d));
    s.set(c.reduce_axes[0], out_.key);
    return without_casts(s.apply(c.body));
  }
  bool is_reduction(Expr load, Reduction kind, Expr e) { return reduced(load, kind) == without_casts(e); }

  // Whether the condition says that all scores of the row are -inf: all(x == -inf), or the contrary of any(x != -inf).
  bool is_empty_row(Expr c) {
    bool any = c->op == Op::Not;
    if (any) c = c->args[0];
    Expr e = c->op == Op::Load ? reduced(c, any ? Reduction::Any : Reduction::All) : Expr();
    if (!e) return false;
    bool differs = e->op == Op::Ne || e->op == Op::Not;
    if (e->op == Op::Not) e = e->args[0];
    return differs == any && (e->op == Op::Eq || e->op == Op::Ne) && without_casts(e->args[0]) == without_casts(x_) &&
           is_minus_infinity(e->args[1]);
  }

  bool find_softmax() {
    Expr e = without_casts(inliner_.at(operands_[0], index(out_.batch, out_.row, out_.key, operands_[0])));
    Expr empty; // the condition under which a row has no weights
    if (e->op == Op::Select && is_number(e->args[1], 0)) empty = e->args[0], e = without_casts(e->args[2]);
    if (e->op != Op::Div) return no("the weights of the product are no quotient");
    Expr top = without_casts(e->args[0]);
    auto sum = guarded_load(e->args[1], 0, 1);
    if (!sum || top->op != Op::Exp || without_casts(top->args[0])->op != Op::Sub)
      return no("the weights are not exp(x - max(x)) / sum(exp(x - max(x)))");
    Expr difference = without_casts(top->args[0]);
    auto maximum = guarded_load(difference->args[1], -INFINITY, 0);
    x_ = difference->args[0];
    if (!maximum || !is_reduction(maximum->load, Reduction::Max, x_))
      return no("the weights are not exp(x - max(x)) / sum(exp(x - max(x)))");
    if (!is_reduction(sum->load, Reduction::Sum, top)) return no("the weights are not divided by their sum over the keys");
    if (empty && !is_empty_row(empty)) return no("weights are hidden after the softmax");
    out_.empty_is_zero = empty || (sum->is_guarded && maximum->is_guarded);
    if (x_->type != DType::F32) return no(fmt::format("softmax is computed in {}", name_of(x_->type)));
    return true;
  }

  bool find_score() {
    ValueId s = g_.node(out_.scores).outputs[0];
    bool one = true;
    visit(x_, [&](const ExprNode& n) {
      if (n.op != Op::Load || n.bits != static_cast<int64_t>(s.index)) return;
      if (index_.empty()) index_ = n.args;
      one &= index_ == n.args;
    });
    if (index_.empty() || !one) return no("the scores are not a function of one element of a product");
    Expr row = index_[index_.size() - 2], column = index_.back();
    is_swapped_ = row == out_.key && column != out_.key;
    if (!is_swapped_ && column != out_.key) return no("the scores are not along the keys");
    if (depends_on_axis(is_swapped_ ? column : row, out_.key) || (index_.size() == 3 && depends_on_axis(index_[0], out_.key)))
      return no("the scores are not along the keys");
    return true;
  }

  // The element with a constant factor taken off.
  Expr take_factor(Expr e, double& factor) {
    e = without_casts(e);
    if (e->op == Op::Mul && e->args[1]->is_const() && without_casts(e->args[0])->op == Op::Load)
      factor = e->args[1]->number(), e = e->args[0];
    else if (e->op == Op::Div && e->args[1]->is_const() && without_casts(e->args[0])->op == Op::Load)
      factor = 1 / e->args[1]->number(), e = e->args[0];
    return e;
  }

  bool find_operands() {
    std::vector<ValueId> factors = tensor_operands(g_.node(out_.scores).args, g_);
    ValueId left = factors.at(0), right = factors.at(1), values = operands_.at(1);
    const Type& l = g_.type(left);
    Expr depth = axis(3, l.sizes.back()), column = axis(4, g_.type(values).sizes.back());
    Expr batch = index_.size() == 3 ? index_[0] : pool_.integer(0), row = index_[index_.size() - 2], key = index_.back();
    Expr a = take_factor(inliner_.at(left, index(batch, row, depth, left)), (is_swapped_ ? out_.k : out_.q).factor);
    Expr b = take_factor(inliner_.at(right, index(batch, depth, key, right)), (is_swapped_ ? out_.q : out_.k).factor);
    Expr c = inliner_.at(values, index(out_.batch, out_.key, column, values));
    if (c->op == Op::Cast && is_float(c->args[0]->type) && size_of(c->args[0]->type) < size_of(c->type)) c = c->args[0];
    if (!find_digits({a, b, c})) return false;
    AttentionOperand &first = is_swapped_ ? out_.k : out_.q, &second = is_swapped_ ? out_.q : out_.k;
    Expr own = is_swapped_ ? out_.key : out_.row, other = is_swapped_ ? out_.row : out_.key;
    if (!address(a, own, depth, left, first) || !address(b, other, depth, right, second) || !address(c, out_.key, column, values, out_.v))
      return false;
    ValueId s = g_.node(out_.scores).outputs[0];
    double factor = out_.q.factor * out_.k.factor;
    Substitution in;
    in.on_load = [&](int64_t operand, const ExprNode& load, const std::vector<Expr>&) {
      if (operand != static_cast<int64_t>(s.index)) return Expr();
      Expr e = pool_.load(operand, DType::F32, {});
      if (factor != 1) e = e * factor;
      return cast(e, load.type);
    };
    out_.score = in.apply(x_);
    return true;
  }

  // The batch index as digits, where operands divide it.
  bool find_digits(std::initializer_list<Expr> elements) {
    std::vector<Expr> radices;
    for (Expr e : elements)
      visit(e, [&](const ExprNode& n) {
        if ((n.op != Op::FloorDiv && n.op != Op::Mod) || n.args[0] != out_.batch || n.args[1]->lo <= 0) return;
        if (std::find(radices.begin(), radices.end(), n.args[1]) == radices.end()) radices.push_back(n.args[1]);
      });
    auto divides = [](Expr a, Expr b) { return floor_div(b, a) * a == b; };
    std::vector<Expr> chain{pool_.integer(1)}; // each divides the next
    while (!radices.empty()) {
      auto least = std::find_if(radices.begin(), radices.end(),
                                [&](Expr r) { return std::all_of(radices.begin(), radices.end(), [&](Expr o) { return divides(r, o); }); });
      if (least == radices.end() || !divides(chain.back(), *least)) return no("its operands divide the batch in ways that do not nest");
      chain.push_back(*least);
      radices.erase(least);
    }
    if (!divides(chain.back(), count_)) return no("its operands divide the batch in ways that do not nest");
    chain.push_back(count_);
    Expr whole = pool_.integer(0);
    for (size_t k = chain.size() - 1; k-- > 0;) {
      Expr digit = axis(10 + static_cast<int64_t>(k), floor_div(chain[k + 1], chain[k]));
      if (digit->op != Op::Axis) continue;
      digits_.push_back(digit);
      out_.digits.push_back(digit->args[0]);
      whole = whole + digit * chain[k];
    }
    if (out_.batch->op == Op::Axis) to_digits_.set(out_.batch, whole);
    return digits_.size() <= most_attention_digits || no("its batch has too many digits");
  }

  bool address(Expr element, Expr row, Expr column, ValueId operand, AttentionOperand& out) {
    element = to_digits_.apply(element);
    at_fault = operand;
    if (element->op != Op::Load) return no("an operand is not in memory");
    out.value = ValueId{static_cast<uint32_t>(element->bits)};
    const Type& t = g_.type(out.value);
    if (t.dtype != DType::F32 && t.dtype != DType::F16 && t.dtype != DType::BF16)
      return no(fmt::format("an operand is {}", name_of(t.dtype)));
    std::vector<Expr> axes = digits_;
    for (Expr a : {row, column})
      if (a->op == Op::Axis) axes.push_back(a);
    auto a = as_affine(flat_offset(pool_, t, element->args), axes);
    if (!a || contains(a->rest, [](const ExprNode& n) { return n.op == Op::Axis; })) return no("an operand has no strides");
    size_t next = digits_.size();
    out.offset = a->rest;
    out.batch.assign(a->coefficients.begin(), a->coefficients.begin() + static_cast<ptrdiff_t>(next));
    out.row_stride = row->op == Op::Axis ? a->coefficients[next++] : pool_.integer(0);
    out.column_stride = column->op == Op::Axis ? a->coefficients[next++] : pool_.integer(1);
    at_fault = {};
    return true;
  }

  const Graph& g_;
  ExprPool& pool_;
  Inliner& inliner_;
  std::string& why_;
  Attention out_;
  std::vector<ValueId> operands_;
  Expr count_, x_;
  std::vector<Expr> index_, digits_;
  bool is_swapped_ = false;
  Substitution to_digits_;
};

bool is_plain(const Graph& g, NodeId id) {
  return id.valid() && has_definition(g.node(id)) && g.node(id).outputs.size() == 1 && g.node(id).blocks.empty();
}

// Products from which the weights may come, nearest first; none where no softmax lies between.
std::vector<NodeId> products_above(const Graph& g, ValueId weights) {
  std::deque<ValueId> queue{weights};
  std::unordered_set<ValueId> seen{weights};
  std::vector<NodeId> found;
  bool exp = false, max = false;
  while (!queue.empty() && seen.size() < most_nodes) {
    NodeId id = g.value(queue.front()).node;
    queue.pop_front();
    if (!is_plain(g, id)) continue;
    const Node& n = g.node(id);
    exp |= n.op == edge::exp, max |= n.op == edge::amax || n.op == own::amax_or_lowest;
    if (n.def->kind == Kind::Matmul) found.push_back(id);
    if (n.def->kind == Kind::Matmul || n.def->kind == Kind::Conv) continue;
    for (ValueId v : tensor_operands(n.args, g))
      if (seen.insert(v).second) queue.push_back(v);
  }
  return exp && max ? found : std::vector<NodeId>();
}

bool leads_only_to(const Graph& g, NodeId product, const AttentionUses& uses, AttentionNodes& out) {
  std::unordered_set<NodeId> inside{out.scores};
  out.between = {out.scores};
  ValueId weights = tensor_operands(g.node(product).args, g).at(0);
  for (size_t k = 0; k < out.between.size(); k++) {
    ValueId v = g.node(out.between[k]).outputs[0];
    const std::vector<NodeId>* users = uses(v);
    if (!users || users->empty() || out.between.size() > most_nodes) return false;
    for (NodeId user : *users) {
      if (user == product && v == weights) continue;
      if (user == product || !is_plain(g, user)) return false;
      if (inside.insert(user).second) out.between.push_back(user);
    }
  }
  std::sort(out.between.begin(), out.between.end(), [](NodeId a, NodeId b) { return a.index < b.index; });
  return true;
}

// Fills, index ranges and what is made of them: read by nobody from memory.
using Known = std::unordered_map<ValueId, bool>;
bool is_made_of_nothing(const Graph& g, ValueId v, Known& known, int depth = 8) {
  NodeId id = g.value(v).node;
  if (depth == 0 || !is_plain(g, id)) return false;
  if (auto it = known.find(v); it != known.end()) return it->second;
  Kind kind = g.node(id).def->kind;
  auto operands = tensor_operands(g.node(id).args, g);
  bool is = (kind == Kind::Pointwise || kind == Kind::View) &&
            std::all_of(operands.begin(), operands.end(), [&](ValueId o) { return is_made_of_nothing(g, o, known, depth - 1); });
  return known[v] = is;
}

} // namespace

std::optional<AttentionNodes> find_attention(const Graph& g, NodeId product, const AttentionUses& uses, std::string& why) {
  if (!is_plain(g, product) || g.node(product).def->kind != Kind::Matmul) return std::nullopt;
  for (NodeId scores : products_above(g, tensor_operands(g.node(product).args, g).at(0))) {
    AttentionNodes nodes{scores, {}};
    if (!leads_only_to(g, product, uses, nodes)) {
      why = "scores or weights are needed by others than the product with the values";
      continue;
    }
    Inliner inliner(g);
    std::unordered_set<ValueId> inside;
    for (NodeId n : nodes.between)
      if (inliner.own(n).reduction == Reduction::None) inside.insert(g.node(n).outputs[0]);
    Known known;
    inliner.is_inline = [&](ValueId v) { return inside.contains(v) || is_made_of_nothing(g, v, known); };
    if (match_attention(g, product, scores, inliner, why)) return nodes;
  }
  return std::nullopt;
}

std::optional<Attention> match_attention(const Graph& g, NodeId product, NodeId scores, Inliner& inliner, std::string& why,
                                         ValueId* operand) {
  AttentionMatcher m(g, product, scores, inliner, why);
  auto found = m.run();
  if (operand) *operand = m.at_fault;
  return found;
}

NodeId scores_of(const Graph& g, NodeId region) {
  for (NodeId n : g.block(g.node(region).blocks.at(0)).nodes)
    if (g.node(n).def->kind == Kind::Matmul) return n;
  internal_error("an attention without scores");
}

} // namespace tenon
