// The library's door: MPI is started where nobody has done so, and groups become tables of functions.
#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

#include <cstdlib>
#include <sstream>

#include "mpi/communicator.h"

namespace tenon_mpi {

namespace {

using Lock = std::unique_lock<std::mutex>;

const char* kept(const std::string& text) {
  static thread_local std::string last;
  return (last = text).c_str();
}

/// Null, or the text of what f threw.
template <class F> const char* guarded(F f) {
  try {
    f();
    return nullptr;
  } catch (const std::exception& e) {
    return kept(e.what());
  }
}

double now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

void pause_for(long ns) {
  timespec t{0, ns};
  nanosleep(&t, nullptr);
}

// ---- the thread that keeps MPI moving

void keep_moving(Process& p) {
  prctl(PR_SET_TIMERSLACK, 1000);
  Lock lock(p.mutex);
  while (!p.stop) {
    bool busy = false;
    for (Group* g : p.groups) {
      if (!g->is_busy()) continue;
      busy = true;
      if (const char* error = guarded([&] { g->advance(); })) g->abort(error);
    }
    if (!busy) {
      p.changed.wait(lock);
      continue;
    }
    lock.unlock();
    pause_for(20'000);
    lock.lock();
  }
}

void stop_thread(Process& p) {
  {
    Lock lock(p.mutex);
    p.stop = true;
  }
  p.changed.notify_all();
  if (p.thread.joinable()) p.thread.join();
}

// ---- the end

std::shared_ptr<Process>& process() {
  static auto* p = new std::shared_ptr<Process>; // outlives other threads
  return *p;
}

// First thing in MPI_Finalize, whoever calls it.
int before_finalize(MPI_Comm, int, void*, void*) {
  Process& p = *process();
  stop_thread(p);
  Lock lock(p.mutex);
  for (Group* g : p.groups) g->close(false);
  return MPI_SUCCESS;
}

// Of a process whose MPI was started here. Where ranks have failed, operations are left that MPI_Finalize would wait for: the ranks that
// are still there meet, so that each has said what it had to say, and the job ends.
void at_exit() {
  int finalized = 0;
  if (MPI_Finalized(&finalized); finalized) return;
  Process& p = *process();
  if (!p.is_broken) return void(MPI_Finalize());
  stop_thread(p);
  MPI_Request request = MPI_REQUEST_NULL;
  int over = p.groups.empty() || MPI_Ibarrier(p.groups.front()->talk(), &request) != MPI_SUCCESS;
  for (double end = now() + 2; !over && now() < end; pause_for(1'000'000)) MPI_Test(&request, &over, MPI_STATUS_IGNORE);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

void start_mpi(bool& has_thread) {
  int initialized = 0, level = 0, is_main = 0;
  check(MPI_Initialized(&initialized));
  if (!initialized) {
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level));
    std::atexit(at_exit);
  }
  check(MPI_Query_thread(&level));
  check(MPI_Is_thread_main(&is_main));
  if (level >= MPI_THREAD_SERIALIZED) return;
  if (!is_main) throw std::runtime_error("MPI was started for one thread (MPI_THREAD_SERIALIZED or more is needed), and this is another");
  has_thread = false;
}

// ---- the table

struct End {
  std::unique_ptr<Group> group;
};
Group& group_of(void* data) { return *static_cast<End*>(data)->group; }

const char* start(void* data, const tenon_collective* call, void** request) {
  Group& g = group_of(data);
  return guarded([&] {
    Lock lock(g.process()->mutex);
    *request = g.start(*call);
    g.process()->changed.notify_all();
  });
}

const char* wait(void* data, void* request) {
  Group& g = group_of(data);
  Process& p = *g.process();
  auto* op = static_cast<Operation*>(request);
  return guarded([&] {
    double begin = now();
    for (uint64_t i = 1;; i++) {
      {
        Lock lock(p.mutex);
        if (g.finish(op)) return;
        if (p.timeout > 0 && i % 64 == 0 && now() > begin + p.timeout) g.time_out(*op);
      }
      if (i > 200) sched_yield(); // ranks may share cores
      if (i > 20'000) pause_for(50'000);
    }
  });
}

void progress(void* data) {
  Group& g = group_of(data);
  Lock lock(g.process()->mutex, std::try_to_lock); // whoever has it moves MPI
  if (!lock) return;
  if (const char* error = guarded([&] { g.advance(); })) g.abort(error);
}

void abort(void* data, const char* message) {
  Group& g = group_of(data);
  Lock lock(g.process()->mutex);
  guarded([&] { g.abort(message); });
}

tenon_communicator table_of(std::unique_ptr<Group> group);

const char* subgroup(void* data, const int32_t* ranks, int32_t count, tenon_communicator* out) {
  Group& g = group_of(data);
  return guarded([&] {
    Lock lock(g.process()->mutex);
    MPI_Group all, some;
    MPI_Comm comm;
    check(MPI_Comm_group(g.comm(), &all));
    check(MPI_Group_incl(all, count, ranks, &some));
    check(MPI_Comm_create_group(g.comm(), some, 0, &comm));
    auto group = std::make_unique<Group>(comm, g.process());
    MPI_Group_free(&all), MPI_Group_free(&some), MPI_Comm_free(&comm);
    *out = table_of(std::move(group));
  });
}

void release(void* data) {
  std::unique_ptr<End> end(static_cast<End*>(data));
  Process& p = *end->group->process();
  int finalized = 0;
  MPI_Finalized(&finalized);
  Lock lock(p.mutex);
  if (p.is_broken) return void(end->group.release()); // its messages may be under way
  p.groups.remove(end->group.get());
  end->group->close(finalized);
}

// Under the process's mutex.
tenon_communicator table_of(std::unique_ptr<Group> group) {
  auto* end = new End{std::move(group)};
  Group& g = *end->group;
  g.process()->groups.push_back(&g);
  return {.struct_size = sizeof(tenon_communicator),
          .rank = g.rank,
          .size = g.size,
          .data = end,
          .start = start,
          .wait = wait,
          .progress = progress,
          .abort = abort,
          .subgroup = subgroup,
          .release = release};
}

struct Settings {
  double timeout = 600;
  bool checks = true, has_thread = true;
  MPI_Comm comm = MPI_COMM_NULL;
};

Settings read(const char* arguments) {
  Settings s;
  std::istringstream list(arguments);
  for (std::string item; std::getline(list, item, ',');) {
    std::string name = item.substr(0, item.find('=')), value = item.substr(std::min(item.size(), name.size() + 1));
    char* end = nullptr;
    double number = std::strtod(value.c_str(), &end);
    bool is_number = !value.empty() && *end == 0;
    if (name == "timeout" && is_number && number >= 0) s.timeout = number;
    else if (name == "check" && (value == "0" || value == "1")) s.checks = value == "1";
    else if (name == "progress" && (value == "poll" || value == "thread")) s.has_thread = value == "thread";
    else if (name == "comm" && is_number) s.comm = MPI_Comm_f2c(static_cast<MPI_Fint>(number));
    else throw std::runtime_error("'" + item + "' is none of timeout=SECONDS, check=0|1, progress=thread|poll, comm=HANDLE");
  }
  return s;
}

void open(const char* arguments, tenon_communicator* out) {
  bool has_thread = true;
  start_mpi(has_thread);
  Settings s = read(arguments);
  bool is_first = !process();
  if (is_first) {
    process() = std::make_shared<Process>();
    int key = MPI_KEYVAL_INVALID;
    check(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, before_finalize, &key, nullptr));
    check(MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr));
  }
  Process& p = *process();
  {
    Lock lock(p.mutex);
    p.timeout = s.timeout, p.checks = s.checks;
    *out = table_of(std::make_unique<Group>(s.comm == MPI_COMM_NULL ? MPI_COMM_WORLD : s.comm, process()));
  }
  if (has_thread && s.has_thread && !p.thread.joinable()) p.thread = std::thread([&p] { keep_moving(p); });
}

} // namespace

} // namespace tenon_mpi

extern "C" const char* tenon_open_communicator(const char* arguments, const tenon_communicator_host* host, tenon_communicator* out) {
  tenon_mpi::host = host;
  return tenon_mpi::guarded([&] { tenon_mpi::open(arguments, out); });
}
