// If this failed, a preset or a recomputation mode would run another step than its name says.
#include "program/builder.h"

#include <algorithm>

#include "program/memory_plan.h"
#include "program/order_checks.h"
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
      "Reduce m0 layers.1.experts",
      "Wait Gather layers.0.attention",
      "Gather embed",
      "Recompute m0 layers.0",
      "Backward m0 layers.0",
      "Free layers.0.attention",
      "Wait Reduce m0 layers.1.attention",
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
  for (const char* name : {"id_counts", "ids_to_owners"})  // ids have no gradient
    CHECK(count(program, std::string("Exchange m0 ") + name) == 1);
  CHECK(count(program, "Exchange m0 row_counts") == 2);
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
  // Each after the last reduction of its unit, under the rest of the backward pass.
  const auto lines = describe(program);
  for (const auto& unit : model.architecture.units()) {
    INFO(unit.name);
    const auto sum = std::find(lines.begin(), lines.end(), "Sum replicas " + unit.name + " over dp_replicate");
    REQUIRE(sum != lines.end());
    const auto is_reduction = [&](const std::string& line) {
      return line.find("Reduce m") != std::string::npos && line.find(unit.name) != std::string::npos;
    };
    CHECK(std::count_if(lines.begin(), sum, is_reduction) == 4);  // start and wait, twice
    CHECK(std::none_of(sum, lines.end(), is_reduction));
  }
  CHECK(std::find(lines.begin(), lines.end(), "Sum replicas head over dp_replicate") <
        std::find(lines.begin(), lines.end(), "Backward m1 embed"));
}

TEST_CASE("a tied embedding that is owned by some ranks is summed by one reduction after the other") {
  layout::LayoutSizes sizes;
  sizes.dp_shard = 2;
  sizes.extra = {{.name = "emb", .size = 2}};
  const test::SmallModel model(true, true, config::BalanceLoss::pooled, sizes);
  const auto lines = describe(model.build({}));
  const auto find = [&](const std::string& line) { return std::find(lines.begin(), lines.end(), line); };
  // The lookup's gradient forms in the shard itself: emb_fsdp has one rank.
  CHECK(find("Reduce m0 head over fsdp, emb+emb_fsdp") != lines.end());
  CHECK(find("Wait Reduce m0 head") < find("Backward m0 lookup"));
  CHECK(find("Backward m0 lookup") != lines.end());
}

TEST_CASE("micro-steps that take turns compute while the other's rows travel, and share a stay of each unit") {
  layout::LayoutSizes sizes;
  sizes.dp_shard = 2;
  sizes.extra = {{.name = "ep", .size = 2}};
  const test::SmallModel model(true, false, config::BalanceLoss::pooled, sizes);
  const BuilderOptions options{.micro_steps = 3, .overlap_exchange = true};
  const auto program = model.build(options);
  const auto lines = describe(program);
  const auto between = [&](const std::string& start, const std::string& what) {
    const auto begin = std::find(lines.begin(), lines.end(), start + " over ep");
    const auto end = std::find(lines.begin(), lines.end(), "Wait " + start);
    return begin < end && std::any_of(begin, end, [&](const std::string& line) { return line.rfind(what, 0) == 0; });
  };
  CHECK(between("Exchange m0 dispatch[0]", "Forward m1"));
  CHECK(between("Exchange m1 dispatch[0]", "Forward m0 experts[0]"));
  CHECK(between("Exchange m0 combine[0]", "Forward m1 experts[0]"));
  CHECK(between("Exchange m0 combine[1] backward", "ForwardBackward m1 head"));
  CHECK(between("Exchange m1 dispatch[1] backward", "Backward m0"));
  const auto units = static_cast<std::int64_t>(model.architecture.units().size());
  CHECK(count(program, "Gather ") == 2 * (2 * units - 1));  // for m0 and m1 together, for m2 alone
  CHECK(count(program, "Reduce ") == 2 * units);
  CHECK(count(model.build({.micro_steps = 3}), "Gather ") == 3 * (2 * units - 1));
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

// The next two tests take a second each; if a cost per item grew with the number of items, they would take hours and
// the entry's limit would end them.
TEST_CASE("a step of 100,000 micro-steps is built and checked in time that grows as their number") {
  const test::SmallModel model;
  const auto program =
      model.build({.kind = StepKind::evaluate, .micro_steps = 100'000, .mode = FsdpMode::zero1, .prefetch_depth = 0});
  CHECK(program.inputs.size() == std::size_t{100'000} * model.build({.kind = StepKind::evaluate}).inputs.size());
  CHECK(check_order(program).empty());
}

TEST_CASE("a model of 5,000 layers is placed, built, checked and planned in time that grows as their number") {
  const auto model = test::SmallModel::of_layers(5000);
  const auto program = model.build({.recompute = Recompute::full});
  CHECK(program.chains.size() == 5002);
  CHECK(check_order(program).empty());
  const auto plan = plan_memory(program, model.architecture, model.placements, model.layout, 0, {.tokens = 8});
  CHECK(plan.purposes.front().bytes == 4.0 * static_cast<double>(model.architecture.total_parameters()));
}

}  // namespace
}  // namespace tessera::program
