// If this failed, trained weights or moments would change when a checkpoint is loaded in another layout.
#include <cmath>

#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>

#include "checkpoint/folder.h"
#include "checkpoint/saver.h"
#include "comm/element_type.h"
#include "layouts.h"
#include "shared_folder.h"
#include "support/catch.h"
#include "support/ranks.h"
#include "unsynced_files.h"

namespace tessera::test {
namespace {

// Returns a whole state from the shards of its primary holders: put in place and summed, without the code under test.
at::Tensor gathered(train::Assembly& assembly, const fsdp::ShardedParameter& p, const at::Tensor& shard) {
  auto whole = at::zeros(p.placement.parameter.shape, shard.options());
  if (p.is_primary) part_of(whole, p.box).copy_(shard);
  assembly.world()
      .all_reduce(whole.data_ptr(), whole.numel(), comm::element_type(whole.scalar_type()), comm::ReduceOperation::add,
                  nullptr)
      ->wait();
  return whole;
}

// Masters and moments; the same on every rank of the run.
TensorsByName gathered_states(train::Assembly& assembly) {
  TensorsByName whole;
  auto& store = assembly.store();
  for (const auto& p : store.parameters()) whole[p.placement.parameter.fqn] = gathered(assembly, p, p.master);
  for (const auto& moment : assembly.optimizer().state())
    whole[moment.fqn + "/" + moment.name] = gathered(assembly, store.parameter(moment.fqn), moment.tensor);
  return whole;
}

double loss_of(Start& start, const Start::Step& step, double lr) {
  auto inputs = step.inputs;
  inputs.lr = lr;
  auto& assembly = start.assembly();
  const auto result =
      assembly.executor().run(assembly.program(program::StepKind::train, step.windows), std::move(inputs));
  return result.cross_entropy + 0.02 * result.balance_loss;
}

constexpr std::int64_t steps = 3;

struct Common {
  Words words;
  [[nodiscard]] config::Settings settings(const SmallRun& run, const CheckpointLayout& layout) const {
    return run.settings(joined(joined({"--train.global_batch_size", "12", "--train.micro_batch_size",
                                       std::to_string(12 / layout.ranks), "--model.balance_loss", "sequence"},
                                      words),
                               layout.words));
  }
};

struct Went {
  TensorsByName states;  // when it was saved
  double next_loss = 0;  // of the step after
};

// Trains, saves into `output`, and takes one more step. Returns nothing on ranks that take no part.
Went train_and_save(const SmallRun& run, const Common& common, const CheckpointLayout& layout,
                    const std::filesystem::path& output) {
  UnsyncedFiles files;
  const auto settings = common.settings(run, layout);
  const auto start = start_on(layout.ranks, settings);
  Went went;
  if (start == nullptr) return went;
  auto& assembly = start->assembly();
  const auto batches = start->steps(steps + 1);
  for (std::int64_t k = 0; k < steps; ++k)
    loss_of(*start, batches[static_cast<std::size_t>(k)], settings.train.optimizer.lr);
  went.states = gathered_states(assembly);
  checkpoint::Saver saver({.output = output}, assembly.store(), assembly.optimizer(), assembly.blueprint().layout,
                          assembly.world(), files);
  if (assembly.rank() == 0) files.make_folder(output);
  assembly.world().barrier();
  saver.start({{.step = steps, .optimizer_steps = assembly.optimizer().steps(), .total_steps = 9}, "", "{}", "{}"},
              checkpoint::SaveMode::background);
  // The step goes on while its shards are copied and written.
  went.next_loss = loss_of(*start, batches.back(), settings.train.optimizer.lr);
  const auto result = saver.finish();
  if (!result.has_value() || result->failure.has_value()) went.states.clear();
  return went;
}

// A load: bitwise what was saved, and the next loss within `tolerance`.
void check_load(const SmallRun& run, const Common& common, const CheckpointLayout& layout,
                const std::filesystem::path& output, const Went& expected, double tolerance) {
  INFO("loaded in " << layout.describe());
  const auto settings = common.settings(run, layout);
  const auto group = group_of_first(layout.ranks);
  bool same = true, counts = true;
  double loss = expected.next_loss;
  if (group != nullptr) {
    checkpoint::StoredCheckpoint stored(checkpoint::find_checkpoint(output));
    Start start(blueprint_of(settings, layout.ranks), group, &stored);
    const auto states = gathered_states(start.assembly());
    same = same_bits(states, expected.states) && states.size() == 3 * start.assembly().store().parameters().size();
    counts = start.assembly().optimizer().steps() == steps;
    loss = loss_of(start, start.steps(steps + 1).back(), settings.train.optimizer.lr);
  }
  INFO("loss " << loss << ", expected " << expected.next_loss);
  CHECK_ON_ALL(same);
  CHECK_ON_ALL(counts);
  CHECK_ON_ALL(std::abs(loss - expected.next_loss) <= tolerance * expected.next_loss);
}

// Rank 0 takes part in every layout: what it saw is what all compare with.
Went of_rank_0(Went went, const std::vector<base::ParameterSpec>& parameters) {
  const auto broadcast = [](void* data, std::int64_t elements, comm::ElementType type) {
    world().communicator()->broadcast(data, elements, type, 0, nullptr)->wait();
  };
  broadcast(&went.next_loss, 1, comm::ElementType::float64);
  for (const auto& p : parameters)
    for (const char* state : {"", "/exp_avg", "/exp_avg_sq"}) {
      auto& tensor = went.states[p.fqn + state];
      if (!tensor.defined()) tensor = at::zeros(p.shape, at::kFloat);
      broadcast(tensor.data_ptr(), tensor.numel(), comm::ElementType::float32);
    }
  return went;
}

void check(const Common& common, const std::vector<CheckpointLayout>& saved,
           const std::vector<CheckpointLayout>& loaded) {
  const SmallRun run;
  const SharedFolder folder;
  const auto parameters = blueprint_of(common.settings(run, {}), 1).architecture.parameters();
  for (std::size_t k = 0; k < saved.size(); ++k) {
    INFO("saved in " << saved[k].describe());
    const auto output = folder.path() / std::to_string(k);
    const auto went = of_rank_0(train_and_save(run, common, saved[k], output), parameters);
    for (const auto& layout : loaded) check_load(run, common, layout, output, went, 1e-6);
  }
}

TEST_CASE("CKP-1: weights, both moments and the count of steps follow a run to other ranks, and so does its loss") {
  check({}, {{4, groups_of({{"ep", 2}})}},
        {{1, {}}, {2, groups_of({{"ep", 2}})}, {4, groups_of({{"ep", 4}})}, {3, {}}, {4, groups_of({{"ep", 2}})}});
}

TEST_CASE("CKP-6: outer groups, replicas and two groups at once: nine pairs") {
  const std::vector<CheckpointLayout> three{{4, groups_of({{"ep", 2}}, Placed::outer)},
                                            {4, joined(replicas(2, 4), groups_of({{"ep", 2}}))},
                                            {4, groups_of({{"ep", 2}, {"emb", 4}})}};
  check({}, three, three);
}

TEST_CASE("SHD-2: a router of two rows and norms of two or six, over four ranks, are loaded by four and by three") {
  for (const auto& sizes :
       {Words{"--model.num_experts", "2"}, Words{"--model.head_dim", "6"}, Words{"--model.head_dim", "2"}}) {
    INFO(sizes[0] << " " << sizes[1]);
    check({sizes}, {{4, {}}}, {{4, {}}, {3, {}}});
  }
}

}  // namespace
}  // namespace tessera::test
