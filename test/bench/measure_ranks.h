// Measures calls that several ranks make together, for the small benchmarks under mpirun.
#pragma once

#include <mpi.h>

#include "base/clock.h"
#include "bench/measure.h"

namespace tessera::bench {

// Collective over all ranks. Returns the seconds that the slowest rank needs, counted from a barrier.
template <class Call>
double time_of(const Call& call) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double began = base::seconds_now();
  call();
  double seconds = base::seconds_now() - began;
  MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return seconds;
}

}  // namespace tessera::bench
