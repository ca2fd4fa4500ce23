// Reads the output folder of a run: lines of metrics.jsonl and checkpoints.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "support/small_run.h"

namespace tessera::test {

// The lines of metrics.jsonl without times and traffic: per line its numbers (std::nullopt for null) and its expert
// load.
using Measured =
    std::vector<std::pair<std::map<std::string, std::optional<double>>, std::vector<std::vector<std::int64_t>>>>;
[[nodiscard]] Measured measured(const std::filesystem::path& output);
// Returns the lines after step `step`.
[[nodiscard]] Measured after(const Measured& lines, double step);

// Returns the names of the checkpoints, such as "step_000002".
[[nodiscard]] std::set<std::string> checkpoints_in(const std::filesystem::path& output);
// Reads every master and moment of a checkpoint, whole, in its own type.
[[nodiscard]] TensorsByName states_of(const std::filesystem::path& checkpoint);
[[nodiscard]] std::filesystem::path checkpoint_of(const std::filesystem::path& output, std::int64_t step);

// Copies an output folder, in the state in which a run leaves it that is killed some steps after the save of step
// `step`.
void copy_as_killed(const std::filesystem::path& output, std::int64_t step, const std::filesystem::path& to);

}  // namespace tessera::test
