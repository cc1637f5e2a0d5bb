// Groups of ranks, and the operations that are under way in them.
#pragma once
#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tenon/communicator.c.h"

namespace tenon_mpi {

/// What a rank tells the others before an operation, or, with kind -1, that it has failed.
struct Announcement {
  uint64_t number;
  int64_t count;
  int32_t kind, reduction, dtype, root;
  char text[216];
};

struct Operation {
  tenon_collective call = {};
  uint64_t number = 0;
  Announcement announced = {};
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Op op = MPI_OP_NULL;
  std::vector<int> sent, sent_at, taken, taken_at; // of all_to_all, in elements
  MPI_Request request = MPI_REQUEST_NULL;
  bool begun = false, done = false;

  /// Chooses types. Throws for what MPI cannot count.
  void prepare(int size);
  void begin(MPI_Comm comm, int size);
  void test(int size);
};

class Group;

/// What all groups of the process share.
struct Process {
  std::mutex mutex; // of MPI
  std::condition_variable changed;
  std::list<Group*> groups;
  std::thread thread; // keeps MPI moving while operations are under way
  double timeout = 600;
  bool checks = true, stop = false;
  std::atomic<bool> is_broken = false;
};

/// All but `rank` and `size` under the process's mutex. Errors are exceptions.
class Group {
public:
  Group(MPI_Comm comm, std::shared_ptr<Process> process);

  int rank = 0, size = 0;
  Operation* start(const tenon_collective& call);
  bool finish(Operation* operation);
  void advance();
  void abort(const std::string& message);
  [[noreturn]] void time_out(const Operation& operation);
  void close(bool finalized);
  bool is_busy() const;
  MPI_Comm comm() const { return data_; }
  MPI_Comm talk() const { return talk_; }
  const std::shared_ptr<Process>& process() const { return process_; }

private:
  struct Peer {
    MPI_Request receive = MPI_REQUEST_NULL;
    Announcement incoming = {};
    std::deque<Announcement> told; // and not yet done here
  };
  struct Message {
    MPI_Request request = MPI_REQUEST_NULL;
    Announcement text = {};
  };
  void listen(int rank);
  void tell_all(const Announcement& a, const int64_t* counts = nullptr);
  void hear();
  bool agreed(const Operation& operation);
  void fail(const std::string& why);

  std::shared_ptr<Process> process_;
  MPI_Comm talk_ = MPI_COMM_NULL, data_ = MPI_COMM_NULL;
  std::deque<Peer> peers_;
  std::list<Message> sent_;
  std::list<std::unique_ptr<Operation>> operations_;
  uint64_t next_ = 0;
  std::string broken_;
  bool closed_ = false;
};

void check(int code);
extern const tenon_communicator_host* host;

} // namespace tenon_mpi
