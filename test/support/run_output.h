// What a run leaves in its output folder: its lines and its checkpoints.
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

// The lines of metrics.jsonl but for times and traffic. Nothing: a number that is null.
using Measured =
    std::vector<std::pair<std::map<std::string, std::optional<double>>, std::vector<std::vector<std::int64_t>>>>;
[[nodiscard]] Measured measured(const std::filesystem::path& output);
// Of these the ones that came after step `step`.
[[nodiscard]] Measured after(const Measured& lines, double step);

// Names of the checkpoints: "step_000002".
[[nodiscard]] std::set<std::string> checkpoints_in(const std::filesystem::path& output);
// Every master and moment of a checkpoint, whole, in its own type.
[[nodiscard]] TensorsByName states_of(const std::filesystem::path& checkpoint);
[[nodiscard]] std::filesystem::path checkpoint_of(const std::filesystem::path& output, std::int64_t step);

// A copy of an output folder as a run leaves it that is killed some steps after the save of step `step`.
void copy_as_killed(const std::filesystem::path& output, std::int64_t step, const std::filesystem::path& to);

}  // namespace tessera::test
