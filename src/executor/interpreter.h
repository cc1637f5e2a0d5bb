// The interpreter of script code: frames that can stop between two instructions and go on.
#pragma once
#include "executor/code.h"

namespace tenon::executor {

/// Takes a line that the program prints, its end included.
using Printer = std::function<void(std::string_view)>;

/// A run of a program. Not for several threads at once; distinct runs of one code are.
class Interpreter {
public:
  /// Throws Error(BadInput) where the number of inputs is another. Without a printer, the program prints to stdout.
  Interpreter(std::shared_ptr<const Code> code, std::vector<IValue> inputs, Printer printer = {});

  /// Runs to the end, or for `most` jumps back at most, after which it may be called again. Gives whether the end is reached. What the
  /// program raises is an Error(BadInput) whose `where` is the source range; the run is over then.
  bool run(uint64_t most = UINT64_MAX);
  /// What the program returned.
  std::vector<IValue> results() const { return results_; }

private:
  std::shared_ptr<const Code> code_;
  std::vector<IValue> registers_, scratch_;
  std::vector<IValue> results_;
  Printer printer_;
  size_t at_ = 0;
};

/// All at once.
std::vector<IValue> run(const std::shared_ptr<const Code>& code, std::vector<IValue> inputs, Printer printer = {});

} // namespace tenon::executor
