// If this failed, a preset or a recomputation mode would run another step than its name says.
#include "program/builder.h"

#include <algorithm>

#include "small_model.h"
#include "support/catch.h"

namespace tessera::program {
namespace {

using config::FsdpMode;

std::int64_t count(const Program& program, const std::string& beginning) {
  const auto lines = describe(program);
  return std::count_if(lines.begin(), lines.end(),
                       [&](const std::string& line) { return line.rfind(beginning, 0) == 0; });
}

TEST_CASE("the program of a small dense-and-experts model, line by line") {
  const test::SmallModel model;
  const auto program = model.build({.prefetch_depth = 1, .recompute = Recompute::full});
  const std::vector<std::string> expected{
      "Sum open",
      "Wait Sum open",
      "Gather embed",
      "Wait Gather embed",
      "Gather layers.0.attention",
      "Forward m0 embed",
      "Free embed",
      "Wait Gather layers.0.attention",
      "Gather layers.1.attention",
      "Gather layers.1.experts",
      "Forward m0 layers.0",
      "Free layers.0.attention",
      "Wait Gather layers.1.attention",
      "Wait Gather layers.1.experts",
      "Gather head",
      "Forward m0 layers.1",
      "Free layers.1.attention",
      "Free layers.1.experts",
      "Sum m0 counts",
      "Wait Sum m0 counts",
      "Wait Gather head",
      "Gather layers.1.attention",
      "Gather layers.1.experts",
      "ForwardBackward m0 head",
      "Free head",
      "Reduce m0 head",
      "Wait Gather layers.1.attention",
      "Wait Gather layers.1.experts",
      "Gather layers.0.attention",
      "Recompute m0 layers.1",
      "Backward m0 layers.1",
      "Free layers.1.attention",
      "Free layers.1.experts",
      "Wait Reduce m0 head",
      "Reduce m0 layers.1.attention",
      "Wait Reduce m0 layers.1.attention",
      "Reduce m0 layers.1.experts",
      "Wait Gather layers.0.attention",
      "Gather embed",
      "Recompute m0 layers.0",
      "Backward m0 layers.0",
      "Free layers.0.attention",
      "Wait Reduce m0 layers.1.experts",
      "Reduce m0 layers.0.attention",
      "Wait Gather embed",
      "Backward m0 embed",
      "Free embed",
      "Wait Reduce m0 layers.0.attention",
      "Reduce m0 embed",
      "Wait Reduce m0 embed",
      "Sum close",
      "Wait Sum close",
      "Clip",
      "Update",
  };
  CHECK(describe(program) == expected);
}

TEST_CASE("presets differ in how often units are gathered and reduced") {
  const test::SmallModel model;
  const std::int64_t micro_steps = 3;
  const auto units = static_cast<std::int64_t>(model.architecture.units().size());
  const auto built = [&](FsdpMode mode, bool reshard) {
    return model.build({.micro_steps = 3, .mode = mode, .reshard_after_forward = reshard});
  };
  // Each unit but the head is gathered for forward and again for backward.
  CHECK(count(built(FsdpMode::fsdp2, true), "Gather ") == micro_steps * (2 * units - 1));
  CHECK(count(built(FsdpMode::zero3, true), "Gather ") == micro_steps * (2 * units - 1));
  CHECK(count(built(FsdpMode::fsdp2, false), "Gather ") == micro_steps * units);
  for (const auto mode : {FsdpMode::zero2, FsdpMode::zero1, FsdpMode::ddp})
    CHECK(count(built(mode, true), "Gather ") == units);
  for (const auto mode : {FsdpMode::fsdp2, FsdpMode::zero3, FsdpMode::zero2})
    CHECK(count(built(mode, true), "Reduce ") == micro_steps * units);
  for (const auto mode : {FsdpMode::zero1, FsdpMode::ddp}) CHECK(count(built(mode, true), "Reduce ") == units);
}

TEST_CASE("recomputation runs all of a layer again, or its experts") {
  const test::SmallModel model(true);
  CHECK(count(model.build({.recompute = Recompute::none}), "Recompute") == 0);
  const auto full = model.build({.recompute = Recompute::full});
  CHECK(count(full, "Recompute m0 layers.") == 2);
  CHECK(count(full, "Recompute") == 2);
  const auto experts = model.build({.recompute = Recompute::experts});
  CHECK(count(experts, "Recompute m0 experts[") == 2);
  CHECK(count(experts, "Recompute") == 2);
}

TEST_CASE("without fusion every exchange is an instruction, forward and backward") {
  const test::SmallModel model(true);
  CHECK(count(model.build({}), "Exchange") == 0);
  const auto program = model.build({.fusion = Fusion::none});
  for (const char* name : {"sequence_to_heads", "heads_to_sequence", "sum_tensor_parallel", "dispatch", "combine"}) {
    INFO(name);
    CHECK(count(program, std::string("Exchange m0 ") + name) == 4);  // two layers, two directions
  }
  CHECK(count(program, "Exchange m0 ids_to_owners") == 1);  // ids have no gradient
  CHECK(count(program, "Exchange m0 rows_from_owners") == 2);
}

TEST_CASE("an exchange over more than one rank is an instruction even with fusion") {
  layout::LayoutSizes sizes;
  sizes.dp_shard = 4;
  sizes.extra = {{.name = "ep", .size = 2}};
  const test::SmallModel model(true, false, config::BalanceLoss::pooled, sizes);
  const auto program = model.build({});
  CHECK(count(program, "Exchange m0 dispatch") == 4);
  CHECK(count(program, "Exchange m0 combine") == 4);
  CHECK(count(program, "Exchange m0 sequence_to_heads") == 0);
  CHECK(count(program, "Exchange m0 ids_to_owners") == 0);
}

TEST_CASE("replicas are summed once a step, after the last micro-step") {
  layout::LayoutSizes sizes;
  sizes.dp_replicate = 2;
  sizes.dp_shard = 2;
  const test::SmallModel model(true, false, config::BalanceLoss::pooled, sizes);
  const auto program = model.build({.micro_steps = 2});
  const auto units = static_cast<std::int64_t>(model.architecture.units().size());
  CHECK(count(program, "Sum replicas") == units);
  const auto lines = describe(program);
  const auto first = std::find(lines.begin(), lines.end(), "Sum replicas embed");
  CHECK(std::none_of(first, lines.end(), [](const std::string& line) { return line.rfind("Reduce", 0) == 0; }));
}

TEST_CASE("an evaluation has no backward and no balance loss, a skipped step nothing but open") {
  const test::SmallModel model;
  const auto evaluation = model.build({.kind = StepKind::evaluate, .micro_steps = 2});
  for (const char* op : {"Backward", "ForwardBackward", "Reduce", "Clip", "Update", "Sum m0 counts"})
    CHECK(count(evaluation, op) == 0);
  CHECK(count(evaluation, "Forward m1 head") == 1);
  CHECK(describe(model.build({.kind = StepKind::skipped, .micro_steps = 0})) ==
        std::vector<std::string>{"Sum open", "Wait Sum open"});
}

TEST_CASE("a prefetch depth of n has the units of n chains under way while a chain runs") {
  const test::SmallModel model(true);
  const std::vector<std::int64_t> units_ahead{0, 2, 4, 5};  // of embed: two layers of two units each, then the head's
  for (std::int32_t depth = 0; depth < 4; ++depth) {
    INFO("depth " << depth);
    const auto program = model.build({.prefetch_depth = depth});
    std::int64_t now = 0, most = 0;
    for (const auto& i : program.instructions) {
      if (i.op == Op::gather) ++now;
      if (i.op == Op::wait && i.waits_for == Op::gather) --now;
      if (i.op == Op::forward || i.op == Op::backward) most = std::max(most, now);
    }
    CHECK(most == units_ahead[static_cast<std::size_t>(depth)]);
  }
}

}  // namespace
}  // namespace tessera::program
