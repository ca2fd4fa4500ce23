// If this failed, a run on several GPUs would read data that have not arrived, send unfinished data, or reuse memory
// that a collective still needs. Runs on the stand-in for a GPU beside the double of CUDA's streams and of NCCL:
// LibTorch's operations are on the default stream, collectives on their lanes, and every access must be ordered.
#include <cmath>

#include "comm/nccl.h"
#include "comm/staged.h"
#include "cuda_backing.h"
#include "placed_run.h"
#include "support/catch.h"
#include "support/cuda_double/cuda_double.h"
#include "support/ranks.h"

namespace tessera::test {
namespace {

enum class Over { nccl, nccl_padded, host };

std::shared_ptr<comm::Communicator> gpu_world(Over over) {
  use_gpu_of_double(static_cast<int>(world().rank()));
  if (over == Over::host) return comm::staged_communicator(world().communicator());
  const auto uneven = over == Over::nccl ? comm::UnevenBlocks::send_receive : comm::UnevenBlocks::padded;
  return comm::nccl_communicator(world(), {.uneven_blocks = uneven});
}

std::vector<executor::StepResult> train_on_gpus(const SmallRun& files, const Words& words, Over over) {
  PlacedRun run(files.settings(joined(numbers, words)), device::Place::cuda, world().communicator(), gpu_world(over));
  auto results = run.train(2);
  check_at_rest("after two steps");
  return results;
}

bool near(double a, double b) { return std::abs(a - b) <= 1e-5 * std::abs(b); }

TEST_CASE("steps on several GPUs order every access, and have the losses and norms of one rank on the CPU") {
  const SmallRun files;
  PlacedRun alone(files.settings(joined(numbers, {"--train.micro_batch_size", std::to_string(world().size())})),
                  device::Place::cpu);
  const auto expected = alone.train(2);
  set_delays(7, 100);
  const auto ranks = std::to_string(world().size());
  const auto check = [&](const Words& words, Over over) {
    CAPTURE(words, static_cast<int>(over));
    const auto found = train_on_gpus(files, words, over);
    bool right = true;
    for (std::size_t k = 0; k < expected.size(); ++k)
      right &= found[k].outcome == executor::Outcome::done && near(found[k].cross_entropy, expected[k].cross_entropy) &&
               near(found[k].grad_norm, expected[k].grad_norm) && found[k].expert_load == expected[k].expert_load;
    CHECK_ON_ALL(right);
  };
  check({}, Over::nccl);
  check(extra({"ep"}, {ranks}), Over::nccl);
  check(joined(extra({"ep", "emb"}, {"2", "2"}), {accelerator + "overlap_exchange", "true"}), Over::nccl);
  check(joined(extra({"ep"}, {"2"}), {accelerator + "fsdp_config.prefetch_depth", "4"}), Over::nccl);
  check({accelerator + "fsdp_config.fsdp_mode", "zero2"}, Over::nccl);
  check({accelerator + "fsdp_config.fsdp_mode", "ddp"}, Over::nccl);
  check(joined(extra({"ep"}, {"2"}), {"--train.gradient_checkpointing.enable", "true"}), Over::nccl);
  check({"--train.debug.poison_freed", "true"}, Over::nccl);
  check(extra({"ep"}, {"2"}), Over::nccl_padded);
  check(extra({"ep", "emb"}, {"2", "2"}), Over::host);
}

}  // namespace
}  // namespace tessera::test
