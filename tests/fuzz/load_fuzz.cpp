// libFuzzer entry for the loaders. Byte 0 selects: 0 zip archive, 1 torch.save file, 2 bare pickle (in an archive made
// around it), 3 .npz, 4 .npy, 5 the model.json of a .pt2, 6 a .pt2 of any age. Whatever the rest, the loaders may only return or throw
// tenon::Error that is not Internal. tests/slow.sh builds and runs it.
//
//   mkdir corpus && load_fuzz --seed tests/fixtures/load corpus   # first inputs, from the samples; the same for programs
//   load_fuzz corpus
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "load/archive.h"
#include "load/load.h"
#include "load/npz.h"
#include "load/pickle.h"
#include "tests/fuzz/zip.h"

namespace fs = std::filesystem;

namespace {

using namespace tenon;

/// Reads every element, so that a tensor that reaches out of its memory is seen.
void touch(const Tensor& t) {
  if (static_cast<size_t>(t.numel()) * size_of(t.dtype()) > size_t{1} << 20) return; // an expanded view may be enormous
  Tensor dense = t.contiguous();
  volatile uint8_t sum = 0;
  for (int64_t i = 0; i < dense.numel() * static_cast<int64_t>(size_of(dense.dtype())); i++) sum = sum + dense.data_as<uint8_t>()[i];
}

/// A zip of data.pkl = `pickle` and a storage data/0 of 64 bytes.
std::string archive_around(Bytes pickle) {
  return fuzz::zip_of({{"a/data/0", std::string(64, '\1')}, {"a/data.pkl", std::string(as_text(pickle))}});
}

void read_pickle(Bytes bytes) {
  for (auto& leaf : flatten(load_torch_save(bytes, nullptr)))
    if (auto* t = leaf.as<Tensor>()) touch(*t);
}

void read(int selector, Bytes bytes) {
  switch (selector) {
  case 0: {
    Archive a = Archive::view(bytes, "input");
    for (auto name : a.names()) a.check_crc(name, a.read(name, 1 << 24).bytes);
    return;
  }
  case 1: return read_pickle(bytes);
  case 2: return read_pickle(as_byte_span(archive_around(bytes)));
  case 3:
    for (auto& array : read_npz(Archive::view(bytes, "input"), NpyU2::AsBF16)) touch(array.tensor);
    return;
  case 4: return touch(read_npy(bytes, nullptr, "input", NpyU2::AsBF16).tensor);
  case 5: load_pt2(as_byte_span(fuzz::zip_of({{"a/models/model.json", std::string(as_text(bytes))}})), "input"); return;
  case 6: load_example_inputs(load_pt2(bytes, "input")); return;
  default: return;
  }
}

/// Writes each sample file as an input of the selector that suits it.
int seed(const fs::path& samples, const fs::path& corpus) {
  auto write = [&](const fs::path& name, char selector, std::string_view data) {
    std::ofstream(corpus / name, std::ios::binary) << selector << data;
  };
  for (auto& file : fs::directory_iterator(samples)) {
    std::ifstream in(file.path(), std::ios::binary);
    std::string data{std::istreambuf_iterator<char>(in), {}}, kind = file.path().extension(), name = file.path().filename();
    if (kind == ".pt2" || kind == ".npz" || kind == ".pt") write(name + ".zip", 0, data);
    if (kind == ".npz") write(name, 3, data);
    if (kind == ".npy") write(name, 4, data);
    if (kind == ".pt2") write(name + ".load", 6, data);
    if (kind == ".pt2")
      if (Archive a = Archive::view(as_byte_span(data), name); a.find("models/model.json"))
        write(name + ".json", 5, as_text(*a.find("models/model.json")));
    if (kind != ".pt") continue;
    write(name, 1, data);
    try {
      write(name + ".pkl", 2, as_text(Archive::view(as_byte_span(data), name).get("data.pkl")));
    } catch (const Error&) { // the legacy file is no zip
    }
  }
  return 0;
}

} // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  if (*argc == 4 && std::string_view((*argv)[1]) == "--seed") std::exit(seed((*argv)[2], (*argv)[3]));
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  try {
    read(data[0], std::as_bytes(std::span(data, size).subspan(1)));
  } catch (const Error& e) {
    if (e.kind == ErrorKind::Internal) {
      std::fprintf(stderr, "internal error: %s\n", e.what());
      std::abort();
    }
  }
  return 0;
}
