// Runs the command, and options for runs that end and resume.
#pragma once

#include <filesystem>
#include <string>

#include "support/run_output.h"
#include "support/small_run.h"

namespace tessera::test {

struct Ran {
  int code = 0;
  std::string err;
};

// Runs the command on the files of `run`: within this process, or under mpirun for several ranks.
[[nodiscard]] Ran train(const SmallRun& run, const Words& more, int ranks = 1);
// The same, but fails the test unless the exit code is 0.
Ran train_to_the_end(const SmallRun& run, const Words& more, int ranks = 1);

// Options that name the checkpoint to resume from, and the output folder.
[[nodiscard]] Words from(const std::filesystem::path& checkpoint);
[[nodiscard]] Words into(const std::filesystem::path& output);
inline const Words go_on{"--train.checkpoint.load_path", "auto"};
inline const Words every_step{"--train.checkpoint.save_steps", "1"};

}  // namespace tessera::test
