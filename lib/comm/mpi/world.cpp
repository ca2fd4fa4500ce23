#include "comm/world.h"

#include <malloc.h>
#include <mpi.h>

#include "base/error.h"

namespace tessera::comm {

namespace {

// glibc returns freed blocks above the threshold to the system at once; a step would map and zero them again and again.
void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 2'000'000'000);
  mallopt(M_TOP_PAD, 64 << 20);
}

void refuse_many(std::int64_t ranks, const std::string& announced_by) {
  base::require(ranks <= 1,
                "{} ranks were started ({}); training on more than one rank is not built yet; "
                "start one: tessera-train config.json, or mpirun -n 1 tessera-train config.json",
                ranks, announced_by);
}

}  // namespace

World::World(const Launch& launch) : communicator_(solo_communicator()) {
  refuse_many(launch.ranks, launch.announced_by);
  keep_freed_memory();
  if (launch.launcher != Launcher::open_mpi) return;
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (initialized != 0) return;
  int provided = 0;
  const int result = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
  base::require(result == MPI_SUCCESS, "MPI did not start (MPI_Init_thread returned {})", result);
  started_mpi_ = true;
  int ranks = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks > 1) {
    MPI_Finalize();
    refuse_many(ranks, "MPI_COMM_WORLD");
  }
}

World::~World() {
  if (started_mpi_) MPI_Finalize();
}

}  // namespace tessera::comm
