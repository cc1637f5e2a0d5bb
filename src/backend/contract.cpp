// Addresses of matmul operands: views are followed to the memory they show.
#include "backend/contract.h"

#include "backend/affine.h"
#include "base/numeric.h"

namespace tenon {

namespace {

constexpr int64_t most_transposed_parts = 1024; // regular convolutions that make up a transposed one

bool is_product(const Node& n) { return n.def && (n.def->kind == Kind::Matmul || n.def->kind == Kind::Conv) && n.outputs.size() == 1; }

/// The sums of products of such operands, as runtime/matmul.h has them.
std::optional<DType> sum_of(DType a, DType b) {
  if (a == DType::F64 && b == DType::F64) return DType::F64;
  if (is_byte(a) && is_byte(b)) return DType::I32;
  bool narrow = a == b && is_reduced_float(a);
  bool into_f32 = (a == DType::F32 || is_reduced_float(a)) && b == DType::F32;
  bool weights = (a == DType::F32 && is_reduced_float(b)) || ((a == DType::F32 || is_reduced_float(a)) && b == DType::I8);
  return narrow || into_f32 || weights ? std::optional(DType::F32) : std::nullopt;
}

std::string matmul_refusal(const Graph& g, const Node& n) {
  std::vector<ValueId> operands = tensor_operands(n.args, g);
  if (operands.size() != 2) return "its rows choose their matrices";
  DType a = g.type(operands.at(0)).dtype, b = g.type(operands.at(1)).dtype, out = g.type(n.outputs[0]).dtype;
  auto sum = sum_of(a, b);
  if (!sum) return fmt::format("no micro-kernel multiplies {} and {}", name_of(a), name_of(b));
  if (out != *sum && !(is_reduced_float(out) && *sum == DType::F32))
    return fmt::format("the micro-kernels sum {} and {} in {}, not {}", name_of(a), name_of(b), name_of(*sum), name_of(out));
  return {};
}

std::string conv_refusal(const Graph& g, const Node& n) {
  Call c(g, *n.def, n.args);
  DType a = g.type(c.value("input")).dtype, b = g.type(c.value("weight")).dtype, out = g.type(n.outputs[0]).dtype;
  auto sum = sum_of(a, b);
  if (!sum) return fmt::format("no micro-kernel multiplies {} and {}", name_of(a), name_of(b));
  if (out != *sum && !(is_reduced_float(out) && *sum == DType::F32))
    return fmt::format("the micro-kernels sum {} and {} in {}, not {}", name_of(a), name_of(b), name_of(*sum), name_of(out));
  const Type& weight = g.type(c.value("weight"));
  for (Expr size : weight.sizes)
    if (!const_int(size)) return "its weight's sizes are not fixed";
  if (is_const_int(product(g.pool(), weight.sizes), 0)) return "its weight is empty";
  for (auto list : {"stride", "padding", "dilation", "groups"})
    for (Expr e : c.syms(list))
      if (!const_int(e)) return fmt::format("its {} is not fixed", list);
  if (c.has("bias")) return "it has a bias of its own";
  bool transposed = c.flag("transposed");
  int64_t groups = c.integer("groups"), parts = 1, outputs = *const_int(weight.sizes[0]);
  Expr channels = transposed ? weight.sizes[0] : weight.sizes[1] * static_cast<double>(groups);
  if (g.type(c.value("input")).sizes.at(1) != channels || outputs % groups != 0) return "its channels are not those of the weight";
  std::vector<int64_t> stride = c.integers("stride");
  for (size_t d = 0; d + 2 < weight.rank(); d++)
    parts = std::min(parts * std::min(stride.at(stride.size() == 1 ? 0 : d), most_transposed_parts + 1), most_transposed_parts + 1);
  if (transposed && parts > most_transposed_parts) return "its stride is long";
  size_t rank = g.type(n.outputs[0]).rank();
  return rank >= 3 && rank <= 5 ? "" : "its rank";
}

} // namespace

bool is_contract(const Graph& graph, const Node& n) { return is_product(n) && contract_refusal(graph, n).empty(); }

std::string contract_refusal(const Graph& graph, const Node& n) {
  if (!is_product(n)) return {};
  return n.def->kind == Kind::Matmul ? matmul_refusal(graph, n) : conv_refusal(graph, n);
}

int64_t slices_of(const Node& n) {
  const Arg* slices = n.attribute("slices");
  return slices && slices->is<int64_t>() ? slices->get<int64_t>() : 1;
}

DType sum_type(const Graph& g, const Node& n) {
  std::vector<ValueId> operands = tensor_operands(n.args, g);
  return sum_of(g.type(operands.at(0)).dtype, g.type(operands.at(1)).dtype).value_or(g.type(n.outputs[0]).dtype);
}

std::optional<MatmulOperand> matmul_operand(const Graph& graph, Inliner& inliner, ValueId operand) {
  ExprPool& pool = graph.pool();
  const Type& t = graph.type(operand);
  bool batched = t.rank() == 3;
  constexpr int64_t first = 900; // axis numbers of this query
  Expr row = pool.axis(first, t.sizes[t.rank() - 2]), column = pool.axis(first + 1, t.sizes[t.rank() - 1]);
  Expr zero = pool.integer(0), one = pool.integer(1);
  // The batch index is tried whole, then as two digits where the view divides it.
  std::vector<Expr> radices{one};
  if (batched) {
    Expr b = pool.axis(first + 2, t.sizes[0]);
    Expr e = inliner.at(operand, {b, row, column});
    visit(e, [&](const ExprNode& n) {
      if ((n.op == Op::FloorDiv || n.op == Op::Mod) && n.args[0] == b && !const_int(n.args[1]).has_value() == !n.args[1]->is_const())
        radices.push_back(n.args[1]);
    });
  }
  for (Expr radix : radices) {
    Expr b0 = pool.axis(first + 3, batched ? floor_div(t.sizes[0], radix) : one), b1 = pool.axis(first + 4, radix);
    if (radix == one) b1 = zero;
    if (radix != one && floor_div(t.sizes[0], radix) * radix != t.sizes[0]) continue;
    std::vector<Expr> index{row, column};
    if (batched) index.insert(index.begin(), b0 * radix + b1);
    Expr e = inliner.at(operand, index);
    if (e->op != Op::Load) return std::nullopt;
    ValueId value{static_cast<uint32_t>(e->bits)};
    Expr offset = flat_offset(pool, graph.type(value), e->args);
    std::vector<Expr> axes{b0, row, column};
    if (b1 != zero) axes.push_back(b1);
    auto a = as_affine(offset, axes);
    if (!a) continue;
    return MatmulOperand{
        value, a->rest, {a->coefficients[0], axes.size() > 3 ? a->coefficients[3] : zero}, a->coefficients[1], a->coefficients[2], radix};
  }
  return std::nullopt;
}

bool is_scattered(const Graph& graph, const MatmulOperand& o, const Type& t) {
  constexpr int64_t few = 8;
  auto many = [&](Expr size) { return const_int(size).value_or(few) >= few; };
  if (graph.stored_constant(o.value) || !many(t.sizes[t.rank() - 2]) || !many(t.sizes[t.rank() - 1])) return false;
  auto apart = [](Expr stride) { return !is_const_int(stride, 0) && !is_const_int(stride, 1); };
  return apart(o.row_stride) && apart(o.column_stride);
}

} // namespace tenon
