// Timelines: recordings as users see them.
#include "tenon/timeline.h"

#include <cerrno>
#include <cstring>
#include <fstream>

#include "api/impl.h"
#include "base/timeline.h"
#include "pages/perfetto.h"

namespace tenon {

Result<Timeline> Timeline::start() {
  return guarded([&] {
    std::shared_ptr<Recording> recording = Recording::start();
    require_input(recording != nullptr, "another timeline is being recorded");
    return Timeline(std::move(recording));
  });
}

Timeline::~Timeline() { stop(); }

void Timeline::stop() {
  if (recording_) recording_->stop();
}

std::string Timeline::trace(const std::string& process) const { return recording_ ? perfetto_trace(*recording_, process) : ""; }

Status Timeline::write(const std::string& path, const std::string& process) const {
  auto done = guarded([&] {
    std::ofstream out(path, std::ios::binary);
    out << trace(process);
    out.close();
    require_input(out.good(), "cannot write {}: {}", path, std::strerror(errno));
    return true;
  });
  return done ? Status() : Status(done.error());
}

} // namespace tenon
