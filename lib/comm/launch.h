// Reads from environment variables how this process was launched: by which launcher, as which of how many ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace tessera::comm {

enum class Launcher { none, open_mpi, other_mpi, slurm };

struct Launch {
  Launcher launcher = Launcher::none;
  std::int64_t ranks = 1;
  std::int64_t rank = 0;
  std::int64_t local_ranks = 1;  // ranks on this host
  std::string announced_by;      // the variable that gave `ranks`: "OMPI_COMM_WORLD_SIZE=4"; empty: none
};

// Returns the value of an environment variable, or nothing if it is not set.
using Environment = std::function<std::optional<std::string>(const char* name)>;

// Looks for Open MPI's variables first (mpirun), then for Slurm's where PMIX_RANK shows that Open MPI can start from
// them (srun --mpi=pmix), then for those of other launchers: PMI_SIZE (MPICH, Intel MPI), MV2_COMM_WORLD_SIZE
// (MVAPICH), SLURM_STEP_NUM_TASKS and SLURM_NTASKS. Ignores a number of ranks that is not a positive number.
[[nodiscard]] Launch read_launch(const Environment& environment);

// Reads the environment of this process.
[[nodiscard]] Launch read_launch();

}  // namespace tessera::comm
