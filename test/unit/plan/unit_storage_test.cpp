// If this failed, gathered parameters would overlap in their buffer, or a shard would be taken for a whole parameter.
#include "plan/unit_storage.h"

#include <stdexcept>
#include <string>
#include <vector>

#include "support/catch.h"
#include "unit/plan/qwen3_moe_parameters.h"

namespace tessera::plan {
namespace {

using layout::Layout;
using layout::LayoutSizes;

Layout sharded_over(std::int64_t ranks, std::vector<layout::ExtraParallel> extra = {}) {
  LayoutSizes sizes;
  sizes.dp_shard = ranks;
  sizes.extra = std::move(extra);
  return Layout(sizes);
}

std::vector<Placement> place_all(const Layout& layout) {
  base::Problems problems;
  std::vector<Placement> placements =
      place(test::qwen3_moe_parameters({}), built_in_plan(), layout, MasterSharding::sharded, problems);
  REQUIRE(problems.empty());
  return placements;
}

const Unit experts{"layers.0.experts",
                   {{"model.layers.0.mlp.experts.gate_proj", UseKind::owned},
                    {"model.layers.0.mlp.experts.up_proj", UseKind::owned},
                    {"model.layers.0.mlp.experts.down_proj", UseKind::owned}}};

TEST_CASE("on one rank values and gradients of equal type are the shards themselves and take no buffer") {
  const Layout layout = sharded_over(1);
  const std::vector<Placement> placements = place_all(layout);
  const UnitStorage storage =
      unit_storage(experts, PlacementIndex(placements), layout, 0, {4, 4, true}, BindPolicy::bind_where_possible);
  CHECK(storage.value_bytes == 0);
  CHECK(storage.gradient_bytes == 0);
  REQUIRE(storage.uses.size() == 3);
  for (const UseStorage& use : storage.uses) {
    CHECK(use.value_is_bound);
    CHECK(use.gradient_is_bound);
  }
}

TEST_CASE("a narrower compute type needs a buffer for values, none for gradients") {
  const Layout layout = sharded_over(1);
  const std::vector<Placement> placements = place_all(layout);
  const UnitStorage storage =
      unit_storage(experts, PlacementIndex(placements), layout, 0, {2, 4, false}, BindPolicy::bind_where_possible);
  // 5 * 7 * 33 * 2 bytes = 2310, up to the next multiple of 64: 2368.
  CHECK(storage.uses[0].value_offset == 0);
  CHECK(storage.uses[1].value_offset == 2368);
  CHECK(storage.uses[2].value_offset == 2 * 2368);
  CHECK(storage.value_bytes == 3 * 2368);
  CHECK(storage.gradient_bytes == 0);
}

TEST_CASE("always_copy takes buffers on one rank too, with the same boxes") {
  const Layout layout = sharded_over(1);
  const std::vector<Placement> placements = place_all(layout);
  const UnitStorage storage =
      unit_storage(experts, PlacementIndex(placements), layout, 0, {4, 8, true}, BindPolicy::always_copy);
  CHECK(storage.value_bytes == 3 * 4672);     // 5 * 7 * 33 * 4 = 4620
  CHECK(storage.gradient_bytes == 3 * 9280);  // 5 * 7 * 33 * 8 = 9240
  for (const UseStorage& use : storage.uses) CHECK_FALSE(use.value_is_bound);
}

TEST_CASE("buffers of owned uses hold the owner's experts, never all of them") {
  const Layout layout = sharded_over(4, {{"ep", 2}});
  const std::vector<Placement> placements = place_all(layout);
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    const UnitStorage storage =
        unit_storage(experts, PlacementIndex(placements), layout, rank, {4, 4, true}, BindPolicy::bind_where_possible);
    const std::int64_t owned = rank % 2 == 0 ? 3 : 2;
    const std::int64_t bytes = (owned * 7 * 33 * 4 + 63) / 64 * 64;
    CHECK(storage.value_bytes == 3 * bytes);
    CHECK(storage.uses[0].box.shape() == std::vector<std::int64_t>{owned, 7, 33});
  }
}

TEST_CASE("an extra parallel over all ranks leaves owned uses bound") {
  const Layout layout = sharded_over(4, {{"ep", 4}});
  const std::vector<Placement> placements = place_all(layout);
  const UnitStorage storage =
      unit_storage(experts, PlacementIndex(placements), layout, 3, {4, 4, true}, BindPolicy::bind_where_possible);
  CHECK(storage.value_bytes == 0);
  CHECK(storage.uses[2].box.elements() == 0);  // five experts over four ranks: 2, 2, 1, 0
}

TEST_CASE("a parameter without a placement is the programmer's error") {
  CHECK_THROWS_AS(PlacementIndex({}).of("model.norm.weight"), std::logic_error);
}

}  // namespace
}  // namespace tessera::plan
