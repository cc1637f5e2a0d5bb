// libtenon_mpi.so: a communicator over MPI, loaded by name ("mpi"), so that tenon itself needs no MPI. It is built against one MPI; another
// has another binary interface, and needs a build of its own of this file.
//
// Each operation is announced: a rank tells every other by a small message what it begins, and the transfer begins when all have told the
// same. So ranks that disagree, or have failed, are found and named instead of hanging. Messages go over one duplicate of the communicator
// and transfers over another, both in the order of the program. One thread is inside of MPI at a time.
#include "mpi/communicator.h"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace tenon_mpi {

namespace {

constexpr const char* kinds[] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all"};
constexpr const char* reductions[] = {"sum", "avg", "product", "min", "max"};
constexpr const char* dtypes[] = {"bool", "u8",  "i8",   "i16", "i32",      "i64",    "f16",        "bf16",      "f32",
                                  "f64",  "c64", "c128", "u64", "f8e4m3fn", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz"};

std::string text_of(const Announcement& a) {
  bool reduces = a.kind == TENON_ALL_REDUCE || a.kind == TENON_REDUCE_SCATTER;
  return std::string(kinds[a.kind]) + (reduces ? std::string(" (") + reductions[a.reduction] + ")" : "") + " of " +
         std::to_string(a.count) + " " + dtypes[a.dtype];
}

} // namespace

void check(int code) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw std::runtime_error("MPI: " + std::string(text, static_cast<size_t>(length)));
}

Group::Group(MPI_Comm comm, std::shared_ptr<Process> process) : process_(std::move(process)) {
  check(MPI_Comm_dup(comm, &talk_));
  check(MPI_Comm_dup(comm, &data_));
  for (MPI_Comm c : {talk_, data_}) check(MPI_Comm_set_errhandler(c, MPI_ERRORS_RETURN));
  check(MPI_Comm_rank(talk_, &rank));
  check(MPI_Comm_size(talk_, &size));
  peers_.resize(static_cast<size_t>(size));
  for (int r = 0; r < size; r++) listen(r);
}

void Group::close(bool finalized) {
  if (closed_) return;
  closed_ = true;
  if (finalized || !broken_.empty()) return; // what is under way cannot be called back
  for (Peer& p : peers_)
    if (p.receive != MPI_REQUEST_NULL) MPI_Cancel(&p.receive), MPI_Wait(&p.receive, MPI_STATUS_IGNORE);
  MPI_Comm_free(&talk_);
  MPI_Comm_free(&data_);
}

void Group::listen(int r) {
  if (r == rank) return;
  Peer& p = peers_[static_cast<size_t>(r)];
  check(MPI_Irecv(&p.incoming, sizeof(Announcement), MPI_BYTE, r, 0, talk_, &p.receive));
}

// `counts`: elements for each rank.
void Group::tell_all(const Announcement& a, const int64_t* counts) {
  for (int r = 0; r < size; r++) {
    if (r == rank) continue;
    Message& m = sent_.emplace_back();
    m.text = a;
    if (counts) m.text.count = counts[r];
    check(MPI_Isend(&m.text, sizeof(Announcement), MPI_BYTE, r, 0, talk_, &m.request));
  }
}

void Group::fail(const std::string& why) {
  if (broken_.empty()) broken_ = why;
  process_->is_broken = true;
}

void Group::abort(const std::string& message) {
  if (!broken_.empty()) return;
  Announcement a{};
  a.kind = -1;
  std::string text = "rank " + std::to_string(rank) + " failed: " + message;
  std::snprintf(a.text, sizeof a.text, "%s", text.c_str());
  fail(text);
  tell_all(a);
}

Operation* Group::start(const tenon_collective& call) {
  if (!broken_.empty()) throw std::runtime_error(broken_);
  auto op = std::make_unique<Operation>();
  op->call = call, op->number = next_++;
  op->prepare(size);
  Announcement& a = op->announced;
  a.number = op->number, a.kind = call.kind, a.reduction = call.reduction, a.dtype = call.dtype, a.root = call.root;
  a.count = call.kind == TENON_ALL_TO_ALL ? 0 : call.input_count;
  if (process_->checks) tell_all(a, call.input_counts);
  Operation* raw = op.get();
  operations_.push_back(std::move(op));
  advance();
  return raw;
}

// What others have told.
void Group::hear() {
  for (int r = 0; r < size; r++) {
    Peer& p = peers_[static_cast<size_t>(r)];
    int arrived = r != rank;
    while (arrived) {
      check(MPI_Test(&p.receive, &arrived, MPI_STATUS_IGNORE));
      if (!arrived) break;
      if (p.incoming.kind < 0) return fail(p.incoming.text); // it tells no more
      p.told.push_back(p.incoming);
      listen(r);
    }
  }
  while (!sent_.empty()) {
    int gone = 0;
    check(MPI_Test(&sent_.front().request, &gone, MPI_STATUS_IGNORE));
    if (!gone) break;
    sent_.pop_front();
  }
}

// Whether all ranks have begun the operation; that they have begun the same one.
bool Group::agreed(const Operation& op) {
  if (!process_->checks) return true;
  for (int r = 0; r < size; r++)
    if (r != rank && peers_[static_cast<size_t>(r)].told.empty()) return false;
  for (int r = 0; r < size; r++) {
    if (r == rank) continue;
    auto& told = peers_[static_cast<size_t>(r)].told;
    Announcement a = told.front(), mine = op.announced;
    if (op.call.output_counts) mine.count = op.taken[static_cast<size_t>(r)];
    if (std::memcmp(&a, &mine, sizeof a) != 0) {
      int low = std::min(r, rank), high = std::max(r, rank);
      std::string one = text_of(r < rank ? a : mine), other = text_of(r < rank ? mine : a);
      fail("operation " + std::to_string(op.number) + " is " + one + " on rank " + std::to_string(low) + ", and " + other + " on rank " +
           std::to_string(high));
      return false;
    }
    told.pop_front();
  }
  return true;
}

void Group::advance() {
  if (!broken_.empty() || closed_) return;
  hear();
  for (auto& op : operations_) {
    if (!broken_.empty()) return;
    if (!op->begun) {
      if (!agreed(*op)) return; // transfers begin in their order
      op->begin(data_, size);
    }
    if (!op->done) op->test(size);
  }
}

bool Group::is_busy() const {
  return broken_.empty() && std::any_of(operations_.begin(), operations_.end(), [](auto& op) { return !op->done; });
}

// Whether it is over; then it is gone.
bool Group::finish(Operation* op) {
  advance();
  if (op->done) {
    operations_.remove_if([&](auto& o) { return o.get() == op; });
    return true;
  }
  if (!broken_.empty()) throw std::runtime_error(broken_);
  return false;
}

void Group::time_out(const Operation& op) {
  std::string missing;
  for (int r = 0; r < size && process_->checks && !op.begun; r++)
    if (r != rank && peers_[static_cast<size_t>(r)].told.empty()) missing += (missing.empty() ? " for rank " : ", ") + std::to_string(r);
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%g", process_->timeout);
  abort("it waited " + std::string(seconds) + " s" + missing + " in operation " + std::to_string(op.number) + ", " + text_of(op.announced));
  throw std::runtime_error(broken_);
}

} // namespace tenon_mpi
