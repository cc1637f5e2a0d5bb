// Operators on tensors, called one at a time: results have torch's aliasing. Views share the memory of what they are views of, in-place
// operators write to it.
#pragma once
#include <mutex>
#include <unordered_map>

#include "builtins/ivalue.h"
#include "ir/op.h"

namespace tenon::executor {

/// One call of an operator in a program. Thread-safe.
class TensorOp {
public:
  /// `name` with overload, as called: "aten::add_.Tensor" with the row of aten::add.Tensor.
  TensorOp(const OpDef& def, std::string name, const Schema& signature, bool in_place);
  ~TensorOp();

  /// `args` in schema order. Throws Error(BadInput) in torch's words where they do not fit.
  std::vector<IValue> run(std::span<const IValue> args);
  const std::string& name() const { return name_; }

private:
  struct Prepared;
  std::shared_ptr<Prepared> prepare(std::span<const IValue> args);
  std::vector<IValue> run_view(const Prepared& p, std::span<const IValue> args);

  const OpDef& def_;
  std::string name_;
  Schema signature_;
  bool in_place_;
  std::mutex mutex_;                                                    // of what follows
  std::unordered_map<std::string, std::shared_ptr<Prepared>> prepared_; // by what the call depends on: sizes, dtypes, numbers
};

} // namespace tenon::executor
