// The command tessera-convert: converts checkpoints to HuggingFace folders and back, and inspects both.
#pragma once

namespace tessera::checkpoint {

// Reads the command line, converts or inspects, prints an error once, and returns the exit code. Under mpirun the ranks
// share the work.
[[nodiscard]] int run_convert_command(int argc, const char* const* argv);

}  // namespace tessera::checkpoint
