// Acts of ranks that fail, for failure_test.cpp:  failing_ranks ACT RANK  under mpirun. What rank RANK does, or fails
// to do, ends the job; the others wait for it in a collective.
#include <chrono>
#include <csignal>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include "base/clock.h"
#include "base/disk_work.h"
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

void work_on_a_disk(double seconds, double sign_every_s) {
  const std::string file = "out/a file";
  base::DiskWork work("sync", file);
  const auto end = base::seconds_now() + seconds;
  while (base::seconds_now() < end) {
    std::this_thread::sleep_for(std::chrono::duration<double>(sign_every_s));
    work.has_gone_on();
  }
}

// The others wait for `rank`, which is at work in a file for longer than timeout_s; ranks 0 and 2, of three, do not
// meet it: rank 0 waits for rank 2, which waits for it.
void stay_away_at_a_disk(World& world, std::int64_t rank) {
  const bool is_at_work = world.rank() == rank, is_first = world.rank() == 0;
  const std::vector<std::int64_t> first{0, 2}, last{1, 2}, alone{world.rank()};
  const auto beside = world.communicator()->make_group(is_at_work ? alone : first);
  const auto with = world.communicator()->make_group(is_first ? alone : last);
  if (is_at_work) work_on_a_disk(7, 7);
  if (!is_first) sum(*with);
  if (!is_at_work) sum(*beside);
}

void stay_away_beside_one_at_a_disk(World& world, std::int64_t rank) {
  if (world.rank() == rank) ::sleep(600);
  std::thread at_work;
  if (world.rank() == 0) at_work = std::thread([] { work_on_a_disk(600, 0.1); });
  sum(*world.communicator());
}

// Each waits for the other, and has heard that it was at work.
void stay_away_crosswise(World& world, std::int64_t rank) {
  const std::vector<std::int64_t> both{0, 1};
  const auto one = world.communicator()->make_group(both), other = world.communicator()->make_group(both);
  for (std::int64_t working = 0; working < world.size(); ++working) {
    if (world.rank() == working) work_on_a_disk(2, 0.1);
    world.communicator()->barrier();
  }
  sum(world.rank() == rank ? *one : *other);
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

// 2 MiB per rank, which ranks of a host read from each other.
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
                                        {"stay away at a disk", stay_away_at_a_disk},
                                        {"stay away beside one at a disk", stay_away_beside_one_at_a_disk},
                                        {"stay away crosswise", stay_away_crosswise},
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
