// What the environment says about how this process was started.
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
  std::string announced_by;      // "OMPI_COMM_WORLD_SIZE=4"
};

// Reads a variable of the environment; nothing if it is not set.
using Environment = std::function<std::optional<std::string>(const char* name)>;

// Open MPI's variables first (mpirun), then Slurm's where PMIX_RANK shows that Open MPI can start from them (srun
// --mpi=pmix), then those of other launchers: PMI_SIZE (MPICH, Intel MPI), MV2_COMM_WORLD_SIZE (MVAPICH), SLURM_NTASKS.
// A variable that is no positive number is ignored.
[[nodiscard]] Launch read_launch(const Environment& environment);

// The same for this process.
[[nodiscard]] Launch read_launch();

}  // namespace tessera::comm
