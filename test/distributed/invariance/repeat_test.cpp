// If this failed, the same run would give other bits when repeated: a fault could not be reproduced, and a resumed run
// would differ from the uninterrupted one.
#include <algorithm>

#include "layout_case.h"
#include "support/catch.h"
#include "support/delaying_communicator.h"
#include "support/ranks.h"
#include "support/small_run.h"

namespace tessera::test {
namespace {

struct Traced {
  std::vector<double> numbers;  // losses and norms of each step
  TensorsByName masters;
};

Traced train(const config::Settings& settings, const std::shared_ptr<comm::Communicator>& ranks) {
  constexpr std::int64_t steps = 5;
  Start start(settings, ranks);
  auto& assembly = start.assembly();
  Traced traced;
  for (const auto& step : start.steps(steps)) {
    auto inputs = step.inputs;
    inputs.lr = settings.train.optimizer.lr;
    const auto result =
        assembly.executor().run(assembly.program(program::StepKind::train, step.windows), std::move(inputs));
    for (const auto number : {result.cross_entropy, result.balance_loss, result.z_loss, result.grad_norm})
      traced.numbers.push_back(number);
  }
  for (const auto& p : assembly.store().parameters()) traced.masters[p.placement.parameter.fqn] = p.master.clone();
  return traced;
}

std::vector<LayoutCase> cases() {
  std::vector<LayoutCase> list;
  for (const auto mode : {Mode::fsdp2, Mode::zero1, Mode::ddp}) {
    auto& c = list.emplace_back();
    c.world = world().size();
    c.groups = Groups::ep_emb;
    c.mode = mode;
    c.micro_steps = MicroSteps::two;
    c.overlap = Overlap::on;
    c.head = Head::tied;
    c.optimizer = Optimizer::adamw;
    c.recompute = mode == Mode::zero1 ? Recompute::full : Recompute::none;
    c.buffers = mode == Mode::fsdp2 ? Buffers::always_copied : Buffers::bound;
  }
  return list;
}

TEST_CASE("the same layout gives the same bits, whoever arrives first") {
  const SmallRun files;
  files.folder().write("plan.json", plan_with_own_group());
  for (const auto& c : cases()) {
    INFO(c.describe());
    auto words = c.words(files.folder() / "plan.json");
    words.insert(words.end(), {"--train.precision", "float32"});
    const auto settings = files.settings(words);
    const auto expected = train(settings, world().communicator());
    for (const std::uint32_t seed : {1U, 2U}) {
      const auto delayed = std::make_shared<DelayingCommunicator>(world().communicator(), seed);
      const auto again = train(settings, delayed);
      CHECK_ON_ALL(again.numbers == expected.numbers);
      CHECK_ON_ALL(same_bits(again.masters, expected.masters));
    }
  }
}

}  // namespace
}  // namespace tessera::test
