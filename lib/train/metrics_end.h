// Where a resumed run goes on in metrics.jsonl. The file may be larger than memory: it is read from its end, as far as
// the step, and cut in place.
#pragma once

#include <cstdint>
#include <optional>

#include "base/file.h"
#include "train/metrics.h"

namespace tessera::train {

// What the last lines of a metrics file say of step `step` and what came after it.
struct MetricsEnd {
  std::int64_t last_step = 0;       // the last of which a line tells that is not later than the step; 0: there is none
  std::uint64_t bytes_to_step = 0;  // up to the end of its lines
  // The evaluation after the step, and the bytes up to its end.
  std::optional<EvaluationMetrics> evaluation;
  std::uint64_t bytes_to_evaluation = 0;
  std::uint64_t bytes_of_lines = 0;  // up to the last line that is whole
};

// Needs memory for a block and the longest line. A last line that a killed run left unfinished is passed over.
// Error(bad_input) naming file and byte of a line that is no object of such a file, or is longer than one can be.
[[nodiscard]] MetricsEnd read_metrics_end(const base::Path& path, std::int64_t step);

// Only the first `bytes` of the file remain. Error(bad_input) with path and reason.
void cut_file(const base::Path& path, std::uint64_t bytes);

}  // namespace tessera::train
