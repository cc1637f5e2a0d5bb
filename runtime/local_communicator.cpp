// A group of threads of one process: whoever comes last to an operation carries it out for all.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>

#include <fmt/ranges.h>

#include "base/check.h"
#include "runtime/communicator.h"

namespace tenon {

namespace {

struct RankPart { // of one rank
  tenon_collective call = {};
  std::vector<int64_t> input_counts, output_counts;
  bool is_here = false;
};

struct Meeting {
  uint64_t number = 0;
  std::vector<RankPart> parts;
  int arrived = 0, left = 0;
};

std::string text_of(const tenon_collective& c) {
  std::string reduction;
  if (c.kind == TENON_ALL_REDUCE || c.kind == TENON_REDUCE_SCATTER)
    reduction = fmt::format(" ({})", name_of(static_cast<tenon_reduction>(c.reduction)));
  return fmt::format("{}{} of {} {}", name_of(static_cast<tenon_collective_kind>(c.kind)), reduction, c.input_count,
                     name_of(static_cast<DType>(c.dtype)));
}

bool fits(const tenon_collective& a, const tenon_collective& b) {
  bool sized = a.kind == TENON_ALL_TO_ALL || a.input_count == b.input_count;
  return a.kind == b.kind && a.dtype == b.dtype && sized && a.reduction == b.reduction && a.root == b.root;
}

class Group : public std::enable_shared_from_this<Group> {
public:
  Group(int size, double timeout_seconds) : size_(size), timeout_(timeout_seconds), next_(static_cast<size_t>(size)) {}

  tenon_communicator end(int rank);
  std::string start(int rank, const tenon_collective& call, Meeting*& meeting);
  std::string wait(int rank, Meeting* meeting);
  void abort(int rank, const char* message) {
    std::scoped_lock lock(mutex_);
    fail(fmt::format("rank {} failed: {}", rank, message));
  }
  std::shared_ptr<Group> subgroup(const std::vector<int>& ranks) {
    std::scoped_lock lock(mutex_);
    auto& group = subgroups_[ranks];
    if (!group) group = std::make_shared<Group>(static_cast<int>(ranks.size()), timeout_);
    return group;
  }
  int size() const { return size_; }

private:
  void fail(std::string why) { // the first failure counts
    if (broken_.empty()) broken_ = std::move(why);
    changed_.notify_all();
  }
  void carry_out(const Meeting& m) const;
  void reduce(const Meeting& m, int64_t begin, int64_t count, void* out) const;
  size_t rank_index(int rank) const { return static_cast<size_t>(rank); }

  const int size_;
  const double timeout_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string broken_;
  std::vector<uint64_t> next_; // by rank, the number of its next operation
  std::map<uint64_t, Meeting> meetings_;
  std::map<std::vector<int>, std::shared_ptr<Group>> subgroups_;
};

std::string Group::start(int rank, const tenon_collective& call, Meeting*& meeting) {
  std::scoped_lock lock(mutex_);
  if (!broken_.empty()) return broken_;
  uint64_t number = next_[rank_index(rank)]++;
  Meeting& m = meetings_[number];
  if (m.parts.empty()) m.number = number, m.parts.resize(rank_index(size_));
  for (int other = 0; other < size_; other++) {
    const RankPart& p = m.parts[rank_index(other)];
    if (!p.is_here || fits(p.call, call)) continue;
    fail(fmt::format("operation {} is {} on rank {}, and {} on rank {}", number, text_of(p.call), other, text_of(call), rank));
    return broken_;
  }
  RankPart& mine = m.parts[rank_index(rank)];
  mine.call = call, mine.is_here = true;
  if (call.kind == TENON_ALL_TO_ALL)
    mine.input_counts.assign(call.input_counts, call.input_counts + size_),
        mine.output_counts.assign(call.output_counts, call.output_counts + size_);
  meeting = &m;
  if (++m.arrived < size_) return {};
  for (int to = 0; call.kind == TENON_ALL_TO_ALL && to < size_; to++)
    for (int from = 0; from < size_; from++) {
      int64_t sent = m.parts[rank_index(from)].input_counts[rank_index(to)],
              taken = m.parts[rank_index(to)].output_counts[rank_index(from)];
      if (sent == taken) continue;
      fail(fmt::format("operation {}: rank {} sends {} elements to rank {}, which takes {}", number, from, sent, to, taken));
      return broken_;
    }
  carry_out(m);
  changed_.notify_all();
  return {};
}

std::string Group::wait(int rank, Meeting* meeting) {
  std::unique_lock lock(mutex_);
  auto is_over = [&] { return meeting->arrived == size_ || !broken_.empty(); };
  if (timeout_ <= 0) changed_.wait(lock, is_over);
  else if (!changed_.wait_for(lock, std::chrono::duration<double>(timeout_), is_over)) {
    std::vector<int> missing;
    for (int r = 0; r < size_; r++)
      if (!meeting->parts[rank_index(r)].is_here) missing.push_back(r);
    fail(fmt::format("rank {} waited {} s for rank {} in operation {}, {}", rank, timeout_, fmt::join(missing, ", "), meeting->number,
                     text_of(meeting->parts[rank_index(rank)].call)));
  }
  if (meeting->arrived < size_) return broken_;
  if (++meeting->left == size_) meetings_.erase(meeting->number);
  return {};
}

void Group::reduce(const Meeting& m, int64_t begin, int64_t count, void* out) const {
  auto dtype = static_cast<DType>(m.parts[0].call.dtype);
  auto reduction = static_cast<tenon_reduction>(m.parts[0].call.reduction);
  size_t element = size_of(dtype);
  auto from = [&](const RankPart& p) { return static_cast<const char*>(p.call.input) + rank_index(static_cast<int>(begin)) * element; };
  if (count > 0) std::memcpy(out, from(m.parts[0]), static_cast<size_t>(count) * element);
  for (size_t r = 1; r < m.parts.size(); r++) combine(reduction, dtype, from(m.parts[r]), out, count);
  if (reduction == TENON_AVG) divide(dtype, out, count, size_);
}

void Group::carry_out(const Meeting& m) const {
  size_t element = size_of(static_cast<DType>(m.parts[0].call.dtype));
  auto copy = [&](const void* from, int64_t at, void* to, int64_t where, int64_t count) {
    if (count == 0) return;
    std::memcpy(static_cast<char*>(to) + static_cast<size_t>(where) * element,
                static_cast<const char*>(from) + static_cast<size_t>(at) * element, static_cast<size_t>(count) * element);
  };
  for (size_t to = 0; to < m.parts.size(); to++) {
    const tenon_collective& c = m.parts[to].call;
    int64_t rank = static_cast<int64_t>(to), where = 0;
    if (c.kind == TENON_ALL_REDUCE) reduce(m, 0, c.output_count, c.output);
    if (c.kind == TENON_REDUCE_SCATTER) reduce(m, rank * c.output_count, c.output_count, c.output);
    if (c.kind == TENON_BROADCAST) copy(m.parts[static_cast<size_t>(c.root)].call.input, 0, c.output, 0, c.output_count);
    for (const RankPart& from : m.parts) {
      const std::vector<int64_t>& sent = from.input_counts;
      int64_t at = 0;
      for (size_t r = 0; c.kind == TENON_ALL_TO_ALL && r < to; r++) at += sent[r];
      int64_t count = c.kind == TENON_ALL_TO_ALL ? sent[to] : c.kind == TENON_ALL_GATHER ? from.call.input_count : 0;
      copy(from.call.input, at, c.output, where, count);
      where += count;
    }
  }
}

// ---- the table

struct End {
  std::shared_ptr<Group> group;
  int rank;
};

const char* kept(std::string text) {
  static thread_local std::string last;
  if (text.empty()) return nullptr;
  return (last = std::move(text)).c_str();
}

const char* start(void* data, const tenon_collective* call, void** request) {
  auto* end = static_cast<End*>(data);
  Meeting* m = nullptr;
  std::string error = end->group->start(end->rank, *call, m);
  *request = m;
  return kept(std::move(error));
}
const char* wait(void* data, void* request) {
  auto* end = static_cast<End*>(data);
  return kept(end->group->wait(end->rank, static_cast<Meeting*>(request)));
}
void abort(void* data, const char* message) {
  auto* end = static_cast<End*>(data);
  end->group->abort(end->rank, message);
}
const char* subgroup(void* data, const int32_t* ranks, int32_t count, tenon_communicator* out) {
  auto* end = static_cast<End*>(data);
  std::vector<int> all(ranks, ranks + count);
  *out = end->group->subgroup(all)->end(static_cast<int>(std::ranges::find(all, end->rank) - all.begin()));
  return nullptr;
}
void release(void* data) { delete static_cast<End*>(data); }

tenon_communicator Group::end(int rank) {
  return {.struct_size = sizeof(tenon_communicator),
          .rank = rank,
          .size = size_,
          .data = new End{shared_from_this(), rank},
          .start = tenon::start,
          .wait = tenon::wait,
          .progress = nullptr,
          .abort = tenon::abort,
          .subgroup = tenon::subgroup,
          .release = release};
}

} // namespace

std::vector<tenon_communicator> local_communicators(int size, double timeout_seconds) {
  auto group = std::make_shared<Group>(size, timeout_seconds);
  std::vector<tenon_communicator> ends;
  for (int rank = 0; rank < size; rank++) ends.push_back(group->end(rank));
  return ends;
}

} // namespace tenon
