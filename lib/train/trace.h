// The timeline of a run as a file for Perfetto (ui.perfetto.dev) or chrome://tracing: for each rank one lane of what it
// computes, and lanes of what is under way for it.
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

// What such a file begins with.
inline constexpr std::string_view trace_begin = "{\"traceEvents\":[";

// Events that each of `ranks` ranks keeps: the first so many of the run.
[[nodiscard]] std::size_t trace_events(std::int64_t ranks);

// One rank's events, a line each, with a comma between; process `rank`, times in microseconds since `origin`. What is
// under way at the same time is in lanes of its own.
[[nodiscard]] std::string format_trace(const std::vector<executor::TimelineEvent>& events, std::int64_t rank,
                                       double origin);

// Collective over `world`: rank 0 writes the events of all ranks to `path`. `origin` is a moment that all ranks share,
// by each one's clock: the end of a barrier. A failure is every rank's Error.
void write_trace(const base::Path& path, const std::vector<executor::TimelineEvent>& events, double origin,
                 comm::Communicator& world);

}  // namespace tessera::train
