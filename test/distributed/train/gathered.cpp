#include "gathered.h"

#include <ATen/ops/zeros.h>

#include <algorithm>

#include "fsdp/element_type.h"
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

Words joined(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

at::Tensor gathered(const fsdp::ShardedParameter& parameter, const at::Tensor& shard) {
  auto whole = at::zeros(parameter.placement.parameter.shape, shard.options());
  if (parameter.is_primary) {
    auto part = whole;
    for (std::size_t d = 0; d < parameter.box.dims.size(); ++d)
      part = part.narrow(static_cast<std::int64_t>(d), parameter.box.dims[d].begin, parameter.box.dims[d].size());
    part.copy_(shard);
  }
  world()
      .communicator()
      ->all_reduce(whole.data_ptr(), whole.numel(), fsdp::element_type(whole.scalar_type()), comm::ReduceOperation::add,
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
  std::vector<std::int64_t> all(static_cast<std::size_t>(world().size()));
  all[static_cast<std::size_t>(world().rank())] = static_cast<std::int64_t>(hash);
  world()
      .communicator()
      ->all_reduce(all.data(), world().size(), comm::ElementType::int64, comm::ReduceOperation::add, nullptr)
      ->wait();
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
