#include "comm/launch.h"

#include <charconv>
#include <cstdlib>

namespace tessera::comm {

namespace {

std::optional<std::int64_t> number(const Environment& environment, const char* name) {
  const auto text = environment(name);
  if (!text) return std::nullopt;
  std::int64_t value = 0;
  const auto* end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, value);
  if (error != std::errc() || stop != end || value < 0) return std::nullopt;
  return value;
}

struct Announcement {
  Launcher launcher;
  const char* ranks;
  const char* rank;
  const char* local_ranks;
};

constexpr Announcement announcements[] = {
    {Launcher::open_mpi, "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {Launcher::other_mpi, "PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS"},
    {Launcher::other_mpi, "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"},
    {Launcher::slurm, "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_STEP_TASKS_PER_NODE"},  // the tasks of this srun
    {Launcher::slurm, "SLURM_NTASKS", "SLURM_PROCID", "SLURM_NTASKS_PER_NODE"},
};

// srun --mpi=pmix: Open MPI learns the rest from PMIx when it starts.
std::optional<Launch> slurm_with_pmix(const Environment& environment) {
  const auto rank = number(environment, "PMIX_RANK");
  if (!rank || environment("OMPI_COMM_WORLD_SIZE")) return std::nullopt;
  for (const auto* name : {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}) {
    const auto ranks = number(environment, name);
    if (!ranks || *ranks < 1) continue;
    return Launch{.launcher = Launcher::open_mpi,
                  .ranks = *ranks,
                  .rank = *rank,
                  .local_ranks = number(environment, "SLURM_NTASKS_PER_NODE").value_or(1),
                  .announced_by = std::string(name) + "=" + std::to_string(*ranks)};
  }
  return std::nullopt;
}

}  // namespace

Launch read_launch(const Environment& environment) {
  if (const auto launch = slurm_with_pmix(environment)) return *launch;
  for (const auto& a : announcements) {
    const auto ranks = number(environment, a.ranks);
    if (!ranks || *ranks < 1) continue;
    Launch launch{
        .launcher = a.launcher, .ranks = *ranks, .announced_by = std::string(a.ranks) + "=" + std::to_string(*ranks)};
    launch.rank = number(environment, a.rank).value_or(0);
    launch.local_ranks = number(environment, a.local_ranks).value_or(1);
    return launch;
  }
  return {};
}

Launch read_launch() {
  return read_launch([](const char* name) -> std::optional<std::string> {
    const char* text = std::getenv(name);
    if (text == nullptr) return std::nullopt;
    return std::string(text);
  });
}

}  // namespace tessera::comm
