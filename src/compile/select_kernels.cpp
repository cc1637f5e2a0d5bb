// Kernels by their text, those that are prebuilt by their shape, and the others that are much alike as one.
#include "compile/select_kernels.h"

#include <algorithm>
#include <map>

#include <fmt/ranges.h>

#include "loops/canonical.h"
#include "loops/share.h"
#include "ops/names.h"

namespace tenon {

namespace {

constexpr int64_t cold_operations = 1 << 18; // some 10 microseconds: a hundredth of what compiling a kernel takes
constexpr size_t long_series = 4;            // kernels of unknown sizes that are worth one with more scalars
constexpr int64_t least_of_tile = 16;        // strides, not the 2s and 3s of what is computed
constexpr int64_t least_of_hot = 8;

enum class Heat : uint8_t { Cold, Unknown, Hot, Tile }; // how long a kernel runs; Tile: in the midst of a contraction

Heat heat_of(const RegionKernel& k) {
  auto n = const_int(k.elements);
  return !n ? Heat::Unknown : *n * (k.weight + 1) <= cold_operations ? Heat::Cold : Heat::Hot;
}

size_t fixed_scalars(Heat heat) { return heat == Heat::Tile ? std::size(tile_symbols) : 0; }

// Small constants in the code make a kernel faster that runs long: windows, and what is computed. Those of a streamed result's places say
// how it is stored.
Varying varying(Heat heat, const Kernel& k) {
  bool streams = std::ranges::any_of(k.buffers, &KernelBuffer::streamed);
  return {.least = heat == Heat::Tile  ? least_of_tile
                   : heat == Heat::Hot ? least_of_hot
                                       : INT64_MIN,
          .only_beginnings = heat == Heat::Hot && streams};
}

// How prebuilt kernels take the constants of one: as if it ran long, or, where it does not, all of them. Streamed results do not lie where
// a scalar says.
std::vector<Varying> varying_of_prebuilt(Heat heat, const Kernel& k) {
  Varying hot = varying(heat == Heat::Tile ? heat : Heat::Hot, k);
  if (hot.only_beginnings) return {};
  std::vector<Varying> out{hot};
  if (heat == Heat::Cold) out.push_back(varying(heat, k));
  for (Varying& v : out) v.general = true;
  return out;
}

class Selection {
public:
  explicit Selection(SelectedKernels& out) : out_(out) {}

  void add(const LoweredRegion& r, SelectedRegion& to) {
    for (const RegionKernel& k : r.loops.kernels) to.kernels.push_back(add(k, heat_of(k)));
    if (r.epilogue) to.kernels.push_back(add(*r.epilogue, Heat::Tile));
    if (r.attention)
      for (auto* k : {&r.attention->kernels.score, &r.attention->kernels.finish}) to.kernels.push_back(add(*k, Heat::Tile));
  }

  KernelUse add(const RegionKernel& from, Heat heat) {
    CanonicalKernel k = canonical(from.kernel, *out_.pool, fixed_scalars(heat));
    KernelUse use{.scalars = {}, .in_code = sizes_in_code(from.kernel)};
    use.scalars.assign(k.scalars.begin(), k.scalars.end() - static_cast<std::ptrdiff_t>(fixed_scalars(heat)));
    auto [it, fresh] = known_.emplace(to_string(k.kernel), static_cast<int>(out_.kernels.size()));
    if (fresh) {
      verify(k.kernel);
      out_.kernels.push_back(std::move(k.kernel));
      heat_.push_back(heat);
    }
    use.kernel = it->second;
    Heat& known = heat_[static_cast<size_t>(use.kernel)];
    known = std::max(known, heat);
    return use;
  }

  // `exprs` gets the constants that become scalars.
  void share(ExprPool& exprs, const PrebuiltTable& prebuilt) {
    size_t count = out_.kernels.size();
    shapes_.resize(count), added_.resize(count), prebuilt_.resize(count), number_.assign(count, -1);
    for (size_t k = 0; k < count && !prebuilt.empty(); k++) prebuilt_[k] = find(k, prebuilt);
    find_groups();
    std::vector<Kernel> kernels;
    for (size_t k = 0; k < count; k++) {
      if (number_[k] >= 0) continue;
      number_[k] = static_cast<int>(kernels.size());
      const std::vector<size_t>* group = prebuilt_[k] ? nullptr : worth_sharing(k);
      if (prebuilt_[k]) use_prebuilt(k, exprs);
      kernels.push_back(group ? share_group(*group, exprs, number_[k]) : std::move(out_.kernels[k]));
      out_.prebuilt.push_back(prebuilt_[k]);
    }
    out_.kernels = std::move(kernels);
    for (SelectedRegion& r : out_.regions)
      for (KernelUse& use : r.kernels) {
        auto& more = added_[static_cast<size_t>(use.kernel)];
        use.scalars.insert(use.scalars.end(), more.begin(), more.end());
        use.kernel = number_[static_cast<size_t>(use.kernel)];
      }
  }

private:
  // Puts its general form in the kernel's place.
  std::shared_ptr<const CodeObject> find(size_t k, const PrebuiltTable& prebuilt) {
    Kernel& kernel = out_.kernels[k];
    size_t fixed = fixed_scalars(heat_[k]);
    for (const Varying& v : varying_of_prebuilt(heat_[k], kernel)) {
      shapes_[k] = shape_of(kernel, *out_.pool, v, fixed);
      auto [known, fresh] = found_.try_emplace(shapes_[k].text);
      if (fresh) known->second = prebuilt.find(shapes_[k].text);
      if (!known->second) continue;
      kernel = general_kernel(kernel, *out_.pool, v, fixed);
      return known->second;
    }
    return nullptr;
  }

  // By the kernel `first`, and all others of its shape.
  void use_prebuilt(size_t first, ExprPool& exprs) {
    for (size_t k = first; k < number_.size(); k++) {
      if (prebuilt_[k] != prebuilt_[first]) continue;
      number_[k] = number_[first];
      for (int64_t v : shapes_[k].constants) added_[k].push_back(exprs.integer(v));
    }
  }

  void find_groups() {
    for (size_t k = 0; k < shapes_.size(); k++) {
      if (prebuilt_[k]) continue;
      shapes_[k] = shape_of(out_.kernels[k], *out_.pool, varying(heat_[k], out_.kernels[k]), fixed_scalars(heat_[k]));
      groups_[shapes_[k].text].push_back(k);
    }
    for (size_t k = 0; k < shapes_.size(); k++)
      if (heat_[k] == Heat::Cold && !prebuilt_[k]) join_hot(groups_.at(shapes_[k].text));
  }

  // Kernels that run shortly may all be like one that runs long.
  void join_hot(const std::vector<size_t>& cold) {
    std::vector<KernelShape> shapes;
    for (size_t k : cold) {
      shapes.push_back(shape_of(out_.kernels[k], *out_.pool, varying(Heat::Hot, out_.kernels[k]), 0));
      if (shapes.back().text != shapes[0].text) return;
    }
    auto hot = groups_.find(shapes[0].text);
    if (hot == groups_.end()) return;
    std::vector<size_t> joined = cold;
    groups_.erase(shapes_[joined[0]].text);
    for (size_t i = 0; i < joined.size(); i++) {
      hot->second.push_back(joined[i]);
      shapes_[joined[i]] = std::move(shapes[i]);
      heat_[joined[i]] = Heat::Hot;
    }
  }

  const std::vector<size_t>* worth_sharing(size_t k) const {
    const std::vector<size_t>& group = groups_.at(shapes_[k].text);
    bool unknown = std::ranges::any_of(group, [&](size_t m) { return heat_[m] == Heat::Unknown; });
    return group.size() < (unknown ? long_series : 2) ? nullptr : &group;
  }

  Kernel share_group(const std::vector<size_t>& group, ExprPool& exprs, int number) {
    std::vector<const Kernel*> members;
    std::vector<KernelShape> shapes;
    for (size_t m : group) members.push_back(&out_.kernels[m]), shapes.push_back(shapes_[m]);
    Heat heat = heat_[group[0]];
    SharedKernel shared = tenon::share(members, shapes, *out_.pool, varying(heat, *members[0]), fixed_scalars(heat));
    verify(shared.kernel);
    for (size_t i = 0; i < group.size(); i++) {
      number_[group[i]] = number;
      for (int64_t v : shared.scalars[i]) added_[group[i]].push_back(exprs.integer(v));
    }
    return std::move(shared.kernel);
  }

  SelectedKernels& out_;
  std::map<std::string, int> known_; // text -> number
  std::vector<Heat> heat_;           // of the kernels
  std::vector<KernelShape> shapes_;
  std::vector<std::shared_ptr<const CodeObject>> prebuilt_;        // null: to be compiled
  std::map<std::string, std::shared_ptr<const CodeObject>> found_; // by shape
  std::map<std::string, std::vector<size_t>> groups_;              // of the others, by the text of their shape
  std::vector<int> number_;                                        // of a kernel afterwards
  std::vector<std::vector<Expr>> added_;                           // to its scalars
};

std::string text_of(const KernelUse& use) {
  std::vector<std::string> scalars;
  for (Expr e : use.scalars) scalars.push_back(to_string(e));
  return fmt::format("kernel {} ({})", use.kernel, fmt::join(scalars, ", "));
}

} // namespace

SelectedKernels select_kernels(const Graph& g, const std::vector<LoweredRegion>& regions, const KernelTable& micro_kernels,
                               const PlanTarget& target) {
  SelectedKernels out;
  out.pool = std::make_unique<ExprPool>();
  Selection selection(out);
  for (const LoweredRegion& r : regions) {
    SelectedRegion& s = out.regions.emplace_back();
    if (r.same_as >= 0) s.kernels = out.regions[static_cast<size_t>(r.same_as)].kernels;
    else selection.add(r, s);
    if (r.product) s.product = select_product(g, r, micro_kernels, target, out.weights, out.later);
    if (g.node(r.node).op == own::conv) s.conv = select_convolution(g, r, micro_kernels, target, out.weights);
  }
  selection.share(g.pool(), target.prebuilt);
  return out;
}

std::vector<GeneralKernel> general_kernels(const std::vector<LoweredRegion>& regions, ExprPool& pool) {
  std::vector<GeneralKernel> out;
  auto add = [&](const RegionKernel& from, bool tile) {
    size_t fixed = fixed_scalars(tile ? Heat::Tile : Heat::Hot);
    Kernel k = canonical(from.kernel, pool, fixed).kernel;
    for (const Varying& v : varying_of_prebuilt(tile ? Heat::Tile : Heat::Cold, k))
      out.push_back({shape_of(k, pool, v, fixed).text, general_kernel(k, pool, v, fixed)});
  };
  for (const LoweredRegion& r : regions) {
    for (const RegionKernel& k : r.loops.kernels) add(k, false);
    if (r.epilogue) add(*r.epilogue, true);
    if (r.attention) add(r.attention->kernels.score, true), add(r.attention->kernels.finish, true);
  }
  return out;
}

std::string to_string(const Graph& graph, const std::vector<LoweredRegion>& regions, const SelectedKernels& selected,
                      const KernelTable& micro_kernels) {
  std::string out;
  auto family = [&](int number) { return number < 0 ? "chosen by sizes" : micro_kernels.family(number).name; };
  for (size_t i = 0; i < regions.size(); i++) {
    const Node& n = graph.node(regions[i].node);
    const SelectedRegion& s = selected.regions[i];
    std::vector<std::string> parts;
    if (s.product)
      parts.push_back(fmt::format("family {}, B {}", family(s.product->family),
                                  s.product->later >= 0   ? fmt::format("in place, later packed {}", s.product->later)
                                  : s.product->packed < 0 ? "in place"
                                                          : fmt::format("packed {}", s.product->packed)));
    if (s.conv)
      parts.push_back(fmt::format("family {}{}, weights {}", family(s.conv->shape.family), s.conv->shape.winograd ? " by Winograd" : "",
                                  s.conv->packed < 0 ? "in place" : fmt::format("packed {}", s.conv->packed)));
    for (const KernelUse& use : s.kernels) parts.push_back(text_of(use));
    if (!regions[i].refused.empty()) parts.push_back("interpreted");
    fmt::format_to(std::back_inserter(out), "%{} = {}: {}\n", n.outputs.at(0).index, n.op, fmt::join(parts, ", "));
  }
  for (size_t i = 0; i < selected.kernels.size(); i++)
    fmt::format_to(std::back_inserter(out), "kernel {} {}\n", i, selected.kernels[i].name);
  return out;
}

} // namespace tenon
