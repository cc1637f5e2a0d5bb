// pack_weights: the same bytes as packing one by one, whatever else is packed at once; memory that is let go of.
#include "compile/pack_weights.h"

#include <doctest/doctest.h>

#include <cstring>
#include <fstream>

#include "codegen/x86/micro_kernels.h"
#include "load/archive.h"
#include "tests/unit/load_samples.h"

namespace tenon {

namespace {

Tensor numbers(std::vector<int64_t> sizes) {
  Tensor t(DType::F32, std::move(sizes));
  for (int64_t i = 0; i < t.numel(); i++) t.data_as<float>()[i] = static_cast<float>(i % 251 - 100);
  return t;
}

bool same(const void* a, const void* b, int64_t bytes) { return std::memcmp(a, b, static_cast<size_t>(bytes)) == 0; }

} // namespace

TEST_CASE("products: all at once as one by one") {
  MicroKernels mk;
  const KernelTable& kernels = mk.table();
  int family = choose_family(kernels, DType::F32, DType::F32, any_size, any_size, any_size);
  const GemmFamily& f = kernels.families()[static_cast<size_t>(family)];
  for (int threads : {1, 3}) {
    PackRequests requests{LargeMemory()};
    std::vector<std::pair<const void*, std::vector<char>>> wanted;
    std::vector<Tensor> kept;
    for (int64_t k : {0, 1, 7, 64, 129, 1031})
      for (int64_t n : {1, 3, 16, 65, 517})
        for (bool by_rows : {false, true}) {
          Tensor w = numbers({k, n});
          ProductWeights form{family, choose_panels(f, n, k), 0, by_rows ? n : 1, by_rows ? 1 : k};
          const void* at = requests.add(kernels, w, form);
          CHECK(requests.add(kernels, w, form) == at);
          wanted.emplace_back(at, std::vector<char>(static_cast<size_t>(packed_b_bytes(kernels, family, k, n))));
          const PackSource from{w.data(), DType::F32, form.k_stride, form.n_stride};
          pack_panels(kernels, f, form.panels, from, 0, k, 0, form.panels.count(), wanted.back().second.data());
        }
    requests.pack(kernels, Workers(threads), {});
    for (auto& [at, bytes] : wanted) CHECK(same(at, bytes.data(), static_cast<int64_t>(bytes.size())));
  }
}

TEST_CASE("columns of slices: blocks of a vector of each, with zeros behind") {
  MicroKernels mk;
  const KernelTable& kernels = mk.table();
  int family = choose_family(kernels, DType::F32, DType::F32, any_size, any_size, any_size);
  const GemmFamily& f = kernels.families()[static_cast<size_t>(family)];
  int64_t k = 19, width = 21, slices = 3, lanes = f.lanes, padded = (width + lanes - 1) / lanes * lanes;
  Tensor w = numbers({slices * width, k}), woven(DType::F32, {padded * slices, k});
  std::memset(woven.data(), 0, static_cast<size_t>(woven.numel()) * 4);
  for (int64_t s = 0; s < slices; s++)
    for (int64_t c = 0; c < width; c++)
      std::memcpy(woven.data_as<float>() + ((c / lanes * slices + s) * lanes + c % lanes) * k, w.data_as<float>() + (s * width + c) * k,
                  static_cast<size_t>(k) * 4);
  PackRequests requests{LargeMemory()};
  Panels panels = choose_panels(f, padded * slices, k, 3);
  const void* at = requests.add(kernels, w, {family, panels, 0, 1, k, slices, width});
  const void* plain = requests.add(kernels, woven, {family, panels, 0, 1, k});
  requests.pack(kernels, Workers(2), {});
  CHECK(same(at, plain, panels.bytes()));
}

TEST_CASE("convolutions: all at once as one by one") {
  MicroKernels mk;
  const KernelTable& kernels = mk.table();
  Workers workers(3);
  PackRequests requests{LargeMemory()};
  std::vector<std::pair<const void*, std::vector<char>>> wanted;
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
          const void* at = requests.add(kernels, w, c);
          CHECK(requests.add(kernels, w, c) == at);
          wanted.emplace_back(at, std::vector<char>(static_cast<size_t>(bytes)));
          pack_conv(kernels, workers, c, wanted.back().second.data());
        }
  requests.pack(kernels, workers, {});
  for (auto& [at, bytes] : wanted) CHECK(same(at, bytes.data(), static_cast<int64_t>(bytes.size())));
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
    LargeMemory memory(size_t{9} << 20);
    std::vector<std::shared_ptr<void>> all;
    for (size_t at = 0; at < used; at += 1 << 20) all.push_back(memory.allocate(1 << 20));
    memory.settle();
    for (size_t i = 0; i < all.size(); i++) std::memset(all[i].get(), static_cast<int>(i + 1), 1 << 20);
    for (size_t i = 0; i < all.size(); i++)
      for (size_t at : {size_t{0}, (size_t{1} << 20) - 1}) CHECK(static_cast<char*>(all[i].get())[at] == static_cast<char>(i + 1));
    CHECK(memory.allocate(100));
  }
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

} // namespace tenon
