// If this failed, ranks on GPUs would train other numbers than one rank on a CPU, or wait for the GPU more than once
// per layer. Runs on the stand-in for a GPU, whose memory MPI carries.
#include <cmath>
#include <map>

#include "placed_run.h"
#include "support/catch.h"
#include "support/ranks.h"
#include "support/torch_double/aliased_communicator.h"

namespace tessera::test {
namespace {

PlacedRun on_gpus(const SmallRun& files, const Words& words) {
  return PlacedRun(files.settings(words), device::Place::cuda, world().communicator(),
                   std::make_shared<AliasedCommunicator>(world().communicator()));
}

std::vector<Words> layouts() {
  std::vector<Words> list{{},
                          extra({"ep"}, {"2"}),
                          extra({"emb"}, {"2"}),
                          joined(extra({"ep", "emb"}, {"2", "2"}), {accelerator + "overlap_exchange", "true"}),
                          {accelerator + "fsdp_config.fsdp_mode", "ddp"},
                          {accelerator + "fsdp_config.fsdp_mode", "zero2"},
                          {"--train.debug.poison_freed", "true"},
                          joined(extra({"ep"}, {"2"}), {"--train.gradient_checkpointing.enable", "true"})};
  if (world().size() == 4) {
    list.push_back(extra({"ep"}, {"4"}));
    list.push_back(joined(extra({"ep", "emb"}, {"2", "4"}), {accelerator + "dp_replicate_size", "1"}));
    list.push_back(joined(extra({"ep"}, {"2"}), {accelerator + "dp_replicate_size", "2"}));
  }
  return list;
}

TEST_CASE("ranks on GPUs have the losses, norms and loads of one rank on the CPU, in float32") {
  const SmallRun files;
  PlacedRun alone(files.settings(joined(numbers, {"--train.micro_batch_size", std::to_string(world().size())})),
                  device::Place::cpu);
  const auto expected = alone.train(5);
  for (const auto& words : layouts()) {
    CAPTURE(words);
    auto run = on_gpus(files, joined(numbers, words));
    const auto found = run.train(5);
    bool right = true;
    for (std::size_t k = 0; k < expected.size(); ++k) {
      const auto near = [](double a, double b) { return std::abs(a - b) <= 1e-5 * std::abs(b); };
      right &= found[k].outcome == executor::Outcome::done && near(found[k].cross_entropy, expected[k].cross_entropy) &&
               near(found[k].balance_loss, expected[k].balance_loss) &&
               near(found[k].grad_norm, expected[k].grad_norm) && found[k].expert_load == expected[k].expert_load;
    }
    CHECK_ON_ALL(right);
  }
}

TEST_CASE("ranks without sequences take part: of none a GPU makes nothing, in either type") {
  const SmallRun files;
  const Words one{"--train.global_batch_size", "1", "--model.hidden_size", "24", "--model.moe_intermediate_size", "16"};
  PlacedRun alone(files.settings(joined(one, {"--train.precision", "float32"})), device::Place::cpu);
  const auto expected = alone.train(2);
  for (const auto& words : {Words{}, extra({"ep", "emb"}, {"2", "2"})}) {
    for (const std::string precision : {"float32", "bfloat16"}) {
      CAPTURE(words, precision);
      auto run = on_gpus(files, joined(one, joined(words, {"--train.precision", precision})));
      const auto found = run.train(2);
      const double bar = precision == "float32" ? 1e-5 : 1e-2;
      bool right = true;
      for (std::size_t k = 0; k < expected.size(); ++k)
        right &= found[k].outcome == executor::Outcome::done &&
                 std::abs(found[k].cross_entropy - expected[k].cross_entropy) <= bar * expected[k].cross_entropy;
      CHECK_ON_ALL(right);
    }
  }
}

TEST_CASE("with experts on other ranks the host waits for the GPU once a MoE layer, and for what close reads") {
  const SmallRun files;
  // Sizes that grouped products take. Two layers of three are MoE; a micro-step a step.
  auto run =
      on_gpus(files, joined(extra({"ep"}, {"2"}), {"--train.precision", "bfloat16", "--model.hidden_size", "24",
                                                   "--model.moe_intermediate_size", "16", "--train.global_batch_size",
                                                   std::to_string(world().size())}));
  static_cast<void>(run.train(1));
  torch_double::reset_synchronisations();
  static_cast<void>(run.train(1));
  std::map<std::string, int> waits;
  for (const auto& name : torch_double::counted_synchronisations()) ++waits[name];
  CHECK_ON_ALL((waits == std::map<std::string, int>{{"copy to host", 2 + 4}}));
}

}  // namespace
}  // namespace tessera::test
