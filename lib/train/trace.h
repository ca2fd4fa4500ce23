// Writes the timeline of a run as a file for Perfetto (ui.perfetto.dev) or chrome://tracing. Each rank has one lane for
// its compute, and further lanes for its collectives under way.
//
// Format: the JSON object of complete events ("ph": "X") of the Trace Event Format
// (https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "comm/communicator.h"
#include "executor/timeline.h"

namespace tessera::train {

// The first bytes of such a file.
inline constexpr std::string_view trace_begin = "{\"traceEvents\":[";

// Returns the number of events that each of `ranks` ranks keeps. It keeps the first ones of the run.
[[nodiscard]] std::size_t trace_events(std::int64_t ranks);

// Formats one rank's events, one line each, with a comma after each but the last. The process is `rank`, and times are
// microseconds since `origin` (in seconds). Collectives under way at the same time have lanes of their own.
[[nodiscard]] std::string format_trace(const std::vector<executor::TimelineEvent>& events, std::int64_t rank,
                                       double origin);

// Rank 0 writes the events of all ranks to `path`. `origin`: the time on this rank's clock at one moment that all ranks
// share, the end of a barrier. Collective over `world`. Throws AgreedError on every rank if the file cannot be written.
void write_trace(const base::Path& path, const std::vector<executor::TimelineEvent>& events, double origin,
                 comm::Communicator& world);

}  // namespace tessera::train
