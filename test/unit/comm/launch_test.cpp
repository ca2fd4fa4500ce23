// If this failed, each of several processes could take itself for the only one (and overwrite the others' results).
#include "comm/launch.h"

#include <map>

#include "support/catch.h"

namespace tessera::comm {
namespace {

Launch launch_of(const std::map<std::string, std::string>& variables) {
  return read_launch([&](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  });
}

TEST_CASE("an empty environment is one rank of no launcher") {
  const auto launch = launch_of({});
  CHECK(launch.launcher == Launcher::none);
  CHECK(launch.ranks == 1);
  CHECK(launch.rank == 0);
}

TEST_CASE("every launcher's variables are read") {
  struct Case {
    const char *ranks, *rank;
    Launcher launcher;
  };
  for (const auto& c : {Case{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", Launcher::open_mpi},
                        Case{"PMI_SIZE", "PMI_RANK", Launcher::other_mpi},
                        Case{"MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK", Launcher::other_mpi},
                        Case{"SLURM_STEP_NUM_TASKS", "SLURM_PROCID", Launcher::slurm},
                        Case{"SLURM_NTASKS", "SLURM_PROCID", Launcher::slurm}}) {
    INFO(c.ranks);
    const auto launch = launch_of({{c.ranks, "5"}, {c.rank, "3"}});
    CHECK(launch.launcher == c.launcher);
    CHECK(launch.ranks == 5);
    CHECK(launch.rank == 3);
    CHECK(launch.announced_by == std::string(c.ranks) + "=5");
  }
}

TEST_CASE("mpirun within a Slurm job counts mpirun's ranks, not the job's tasks") {
  const auto launch = launch_of({{"OMPI_COMM_WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_RANK", "0"}, {"SLURM_NTASKS", "4"}});
  CHECK(launch.launcher == Launcher::open_mpi);
  CHECK(launch.ranks == 1);
}

TEST_CASE("a srun of one task in a job of four is one rank, with and without PMIx") {
  const std::map<std::string, std::string> variables{
      {"SLURM_NTASKS", "4"}, {"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_PROCID", "0"}};
  CHECK(launch_of(variables).launcher == Launcher::slurm);
  CHECK(launch_of(variables).ranks == 1);
  auto with_pmix = variables;
  with_pmix.emplace("PMIX_RANK", "0");
  CHECK(launch_of(with_pmix).launcher == Launcher::open_mpi);
  CHECK(launch_of(with_pmix).ranks == 1);
}

TEST_CASE("Slurm starts ranks of Open MPI where it speaks PMIx") {
  const auto launch = launch_of({{"PMIX_RANK", "2"}, {"SLURM_NTASKS", "8"}, {"SLURM_STEP_NUM_TASKS", "4"}});
  CHECK(launch.launcher == Launcher::open_mpi);
  CHECK(launch.ranks == 4);
  CHECK(launch.rank == 2);
  CHECK(launch.announced_by == "SLURM_STEP_NUM_TASKS=4");
}

TEST_CASE("what is no positive number announces nothing") {
  for (const char* text : {"", "0", "-2", "4x", "four", " 4", "99999999999999999999"}) {
    INFO("'" << text << "'");
    CHECK(launch_of({{"SLURM_NTASKS", text}}).launcher == Launcher::none);
  }
}

}  // namespace
}  // namespace tessera::comm
