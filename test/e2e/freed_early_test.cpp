// If this failed, debug.poison_freed would not detect a unit that is freed before its last use.
#include <algorithm>
#include <cmath>

#include "program/order_checks.h"
#include "support/catch.h"
#include "support/small_run.h"

namespace tessera::test {
namespace {

const Words poisoned{"--train.debug.poison_freed", "true", "--train.precision", "float64"};

std::ptrdiff_t line_of(const program::Program& program, const std::string& line, std::ptrdiff_t after = 0) {
  const auto lines = program::describe(program);
  const auto found = std::find(lines.begin() + after, lines.end(), line);
  REQUIRE(found != lines.end());
  return found - lines.begin();
}

// Runs a step in which the first Free of `unit` behind `use` stands before it.
executor::StepResult run_freeing_early(const Words& words, const std::string& unit, const std::string& use) {
  const SmallRun files;
  Start start(files.settings(words));
  const auto step = start.steps(1).front();
  auto program = start.assembly().program(program::StepKind::train, step.windows);
  const auto user = line_of(program, use);
  const auto free = line_of(program, "Free " + unit, user);
  const auto first = program.instructions.begin();
  std::rotate(first + user, first + free, first + free + 1);
  CHECK_FALSE(program::check_order(program).empty());
  return start.assembly().executor().run(program, step.inputs);
}

void check_not_finite(const executor::StepResult& result) {
  CHECK(result.outcome == executor::Outcome::non_finite);
  CHECK_FALSE(std::isfinite(result.grad_norm));
}

TEST_CASE("a unit freed one instruction before its Forward gives NaN, in the loss and in the gradients") {
  for (const auto& [unit, use] : {std::pair{"layers.1.attention", "Forward m0 output_product[1]"},
                                  {"layers.1.experts", "Forward m0 experts[1]"},
                                  {"layers.0.attention", "Forward m0 project[0]"},
                                  {"embed", "Forward m0 lookup"}}) {
    INFO(unit << " before " << use);
    const auto result = run_freeing_early(poisoned, unit, use);
    check_not_finite(result);
    CHECK_FALSE(std::isfinite(result.cross_entropy));
  }
}

TEST_CASE("a unit freed one instruction before its Backward gives NaN in the gradients only") {
  for (const auto& [unit, use] :
       {std::pair{"layers.1.attention", "Backward m0 project[1]"}, {"layers.1.experts", "Backward m0 experts[1]"}}) {
    INFO(unit << " before " << use);
    const auto result = run_freeing_early(poisoned, unit, use);
    check_not_finite(result);
    CHECK(std::isfinite(result.cross_entropy));
  }
}

TEST_CASE("a unit freed one instruction before its Recompute gives NaN in the gradients only") {
  auto words = poisoned;
  words.insert(words.end(), {"--train.gradient_checkpointing.enable", "true"});
  const auto result = run_freeing_early(words, "layers.2.experts", "Recompute m0 experts[2]");
  check_not_finite(result);
  CHECK(std::isfinite(result.cross_entropy));
}

}  // namespace
}  // namespace tessera::test
