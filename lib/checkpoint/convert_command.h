// The command tessera-convert: checkpoints to HuggingFace folders and back, and what they hold.
#pragma once

namespace tessera::checkpoint {

// Reads the command line, converts or prints, prints an error once, returns the exit code. Under mpirun the ranks share
// the work.
[[nodiscard]] int run_convert_command(int argc, const char* const* argv);

}  // namespace tessera::checkpoint
