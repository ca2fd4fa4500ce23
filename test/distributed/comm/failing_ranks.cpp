// Acts of ranks that fail, for failure_test.cpp:  failing_ranks ACT RANK  under mpirun. What rank RANK does, or fails
// to do, ends the job; the others wait for it in a collective.
#include <csignal>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include <unistd.h>

#include "base/log.h"
#include "comm/metered.h"
#include "comm/world.h"

namespace tessera::comm {
namespace {

void sum(Communicator& group) {
  std::vector<float> data(5003, 1.0F);
  group.all_reduce(data.data(), 5003, ElementType::float32, ReduceOperation::add, nullptr)->wait();
}

void throw_on(World& world, std::int64_t rank) {
  if (world.rank() == rank) throw base::Error(base::ExitCode::non_finite, "the loss is not finite");
  sum(*world.communicator());
}

void throw_together(World& world, std::int64_t) {
  world.communicator()->barrier();
  throw std::runtime_error("the same on every rank");
}

void be_killed(World& world, std::int64_t rank) {
  if (world.rank() == rank) ::kill(::getpid(), SIGKILL);
  sum(*world.communicator());
}

void stay_away(World& world, std::int64_t rank) {
  world.communicator()->barrier();
  if (world.rank() == rank) ::sleep(600);
  sum(*world.communicator());
}

void stay_away_from_a_gather(World& world, std::int64_t rank, std::int64_t elements) {
  Metered group(world.communicator(), "fsdp");
  group.set_label("Forward layers.2");
  if (world.rank() == rank) ::sleep(600);
  std::vector<float> data(static_cast<std::size_t>(elements * world.size()));
  GatherBlock block{.type = ElementType::float32, .pieces = {}};
  for (std::int64_t k = 0; k < world.size(); ++k)
    block.pieces.push_back({data.data() + elements * k, 1, elements, elements});
  group.set_label("Gather layers.3.experts");
  const auto handle = group.gather_blocks({block}, nullptr);
  group.set_label("Wait Gather layers.3.experts");
  handle->wait();
}

void stay_away_from_a_small_gather(World& world, std::int64_t rank) { stay_away_from_a_gather(world, rank, 500); }

// Of 2 MiB a rank, which ranks of a host read from each other.
void stay_away_from_a_large_gather(World& world, std::int64_t rank) { stay_away_from_a_gather(world, rank, 1 << 19); }

void agree_to_fail(World& world, std::int64_t rank) {
  agree_on(*world.communicator(), [&] {
    if (world.rank() == rank) base::fail("shard 3 cannot be read");
  });
}

using Act = void (*)(World&, std::int64_t);

base::ExitCode play(const std::string& act, std::int64_t rank) {
  const std::map<std::string, Act> acts{{"throw", throw_on},
                                        {"throw together", throw_together},
                                        {"be killed", be_killed},
                                        {"stay away", stay_away},
                                        {"stay away from a small gather", stay_away_from_a_small_gather},
                                        {"stay away from a large gather", stay_away_from_a_large_gather},
                                        {"agree to fail", agree_to_fail},
                                        {"escape", throw_on}};
  World world(read_launch(), {.timeout_s = act.starts_with("stay away") ? 3.0 : 120.0});
  const auto body = [&] {
    acts.at(act)(world, rank);
    return base::ExitCode::done;
  };
  return act == "escape" ? body() : world.run(body);  // "escape": the exception passes the world
}

}  // namespace
}  // namespace tessera::comm

int main(int argc, char** argv) {
  if (argc != 3) return 64;
  try {
    return static_cast<int>(tessera::comm::play(argv[1], std::stoll(argv[2])));
  } catch (const std::exception& error) {
    tessera::base::log_error("{}", error.what());
    return 1;
  }
}
