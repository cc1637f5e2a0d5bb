// Archives of older torches: what differs in them is read, what is damaged in them is told.
#include "load/load.h"
#include "tenon/tenon.h"
#include "tests/fuzz/zip.h"
#include "tests/unit/load_samples.h"

namespace tenon::old_archive_test {

namespace {

constexpr std::string_view json = "serialized_exported_program.json", weights = "serialized_state_dict.pt",
                           constants = "serialized_constants.pt";

Archive fixture(const std::string& name) { return Archive::map(std::string(TENON_FIXTURES) + "/archives/" + name + ".pt2"); }

// A fixture of torch 2.6 with `old` in its program replaced by `now`, the first time it occurs.
std::string changed(const std::string& name, std::string_view old, std::string_view now) {
  Archive a = fixture("2.6.0/" + name);
  std::string text(as_text(a.read(json).bytes));
  size_t at = text.find(old);
  REQUIRE_MESSAGE(at != text.npos, "the fixture does not hold ", old);
  text.replace(at, old.size(), now);
  return fuzz::rebuild(a, json, text);
}

std::string load_error(const std::string& bytes, ErrorKind kind = ErrorKind::BadInput) {
  return error_thrown_by([&] { load_pt2(as_byte_span(bytes), "test"); }, kind);
}

// The first result for the archive's own example inputs.
std::vector<float> run(const std::string& bytes) {
  Program program = Program::load(as_byte_span(bytes), "test").value();
  std::vector<Tensor> inputs = program.example_inputs().value(), outputs;
  program.compile({.threads = 1}).value().run(inputs, outputs).check();
  Tensor first = outputs.at(0).contiguous();
  return {first.data_as<float>(), first.data_as<float>() + first.numel()};
}

// Loads the bytes cut at every `step`th length, and with a bit of every `step`th byte changed: that gives a program or an error
// that is not Internal. The copies have their exact size.
void damage(const std::string& bytes, size_t step) {
  auto loads = [](const std::vector<std::byte>& b) {
    try {
      LoadedProgram p = load_pt2(b, "damaged");
      load_example_inputs(p);
      for (auto& [name, t] : p.weights) t.contiguous();
      return true;
    } catch (const Error& e) {
      REQUIRE(e.kind != ErrorKind::Internal);
      return false;
    }
  };
  auto whole = to_bytes(bytes);
  REQUIRE(loads(whole));
  int accepted = 0;
  for (size_t n = 0; n < whole.size(); n += step) accepted += loads({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n)});
  CHECK(accepted == 0);
  for (size_t i = 0; i < whole.size(); i += step) {
    std::vector<std::byte> copy = whole;
    copy[i] ^= std::byte{1} << (i / step % 8);
    loads(copy);
  }
}

} // namespace

TEST_CASE("an old zip, stored or deflated") {
  Archive a = fixture("2.6.0/tiny");
  std::string stored = fuzz::rebuild(a, "", ""), deflated = fuzz::rebuild(a, "", "", true);
  CHECK(deflated.size() < stored.size());
  std::vector<float> result = run(stored);
  CHECK(result.size() == 6);
  CHECK(run(deflated) == result);
  auto program = load_pt2(as_byte_span(deflated), "test");
  REQUIRE(program.weights.size() == 2);
  CHECK(program.weights.at("weight").data_as<float>()[1] == 2.0f);
  CHECK(program.weights.at("shift").data_as<float>()[1] == -1.0f);
  CHECK(program.torch_version.starts_with("2.6.0"));
}

TEST_CASE("weights that share memory share it after loading") {
  for (const char* version : {"2.6.0", "2.8.0", "2.12.0"}) {
    Archive a = fixture(std::string(version) + "/shared_weights");
    auto program = load_pt2(as_byte_span(fuzz::rebuild(a, "", "")), "test");
    auto data = [&](const char* name) { return program.weights.at(name).data_as<float>(); };
    CHECK(data("head.weight") == data("embedding.weight"));
    CHECK(data("part") == data("whole") + 7);
    CHECK(program.weights.at("turned").strides() == std::vector<int64_t>{1, 4});
  }
}

TEST_CASE("numbers as Python's json writes them") {
  for (auto number : {"NaN", "Infinity", "-Infinity", "\"-Infinity\"", "1", "-2.5e3"})
    CHECK(load_error(changed("tiny", "-Infinity", number)) == "");
  // In a text they are text.
  CHECK(load_error(changed("tiny", "mul,_operator.mul", R"(NaN, \"-Infinity\": Infinity, \\)")) == "");
  CHECK(has(load_error(changed("tiny", "-Infinity", "-Infinite")), "serialized_exported_program.json"));
  CHECK(has(load_error(changed("tiny", "-Infinity", "NaN\"")), "serialized_exported_program.json"));
  for (auto text : {"", "I", "N", "-", "\"", "\"\\", "NaN", "[-Infinity", "-Infinity}"})
    CHECK_MESSAGE(load_error(fuzz::rebuild(fixture("2.6.0/tiny"), json, text)) != "", text);
  // Bounds of ranges have any number of digits.
  for (auto bound : {"18446744073709551615", "36893488147419103230", "9223372036854775807", "123456789012345678901234567890"})
    CHECK(load_error(changed("tiny", R"("max_val": null)", fmt::format("\"max_val\": {}", bound))) == "");
  CHECK(load_error(changed("tiny", R"("min_val": 0)", R"("min_val": -36893488147419103230)")) == "");
  CHECK(has(load_error(changed("tiny", R"("max_val": null)", R"("max_val": -36893488147419103230)")), "range of s0 is empty"));
  CHECK(load_error(changed("tiny", R"({"as_float": -Infinity})", R"({"as_int": 36893488147419103230})")) != "");
}

TEST_CASE("pickled weights that do not fit") {
  Archive a = fixture("2.6.0/tiny");
  auto with = [&](std::string_view file, std::string_view bytes) { return fuzz::rebuild(a, file, bytes); };
  SharedBytes state = a.read(weights), none = a.read(constants);
  CHECK(has(load_error(with(weights, as_text(none.bytes))), "is no weight weight"));
  CHECK(has(load_error(with(constants, as_text(state.bytes))), "is no weight shift"));
  CHECK(has(load_error(with(weights, "")), "is no weight weight"));
  CHECK(has(load_error(with(weights, "no zip")), "not a zip archive"));
  CHECK(has(load_error(with(weights, as_text(a.read("serialized_example_inputs.pt").bytes))), "no dictionary"));
  Archive pickle = Archive::view(state.bytes, "state");
  auto pickled = [&](std::string_view data) { return with(weights, fuzz::rebuild(pickle, "data.pkl", data)); };
  CHECK(has(load_error(pickled("\x80\x02}K\x01K\x02s.")), "no string"));
  // A call is a dead object, not a weight.
  CHECK(has(load_error(pickled("\x80\x02}(V"
                               "weight\ncos\nsystem\n(Vls\ntRu."),
                       ErrorKind::Unsupported),
            "weight of class os.system"));
  CHECK(has(load_error(changed("tiny", R"("weight")", R"("weighty")")), "is no weight weighty"));
  CHECK(has(load_error(changed("tiny", R"("p_weight": {"dtype": 7, "sizes": [{"as_int": 2}])",
                               R"("p_weight": {"dtype": 7, "sizes": [{"as_int": 1}])")),
            "another dtype or size"));
}

TEST_CASE("types that an older torch recorded wrongly") {
  CHECK(load_error(changed("lstm", "2.6.0+cu124", "2.6.0+cu124")) == "");
  // Of a program that says it is of today they are an error.
  for (auto name : {"lstm", "arithmetic"}) {
    Program program = Program::load(as_byte_span(changed(name, "2.6.0+cu124", "2.15.0")), "test").value();
    auto exe = program.compile({.threads = 1});
    REQUIRE(!exe);
    CHECK(has(exe.error().what(), "the program records"));
  }
}

TEST_CASE("old archives damaged everywhere") {
  Archive a = fixture("2.6.0/tiny");
  std::string stored = fuzz::rebuild(a, "", "");
  damage(stored, 1);
  damage(fuzz::rebuild(a, "", "", true), 1);
  Archive pickled = fixture("2.8.0/buffers");
  damage(fuzz::rebuild(pickled, "", ""), 17);
}

} // namespace tenon::old_archive_test
