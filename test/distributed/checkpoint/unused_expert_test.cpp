// If this failed, an expert that no token has reached yet would have other values after a resume, or on another rank.
#include <ATen/core/Tensor.h>

#include <cmath>

#include "checkpoint/saver.h"
#include "checkpoint/stored_checkpoint.h"
#include "layouts.h"
#include "shared_folder.h"
#include "support/catch.h"
#include "support/ranks.h"
#include "support/run_output.h"
#include "unsynced_files.h"

namespace tessera::test {
namespace {

constexpr std::int64_t all_steps = 5, saved_after = 2;

bool is_router(const fsdp::ShardedParameter& p) { return p.placement.parameter.fqn.ends_with("mlp.gate.weight"); }

// Until the save every token goes to the first two of five experts, afterwards to all of them.
void set_routers(train::Assembly& assembly, std::int64_t step) {
  for (auto& p : assembly.store().parameters()) {
    if (!is_router(p) || step > saved_after) continue;
    p.master.zero_();  // of equal probabilities the lowest experts' are chosen
    if (step < saved_after) continue;
    for (std::int64_t e = 0; e < p.master.size(0); ++e)
      for (std::int64_t h = 0; h < p.master.size(1); ++h)
        p.master[e][h] =
            std::sin(static_cast<double>(1 + 5 * (p.box.dims[0].begin + e) + 3 * (p.box.dims[1].begin + h)));
  }
}

config::Settings settings_of(const SmallRun& run, const CheckpointLayout& layout) {
  return run.settings(joined(
      {"--train.precision", "float64", "--train.global_batch_size", "12", "--train.micro_batch_size",
       std::to_string(12 / layout.ranks), "--model.balance_loss", "sequence", "--train.optimizer.weight_decay", "0.1"},
      layout.words));
}

void take_step(Start& start, const std::vector<Start::Step>& batches, std::int64_t step, double lr) {
  set_routers(start.assembly(), step);
  auto inputs = batches[static_cast<std::size_t>(step)].inputs;
  inputs.lr = lr;
  auto& assembly = start.assembly();
  const auto windows = batches[static_cast<std::size_t>(step)].windows;
  const auto result = assembly.executor().run(assembly.program(program::StepKind::train, windows), std::move(inputs));
  for (const auto& layer : result.expert_load)
    for (std::size_t expert = 2; expert < layer.size(); ++expert) CHECK((layer[expert] > 0) == (step >= saved_after));
}

void save(train::Assembly& assembly, const std::filesystem::path& output, std::int64_t step) {
  UnsyncedFiles files;
  if (assembly.rank() == 0) files.make_folder(output);
  assembly.world().barrier();
  checkpoint::Saver saver({.output = output}, assembly.store(), assembly.optimizer(), assembly.blueprint().layout,
                          assembly.world(), files);
  saver.start(
      {{.step = step, .optimizer_steps = assembly.optimizer().steps(), .total_steps = all_steps}, "", "{}", "{}"},
      checkpoint::SaveMode::wait);
  REQUIRE_FALSE(saver.finish()->failure.has_value());
}

// The steps after those of `stored`, or all; saves after step `saved_after` and after the last.
void go(const SmallRun& run, const CheckpointLayout& layout, const std::shared_ptr<comm::Communicator>& group,
        checkpoint::StoredCheckpoint* stored, const std::filesystem::path& output) {
  const auto settings = settings_of(run, layout);
  Start start(blueprint_of(settings, layout.ranks), group, stored);
  const auto batches = start.steps(all_steps);
  for (std::int64_t step = stored != nullptr ? saved_after : 0; step < all_steps; ++step) {
    take_step(start, batches, step, settings.train.optimizer.lr);
    if (step + 1 == saved_after || step + 1 == all_steps) save(start.assembly(), output, step + 1);
  }
}

const std::vector<std::string> of_experts{"gate_proj", "up_proj", "down_proj"};

TEST_CASE("OPT-1: an expert that was never used has its moments in the file, and goes on as if nothing had been") {
  const SmallRun run;
  const SharedFolder folder;
  TensorsByName of_one_rank;
  std::size_t number = 0;
  for (const auto& layout :
       {CheckpointLayout{1, {}}, CheckpointLayout{4, groups_of({{"ep", 2}})},
        CheckpointLayout{4, groups_of({{"ep", 4}}, Placed::outer)}, CheckpointLayout{3, preset("ddp")}}) {
    INFO(layout.describe());
    const auto whole = folder.path() / std::to_string(number),
               resumed = folder.path() / (std::to_string(number) + "_resumed");
    ++number;
    const auto group = group_of_first(layout.ranks);
    if (group != nullptr) {
      go(run, layout, group, nullptr, whole);
      checkpoint::StoredCheckpoint stored(checkpoint_of(whole, saved_after));
      go(run, layout, group, &stored, resumed);
    }
    world().communicator()->barrier();
    const auto at_save = states_of(checkpoint_of(whole, saved_after));
    for (const auto& matrix : of_experts) {
      const auto& moment = at_save.at("exp_avg/model.layers.1.mlp.experts." + matrix);
      CHECK(moment.narrow(0, 0, 2).abs().max().item<double>() > 0);
      CHECK(moment.narrow(0, 2, 3).abs().max().item<double>() == 0);
    }
    const auto at_end = states_of(checkpoint_of(whole, all_steps));
    CHECK(at_end.at("exp_avg/model.layers.1.mlp.experts.gate_proj").narrow(0, 2, 3).abs().max().item<double>() > 0);
    CHECK(same_bits(at_end, states_of(checkpoint_of(resumed, all_steps))));
    if (of_one_rank.empty()) of_one_rank = at_end;
    CHECK(largest_deviation(at_end, of_one_rank) <= 1e-10);
  }
}

}  // namespace
}  // namespace tessera::test
