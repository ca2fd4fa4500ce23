// If this failed, pools would be too small for their program, or the start page would state the wrong memory.
#include "program/memory_plan.h"

#include <numeric>

#include "small_model.h"
#include "support/catch.h"

namespace tessera::program {
namespace {

double purpose(const MemoryPlan& plan, const std::string& name) {
  for (const auto& p : plan.purposes)
    if (p.name == name) return p.bytes;
  FAIL("no purpose " << name);
  return 0;
}

MemoryPlan planned(const test::SmallModel& model, const BuilderOptions& options, MemoryFacts facts) {
  facts.tokens = 35;
  facts.sequences = 5;
  return plan_memory(model.build(options), model.architecture, model.placements, model.layout, 0, facts);
}

TEST_CASE("shards and state follow the parameters; binding needs no pool") {
  const test::SmallModel model;
  const auto bytes = 4.0 * static_cast<double>(model.architecture.total_parameters());
  const auto plan = planned(model, {}, {.optimizer_states = 2});
  CHECK(purpose(plan, "masters") == bytes);
  CHECK(purpose(plan, "shard gradients") == bytes);
  CHECK(purpose(plan, "optimizer state") == 2 * bytes);
  CHECK(purpose(plan, "gathered weights") == 0);
  CHECK(purpose(plan, "gradient buffers") == 0);
  CHECK(plan.weight_buffers.empty());
  CHECK(purpose(plan, "activations (estimate)") > 0);
}

TEST_CASE("copying takes a slot for each unit that is gathered at once") {
  const test::SmallModel model(true);
  const MemoryFacts copying{.binding = plan::BindPolicy::always_copy};
  const auto slots = [](const BufferCounts& counts) {
    return std::accumulate(counts.begin(), counts.end(), std::int64_t{0},
                           [](std::int64_t sum, const auto& c) { return sum + c.second; });
  };
  const auto sharded = planned(model, {.prefetch_depth = 0}, copying);
  const auto kept = planned(model, {.mode = config::FsdpMode::zero1, .prefetch_depth = 0}, copying);
  CHECK(slots(kept.weight_buffers) == static_cast<std::int64_t>(model.architecture.units().size()));
  CHECK(slots(sharded.weight_buffers) < slots(kept.weight_buffers));
  CHECK(slots(sharded.gradient_buffers) < slots(kept.gradient_buffers) + 1);
  const auto ahead = planned(model, {.prefetch_depth = 2}, copying);
  CHECK(slots(ahead.weight_buffers) > slots(sharded.weight_buffers));
}

TEST_CASE("a narrower compute type needs a gathered copy, but no gradient buffer") {
  const test::SmallModel model;
  const auto plan = planned(model, {}, {.sizes = {.compute_bytes = 2, .master_bytes = 4, .same_type = false}});
  CHECK(purpose(plan, "gathered weights") > 0);
  CHECK(purpose(plan, "gradient buffers") == 0);
}

TEST_CASE("recomputation keeps less") {
  const test::SmallModel model(true);
  const auto none = purpose(planned(model, {}, {}), "activations (estimate)");
  const auto full = purpose(planned(model, {.recompute = Recompute::full}, {}), "activations (estimate)");
  CHECK(full < none);
}

TEST_CASE("the larger of two plans has room for both") {
  const test::SmallModel model(true);
  const MemoryFacts copying{.binding = plan::BindPolicy::always_copy};
  const auto a = planned(model, {}, copying);
  const auto b = planned(model, {.mode = config::FsdpMode::zero1}, copying);
  const auto both = larger_of(a, b);
  for (const auto* one : {&a, &b})
    for (const auto& [bytes, count] : one->weight_buffers) CHECK(both.weight_buffers.at(bytes) >= count);
  CHECK(both.total() >= std::max(a.total(), b.total()));
}

}  // namespace
}  // namespace tessera::program
