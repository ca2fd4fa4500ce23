// If this failed, `prefetch_depth auto` would take more memory than it may, or hide less of a slow network than it
// could.
#include "program/prefetch_depth.h"

#include <algorithm>
#include <vector>

#include "small_model.h"
#include "support/catch.h"

namespace tessera::program {
namespace {

double buffers(const MemoryPlan& plan) {
  double bytes = 0;
  for (const auto& p : plan.purposes)
    if (p.name == "gathered weights" || p.name == "gradient buffers") bytes += p.bytes;
  return bytes;
}

MemoryPlan plan_at(const test::SmallModel& model, std::int32_t depth, const MemoryFacts& facts) {
  return plan_memory(model.build({.micro_steps = 3, .prefetch_depth = depth}), model.architecture, model.placements,
                     model.layout, 0, facts);
}

std::int32_t affordable(const test::SmallModel& model, const MemoryFacts& facts) {
  return affordable_prefetch_depth(model.architecture, model.placements, model.layout, {.micro_steps = 3}, facts);
}

TEST_CASE("the affordable depth is the largest whose further buffers are a tenth of the memory or less") {
  const auto model = test::SmallModel::of_layers(12, 16);
  const auto chains = static_cast<std::int32_t>(model.build({}).chains.size());
  std::vector<std::int32_t> depths;
  for (const std::int64_t tokens : {1, 30, 100, 300, 1000, 3000, 100'000}) {
    const MemoryFacts facts{.tokens = tokens, .sequences = 1};
    const auto least = plan_at(model, 1, facts);
    const auto is_affordable = [&](std::int32_t depth) {
      return buffers(plan_at(model, depth, facts)) - buffers(least) <= 0.1 * least.total();
    };
    const auto depth = affordable(model, facts);
    CAPTURE(tokens, depth);
    CHECK(is_affordable(depth));
    CHECK((depth == chains || !is_affordable(depth + 1)));
    if (!depths.empty()) CHECK(depth >= depths.back());
    depths.push_back(depth);
  }
  CHECK(depths.front() == 1);
  CHECK(depths.back() == chains);
  CHECK(std::any_of(depths.begin(), depths.end(), [&](std::int32_t depth) { return depth > 1 && depth < chains; }));
}

TEST_CASE("where nothing travels there is nothing to gather ahead") {
  CHECK(affordable(test::SmallModel::of_layers(12), {.tokens = 100'000}) == 1);
}

}  // namespace
}  // namespace tessera::program
