#include "runtime/collectives.h"

#include <algorithm>

#include "base/check.h"
#include "runtime/collective_steps.h"

namespace tenon {

CollectiveKind collective_of(LibraryFn step, std::span<const std::string> texts, std::span<const int64_t> ints) {
  CollectiveKind what{.kind = TENON_ALL_REDUCE, .reduction = TENON_SUM, .root = 0, .group = texts[0]};
  if (texts.size() > 1) require_input(find_reduction(texts[1], what.reduction), "no reduction is called '{}'", texts[1]);
  if (step == library::all_gather) what.kind = TENON_ALL_GATHER;
  else if (step == library::reduce_scatter) what.kind = TENON_REDUCE_SCATTER;
  else if (step == library::broadcast) what.kind = TENON_BROADCAST, what.root = static_cast<int>(ints[0]);
  else if (step == library::all_to_all) what.kind = TENON_ALL_TO_ALL;
  return what;
}

Collectives::Collectives(const Communicator& world, std::span<const ProcessGroup> groups) {
  groups_.push_back({"0", world});
  for (const ProcessGroup& g : groups) {
    require_input(!find(g.name), "group '{}' is there twice", g.name);
    bool is_in = std::ranges::find(g.ranks, world.rank()) != g.ranks.end();
    groups_.push_back({g.name, is_in ? world.subgroup(g.ranks).value() : Communicator()});
  }
}

const Collectives::Group* Collectives::find(const std::string& name) const {
  auto at = std::ranges::find(groups_, name, &Group::name);
  return at == groups_.end() ? nullptr : &*at;
}

std::string Collectives::refusal(const std::string& name, int64_t size) const {
  const Group* g = find(name);
  if (!g) return fmt::format("the program communicates in group '{}', whose ranks Options::groups does not tell", name);
  if (!g->communicator) return fmt::format("the program communicates in group '{}', and this rank is not in it", name);
  if (size > 0 && size != g->communicator.size())
    return fmt::format("the program was exported for {} ranks of group '{}', which has {}", size, name, g->communicator.size());
  return {};
}

std::unique_lock<std::mutex> Collectives::turn() const { return std::unique_lock(groups_[0].communicator.impl()->turn); }

std::string Collectives::start(const CollectiveKind& what, const LibraryTensor& input, const LibraryTensor& output,
                               std::span<const int64_t> ints, void*& request) const {
  const Group* g = find(what.group);
  if (!g || !g->communicator) return refusal(what.group, 0);
  const tenon_communicator& table = g->communicator.impl()->table;
  auto ranks = static_cast<size_t>(table.size);
  tenon_collective call{.kind = what.kind,
                        .reduction = what.reduction,
                        .dtype = static_cast<int32_t>(input.dtype),
                        .root = what.root,
                        .input = input.data,
                        .output = output.data,
                        .input_count = input.numel(),
                        .output_count = output.numel(),
                        .input_counts = nullptr,
                        .output_counts = nullptr};
  std::vector<int64_t> counts; // elements, of rows
  if (what.kind == TENON_ALL_TO_ALL) {
    if (ints.size() != 2 * ranks)
      return fmt::format("all_to_all: sizes for {} ranks, group '{}' has {}", ints.size() / 2, what.group, ranks);
    int64_t rows[2] = {0, 0}, row = 1;
    for (int64_t n : input.sizes.subspan(1)) row *= n;
    for (size_t i = 0; i < ints.size(); i++) {
      if (ints[i] < 0) return "all_to_all: a size is negative";
      rows[i < ranks ? 0 : 1] += ints[i], counts.push_back(ints[i] * row);
    }
    if (rows[0] != output.size(0) || rows[1] != input.size(0)) return "all_to_all: the sizes of the parts are not those of the whole";
    call.output_counts = counts.data(), call.input_counts = counts.data() + ranks;
  }
  if (what.kind == TENON_REDUCE_SCATTER && call.input_count != call.output_count * table.size)
    return fmt::format("reduce_scatter: {} rows are not shared out among {} ranks", input.size(0), ranks);
  if (what.kind == TENON_BROADCAST && (what.root < 0 || what.root >= table.size))
    return fmt::format("broadcast: there is no rank {} in group '{}', which has {}", what.root, what.group, ranks);
  const char* error = table.start(table.data, &call, &request);
  return error ? fmt::format("{}: {}", name_of(what.kind), error) : std::string();
}

std::string Collectives::wait(const std::string& group, void* request) const {
  const tenon_communicator& table = find(group)->communicator.impl()->table;
  const char* error = table.wait(table.data, request);
  return error ? error : std::string();
}

void Collectives::progress() const {
  for (const Group& g : groups_)
    if (g.communicator && g.communicator.impl()->table.progress) g.communicator.impl()->table.progress(g.communicator.impl()->table.data);
}

void Collectives::abort(const std::string& message) const {
  for (const Group& g : groups_)
    if (g.communicator) g.communicator.impl()->table.abort(g.communicator.impl()->table.data, message.c_str());
}

} // namespace tenon
