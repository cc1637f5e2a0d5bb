// pack_weights: the same bytes as packing one by one, whatever else is packed at once; memory that is let go of.
#include "compile/pack_weights.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <thread>

#include "codegen/x86/micro_kernels.h"
#include "load/archive.h"
#include "runtime/parallel.h"
#include "tests/unit/kernel_test.h"
#include "tests/unit/load_samples.h"

namespace tenon::pack_weights_test {

namespace {

Tensor numbers(std::vector<int64_t> sizes) {
  Tensor t(DType::F32, std::move(sizes));
  for (int64_t i = 0; i < t.numel(); i++) t.data_as<float>()[i] = static_cast<float>(i % 251 - 100);
  return t;
}

/// The same times a factor for each index of the first dim, not computed yet.
Tensor scaled(const Tensor& t, float last) {
  std::vector<float> by;
  for (int64_t i = 0; i < t.sizes()[0]; i++) by.push_back(i + 1 < t.sizes()[0] ? 0.37f * static_cast<float>(i) - 1.3f : last);
  return scaled_tensor({t, by}, Tensor(DType::F32, t.sizes()).storage());
}

bool same(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

LinkedPlan packed_by(PackRequests& requests, const KernelTable& kernels, const Workers& workers, const LinkedPlan* shared = nullptr) {
  LinkedPlan plan;
  plan.micro_kernels = &kernels;
  LargeMemory place;
  requests.pack(plan, place, [&](auto& work) { workers.together(work); }, {}, shared);
  return plan;
}

} // namespace

TEST_CASE("products: all at once as one by one") {
  MicroKernels mk;
  const KernelTable& kernels = mk.table();
  int family = choose_family(kernels, DType::F32, DType::F32, any_size, any_size, any_size);
  const GemmFamily& f = kernels.family(family);
  for (int threads : {1, 3}) {
    PackRequests requests;
    std::vector<std::pair<int, std::vector<char>>> wanted;
    std::vector<Tensor> kept;
    for (int64_t k : {0, 1, 7, 64, 129, 1031})
      for (int64_t n : {1, 3, 16, 65, 517})
        for (bool by_rows : {false, true}) {
          Tensor w = numbers({k, n});
          ProductWeights form{family, choose_panels(f, n, k), 0, by_rows ? n : 1, by_rows ? 1 : k};
          int at = requests.add(kernels, w, form);
          CHECK(requests.add(kernels, w, form) == at);
          wanted.emplace_back(at, std::vector<char>(static_cast<size_t>(packed_b_bytes(kernels, family, k, n))));
          const PackSource from{w.data(), DType::F32, form.k_stride, form.n_stride};
          pack_panels(kernels, f, form.panels, from, 0, k, 0, form.panels.count(), wanted.back().second.data());
        }
    LinkedPlan plan = packed_by(requests, kernels, Workers(threads));
    auto& packed = plan.packed;
    for (auto& [at, bytes] : wanted) CHECK(same(packed.at(static_cast<size_t>(at)), std::as_bytes(std::span(bytes))));
  }
}

TEST_CASE("products of more than caches hold: the same bytes") {
  for (const Target& target : available_targets()) {
    MicroKernels mk(target);
    const KernelTable& kernels = mk.table();
    int family = choose_family(kernels, DType::F32, DType::F32, any_size, any_size, any_size);
    const GemmFamily& f = kernels.family(family);
    int64_t k = 2053, n = 5003; // 41 MB
    Tensor w = numbers({n, k});
    ProductWeights form{family, choose_panels(f, n, k), 0, 1, k};
    PackRequests requests;
    int at = requests.add(kernels, w, form);
    std::vector<char> wanted(static_cast<size_t>(form.panels.bytes()));
    pack_panels(kernels, f, form.panels, {w.data(), DType::F32, 1, k}, 0, k, 0, form.panels.count(), wanted.data());
    LinkedPlan plan = packed_by(requests, kernels, Workers(2));
    auto& packed = plan.packed;
    CHECK(same(packed.at(static_cast<size_t>(at)), std::as_bytes(std::span(wanted))));
  }
}

TEST_CASE("columns of slices: blocks of a vector of each, with zeros behind") {
  MicroKernels mk;
  const KernelTable& kernels = mk.table();
  int family = choose_family(kernels, DType::F32, DType::F32, any_size, any_size, any_size);
  const GemmFamily& f = kernels.family(family);
  int64_t k = 19, width = 21, slices = 3, lanes = f.lanes, padded = (width + lanes - 1) / lanes * lanes;
  Tensor w = numbers({slices * width, k}), woven(DType::F32, {padded * slices, k});
  std::memset(woven.data(), 0, static_cast<size_t>(woven.numel()) * 4);
  for (int64_t s = 0; s < slices; s++)
    for (int64_t c = 0; c < width; c++)
      std::memcpy(woven.data_as<float>() + ((c / lanes * slices + s) * lanes + c % lanes) * k, w.data_as<float>() + (s * width + c) * k,
                  static_cast<size_t>(k) * 4);
  PackRequests requests;
  Panels panels = choose_panels(f, padded * slices, k, 3);
  int at = requests.add(kernels, w, {family, panels, 0, 1, k, slices, width});
  int plain = requests.add(kernels, woven, {family, panels, 0, 1, k});
  LinkedPlan plan = packed_by(requests, kernels, Workers(2));
  auto& packed = plan.packed;
  CHECK(packed.at(static_cast<size_t>(at)).size() == static_cast<size_t>(panels.bytes()));
  CHECK(same(packed.at(static_cast<size_t>(at)), packed.at(static_cast<size_t>(plain))));
}

TEST_CASE("convolutions: all at once as one by one") {
  MicroKernels mk;
  const KernelTable& kernels = mk.table();
  Workers workers(3);
  PackRequests requests;
  std::vector<std::pair<int, std::vector<char>>> wanted;
  for (int64_t channels : {3, 16, 35, 160})
    for (int64_t groups : {int64_t{1}, channels})
      for (int64_t size : {1, 3})
        for (bool winograd : {false, true}) {
          if (winograd && (groups > 1 || size == 1 || channels < 16)) continue;
          Tensor w = numbers({channels, channels / groups, size, size});
          Conv c{.window = {.kernel = {1, size, size}, .pad = {0, size / 2, size / 2}},
                 .groups = groups,
                 .in_channels = channels,
                 .out_channels = channels,
                 .winograd = winograd,
                 .weights = w.data(),
                 .packed = false};
          std::copy_n(w.strides().data(), 2, c.weight_strides), std::copy_n(w.strides().data() + 2, 2, c.weight_strides + 3);
          int64_t bytes = packed_conv_bytes(kernels, c);
          int at = requests.add(kernels, w, c);
          CHECK(requests.add(kernels, w, c) == at);
          wanted.emplace_back(at, std::vector<char>(static_cast<size_t>(bytes)));
          pack_conv(kernels, workers, c, wanted.back().second.data());
        }
  LinkedPlan plan = packed_by(requests, kernels, workers);
  auto& packed = plan.packed;
  for (auto& [at, bytes] : wanted) CHECK(same(packed.at(static_cast<size_t>(at)), std::as_bytes(std::span(bytes))));
}

TEST_CASE("convolutions of scaled weights: packed as if they had been multiplied before") {
  int without_reading = 0;
  for (const Target& target : available_targets()) {
    MicroKernels mk(target);
    const KernelTable& kernels = mk.table();
    for (auto [in, out, groups] :
         {std::tuple{3, 64, 1}, {1, 1, 1}, {16, 35, 1}, {37, 160, 1}, {64, 8, 1}, {32, 32, 32}, {34, 6, 2}, {64, 64, 2}})
      for (int64_t size : {1, 3, 7})
        for (bool winograd : {false, true})
          for (float last : {2.f, -0.f, INFINITY, NAN}) {
            if (winograd && (groups > 1 || size != 3 || in < 16 || out < 16)) continue;
            Tensor w = scaled(numbers({out, in / groups, size, size}), last);
            const Scaled* s = scaled_of(w);
            Conv c{.window = {.kernel = {1, size, size}, .stride = {1, 2, 2}, .pad = {0, size / 2, size / 2}},
                   .groups = groups,
                   .in_channels = in,
                   .out_channels = out,
                   .winograd = winograd,
                   .weights = s->from.data(),
                   .packed = false,
                   .scales = s->by.data()};
            std::copy_n(w.strides().data(), 2, c.weight_strides), std::copy_n(w.strides().data() + 2, 2, c.weight_strides + 3);
            if (winograd) c.window.stride[1] = c.window.stride[2] = 1;
            if (!packs_scaled(kernels, c)) continue;
            without_reading++;
            PackRequests requests;
            int at = requests.add(kernels, w, c);
            LinkedPlan plan = packed_by(requests, kernels, Workers(2));
            auto& packed = plan.packed;
            CHECK(scaled_of(w));
            settle(w);
            c.weights = w.data(), c.scales = nullptr;
            std::vector<char> wanted(static_cast<size_t>(packed_conv_bytes(kernels, c)));
            pack_conv(kernels, Workers(1), c, wanted.data());
            CHECK_MESSAGE(same(packed.at(static_cast<size_t>(at)), std::as_bytes(std::span(wanted))), in, " ", out, " ", groups, " ", size,
                          " ", winograd);
          }
  }
  CHECK(without_reading > 20);
}

TEST_CASE("scaled tensors are computed when a graph is asked for them") {
  Graph g;
  Tensor w = scaled(numbers({7, 11}), 2.f);
  TensorId id = g.add_tensor(w);
  CHECK(scaled_of(w)->by.size() == 7);
  CHECK(scaled_of(g.stored(id)));
  Graph copy = g;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; t++)
    threads.emplace_back([&, t] {
      const Tensor& read = (t % 2 ? g : copy).tensor(id);
      for (int64_t i = 0; i < 77; i++)
        CHECK(read.data_as<float>()[i] == static_cast<float>(i % 251 - 100) * (i < 66 ? 0.37f * static_cast<float>(i / 11) - 1.3f : 2.f));
    });
  for (std::thread& t : threads) t.join();
  CHECK(!scaled_of(w));
  CHECK(w.data() == g.tensor(id).data());
  settle(numbers({3})); // nothing to do
  CHECK(scaled(numbers({0, 5}), 1.f).numel() == 0);
}

TEST_CASE("large memory: neither overlaps nor moves, and goes back by itself") {
  LargeMemory memory;
  std::vector<std::shared_ptr<void>> all;
  for (size_t bytes : {size_t{1}, size_t{0}, size_t{4095}, size_t{3} << 20, size_t{70} << 20, size_t{1} << 20, size_t{5} << 20}) {
    all.push_back(memory.allocate(bytes));
    REQUIRE(all.back());
    CHECK(reinterpret_cast<uintptr_t>(all.back().get()) % 64 == 0);
    std::memset(all.back().get(), static_cast<int>(all.size()), bytes);
  }
  all[3] = {}; // its neighbours stay
  CHECK(static_cast<char*>(all[2].get())[4094] == 3);
  CHECK(static_cast<char*>(all[4].get())[(70 << 20) - 1] == 5);
  CHECK(static_cast<char*>(all[5].get())[0] == 6);
}

TEST_CASE("large memory fetched ahead: all, part or more of what is expected is used") {
  for (size_t used : {size_t{0}, size_t{1} << 20, size_t{8} << 20, size_t{30} << 20}) {
    Workers workers(2);
    LargeMemory memory(size_t{9} << 20, [&](std::function<void()> work) {
      if (used != size_t{1} << 20) workers.start(std::move(work)); // or never
    });
    std::vector<std::shared_ptr<void>> all;
    for (size_t at = 0; at < used; at += 1 << 20) all.push_back(memory.allocate(1 << 20));
    memory.settle();
    for (size_t i = 0; i < all.size(); i++) std::memset(all[i].get(), static_cast<int>(i + 1), 1 << 20);
    for (size_t i = 0; i < all.size(); i++)
      for (size_t at : {size_t{0}, (size_t{1} << 20) - 1}) CHECK(static_cast<char*>(all[i].get())[at] == static_cast<char>(i + 1));
    CHECK(memory.allocate(100));
  }
}

TEST_CASE("large memory: pages are fetched by threads that write, and joined while others read") {
  for (auto pages : {LargeMemory::Pages::Large, LargeMemory::Pages::Small}) {
    LargeMemory memory(pages);
    constexpr size_t bytes = (size_t{7} << 20) + 4160, count = 3;
    std::vector<std::shared_ptr<void>> all;
    for (size_t i = 0; i < count; i++) all.push_back(memory.allocate(bytes));
    memory.settle();
    CHECK(memory.has_small_pages() == (pages == LargeMemory::Pages::Small));
    std::vector<std::thread> threads;
    for (size_t t = 0; t < 4; t++) // each writes a quarter, and fetches that of another
      threads.emplace_back([&, t] {
        for (auto& p : all) {
          memory.fetch(static_cast<char*>(p.get()) + (t + 1) % 4 * bytes / 4, bytes / 4);
          std::memset(static_cast<char*>(p.get()) + t * bytes / 4, static_cast<int>(t + 1), bytes / 4);
        }
      });
    for (std::thread& t : threads) t.join();
    all[1] = {}; // its pages are not joined
    std::thread joins([&] {
      while (memory.join_pages()) {}
    });
    for (int round = 0; round < 3; round++)
      for (size_t i : {size_t{0}, size_t{2}})
        for (size_t at = 0; at < bytes / 4 * 4; at += 1021)
          CHECK(static_cast<char*>(all[i].get())[at] == static_cast<char>(at / (bytes / 4) + 1));
    joins.join();
    CHECK(!memory.join_pages());
  }
}

TEST_CASE("pages are joined from the second call on") {
  LargeMemory memory(LargeMemory::Pages::Small);
  std::shared_ptr<void> p = memory.allocate(size_t{9} << 20);
  std::memset(p.get(), 5, size_t{9} << 20);
  PageJoiner joiner(std::move(memory));
  CHECK(!joiner.is_running());
  for (int call = 0; call < 4; call++) joiner.begin_call();
  joiner.wait();
  for (size_t at = 0; at < size_t{9} << 20; at += 1021) CHECK(static_cast<char*>(p.get())[at] == 5);
}

TEST_CASE("pages of a mapped archive come back; memory of the caller is never dropped") {
  Archive a = Archive::map(sample_path("tiny.pt2"));
  std::string before(as_text(a.file()));
  drop_pages(a.file(), a.file());
  CHECK(as_text(a.file()) == before);
  CHECK(Archive::view(a.file(), "x").file().empty());
  Tensor t = numbers({1 << 14});
  drop_pages(memory_of(t), a.file());
  drop_pages(memory_of(t), {});
  CHECK(t.data_as<float>()[9999] == static_cast<float>(9999 % 251 - 100));
}

TEST_CASE("what another plan has packed in the same form serves again") {
  MicroKernels mk;
  const KernelTable& kernels = mk.table();
  int family = choose_family(kernels, DType::F32, DType::F32, any_size, any_size, any_size);
  const GemmFamily& f = kernels.family(family);
  Workers workers(2);
  Together together = [&](auto& work) { workers.together(work); };
  Tensor w = numbers({70, 33}), same_content = numbers({70, 33}), other = scaled(numbers({70, 33}), 2);
  settle(other);
  ProductWeights form{family, choose_panels(f, 33, 70), 0, 33, 1}, turned{family, choose_panels(f, 70, 33), 0, 1, 33};
  PackRequests first;
  LargeMemory place;
  int at = first.add(kernels, w, form);
  LinkedPlan base = packed_by(first, kernels, workers);
  auto mapped = memory_of(w); // stands for the mapped file
  struct Case {
    const Tensor& weights;
    const ProductWeights& form;
    bool shared;
  };
  for (const Case& c : {Case{w, form, true}, {same_content, form, true}, {other, form, false}, {w, turned, false}}) {
    PackRequests again;
    int number = again.add(kernels, c.weights, c.form);
    LinkedPlan plan;
    plan.micro_kernels = &kernels;
    size_t kept = again.pack(plan, place, together, {}, &base);
    std::span<const std::byte> span = plan.packed.at(static_cast<size_t>(number));
    CHECK((span.data() == base.packed.at(static_cast<size_t>(at)).data()) == c.shared);
    CHECK(kept == (c.shared ? 0 : span.size()));
    CHECK(plan.owned.size() == (c.shared ? 0u : 1u));
  }
  // Known by its place alone, without a look at what is there now.
  base.packed_from.at(static_cast<size_t>(at)) = {};
  PackRequests named, renamed;
  named.add(kernels, w, form);
  LinkedPlan source;
  source.micro_kernels = &kernels;
  named.pack(source, place, together, mapped);
  CHECK(source.packed_from.at(0).weights == w.data());
  w.data_as<float>()[0] = -1;
  renamed.add(kernels, w, form);
  LinkedPlan plan;
  plan.micro_kernels = &kernels;
  CHECK(renamed.pack(plan, place, together, mapped, &source) == 0);
}

} // namespace tenon::pack_weights_test
