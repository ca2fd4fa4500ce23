// If this failed, several ranks would train each for itself as if alone.
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

TEST_CASE("announced ranks are refused, naming who announced them and what to start instead") {
  for (const auto launcher : {Launcher::open_mpi, Launcher::other_mpi, Launcher::slurm}) {
    const auto error = test::error_of(
        [&] { const World world(Launch{.launcher = launcher, .ranks = 4, .rank = 2, .announced_by = "PMI_SIZE=4"}); });
    CHECK(error.find("4 ranks were started (PMI_SIZE=4)") == 0);
    CHECK(error.find("not built yet") != std::string::npos);
    CHECK(error.find("mpirun -n 1") != std::string::npos);
  }
}

}  // namespace
}  // namespace tessera::comm
