// A recording in the format of Perfetto: TrackEvents in protobuf (protos/perfetto/trace/track_event of its sources), which
// ui.perfetto.dev and trace_processor read.
#pragma once
#include <string>
#include <string_view>

#include "base/timeline.h"

namespace tenon {

/// A track for each thread, with its spans; one below it with the temporaries of its calls; one for all with the number of busy threads.
std::string perfetto_trace(Recording& recording, std::string_view process);

} // namespace tenon
