// If this failed, a step would run micro-steps in another order than its schedule, or an order that a pipeline needs
// would not run at all.
#include "program/schedule.h"

#include <algorithm>

#include "program/order_checks.h"
#include "small_model.h"
#include "support/catch.h"

namespace tessera::program {
namespace {

using config::FsdpMode;
constexpr auto F = Direction::forward, B = Direction::backward;

// A Turns of one lane for each pass, as a stage of a pipeline runs them.
Schedule alone(const std::vector<Pass>& passes) {
  Schedule schedule;
  for (const auto& pass : passes) schedule.push_back({{{pass}}});
  return schedule;
}

// One forward, one backward, with two micro-steps alive.
Schedule one_forward_one_backward() { return alone({{0, F}, {1, F}, {0, B}, {2, F}, {1, B}, {2, B}}); }

std::int64_t count(const Program& program, const std::string& beginning) {
  return std::ranges::count_if(describe(program), [&](const std::string& line) { return line.starts_with(beginning); });
}

TEST_CASE("the two schedules of the settings") {
  CHECK(one_after_other(2, StepKind::train) == Schedule{{{{{0, F}, {0, B}}}}, {{{{1, F}, {1, B}}}}});
  CHECK(one_after_other(2, StepKind::evaluate) == Schedule{{{{{0, F}}}}, {{{{1, F}}}}});
  CHECK(one_after_other(0, StepKind::skipped).empty());
  CHECK(in_turns(3, 2, StepKind::train) == Schedule{{{{{0, F}, {0, B}}, {{1, F}, {1, B}}}}, {{{{2, F}, {2, B}}}}});
  for (const auto kind : {StepKind::train, StepKind::evaluate})
    for (const std::int32_t together : {1, 2, 3}) CHECK_NOTHROW(expect_legal(in_turns(5, together, kind), 5, kind));
}

TEST_CASE("a schedule that is not legal is refused by the pass that is wrong") {
  const auto refusal = [](const Schedule& schedule, StepKind kind = StepKind::train) {
    try {
      expect_legal(schedule, 2, kind);
    } catch (const std::logic_error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  using Catch::Matchers::ContainsSubstring;
  CHECK(refusal(alone({{1, F}, {0, F}, {1, B}, {0, B}})).empty());
  CHECK_THAT(refusal(alone({{0, F}, {1, B}, {1, F}, {0, B}})),
             ContainsSubstring("micro-step 1 backward before it has"));
  CHECK_THAT(refusal({{{{{0, F}}, {{1, F}, {1, B}, {0, B}}}}}),
             ContainsSubstring("micro-step 0 backward before it has"));
  CHECK_THAT(refusal(alone({{0, F}, {0, F}, {0, B}})), ContainsSubstring("micro-step 0 forward twice"));
  CHECK_THAT(refusal(alone({{0, F}, {0, B}, {0, B}})), ContainsSubstring("micro-step 0 backward twice"));
  CHECK_THAT(refusal(alone({{0, F}, {0, B}})), ContainsSubstring("does not run micro-step 1 forward"));
  CHECK_THAT(refusal(alone({{0, F}, {1, F}, {0, B}})), ContainsSubstring("does not run micro-step 1 backward"));
  CHECK_THAT(refusal(alone({{2, F}})), ContainsSubstring("micro-step 2, of 2"));
  CHECK_THAT(refusal(alone({{0, F}, {0, B}}), StepKind::evaluate), ContainsSubstring("does not train"));
}

TEST_CASE(
    "one forward, one backward is sound in every mode, with recomputation and prefetching, on one rank and on more") {
  for (const std::int64_t ranks : {1, 2, 4})
    for (const auto mode : {FsdpMode::fsdp2, FsdpMode::zero1, FsdpMode::zero2, FsdpMode::zero3, FsdpMode::ddp})
      for (const auto recompute : {Recompute::none, Recompute::full, Recompute::experts})
        for (const std::int32_t depth : {0, 1, 3})
          for (const bool reshard : {true, false}) {
            layout::LayoutSizes sizes;
            sizes.dp_shard = ranks;
            if (ranks > 1) sizes.extra = {{.name = "ep", .size = 2}};
            const auto masters = mode == FsdpMode::ddp ? plan::MasterSharding::whole : plan::MasterSharding::sharded;
            const test::SmallModel model(false, ranks == 2, config::BalanceLoss::pooled, sizes, masters);
            const BuilderOptions options{.micro_steps = 3,
                                         .mode = mode,
                                         .reshard_after_forward = reshard,
                                         .prefetch_depth = depth,
                                         .recompute = recompute};
            const auto program = model.build(options, one_forward_one_backward());
            CAPTURE(ranks, static_cast<int>(mode), static_cast<int>(recompute), depth, reshard);
            CHECK(check_order(program) == std::vector<std::string>());
            const auto units = static_cast<std::int64_t>(model.architecture.units().size());
            const bool each = mode != FsdpMode::zero1 && mode != FsdpMode::ddp;
            CHECK(count(program, "Reduce ") == units * (each ? 3 : 1));
          }
}

TEST_CASE("passes run in the order of the schedule") {
  const test::SmallModel model;
  std::vector<std::string> found;
  for (const auto& line : describe(model.build({.micro_steps = 3}, one_forward_one_backward())))
    for (const char* first : {" embed", " layers.0"})
      if (line.ends_with(first) && (line.starts_with("Forward m") || line.starts_with("Backward m")))
        found.push_back(line);
  CHECK(found == std::vector<std::string>{"Forward m0 embed", "Forward m0 layers.0", "Forward m1 embed",
                                          "Forward m1 layers.0", "Backward m0 layers.0", "Backward m0 embed",
                                          "Forward m2 embed", "Forward m2 layers.0", "Backward m1 layers.0",
                                          "Backward m1 embed", "Backward m2 layers.0", "Backward m2 embed"});
}

}  // namespace
}  // namespace tessera::program
