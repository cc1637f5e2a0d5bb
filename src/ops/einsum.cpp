// einsum: operands are contracted two at a time from the left; each step is one product of matrices, with the labels that
// both keep as its batch, and those that only they share summed.
#include <algorithm>
#include <map>

#include "ir/promote.h"
#include "ops/autocast.h"
#include "ops/body.h"
#include "ops/matmul.h"
#include "ops/table.h"

namespace tenon::ops {

namespace {

// A label is a letter, or 256 + d for the ellipsis' dim d, counted from its last.
using Labels = std::vector<int>;
struct Term {
  V x;
  Labels labels;
};

bool has(const Labels& l, int label) { return std::find(l.begin(), l.end(), label) != l.end(); }
int64_t place(const Labels& l, int label) { return std::find(l.begin(), l.end(), label) - l.begin(); }

constexpr int ellipsis_label = 256;

struct Equation {
  std::vector<std::string> terms;
  std::string output;
  bool has_output = false;
};

Equation parse(const Call& c, size_t operands) {
  Equation e;
  std::string text;
  for (char ch : c.text("equation")) {
    if (ch == ' ') continue;
    if (!std::isalpha(static_cast<unsigned char>(ch)) && ch != ',' && ch != '.' && ch != '-' && ch != '>') c.fail("bad equation");
    text += ch;
  }
  if (size_t arrow = text.find("->"); arrow != std::string::npos) {
    e.has_output = true;
    e.output = text.substr(arrow + 2);
    text.resize(arrow);
  }
  size_t begin = 0;
  for (size_t comma; (comma = text.find(',', begin)) != std::string::npos; begin = comma + 1)
    e.terms.push_back(text.substr(begin, comma - begin));
  e.terms.push_back(text.substr(begin));
  if (e.terms.size() != operands) c.fail(fmt::format("{} terms for {} operands", e.terms.size(), operands));
  return e;
}

// The labels of a term; the ellipsis stands for `covered` dims.
Labels labels_of(const Call& c, const std::string& term, size_t covered) {
  Labels out;
  for (size_t i = 0; i < term.size(); i++) {
    if (std::isalpha(static_cast<unsigned char>(term[i]))) out.push_back(term[i]);
    else if (term.compare(i, 3, "...") == 0) {
      for (size_t d = covered; d-- > 0;) out.push_back(ellipsis_label + static_cast<int>(d));
      i += 2;
    } else c.fail("bad equation");
  }
  return out;
}

size_t letters_of(const std::string& term) {
  return static_cast<size_t>(std::count_if(term.begin(), term.end(), [](char ch) { return ch != '.'; }));
}

// A label that stands twice in one term takes the diagonal.
void take_diagonals(Builder& b, Term& t) {
  for (size_t i = 0; i < t.labels.size(); i++)
    for (size_t j = i + 1; j < t.labels.size(); j++) {
      if (t.labels[i] != t.labels[j]) continue;
      t.x = b.call1("aten::diagonal.default", {t.x, 0, static_cast<int64_t>(i), static_cast<int64_t>(j)});
      int label = t.labels[i];
      t.labels.erase(t.labels.begin() + static_cast<int64_t>(j));
      t.labels.erase(t.labels.begin() + static_cast<int64_t>(i));
      t.labels.push_back(label); // the diagonal is the last dim
      i = static_cast<size_t>(-1);
      break;
    }
}

void drop(Builder& b, Term& t, const Labels& gone, bool sum) {
  std::vector<int64_t> dims;
  for (int l : gone) dims.push_back(place(t.labels, l));
  if (dims.empty()) return;
  t.x = sum ? b.call1("aten::sum.dim_IntList", {t.x, dims, false}) : b.call1("aten::squeeze.dims", {t.x, dims}); // sums of integers are i64
  std::erase_if(t.labels, [&](int l) { return has(gone, l); });
}

bool is_one(const Term& t, int label) { return is_const_int(t.x.size(place(t.labels, label)), 1); }

// x with its dims in the order of `groups`, each group as one dim.
V grouped(Builder& b, const Term& t, std::initializer_list<const Labels*> groups) {
  std::vector<int64_t> order;
  std::vector<Expr> sizes;
  for (const Labels* g : groups) {
    Expr n = b.integer(1);
    for (int l : *g) {
      order.push_back(place(t.labels, l));
      n = n * t.x.size(order.back());
    }
    sizes.push_back(n);
  }
  return b.reshape(b.permute(t.x, order), sizes);
}

// x with a dim for each of `labels`, 1 where it has none.
V aligned(Builder& b, const Term& t, const Labels& labels) {
  std::vector<int64_t> order;
  std::vector<Expr> sizes;
  for (int l : labels) {
    if (!has(t.labels, l)) sizes.push_back(b.integer(1));
    else {
      order.push_back(place(t.labels, l));
      sizes.push_back(t.x.size(order.back()));
    }
  }
  return b.reshape(b.permute(t.x, order), sizes);
}

// One step: the labels in `kept` stay, the others are summed.
Term contract(Builder& b, Term x, Term y, const Labels& kept) {
  Labels batch, left, right, summed, gone;
  for (auto [self, other] : {std::pair(&x, &y), std::pair(&y, &x)}) {
    Labels alone, ones;
    for (int l : self->labels) {
      if (!has(other->labels, l) && !has(kept, l)) alone.push_back(l);
      else if (has(other->labels, l) && is_one(*self, l) && !is_one(*other, l)) ones.push_back(l); // broadcasts
    }
    drop(b, *self, ones, false);
    drop(b, *self, alone, true);
  }
  for (int l : x.labels) (has(y.labels, l) ? (has(kept, l) ? batch : summed) : has(kept, l) ? left : gone).push_back(l);
  for (int l : y.labels)
    if (!has(x.labels, l)) (has(kept, l) ? right : gone).push_back(l);
  for (Term* t : {&x, &y}) { // what lost its partner to broadcasting above
    Labels own;
    for (int l : gone)
      if (has(t->labels, l)) own.push_back(l);
    drop(b, *t, own, true);
  }
  DType common = promote(x.x.dtype(), y.x.dtype());
  x.x = b.to(x.x, common), y.x = b.to(y.x, common);
  Labels out = batch;
  out.insert(out.end(), left.begin(), left.end());
  out.insert(out.end(), right.begin(), right.end());
  if (summed.empty()) return {aligned(b, x, out) * aligned(b, y, out), out};
  V xs = grouped(b, x, {&batch, &left, &summed}), ys = grouped(b, y, {&batch, &summed, &right});
  std::vector<Expr> sizes;
  for (int l : out) sizes.push_back(has(x.labels, l) ? x.x.size(place(x.labels, l)) : y.x.size(place(y.labels, l)));
  return {b.reshape(matmul(b, xs, ys, xs.dtype()), sizes), out};
}

// Without "->": the ellipsis, then the letters that stand once, in order.
Labels default_output(const std::vector<Term>& terms, size_t covered) {
  Labels out;
  for (size_t d = covered; d-- > 0;) out.push_back(ellipsis_label + static_cast<int>(d));
  std::map<int, int> count;
  for (const Term& t : terms)
    for (int l : t.labels) count[l]++;
  for (auto [label, n] : count)
    if (n == 1 && label < ellipsis_label) out.push_back(label);
  return out;
}

V finish(Builder& b, const Call& c, Term t, const Labels& output) {
  Labels gone;
  for (int l : t.labels)
    if (!has(output, l)) gone.push_back(l);
  drop(b, t, gone, true);
  std::vector<int64_t> order;
  for (int l : output) {
    if (!has(t.labels, l)) c.fail("the result has a label that no operand has");
    order.push_back(place(t.labels, l));
  }
  return b.permute(t.x, order);
}

Values einsum(Builder& b, const Call& c) {
  std::vector<ValueId> operands = c.values("tensors");
  Equation e = parse(c, operands.size());
  std::vector<size_t> covered(operands.size());
  for (size_t i = 0; i < operands.size(); i++) {
    size_t rank = c.graph.type(operands[i]).rank(), letters = letters_of(e.terms[i]);
    bool dots = e.terms[i].find("...") != std::string::npos;
    if (letters > rank || (!dots && letters != rank)) c.fail(fmt::format("term {} does not fit an operand of rank {}", e.terms[i], rank));
    covered[i] = rank - letters;
  }
  size_t most = *std::max_element(covered.begin(), covered.end());
  std::vector<Term> terms;
  for (size_t i = 0; i < operands.size(); i++) terms.push_back({b.wrap(operands[i]), labels_of(c, e.terms[i], covered[i])});
  Labels output = e.has_output ? labels_of(c, e.output, most) : default_output(terms, most);
  for (Term& t : terms) take_diagonals(b, t);
  Term acc = terms[0];
  for (size_t i = 1; i < terms.size(); i++) {
    Labels kept = output;
    for (size_t k = i + 1; k < terms.size(); k++) kept.insert(kept.end(), terms[k].labels.begin(), terms[k].labels.end());
    acc = contract(b, acc, terms[i], kept);
  }
  return finish(b, c, acc, output);
}

V einsum_of(Builder& b, const char* equation, std::vector<V> operands) {
  ArgList list(operands.begin(), operands.end());
  return b.call1("aten::einsum.default", {equation, list});
}

// y[..., o] = x1[..., i] w[o, i, j] x2[..., j] + bias; the products in the wide dtype, rounded once.
// Each operand with new dims of size 1 at its places; the sum of their product over some dims.
Values trilinear(Builder& b, const Call& c) {
  V out;
  for (auto [operand, places] : {std::pair("i1", "expand1"), {"i2", "expand2"}, {"i3", "expand3"}}) {
    V x = b.input(c, operand);
    std::vector<int64_t> dims = c.dims(places, x.rank() + c.integers(places).size(), false);
    std::sort(dims.begin(), dims.end());
    for (int64_t d : dims) x = b.unsqueeze(x, d);
    out = out ? out * x : x;
  }
  std::vector<int64_t> summed = c.dims("sumdim", out.rank(), false);
  return summed.empty() ? out : b.sum(out, summed, false);
}

Values bilinear(Builder& b, const Call& c) {
  V x = b.input(c, "input1"), y = b.input(c, "input2"), w = b.input(c, "weight");
  DType result = x.dtype(), wide = compute_type(result);
  V out = einsum_of(b, "...i,oij,...j->...o", {b.to(x, wide), b.to(w, wide), b.to(y, wide)});
  if (c.has("bias")) out = out + b.to(b.input(c, "bias"), wide);
  return b.to(out, result);
}

// A matrix product takes part where some label of two operands is summed.
std::optional<DType> to_lower_where_it_contracts(DType lower, const Graph&, const ArgList& args) {
  if (args.empty() || !args[0].is<std::string>()) return std::nullopt;
  const std::string& equation = args[0].get<std::string>();
  size_t arrow = equation.find("->");
  std::string_view inputs = std::string_view(equation).substr(0, arrow),
                   output = arrow == equation.npos ? "" : std::string_view(equation).substr(arrow);
  bool contracts = std::any_of(inputs.begin(), inputs.end(), [&](char c) {
    return std::isalpha(static_cast<unsigned char>(c)) && output.find(c) == output.npos && inputs.find(c) < inputs.rfind(',') &&
           inputs.rfind(c) > inputs.find(',', inputs.find(c));
  });
  return contracts ? std::optional(lower) : std::nullopt;
}

const OpRow einsum_ops[] = {
    {.schema = "aten::einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor",
     .decompose = einsum,
     .autocast = to_lower_where_it_contracts,
     .vjp = "tensors: einsum_operands(grad, equation, tensors)"},
    {.schema = "aten::_trilinear(Tensor i1, Tensor i2, Tensor i3, int[] expand1, int[] expand2, int[] expand3, int[] sumdim, int "
               "unroll_dim=1) -> Tensor",
     .decompose = trilinear},
    {.schema = "aten::bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor",
     .decompose = bilinear,
     .vjp = "result: bilinear_of(input1, input2, weight, bias)"},
};

} // namespace

std::span<const OpRow> einsum_rows() { return einsum_ops; }

} // namespace tenon::ops
