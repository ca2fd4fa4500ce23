// Finds where a resumed run continues metrics.jsonl. The file may be larger than the memory: it is read backwards from
// its end to the step, and cut in place.
#pragma once

#include <cstdint>
#include <optional>

#include "base/file.h"
#include "train/metrics.h"

namespace tessera::train {

// The last lines of a metrics file, from those of a given step on.
struct MetricsEnd {
  std::int64_t last_step = 0;       // the last step in the file that is not later than the given one; 0: there is none
  std::uint64_t bytes_to_step = 0;  // bytes of the file up to the end of that step's lines
  std::optional<EvaluationMetrics> evaluation;  // the evaluation after that step
  std::uint64_t bytes_to_evaluation = 0;        // bytes of the file up to the end of its line
  std::uint64_t bytes_of_lines = 0;             // bytes of the file up to the end of the last whole line
};

// Passes over a last line that a killed run left unfinished. Needs memory for a block and the longest line. Throws
// Error(bad_input), naming file and byte, if a line is no object of a metrics file or is longer than one can be.
[[nodiscard]] MetricsEnd read_metrics_end(const base::Path& path, std::int64_t step);

// Cuts the file to its first `bytes`. Throws Error(bad_input) with path and reason.
void cut_file(const base::Path& path, std::uint64_t bytes);

}  // namespace tessera::train
