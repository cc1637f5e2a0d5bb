// Varints and messages by hand: a dozen fields are all that a trace needs.
#include "pages/perfetto.h"

#include <unistd.h>

#include <algorithm>

#include <fmt/core.h>

namespace tenon {

namespace {

// A message that is being written: fields by their numbers.
class Message {
public:
  Message& number(int field, uint64_t value) {
    varint(static_cast<uint64_t>(field) << 3);
    varint(value);
    return *this;
  }
  Message& text(int field, std::string_view value) {
    varint(static_cast<uint64_t>(field) << 3 | 2);
    varint(value.size());
    bytes += value;
    return *this;
  }
  Message& message(int field, const Message& m) { return text(field, m.bytes); }
  std::string bytes;

private:
  void varint(uint64_t v) {
    for (; v >= 128; v >>= 7) bytes += static_cast<char>(v | 128);
    bytes += static_cast<char>(v);
  }
};

// Numbers of fields.
namespace packet {
constexpr int timestamp = 8, sequence = 10, track_event = 11, interned_data = 12, sequence_flags = 13, track_descriptor = 60;
constexpr uint64_t state_cleared = 1, needs_state = 2; // sequence_flags
} // namespace packet
namespace track {
constexpr int uuid = 1, name = 2, process = 3, thread = 4, parent = 5, counter = 8;
} // namespace track
namespace event {
constexpr int annotations = 4, type = 9, name_id = 10, track = 11, counter_value = 30;
constexpr uint64_t begin = 1, end = 2, counter = 4; // type
} // namespace event

constexpr uint64_t process_track = 1, busy_track = 2, first_thread_track = 16;

class Trace {
public:
  Trace(const Recording::Snapshot& recorded, std::string_view process) {
    Message first = start_packet(packet::needs_state | packet::state_cleared), names;
    for (size_t i = 0; i < recorded.names.size(); i++) names.message(2, Message().number(1, i + 1).text(2, recorded.names[i]));
    add(first.message(packet::interned_data, names));
    Message p = Message().number(1, static_cast<uint64_t>(getpid())).text(6, process);
    add_track(Message().number(track::uuid, process_track).message(track::process, p));
    add_counter(busy_track, process_track, "busy threads", 2, "");
    int number = 0;
    for (const Recording::Thread& t : recorded.threads) thread(t, number++);
    busy();
  }
  std::string bytes() { return std::move(out_.bytes); }

private:
  static Message start_packet(uint64_t flags) { return Message().number(packet::sequence, 1).number(packet::sequence_flags, flags); }
  void add(const Message& m) { out_.message(1, m); }
  void add_track(const Message& descriptor) { add(start_packet(packet::needs_state).message(packet::track_descriptor, descriptor)); }
  // Units: 2 a count, 3 bytes.
  void add_counter(uint64_t uuid, uint64_t parent, std::string_view name, uint64_t unit, std::string_view unit_name) {
    Message counter = Message().number(3, unit);
    if (!unit_name.empty()) counter.text(6, unit_name);
    add_track(Message().number(track::uuid, uuid).text(track::name, name).number(track::parent, parent).message(track::counter, counter));
  }
  void add_event(int64_t at_ns, const Message& e) {
    add(start_packet(packet::needs_state).number(packet::timestamp, static_cast<uint64_t>(at_ns)).message(packet::track_event, e));
  }
  void sample(uint64_t uuid, int64_t at_ns, int64_t value) {
    add_event(at_ns, Message()
                         .number(event::type, event::counter)
                         .number(event::track, uuid)
                         .number(event::counter_value, static_cast<uint64_t>(value)));
  }

  void thread(const Recording::Thread& t, int number) {
    uint64_t uuid = first_thread_track + static_cast<uint64_t>(2 * number);
    std::string name = t.id == getpid() ? "main thread" : fmt::format("thread {}", number);
    if (t.dropped > 0) name += fmt::format(" ({} later spans dropped)", t.dropped);
    Message thread = Message().number(1, static_cast<uint64_t>(getpid())).number(2, static_cast<uint64_t>(t.id)).text(5, name);
    add_track(Message().number(track::uuid, uuid).number(track::parent, process_track).message(track::thread, thread));
    spans(t, uuid);
    if (t.memory.empty()) return;
    add_counter(uuid + 1, process_track, fmt::format("temporaries of {}", name), 3, "");
    std::vector<Recording::Sample> memory = t.memory; // control flow is noted after what it runs
    std::stable_sort(memory.begin(), memory.end(), [](auto& a, auto& b) { return a.at_ns < b.at_ns; });
    for (auto& m : memory) sample(uuid + 1, m.at_ns, m.bytes);
  }

  // A track's slices nest: outer ones begin first and end last.
  void spans(const Recording::Thread& t, uint64_t uuid) {
    std::vector<Recording::Span> spans = t.spans;
    std::stable_sort(spans.begin(), spans.end(),
                     [](auto& a, auto& b) { return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns > b.end_ns; });
    std::vector<int64_t> open;
    auto close = [&](int64_t until) {
      for (; !open.empty() && open.back() <= until; open.pop_back())
        add_event(open.back(), Message().number(event::type, event::end).number(event::track, uuid));
    };
    for (const Recording::Span& s : spans) {
      close(s.begin_ns);
      if (open.empty()) edges_.emplace_back(s.begin_ns, 1), edges_.emplace_back(s.end_ns, -1);
      int64_t end = open.empty() ? s.end_ns : std::min(s.end_ns, open.back());
      Message e = Message().number(event::type, event::begin).number(event::track, uuid).number(event::name_id, uint64_t{s.name} + 1);
      if (s.iterations >= 0) e.message(event::annotations, Message().text(10, "iterations").number(4, static_cast<uint64_t>(s.iterations)));
      add_event(s.begin_ns, e);
      open.push_back(end);
    }
    close(INT64_MAX);
  }

  void busy() {
    std::sort(edges_.begin(), edges_.end());
    int64_t now = 0;
    for (size_t i = 0; i < edges_.size(); i++) {
      now += edges_[i].second;
      if (i + 1 == edges_.size() || edges_[i + 1].first != edges_[i].first) sample(busy_track, edges_[i].first, now);
    }
  }

  Message out_;
  std::vector<std::pair<int64_t, int64_t>> edges_; // of spans that are in no other of their thread
};

} // namespace

std::string perfetto_trace(Recording& recording, std::string_view process) { return Trace(recording.snapshot(), process).bytes(); }

} // namespace tenon
