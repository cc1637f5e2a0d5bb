// A fixture's archive with its program changed: what is wrong in it must be told.
#pragma once
#include "load/load.h"
#include "tests/fuzz/zip.h"
#include "tests/unit/load_samples.h"

namespace tenon {

/// tests/fixtures/programs/FIXTURE.pt2 with `old` in its model.json replaced by `now`, the first time it occurs.
inline std::string changed(const std::string& fixture, std::string_view old, std::string_view now) {
  constexpr std::string_view model = "models/model.json";
  Archive a = Archive::map(std::string(TENON_FIXTURES) + "/programs/" + fixture + ".pt2");
  std::string json(as_text(a.read(model).bytes));
  size_t at = json.find(old);
  REQUIRE_MESSAGE(at != json.npos, "the fixture does not hold ", old);
  json.replace(at, old.size(), now);
  return fuzz::rebuild(a, model, json);
}

} // namespace tenon
