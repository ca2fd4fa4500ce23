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
    {Launcher::slurm, "SLURM_NTASKS", "SLURM_PROCID", "SLURM_NTASKS_PER_NODE"},
};

}  // namespace

Launch read_launch(const Environment& environment) {
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
