// If this failed, several ranks would each train alone.
#include "comm/world.h"

#include "support/catch.h"
#include "support/error_of.h"

namespace tessera::comm {
namespace {

TEST_CASE("a plain start is a world of one rank") {
  const World world(Launch{});
  CHECK(world.size() == 1);
  CHECK(world.rank() == 0);
  CHECK(world.communicator()->size() == 1);
}

TEST_CASE("ranks that no MPI of ours joins are refused, naming who announced them and how to start them") {
  for (const auto launcher : {Launcher::other_mpi, Launcher::slurm}) {
    const auto error = test::error_of(
        [&] { const World world(Launch{.launcher = launcher, .ranks = 4, .rank = 2, .announced_by = "PMI_SIZE=4"}); });
    CHECK(error.find("4 ranks were announced (PMI_SIZE=4), but MPI sees 1") == 0);
    CHECK(error.find("mpirun -n 4") != std::string::npos);
    CHECK(error.find("srun --mpi=pmix -n 4") != std::string::npos);
  }
}

TEST_CASE("a body's exit code is the world's, and so is that of what it throws") {
  World world(Launch{});
  CHECK(world.run([] { return base::ExitCode::non_finite; }) == base::ExitCode::non_finite);
  CHECK(world.run([]() -> base::ExitCode { base::fail("a file is missing"); }) == base::ExitCode::bad_input);
  CHECK(world.run([]() -> base::ExitCode { throw std::runtime_error("no memory"); }) == base::ExitCode::rank_failed);
}

}  // namespace
}  // namespace tessera::comm
