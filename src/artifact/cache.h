// A folder of compiled programs that processes share. Entries appear whole or not at all; what cannot be used is removed.
#pragma once
#include <optional>

#include "artifact/artifact.h"

namespace tenon::artifact {

/// What decides of compiled code besides the program: this build of tenon, the machine, options.
std::string cache_key(const std::string& fingerprint, const Options& options);

class Cache {
public:
  /// Makes the folder where it is missing.
  Cache(std::string folder, uint64_t most_bytes) : folder_(std::move(folder)), most_bytes_(most_bytes) {}

  /// None: there is no such entry, or it is damaged or of other make, and is gone now.
  std::optional<Loaded> find(const std::string& key, const Workers& workers) const;
  /// Removes those used longest ago where the folder becomes too large. False: the entry cannot be written, or has no form in a file;
  /// nothing is left of it.
  bool put(const Description& description, const LinkedPlan& linked) const;

private:
  std::string path_of(const std::string& key) const;
  void shrink(const std::string& keep) const;

  std::string folder_;
  uint64_t most_bytes_;
};

} // namespace tenon::artifact
