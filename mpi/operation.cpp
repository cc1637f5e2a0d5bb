// One collective operation: tenon's types and reductions as MPI's.
#include <array>
#include <climits>
#include <utility>

#include "mpi/communicator.h"

namespace tenon_mpi {

const tenon_communicator_host* host = nullptr;

namespace {

constexpr int num_dtypes = TENON_F8E5M2FNUZ + 1, num_reductions = TENON_MAX + 1;
constexpr int sizes[num_dtypes] = {1, 1, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16, 8, 1, 1, 1, 1};

template <int R, int D> void combine(void* in, void* inout, int* count, MPI_Datatype*) { host->combine(R, D, in, inout, *count); }

template <size_t... I> constexpr auto make_functions(std::index_sequence<I...>) {
  return std::array<MPI_User_function*, sizeof...(I)>{combine<static_cast<int>(I) / num_dtypes, static_cast<int>(I) % num_dtypes>...};
}
constexpr auto functions = make_functions(std::make_index_sequence<num_dtypes * num_reductions>());

MPI_Datatype native_type(int32_t dtype) {
  switch (dtype) {
  case TENON_U8: return MPI_UINT8_T;
  case TENON_I8: return MPI_INT8_T;
  case TENON_I16: return MPI_INT16_T;
  case TENON_I32: return MPI_INT32_T;
  case TENON_I64: return MPI_INT64_T;
  case TENON_U64: return MPI_UINT64_T;
  case TENON_F32: return MPI_FLOAT;
  case TENON_F64: return MPI_DOUBLE;
  default: return MPI_DATATYPE_NULL;
  }
}

// Extremes of floats are not: MPI does not say what NaN does.
MPI_Op native_op(int32_t reduction, int32_t dtype) {
  bool is_float = dtype == TENON_F32 || dtype == TENON_F64;
  if (native_type(dtype) == MPI_DATATYPE_NULL) return MPI_OP_NULL;
  switch (reduction) {
  case TENON_SUM:
  case TENON_AVG: return MPI_SUM;
  case TENON_PRODUCT: return MPI_PROD;
  case TENON_MIN: return is_float ? MPI_OP_NULL : MPI_MIN;
  default: return is_float ? MPI_OP_NULL : MPI_MAX;
  }
}

// Elements as bytes, and operators on them: made once, for the process.
MPI_Datatype element_type(int32_t dtype) {
  static std::array<MPI_Datatype, num_dtypes> types = [] {
    std::array<MPI_Datatype, num_dtypes> all;
    all.fill(MPI_DATATYPE_NULL);
    return all;
  }();
  MPI_Datatype& t = types[static_cast<size_t>(dtype)];
  if (t == MPI_DATATYPE_NULL) check(MPI_Type_contiguous(sizes[dtype], MPI_BYTE, &t)), check(MPI_Type_commit(&t));
  return t;
}
MPI_Op own_op(int32_t reduction, int32_t dtype) {
  static std::array<MPI_Op, functions.size()> ops = [] {
    std::array<MPI_Op, functions.size()> all;
    all.fill(MPI_OP_NULL);
    return all;
  }();
  auto i = static_cast<size_t>(reduction * num_dtypes + dtype);
  if (ops[i] == MPI_OP_NULL) check(MPI_Op_create(functions[i], 1, &ops[i]));
  return ops[i];
}

int count_of(int64_t n) {
  if (n > INT_MAX) throw std::runtime_error("MPI does not count " + std::to_string(n) + " elements");
  return static_cast<int>(n);
}

} // namespace

void Operation::prepare(int size) {
  if (call.kind < TENON_ALL_REDUCE || call.kind > TENON_ALL_TO_ALL || call.dtype < 0 || call.dtype >= num_dtypes || call.reduction < 0 ||
      call.reduction >= num_reductions)
    throw std::runtime_error("an operation that this communicator does not know");
  bool reduces = call.kind == TENON_ALL_REDUCE || call.kind == TENON_REDUCE_SCATTER;
  op = reduces ? native_op(call.reduction, call.dtype) : MPI_OP_NULL;
  type = op != MPI_OP_NULL ? native_type(call.dtype) : element_type(call.dtype);
  if (reduces && op == MPI_OP_NULL) op = own_op(call.reduction, call.dtype);
  count_of(std::max(call.input_count, call.output_count));
  if (call.kind != TENON_ALL_TO_ALL) return;
  int from = 0, to = 0;
  for (int r = 0; r < size; r++) {
    sent.push_back(count_of(call.input_counts[r])), sent_at.push_back(to), to += sent.back();
    taken.push_back(count_of(call.output_counts[r])), taken_at.push_back(from), from += taken.back();
  }
}

void Operation::begin(MPI_Comm comm, int) {
  begun = true;
  int in = count_of(call.input_count), out = count_of(call.output_count);
  switch (call.kind) {
  case TENON_ALL_REDUCE: return check(MPI_Iallreduce(call.input, call.output, in, type, op, comm, &request));
  case TENON_ALL_GATHER: return check(MPI_Iallgather(call.input, in, type, call.output, in, type, comm, &request));
  case TENON_REDUCE_SCATTER: return check(MPI_Ireduce_scatter_block(call.input, call.output, out, type, op, comm, &request));
  case TENON_BROADCAST: {
    int rank = 0;
    check(MPI_Comm_rank(comm, &rank));
    if (rank == call.root) std::copy_n(static_cast<const char*>(call.input), in * sizes[call.dtype], static_cast<char*>(call.output));
    return check(MPI_Ibcast(call.output, in, type, call.root, comm, &request));
  }
  default:
    return check(
        MPI_Ialltoallv(call.input, sent.data(), sent_at.data(), type, call.output, taken.data(), taken_at.data(), type, comm, &request));
  }
}

void Operation::test(int size) {
  int over = 0;
  check(MPI_Test(&request, &over, MPI_STATUS_IGNORE));
  if (!over) return;
  done = true;
  bool reduces = call.kind == TENON_ALL_REDUCE || call.kind == TENON_REDUCE_SCATTER;
  if (reduces && call.reduction == TENON_AVG) host->divide(call.dtype, call.output, call.output_count, size);
}

} // namespace tenon_mpi
