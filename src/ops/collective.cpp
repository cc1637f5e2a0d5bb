// Rows of torch's functional collectives: operations that all ranks of a group take part in. Each begins its operation, and wait_tensor is
// where the result is there; steps between the two run meanwhile. Dim 0 is what is gathered, scattered and exchanged.
#include "ops/collective.h"

#include "ops/library.h"
#include "runtime/collective_steps.h"
#include "runtime/communicator.h"

namespace tenon::ops {

namespace {

int64_t ranks_of(const Call& c) {
  int64_t ranks = c.integer("group_size");
  if (ranks < 1) c.fail(fmt::format("a group of {} ranks", ranks));
  return ranks;
}

const Type& input_of(const Call& c) {
  const Type& t = c.type("input");
  if (c.def.signature.find("reduce_op") < 0) return t;
  tenon_reduction reduction;
  if (!find_reduction(c.text("reduce_op"), reduction)) c.fail(fmt::format("no reduction is called '{}'", c.text("reduce_op")));
  if (const char* why = reduction_refusal(reduction, t.dtype)) c.fail(why);
  return t;
}
std::vector<Type> like_input(const Call& c) { return {Type::tensor(input_of(c).dtype, input_of(c).sizes)}; }

// With other rows.
template <class F> std::vector<Type> with_rows(const Call& c, F rows) {
  Type t = like_input(c)[0];
  if (t.sizes.empty()) c.fail("the operand needs a dim 0");
  t.sizes[0] = rows(t.sizes[0]);
  return {t};
}
std::vector<Type> gathered(const Call& c) {
  return with_rows(c, [&](Expr n) { return n * integer(c, ranks_of(c)); });
}
std::vector<Type> scattered(const Call& c) {
  auto rows = const_int(c.size("input", 0));
  if (rows && *rows % ranks_of(c) != 0) c.fail(fmt::format("{} rows are not shared out among {} ranks", *rows, ranks_of(c)));
  return with_rows(c, [&](Expr n) { return floor_div(n, integer(c, ranks_of(c))); });
}
std::vector<Type> exchanged(const Call& c) {
  return with_rows(c, [&](Expr) {
    Expr sum = integer(c, 0);
    for (Expr n : c.syms("output_split_sizes")) sum = sum + n;
    return sum;
  });
}

LibraryStep step_of(const Call& c, LibraryFn function, std::vector<Expr> ints) {
  LibraryStep step{function, {c.value("input")}, std::move(ints), {}, {c.text("group_name")}};
  if (c.def.signature.find("reduce_op") >= 0) step.texts.push_back(c.text("reduce_op"));
  return step;
}
LibraryStep all_reduce(const Call& c) { return step_of(c, library::all_reduce, {}); }
LibraryStep all_gather(const Call& c) { return step_of(c, library::all_gather, integers(c, {ranks_of(c)})); }
LibraryStep reduce_scatter(const Call& c) { return step_of(c, library::reduce_scatter, integers(c, {ranks_of(c)})); }
LibraryStep broadcast(const Call& c) { return step_of(c, library::broadcast, integers(c, {c.integer("src")})); }
LibraryStep all_to_all(const Call& c) {
  std::vector<Expr> rows = c.syms("output_split_sizes"), sent = c.syms("input_split_sizes");
  if (rows.size() != sent.size()) c.fail(fmt::format("parts from {} ranks, and for {}", rows.size(), sent.size()));
  rows.insert(rows.end(), sent.begin(), sent.end());
  return step_of(c, library::all_to_all, std::move(rows));
}

// One operation for each tensor of the list.
template <Name N, Name List> Values each(Builder& b, const Call& c) {
  Values all;
  for (ValueId v : c.values(List.text)) {
    ArgList args{Arg(v)};
    args.insert(args.end(), c.args.begin() + 1, c.args.end());
    all.push_back(b.call1(N.text, args));
  }
  return all;
}

constexpr DTypes reduced_dtypes = number_types | complex_types, moved_dtypes = any_type | complex_types;
#define TENON_FUNCTIONAL "_c10d_functional::"

const OpRow collective_ops[] = {
    {.schema = TENON_FUNCTIONAL "all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor",
     .kind = Kind::Library,
     .infer = like_input,
     .library = all_reduce,
     .dtypes = reduced_dtypes},
    {.schema = TENON_FUNCTIONAL "all_gather_into_tensor(Tensor input, int group_size, str group_name) -> Tensor",
     .kind = Kind::Library,
     .infer = gathered,
     .library = all_gather,
     .dtypes = moved_dtypes},
    {.schema = TENON_FUNCTIONAL "reduce_scatter_tensor(Tensor input, str reduce_op, int group_size, str group_name) -> Tensor",
     .kind = Kind::Library,
     .infer = scattered,
     .library = reduce_scatter,
     .dtypes = reduced_dtypes},
    {.schema = TENON_FUNCTIONAL "broadcast(Tensor input, int src, str group_name) -> Tensor",
     .kind = Kind::Library,
     .infer = like_input,
     .library = broadcast,
     .dtypes = moved_dtypes},
    {.schema = TENON_FUNCTIONAL
     "all_to_all_single(Tensor input, SymInt[] output_split_sizes, SymInt[] input_split_sizes, str group_name) -> Tensor",
     .kind = Kind::Library,
     .infer = exchanged,
     .library = all_to_all,
     .dtypes = moved_dtypes},
    {.schema = TENON_FUNCTIONAL "wait_tensor(Tensor tensor) -> Tensor",
     .kind = Kind::Library,
     .infer = [](const Call& c) { return std::vector{Type::tensor(c.type("tensor").dtype, c.type("tensor").sizes)}; },
     .library = [](const Call& c) { return LibraryStep{library::wait_tensor, {c.value("tensor")}}; },
     .dtypes = moved_dtypes},
    {.schema = TENON_FUNCTIONAL "all_reduce_coalesced(Tensor[] inputs, str reduce_op, str group_name) -> Tensor[]",
     .decompose = each<TENON_FUNCTIONAL "all_reduce.default", "inputs">},
    {.schema = TENON_FUNCTIONAL "all_gather_into_tensor_coalesced(Tensor[] inputs, int group_size, str group_name) -> Tensor[]",
     .decompose = each<TENON_FUNCTIONAL "all_gather_into_tensor.default", "inputs">},
    {.schema =
         TENON_FUNCTIONAL "reduce_scatter_tensor_coalesced(Tensor[] inputs, str reduce_op, int group_size, str group_name) -> Tensor[]",
     .decompose = each<TENON_FUNCTIONAL "reduce_scatter_tensor.default", "inputs">},
    {.schema = TENON_FUNCTIONAL "wait_tensors(Tensor[] tensors) -> Tensor[]",
     .decompose = each<TENON_FUNCTIONAL "wait_tensor.default", "tensors">},
};

} // namespace

std::span<const OpRow> collective_rows() { return collective_ops; }

} // namespace tenon::ops
