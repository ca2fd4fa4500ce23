// Runs programs under mpirun, as users start them: several ranks on this machine, one command, one exit code.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "support/command.h"

namespace tessera::test {

// The environment that lets mpirun start more ranks than cores, as root and in a container.
[[nodiscard]] const std::map<std::string, std::string>& mpi_environment();

// Returns `mpirun -n ranks` and its further options, to be followed by a program and its words.
[[nodiscard]] std::vector<std::string> mpirun(int ranks, const std::vector<std::string>& options = {});

// Runs `mpirun -n ranks tessera-train words...` to its end.
[[nodiscard]] Finished run_ranks(int ranks, const std::vector<std::string>& words,
                                 const std::vector<std::string>& options = {});

// Returns the process of rank `rank` that `mpirun` started on this machine; -1 if there is none (yet).
[[nodiscard]] pid_t process_of_rank(const Command& mpirun, int rank);

// Waits until `file` has `lines` whole lines; returns false if `mpirun` ends, or a minute passes, before that.
[[nodiscard]] bool wait_for_lines(const Command& mpirun, const std::string& file, std::int64_t lines);

}  // namespace tessera::test
