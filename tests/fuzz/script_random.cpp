// Random programs: script_random COUNT SEED runs COUNT of them from SEED on in every way there is and compares; script_random print SEED
// shows one.
#include <cstdlib>

#include "tests/fuzz/script_runs.h"

using namespace tenon;

int main(int argc, char** argv) {
  if (argc != 3) return fmt::print(stderr, "usage: script_random COUNT SEED | script_random print SEED\n"), 1;
  uint64_t seed = std::strtoull(argv[2], nullptr, 10);
  if (std::string_view(argv[1]) == "print") return fmt::print("{}", fuzz::ScriptGenerator(seed).program()), 0;
  uint64_t count = std::strtoull(argv[1], nullptr, 10), wrong = 0;
  for (uint64_t s = seed; s < seed + count; s++) try {
      for (auto& run : {fuzz::run_reread, fuzz::run_planned})
        if (std::string why = fuzz::compare_runs(s, run, fuzz::run_interpreted); !why.empty()) wrong++, fmt::print("{}\n", why);
    } catch (const Error& e) {
      wrong++, fmt::print("seed {}: {}\n{}\n", s, e.what(), fuzz::ScriptGenerator(s).program());
    }
  fmt::print("{} programs, {} wrong\n", count, wrong);
  return wrong != 0;
}
