// Compiling in the background: one piece of work at a time in the whole process, in a thread that ends when nothing is left to do.
#pragma once
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace tenon {

class Background {
public:
  enum class Priority { Usual, Low };
  explicit Background(Priority priority) : priority_(priority) {}
  /// Asks the work to end, and waits for it.
  ~Background();

  /// Calls `work` in a thread, which is started where none runs, again and again until it gives false. It runs within a Stoppable, and
  /// while it does, no process forks; where one is about to, it is asked to stop and called again. False where the system has no thread.
  bool start(std::function<bool()> work);
  bool is_running();
  /// Until nothing is left to do. Not from within the work.
  void wait();
  /// The same for so long at most.
  void wait_for(double ms);

private:
  void run(const std::stop_token& stop, const std::function<bool()>& work);

  const Priority priority_;
  std::mutex mutex_;
  std::condition_variable done_;
  std::jthread thread_;
  bool running_ = false;
  int process_ = 0; // which of the processes that were forked the thread runs in
};

} // namespace tenon
