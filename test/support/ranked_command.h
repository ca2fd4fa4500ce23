// The program under mpirun, as its users start it: several ranks on this machine, one command, one exit code.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "support/command.h"

namespace tessera::test {

// What lets mpirun start more ranks than cores, as root and in a container.
[[nodiscard]] const std::map<std::string, std::string>& mpi_environment();

// `mpirun -n ranks` and its further options; a program and its words follow.
[[nodiscard]] std::vector<std::string> mpirun(int ranks, const std::vector<std::string>& options = {});

// `mpirun -n ranks tessera-train words...`, to its end.
[[nodiscard]] Finished run_ranks(int ranks, const std::vector<std::string>& words,
                                 const std::vector<std::string>& options = {});

// The process of rank `rank` that `mpirun` started on this machine; -1 if it is not there (yet).
[[nodiscard]] pid_t process_of_rank(const Command& mpirun, int rank);

// Waits until `file` has `lines` whole lines; false if `mpirun` has ended, or a minute has passed, before.
[[nodiscard]] bool wait_for_lines(const Command& mpirun, const std::string& file, std::int64_t lines);

}  // namespace tessera::test
