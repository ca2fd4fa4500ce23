// The command tessera-train.
#pragma once

namespace tessera::train {

// Reads the command line and does what it asks for. Prints an error once. Returns the exit code.
[[nodiscard]] int run_command(int argc, const char* const* argv);

}  // namespace tessera::train
