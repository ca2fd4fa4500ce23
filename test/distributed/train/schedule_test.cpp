// If this failed, the order of micro-steps would change what a step computes.
#include "program/schedule.h"

#include "gathered.h"
#include "program/builder.h"
#include "support/about.h"
#include "support/catch.h"
#include "support/ranks.h"

namespace tessera::test {
namespace {

using program::Direction;

TEST_CASE("a step of one forward, one backward has the losses and gradients of one micro-step after the other") {
  constexpr auto F = Direction::forward, B = Direction::backward;
  const program::Schedule schedule{{{{{0, F}}}}, {{{{1, F}}}}, {{{{0, B}}}}, {{{{2, F}}}}, {{{{1, B}}}}, {{{{2, B}}}}};
  for (const char* mode : {"fsdp2", "zero1", "zero2", "ddp"})
    for (const char* recompute : {"false", "true"}) {
      CAPTURE(mode, recompute);
      const SmallRun files;
      Start start(
          files.settings(joined(groups({{"ep", 2}}),
                                {"--train.precision", "float64", "--train.accelerator.fsdp_config.fsdp_mode", mode,
                                 "--train.gradient_checkpointing.enable", recompute, "--train.micro_batch_size", "1",
                                 "--train.global_batch_size", std::to_string(3 * world().size())})),
          world().communicator());
      const auto step = start.steps(1).front();
      const auto expected = gradients(start.assembly(), step);
      const auto& blueprint = start.assembly().blueprint();
      auto options = program::builder_options(blueprint.settings);
      options.micro_steps = 3;
      const auto found = gradients(
          start.assembly(),
          program::build_program(blueprint.architecture, blueprint.placements, blueprint.layout, options, schedule),
          step.inputs);
      CHECK(found.result.cross_entropy == about(expected.result.cross_entropy).epsilon(1e-12));
      CHECK(found.result.balance_loss == about(expected.result.balance_loss).epsilon(1e-12));
      CHECK(found.result.grad_norm == about(expected.result.grad_norm).epsilon(1e-12));
      CHECK(largest_deviation(found.of, expected.of) < 1e-12);
    }
}

}  // namespace
}  // namespace tessera::test
