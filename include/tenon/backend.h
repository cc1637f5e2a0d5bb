// Backends of the user's own: each takes parts of a program's graph, makes bytes of them, and runs those as steps of the plan. What runs is
// plain C, so that shared libraries can hold it; what takes the graph apart is C++.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tenon/custom_op.h"
#include "tenon/pass.h"

extern "C" {

/// One call of a delegate: operands and results in contiguous row-major memory, in the order of the sub-graph's parameters and returns.
/// Results have their memory, and do not overlap operands. There is no call where all results are empty.
typedef struct tenon_delegate_call {
  const tenon_tensor* inputs;
  const tenon_tensor* outputs;
  const int64_t* sizes; ///< values of the symbols that preprocess was told of, in that order
  size_t num_inputs, num_outputs, num_sizes;
  /// The most threads that the call may use, the calling one included. A backend with threads of its own keeps to this number.
  int32_t threads;
  /// Calls body(data, i) for each i in [0, n), on tenon's threads, and returns when all have returned. `body` must not throw.
  void (*parallel)(const struct tenon_delegate_call* call, int64_t n, void (*body)(void* data, int64_t i), void* data);
  const void* workers; ///< for `parallel`
} tenon_delegate_call;

/// What runs delegates. Functions return null, or what is wrong: a text that lives until the thread's next call. They may be called from
/// many threads at once, for one handle too, and must live as long as the process uses them.
typedef struct tenon_backend {
  const char* name = nullptr;
  /// Makes a handle of what preprocess gave. `bytes` are aligned to 64, and stay as and where they are until `destroy`.
  const char* (*init)(const void* bytes, size_t size, void* data, void** handle) = nullptr;
  const char* (*execute)(void* handle, const tenon_delegate_call* call) = nullptr;
  void (*destroy)(void* handle) = nullptr; ///< null: nothing is to be done
  void* data = nullptr;                    ///< for `init`
} tenon_backend;

/// What a shared library of backends defines: its backends, and how many.
TENON_API const tenon_backend* tenon_backends(size_t* count);
}

namespace tenon {

/// An operator that a backend supports, and the dtypes that its tensors may have; none: any.
struct SupportedOp {
  std::string op; ///< "aten::mm.default"; in Edge graphs aten:: and edge:: are the same
  std::vector<DType> dtypes = {};
};

/// Which nodes of an Edge graph a backend takes: those for which the predicate holds, those that the table lists, and what the patterns
/// find. A match is taken whole or not at all, and earlier patterns come first. Nobody is asked about nodes that cannot be delegated:
/// constants, control flow, checks, printing, random numbers, results whose sizes depend on data. Constants, and operators without operands
/// (edge::full), come along with the nodes that read them.
struct Partitioner {
  std::function<bool(const ir::Node&)> predicate = {};
  std::vector<SupportedOp> table = {};
  std::vector<ir::Rewrite> patterns = {}; ///< without replacements
  /// Nodes that feed each other become one delegate, unless a path from one to the other leads through what is outside of it. Without, each
  /// node or match is a delegate of its own.
  bool merge = true;
};

struct Backend {
  tenon_backend runtime = {};
  Partitioner partitioner = {};
  /// What `init` gets, of a sub-graph in the Edge dialect: its parameters are the operands, its returns the results, weights are constants
  /// in it. `sizes` are symbols in it that are no size of an operand by themselves. What it throws ends the compilation. None: the backend
  /// only runs what was compiled elsewhere.
  std::function<std::vector<std::byte>(const ir::Graph& graph, const std::vector<std::string>& sizes)> preprocess = {};
};

/// Makes a backend known to the process; texts are copied. The same runtime again replaces partitioner and preprocess. Errors: BadInput for
/// a backend without name or functions, and for a name that another runtime has. Thread-safe.
TENON_API Status register_backend(const Backend& backend);

/// Registers what the shared library at `path` exports as tenon_backends; the library stays loaded. A function
/// `extern "C" void tenon_describe_backend(tenon::Backend*)`, where the library has one, adds partitioner and preprocess to each: it is C++
/// of the same compiler and tenon. Gives the names. Errors: BadInput. Thread-safe.
TENON_API Result<std::vector<std::string>> load_backend_library(const std::string& path);

/// The parts of an Edge graph that would become delegates, in the order of their steps, inner blocks included.
TENON_API std::vector<std::vector<ir::Node>> partition(ir::Graph& graph, const Partitioner& partitioner);

} // namespace tenon
