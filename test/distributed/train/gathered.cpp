#include "gathered.h"

#include <ATen/ops/zeros.h>

#include <algorithm>

#include "comm/element_type.h"
#include "support/catch.h"
#include "support/ranks.h"

namespace tessera::test {

Words groups(const std::vector<std::pair<std::string, std::int64_t>>& sizes) {
  Words names{"--train.accelerator.extra_parallel_names"}, numbers{"--train.accelerator.extra_parallel_sizes"};
  for (const auto& [name, size] : sizes) {
    names.push_back(name);
    numbers.push_back(std::to_string(size));
  }
  return joined(std::move(names), numbers);
}

at::Tensor gathered(const fsdp::ShardedParameter& parameter, const at::Tensor& shard) {
  auto whole = at::zeros(parameter.placement.parameter.shape, shard.options());
  if (parameter.is_primary) part_of(whole, parameter.box).copy_(shard);
  world()
      .communicator()
      ->all_reduce(whole.data_ptr(), whole.numel(), comm::element_type(whole.scalar_type()), comm::ReduceOperation::add,
                   nullptr)
      ->wait();
  return whole;
}

TensorsByName gathered_masters(train::Assembly& assembly) {
  TensorsByName whole;
  for (const auto& p : assembly.store().parameters()) whole[p.placement.parameter.fqn] = gathered(p, p.master);
  return whole;
}

TensorsByName gathered_gradients(train::Assembly& assembly, const TensorsByName& shards) {
  TensorsByName whole;
  for (const auto& p : assembly.store().parameters()) {
    const auto& fqn = p.placement.parameter.fqn;
    whole[fqn] = gathered(p, shards.at(fqn));
  }
  return whole;
}

std::vector<std::uint64_t> hashes_of_ranks(std::uint64_t hash) {
  const auto all = comm::numbers_of_ranks(*world().communicator(), static_cast<std::int64_t>(hash));
  return {all.begin(), all.end()};
}

executor::StepResult train_step(train::Assembly& assembly, const Start::Step& step, double lr) {
  auto inputs = step.inputs;
  inputs.lr = lr;
  auto result = assembly.executor().run(assembly.program(program::StepKind::train, step.windows), std::move(inputs));
  REQUIRE(result.outcome == executor::Outcome::done);
  return result;
}

}  // namespace tessera::test
