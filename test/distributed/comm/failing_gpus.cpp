// Acts of ranks that fail while their GPUs work, for gpu_failure_test.cpp:  failing_gpus ACT RANK  under mpirun, on the
// double of the GPU. What rank RANK does, or fails to do, ends the job; the others wait for it.
#include <cuda_runtime_api.h>
#include <unistd.h>

#include <map>
#include <string>
#include <vector>

#include "base/log.h"
#include "comm/nccl.h"
#include "comm/world.h"
#include "device/memory.h"
#include "device/stream.h"

namespace tessera::comm {
namespace {

constexpr std::int64_t elements = 500;  // of each rank

// A gather of each rank's floats.
struct Gather {
  explicit Gather(std::int64_t ranks)
      : memory(device::allocate(device::MemoryKind::cuda, elements * ranks * 4)), block{.type = ElementType::float32} {
    for (std::int64_t k = 0; k < ranks; ++k)
      block.pieces.push_back({memory.get() + 4 * elements * k, 1, elements, elements});
  }
  device::Memory memory;
  GatherBlock block;
};

void wait_for_gpu(Handle handle) {
  handle->wait();
  device::Stream::compute().synchronize();
}

void stay_away_from_a_gather(World& world, Communicator& gpus, std::int64_t rank) {
  const Gather gather(world.size());
  wait_for_gpu(gpus.gather_blocks({gather.block}, nullptr));
  gpus.set_name("fsdp");
  gpus.set_label("Forward layers.2");
  if (world.rank() == rank) ::sleep(600);
  gpus.set_label("Gather layers.3.experts");
  auto handle = gpus.gather_blocks({gather.block}, nullptr);
  gpus.set_label("Wait Gather layers.3.experts");
  wait_for_gpu(std::move(handle));
}

void never_come(World& world, Communicator& gpus, std::int64_t rank) {
  world.communicator()->barrier();
  if (world.rank() == rank) ::sleep(600);
  const Gather gather(world.size());
  wait_for_gpu(gpus.gather_blocks({gather.block}, nullptr));
}

// With a gather under way that the others never start.
void throw_in_a_gather(World& world, Communicator& gpus, std::int64_t rank) {
  const Gather gather(world.size());
  wait_for_gpu(gpus.gather_blocks({gather.block}, nullptr));
  if (world.rank() == rank) {
    const auto handle = gpus.gather_blocks({gather.block}, nullptr);
    throw base::Error(base::ExitCode::non_finite, "the loss is not finite");
  }
  world.communicator()->barrier();
}

using Act = void (*)(World&, Communicator&, std::int64_t);

base::ExitCode play(const std::string& act, std::int64_t rank) {
  const std::map<std::string, Act> acts{{"stay away from a gather", stay_away_from_a_gather},
                                        {"never come", never_come},
                                        {"throw in a gather", throw_in_a_gather}};
  World world(read_launch(), {.timeout_s = act == "throw in a gather" ? 120.0 : 3.0});
  cudaSetDevice(static_cast<int>(world.rank()));
  return world.run([&] {
    const auto gpus = nccl_communicator(world);
    acts.at(act)(world, *gpus, rank);
    return base::ExitCode::done;
  });
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
