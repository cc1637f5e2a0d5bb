// What a long load or compilation is doing, for those who wait for it.
#pragma once
#include <cstddef>
#include <functional>
#include <string_view>

#include "tenon/error.h"

namespace tenon {

/// A stage that begins, a part of it that is done, or its end. Stages lie within one another: "compiling" holds the names of passes,
/// "kernels" and "weights".
struct Progress {
  std::string_view stage; ///< while the observer runs
  size_t done = 0;        ///< parts of it
  size_t total = 0;       ///< 0: it has no parts that are counted
  bool is_over = false;   ///< whether it ends, by an error too
};

/// While it lives, loads and compilations that the calling thread asks for tell `observer` how far they are: Program::load, compile,
/// save_compiled, Executable::load. Those that go on in the background do not. The observer is called by several threads, one at a time,
/// and must neither throw nor call tenon. Without one, nothing is counted. Of several in a thread the last one made is told; they end in
/// the reverse order, in the thread that made them.
class TENON_API ReportProgress {
public:
  explicit ReportProgress(std::function<void(const Progress&)> observer);
  ~ReportProgress();
  ReportProgress(const ReportProgress&) = delete;
  ReportProgress& operator=(const ReportProgress&) = delete;

  struct Observer;

private:
  Observer* observer_;
  Observer* outer_;
};

} // namespace tenon
