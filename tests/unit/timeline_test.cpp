// Timelines: a trace is parsed back by a small reader of protobuf of its own.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <thread>

#include "tenon/tenon.h"

namespace tenon::timeline_test {

namespace {

// A message as it stands: numbers and texts by fields.
struct Message {
  std::multimap<int, uint64_t> numbers;
  std::multimap<int, std::string> texts;

  explicit Message(std::string_view bytes) {
    for (size_t at = 0; at < bytes.size();) {
      uint64_t tag = varint(bytes, at);
      int field = static_cast<int>(tag >> 3);
      REQUIRE((tag & 7) % 2 == 0);
      if ((tag & 7) == 0) {
        numbers.emplace(field, varint(bytes, at));
      } else {
        uint64_t size = varint(bytes, at);
        REQUIRE(at + size <= bytes.size());
        texts.emplace(field, std::string(bytes.substr(at, size)));
        at += size;
      }
    }
  }
  uint64_t number(int field) const {
    REQUIRE(numbers.count(field) == 1);
    return numbers.find(field)->second;
  }
  const std::string& text(int field) const {
    REQUIRE(texts.count(field) == 1);
    return texts.find(field)->second;
  }

private:
  static uint64_t varint(std::string_view bytes, size_t& at) {
    uint64_t v = 0;
    for (int shift = 0;; shift += 7) {
      REQUIRE(at < bytes.size());
      auto b = static_cast<uint8_t>(bytes[at++]);
      v |= static_cast<uint64_t>(b & 127) << shift;
      if (b < 128) return v;
    }
  }
};

struct Slice {
  std::string name;
  uint64_t track, begin, end;
};

// What a trace says: tracks by name, slices, counters' samples.
struct Trace {
  std::map<uint64_t, std::string> tracks;
  std::vector<Slice> slices;
  std::map<std::string, std::vector<int64_t>> samples;

  explicit Trace(std::string_view bytes) {
    std::map<uint64_t, std::string> names;
    std::map<uint64_t, std::vector<Slice>> open;
    std::map<uint64_t, uint64_t> last;
    Message trace(bytes);
    CHECK(trace.numbers.empty());
    bool is_first = true;
    for (auto& [field, text] : trace.texts) {
      REQUIRE(field == 1);
      Message packet(text);
      CHECK(packet.number(10) == 1);
      CHECK(packet.number(13) == (std::exchange(is_first, false) ? 3 : 2));
      if (packet.texts.contains(12))
        for (auto& [number, event] : Message(packet.text(12)).texts) names[Message(event).number(1)] = Message(event).text(2);
      if (packet.texts.contains(60)) add_track(Message(packet.text(60)));
      if (!packet.texts.contains(11)) continue;
      Message event(packet.text(11));
      uint64_t track = event.number(11), at = packet.number(8);
      REQUIRE(tracks.contains(track));
      CHECK(at >= std::exchange(last[track], at));
      if (event.number(9) == 1) open[track].push_back({names.at(event.number(10)), track, at, 0});
      if (event.number(9) == 2) {
        REQUIRE(!open[track].empty());
        slices.push_back(open[track].back());
        slices.back().end = at;
        open[track].pop_back();
      }
      if (event.number(9) == 4) samples[tracks[track]].push_back(static_cast<int64_t>(event.number(30)));
    }
    for (auto& [track, left] : open) CHECK(left.empty());
  }
  int count(std::string_view name) const {
    return static_cast<int>(std::count_if(slices.begin(), slices.end(), [&](auto& s) { return s.name == name; }));
  }

private:
  void add_track(const Message& m) {
    std::string name = m.texts.contains(2) ? m.text(2) : "";
    if (m.texts.contains(3)) name = Message(m.text(3)).text(6);
    if (m.texts.contains(4)) name = Message(m.text(4)).text(5);
    tracks[m.number(1)] = name;
  }
};

std::string path_of(const char* name) { return TENON_FIXTURES + std::string("/programs/") + name + ".pt2"; }

} // namespace

TEST_CASE("a timeline has loading, stages of compiling, and the steps of each run") {
  Timeline timeline = Timeline::start().value();
  CHECK(!Timeline::start().ok());
  Program program = Program::load(path_of("cond")).value();
  Executable exe = program.compile().value();
  std::vector<Tensor> inputs = program.example_inputs().value(), outputs;
  for (int i = 0; i < 3; i++) exe.run(inputs, outputs).check();
  timeline.stop();
  exe.run(inputs, outputs).check(); // not recorded
  Trace trace(timeline.trace("test of timelines"));
  CHECK(trace.count("load") == 1);
  CHECK(trace.count("compile") >= 1); // and its parts in the threads that help
  CHECK(trace.count("lower_regions") == 1);
  CHECK(trace.count("run") == 3);
  CHECK(trace.count("0 loops: sum") == 3);
  CHECK(trace.tracks.at(1) == "test of timelines");
  // Steps lie in runs, and those of a branch in its step.
  for (const Slice& s : trace.slices) {
    CHECK(s.begin <= s.end);
    bool is_step = s.name[0] >= '0' && s.name[0] <= '9';
    auto around = [&](const Slice& r) { return r.name == "run" && r.track == s.track && r.begin <= s.begin && s.end <= r.end; };
    if (is_step) CHECK_MESSAGE(std::any_of(trace.slices.begin(), trace.slices.end(), around), s.name);
  }
  std::vector<int64_t>& busy = trace.samples.at("busy threads");
  CHECK(busy.back() == 0);
  CHECK(*std::max_element(busy.begin(), busy.end()) >= 1);
  bool has_memory = false;
  for (auto& [name, samples] : trace.samples)
    if (name.starts_with("temporaries of")) has_memory = *std::max_element(samples.begin(), samples.end()) > 0;
  CHECK(has_memory);
  CHECK(Timeline::start().ok());
}

TEST_CASE("parts of parallel steps are in the threads that compute them") {
  Program program =
      Program::parse("graph():\n"
                     "    %x : [num_users=1] = placeholder[target=x]\n"
                     "    %exp : [num_users=1] = call_function[target=torch.ops.aten.exp.default](args = (%x,), kwargs = {})\n"
                     "    return (exp,)\n",
                     std::vector<ArgInfo>{{.name = "x", .dtype = DType::F32, .sizes = {"1024", "1024"}}})
          .value();
  Executable exe = program.compile({.threads = 2}).value();
  std::vector<Tensor> inputs{Tensor(DType::F32, {1024, 1024})}, outputs;
  std::fill_n(inputs[0].data_as<float>(), inputs[0].numel(), 0.5f);
  Timeline timeline = Timeline::start().value();
  for (int i = 0; i < 20; i++) exe.run(inputs, outputs).check();
  Trace trace(timeline.trace()); // while it still records
  CHECK(trace.count("run") == 20);
  CHECK(trace.count("0 loops: exp") >= 40); // the step, and its parts inside or in another thread
}

TEST_CASE("timelines of several threads at once") {
  Program program = Program::load(path_of("mlp")).value();
  Executable exe = program.compile().value();
  std::vector<Tensor> inputs = program.example_inputs().value();
  Timeline timeline = Timeline::start().value();
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; t++)
    threads.emplace_back([&] {
      std::vector<Tensor> outputs;
      for (int i = 0; i < 50; i++) exe.run(inputs, outputs).check();
    });
  for (int i = 0; i < 5; i++) Trace(timeline.trace());
  for (std::thread& t : threads) t.join();
  timeline.stop();
  Trace trace(timeline.trace());
  CHECK(trace.count("run") == 150);
  std::set<uint64_t> tracks;
  for (const Slice& s : trace.slices) tracks.insert(s.track);
  CHECK(tracks.size() >= 3);
  CHECK(!timeline.write("/no/such/folder/trace").ok());
}

} // namespace tenon::timeline_test
