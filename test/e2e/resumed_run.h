// Runs of the command that end and go on, and what they leave behind.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "support/small_run.h"

namespace tessera::test {

struct Ran {
  int code = 0;
  std::string err;
};

// The command on the files of `run`: within this process, or under mpirun.
[[nodiscard]] Ran train(const SmallRun& run, const Words& more, int ranks = 1);
// The same; fails the test unless the exit code is 0.
Ran train_to_the_end(const SmallRun& run, const Words& more, int ranks = 1);

// What a run goes on from.
[[nodiscard]] Words from(const std::filesystem::path& checkpoint);
[[nodiscard]] Words into(const std::filesystem::path& output);
inline const Words go_on{"--train.checkpoint.load_path", "auto"};
inline const Words every_step{"--train.checkpoint.save_steps", "1"};

// The lines of metrics.jsonl but for times and traffic.
using Measured = std::vector<std::pair<std::map<std::string, double>, std::vector<std::vector<std::int64_t>>>>;
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
