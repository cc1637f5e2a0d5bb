// Loading: the file is mapped; its description is read, its weights stay where they are.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "artifact/format.h"
#include "base/stage.h"
#include "base/strided.h"
#include "codegen/codegen.h"
#include "codegen/hash.h"
#include "codegen/x86/micro_kernels.h"
#include "ops/custom.h"
#include "runtime/library_names.h"
#include "runtime/parallel.h"

namespace tenon::artifact {

namespace {

struct File {
  int fd = -1;
  explicit File(const std::string& path) : fd(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~File() {
    if (fd >= 0) close(fd);
  }
};

/// The pages are shared with all who map the file, until somebody writes to them, which nobody does.
std::shared_ptr<char> map_file(const std::string& path, size_t& size) {
  File file(path);
  struct stat info;
  if (file.fd < 0 || fstat(file.fd, &info) != 0) bad_input("cannot open {}: {}", path, std::strerror(errno));
  require_input(S_ISREG(info.st_mode), "{} is no file", path);
  size = static_cast<size_t>(info.st_size);
  require_input(size >= alignment, "{} is no compiled program, or cut off", path);
  void* p = mmap(nullptr, size, PROT_READ, MAP_SHARED, file.fd, 0);
  require_input(p != MAP_FAILED, "cannot map {}: {}", path, std::strerror(errno));
  return {static_cast<char*>(p), [size](char* at) { munmap(at, size); }};
}

class Loader {
public:
  Loader(const std::string& path, const Workers& workers) : path_(path), workers_(workers), memory_(map_file(path, size_)) {}

  Loaded run() {
    read_index();
    check_data();
    auto linked = std::make_shared<LinkedPlan>();
    linked->plan = std::move(index_.description.plan);
    Plan& plan = linked->plan;
    for (const StoredTensor& t : index_.constants) plan.constants.push_back(tensor(t));
    for (const StoredTensor& t : index_.state) plan.initial_state.push_back(tensor(t));
    for (const StoredBytes& b : index_.packed) linked->packed.push_back(data(b.at, b.bytes));
    linked->owned.push_back(memory_);
    check_operators();
    for (const std::string& name : plan.library) {
      linked->library.push_back(name.empty() ? ops::call_custom : library::find(name));
      require_input(linked->library.back() != nullptr, "{}: there is no library step {}", path_, name);
    }
    open_delegates(*linked);
    link_code(*linked);
    Loaded out{std::move(index_.description), std::move(linked)};
    return out;
  }

private:
  void read_index() {
    Header header;
    std::memcpy(&header, memory_.get(), sizeof header);
    require_input(std::equal(std::begin(magic), std::end(magic), header.magic), "{} is no compiled program", path_);
    require_input(header.format == format, "{}: compiled by another version of tenon (format {}, this one reads {}): compile it again",
                  path_, header.format, format);
    uint64_t rest = size_ - alignment;
    require_input(header.data_bytes <= rest && header.description_bytes == rest - header.data_bytes, "{} is cut off, or damaged", path_);
    Bytes text(reinterpret_cast<const std::byte*>(memory_.get()) + alignment + header.data_bytes,
               static_cast<size_t>(header.description_bytes));
    require_input(hash_of(text) == header.description_hash, "{} is damaged: its description has another checksum", path_);
    data_ = Bytes(reinterpret_cast<const std::byte*>(memory_.get()) + alignment, static_cast<size_t>(header.data_bytes));
    Reader reader(text, path_);
    reader(index_);
    require_input(reader.done(), "{} is damaged: there is more than its description", path_);
  }

  /// Fetches the pages, too, from where the system keeps them.
  void check_data() {
    size_t pieces = (data_.size() + piece_bytes - 1) / piece_bytes;
    require_input(index_.hashes.size() == pieces, "{} is damaged: checksums are missing", path_);
    std::atomic<bool> right = true;
    Stage stage("checksums", pieces);
    workers_.run(static_cast<int64_t>(pieces), 1, [&](int64_t begin, int64_t end, int) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); i++, stage.part_done()) {
        Bytes piece = data_.subspan(i * piece_bytes, std::min<size_t>(piece_bytes, data_.size() - i * piece_bytes));
        if (hash_of(piece) != index_.hashes[i]) right = false;
      }
    });
    require_input(right, "{} is damaged: weights have another checksum", path_);
  }

  void check_operators() const {
    for (auto& [number, text] : index_.description.operators)
      if (ops::custom_text(number) != text) unsupported("{} calls {}, which is not registered here", path_, text);
  }

  Bytes data(uint64_t at, uint64_t bytes) const {
    require_input(at <= data_.size() && bytes <= data_.size() - at, "{} is damaged: weights lie outside of it", path_);
    return data_.subspan(static_cast<size_t>(at), static_cast<size_t>(bytes));
  }
  Tensor tensor(const StoredTensor& t) const {
    size_t bytes = 0;
    require_input(count_bytes(t.sizes, size_of(t.dtype), bytes), "{} is damaged: a tensor's sizes", path_);
    void* at = const_cast<std::byte*>(data(t.at, bytes).data()); // nothing writes to a plan's tensors
    return Tensor(t.dtype, t.sizes, contiguous_strides(t.sizes), memory_, at);
  }

  void link_code(LinkedPlan& linked) {
    const Description& d = index_.description;
    Target target = host_target(d.isa);
    if (std::string here = describe(target); d.target != here)
      unsupported("{} was compiled for another kind of machine: for {}, this one is {}", path_, d.target, here);
    std::vector<CompiledKernel> kernels = link_kernels(d.objects, target);
    for (const CompiledKernel& k : kernels) linked.kernels.push_back(k.function);
    if (!kernels.empty()) linked.owned.push_back(kernels[0].code); // of all
    if (!d.has_narrow) target.amx_bf16 = target.amx_int8 = false;
    auto micro_kernels = std::make_shared<const MicroKernels>(target);
    linked.micro_kernels = &micro_kernels->table();
    linked.owned.push_back(std::move(micro_kernels));
    prepare_micro_kernels(linked.plan, *linked.micro_kernels);
  }

  const std::string& path_;
  const Workers& workers_;
  size_t size_ = 0;
  std::shared_ptr<char> memory_;
  Bytes data_;
  Index index_;
};

} // namespace

bool is_artifact(const std::string& path) {
  File file(path);
  char start[sizeof magic];
  return file.fd >= 0 && pread(file.fd, start, sizeof start, 0) == sizeof start && std::equal(std::begin(magic), std::end(magic), start);
}

Loaded load(const std::string& path, const Workers& workers) { return Loader(path, workers).run(); }

} // namespace tenon::artifact
