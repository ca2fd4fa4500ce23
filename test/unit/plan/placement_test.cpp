// If this failed, an element of a parameter would be trained by no rank, or by two that do not know of each other, or
// be counted twice in a gradient norm. Covers every world of up to 16 ranks.
#include "plan/placement.h"

#include "support/catch.h"
#include "support/group_named.h"
#include "unit/plan/qwen3_moe_parameters.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace tessera::plan {
namespace {

using layout::Box;
using layout::GridPlacement;
using layout::Layout;
using layout::LayoutSizes;
using test::qwen3_moe_parameters;
using Shape = std::vector<std::int64_t>;

LayoutSizes sizes_of(std::int64_t replicas, std::int64_t shards, std::vector<layout::ExtraParallel> extra) {
  LayoutSizes sizes;
  sizes.dp_replicate = replicas;
  sizes.dp_shard = shards;
  sizes.extra = std::move(extra);
  return sizes;
}

std::vector<Placement> place_all(const Layout& layout, MasterSharding masters = MasterSharding::sharded,
                                 const test::Sizes& model = {}) {
  base::Problems problems;
  std::vector<Placement> placements = place(qwen3_moe_parameters(model), built_in_plan(), layout, masters, problems);
  REQUIRE(problems.list() == std::vector<std::string>{});
  return placements;
}

const Placement& find(const std::vector<Placement>& placements, const std::string& fqn) {
  const auto found = std::find_if(placements.begin(), placements.end(),
                                  [&](const Placement& placement) { return placement.parameter.fqn == fqn; });
  REQUIRE(found != placements.end());
  return *found;
}

using NamedCuts = std::vector<std::pair<std::string, std::int64_t>>;

// The names of the groups that cut a parameter, and the dims that they cut.
NamedCuts cuts_of(const Placement& placement) {
  NamedCuts cuts;
  for (const Cut& cut : placement.cuts) cuts.emplace_back(cut.group.name(), cut.dim);
  return cuts;
}

const std::string gate = "model.layers.0.mlp.experts.gate_proj";
const std::string down = "model.layers.0.mlp.experts.down_proj";

TEST_CASE("without extra parallels FSDP cuts dim 0 of every parameter") {
  const std::vector<Placement> placements = place_all(Layout(sizes_of(1, 4, {})));
  for (const Placement& placement : placements) {
    CHECK(cuts_of(placement) == NamedCuts{{"fsdp", 0}});
    CHECK(placement.extra.empty());
    CHECK(placement.norm_group == "dense");
    CHECK(placement.replicate_group.name() == "dp_replicate");
    CHECK(gather_group(placement, UseKind::owned).name() == "fsdp");
    CHECK(gather_group(placement, UseKind::whole).name() == "fsdp");
  }
}

TEST_CASE("stacks with fewer experts than ranks are cut on the dim with the smallest largest block") {
  // [5, 7, 33] over 6: 1*7*33 = 231, 5*2*33 = 330, 5*7*6 = 210; [5, 33, 7]: 231, 5*6*7 = 210, 5*33*2 = 330.
  const std::vector<Placement> over_6 = place_all(Layout(sizes_of(1, 6, {})));
  CHECK(cuts_of(find(over_6, gate)) == NamedCuts{{"fsdp", 2}});
  CHECK(cuts_of(find(over_6, down)) == NamedCuts{{"fsdp", 1}});
  // As many experts as ranks: dim 0.
  CHECK(cuts_of(find(place_all(Layout(sizes_of(1, 5, {}))), gate)) == NamedCuts{{"fsdp", 0}});
  // 2 experts over 4, [2, 48, 32]: 1536, 2*12*32 = 768, 2*48*8 = 768: the first of the two.
  test::Sizes model;
  model.experts = 2;
  model.intermediate = 48;
  model.hidden = 32;
  CHECK(cuts_of(find(place_all(Layout(sizes_of(1, 4, {})), MasterSharding::sharded, model), gate)) ==
        NamedCuts{{"fsdp", 1}});
  // Only stacks: a router of 2 rows over 4 ranks stays on dim 0, with empty blocks.
  CHECK(cuts_of(find(place_all(Layout(sizes_of(1, 4, {})), MasterSharding::sharded, model),
                     "model.layers.0.mlp.gate.weight")) == NamedCuts{{"fsdp", 0}});
}

TEST_CASE("an extra parallel cuts dim 0 and its FSDP group dim 1") {
  const Layout layout(sizes_of(2, 8, {{"ep", 2}, {"emb", 4, GridPlacement::outer}}));
  const std::vector<Placement> placements = place_all(layout);
  const Placement& experts = find(placements, gate);
  CHECK(cuts_of(experts) == NamedCuts{{"ep", 0}, {"ep_fsdp", 1}});
  CHECK(experts.extra == "ep");
  CHECK(experts.norm_group == "ep");
  CHECK(experts.replicate_group.name() == "ep_replicate");
  CHECK(gather_group(experts, UseKind::owned).name() == "ep_fsdp");
  CHECK(gather_group(experts, UseKind::whole).name() == "ep+ep_fsdp");
  const Placement& embedding = find(placements, "model.embed_tokens.weight");
  CHECK(cuts_of(embedding) == NamedCuts{{"emb", 0}, {"emb_fsdp", 1}});
  CHECK(cuts_of(find(placements, "lm_head.weight")) == NamedCuts{{"fsdp", 0}});
}

TEST_CASE("under ddp masters are cut by the extra parallel only") {
  const Layout layout(sizes_of(2, 4, {{"ep", 2}}));
  const std::vector<Placement> placements = place_all(layout, MasterSharding::whole);
  const Placement& experts = find(placements, gate);
  CHECK(cuts_of(experts) == NamedCuts{{"ep", 0}});
  CHECK(layout.group_size(experts.replicate_group) == 4);
  CHECK(gather_group(experts, UseKind::owned).is_alone());
  CHECK(gather_group(experts, UseKind::whole).name() == "ep");
  const Placement& norm = find(placements, "model.norm.weight");
  CHECK(norm.cuts.empty());
  CHECK(layout.group_size(norm.replicate_group) == 8);
  CHECK(gather_group(norm, UseKind::whole).is_alone());
  CHECK(shard_box(norm, layout, 5) == layout::whole_box({33}));
}

TEST_CASE("an extra parallel of size 1 leaves ordinary parameters") {
  const Layout layout(sizes_of(1, 4, {{"ep", 1}}));
  const Placement experts = find(place_all(layout), gate);
  CHECK(experts.extra.empty());
  CHECK(experts.norm_group == "dense");
  CHECK(cuts_of(experts) == NamedCuts{{"fsdp", 0}});
}

TEST_CASE("blocks of uneven experts and of dims that do not divide have the sizes of the cases") {
  test::Sizes model;
  model.experts = 6;
  model.intermediate = 5;
  const Layout four(sizes_of(1, 4, {{"ep", 4}}));
  const Placement experts = find(place_all(four, MasterSharding::sharded, model), gate);
  std::vector<std::int64_t> rows;
  for (std::int64_t rank = 0; rank < 4; ++rank) rows.push_back(shard_box(experts, four, rank).shape()[0]);
  CHECK(rows == Shape{2, 2, 2, 0});
  const Layout eight(sizes_of(1, 8, {{"ep", 2}}));
  const std::vector<Placement> placements = place_all(eight, MasterSharding::sharded, model);
  Shape gates;
  Shape downs;
  for (const std::int64_t rank : eight.group(0, tessera::test::group_named(eight, "ep_fsdp"))) {
    gates.push_back(shard_box(find(placements, gate), eight, rank).shape()[1]);
    downs.push_back(shard_box(find(placements, down), eight, rank).shape()[1]);
  }
  CHECK(gates == Shape{2, 2, 1, 0});
  CHECK(downs == Shape{9, 9, 9, 6});
}

TEST_CASE("a use gathers the whole tensor or the owner's dim-0 part") {
  const Layout layout(sizes_of(1, 4, {{"ep", 2}}));
  const Placement experts = find(place_all(layout), gate);
  CHECK(use_box(experts, UseKind::owned, layout, 0) == Box{{{0, 3}, {0, 7}, {0, 33}}});
  CHECK(use_box(experts, UseKind::owned, layout, 3) == Box{{{3, 5}, {0, 7}, {0, 33}}});
  CHECK(use_box(experts, UseKind::whole, layout, 3) == layout::whole_box({5, 7, 33}));
  const Placement norm = find(place_all(layout), "model.norm.weight");
  CHECK(use_box(norm, UseKind::owned, layout, 2) == layout::whole_box({33}));
}

using Coordinates = std::vector<std::int64_t>;

void for_each_element(const Box& box, const std::function<void(const Coordinates&)>& visit) {
  Coordinates at(box.dims.size());
  const std::function<void(std::size_t)> walk = [&](std::size_t dim) {
    if (dim == at.size()) {
      visit(at);
      return;
    }
    for (at[dim] = box.dims[dim].begin; at[dim] < box.dims[dim].end; ++at[dim]) walk(dim + 1);
  };
  walk(0);
}

// Each element has one primary holder; all holders of an element are one replicate group and hold the same box.
void check_holders(const Placement& placement, const Layout& layout) {
  std::map<Coordinates, int> primaries;
  std::map<Coordinates, int> holders;
  for (std::int64_t rank = 0; rank < layout.world(); ++rank) {
    const Box box = shard_box(placement, layout, rank);
    const bool primary = is_primary_holder(placement, layout, rank);
    for_each_element(box, [&](const Coordinates& at) {
      ++holders[at];
      primaries[at] += primary ? 1 : 0;
    });
    for (const std::int64_t other : layout.group(rank, placement.replicate_group))
      REQUIRE(shard_box(placement, layout, other) == box);
  }
  REQUIRE(static_cast<std::int64_t>(holders.size()) == base::elements(placement.parameter));
  const int copies = static_cast<int>(layout.group_size(placement.replicate_group));
  for (const auto& [at, count] : holders) {
    REQUIRE(count == copies);
    REQUIRE(primaries.at(at) == 1);
  }
}

// The shards of a gather group tile the box of the use exactly once.
void check_gather(const Placement& placement, UseKind use, const Layout& layout) {
  const layout::GroupId group = gather_group(placement, use);
  for (std::int64_t rank = 0; rank < layout.world(); ++rank) {
    const Box wanted = use_box(placement, use, layout, rank);
    const layout::Group ranks = layout.group(rank, group);
    std::int64_t elements = 0;
    for (const std::int64_t other : ranks) {
      const Box shard = shard_box(placement, layout, other);
      REQUIRE(layout::intersect(shard, wanted).elements() == shard.elements());
      elements += shard.elements();
    }
    REQUIRE(elements == wanted.elements());  // with check_holders: no element twice
  }
}

std::vector<layout::ExtraParallel> extras_of(std::int64_t ranks, const std::string& name) {
  std::vector<layout::ExtraParallel> all;
  for (std::int64_t size = 1; size <= ranks; ++size)
    for (const GridPlacement placement : {GridPlacement::innermost, GridPlacement::outer})
      if (ranks % size == 0) all.push_back({name, size, placement});
  return all;
}

TEST_CASE("shards tile every tensor once per replica, and uses are tiled by their gather group, in every layout") {
  test::Sizes model;  // one layer of small odd sizes: [3, 2, 5] experts and a [7, 5] embedding
  model.layers = 1;
  model.hidden = 5;
  model.head_dim = 2;
  model.heads = 1;
  model.experts = 3;
  model.intermediate = 2;
  model.vocab = 7;
  const std::vector<base::ParameterSpec> parameters = qwen3_moe_parameters(model);
  for (std::int64_t world = 1; world <= 16; ++world)
    for (std::int64_t replicas = 1; replicas <= world; ++replicas) {
      if (world % replicas != 0) continue;
      const std::int64_t shards = world / replicas;
      for (const layout::ExtraParallel& ep : extras_of(shards, "ep"))
        for (const layout::ExtraParallel& emb : extras_of(shards, "emb"))
          for (const MasterSharding masters : {MasterSharding::sharded, MasterSharding::whole}) {
            if (masters == MasterSharding::whole && emb.size != ep.size) continue;  // names are independent
            const Layout layout(sizes_of(replicas, shards, {ep, emb}));
            base::Problems problems;
            for (const Placement& placement : place(parameters, built_in_plan(), layout, masters, problems)) {
              const std::string& fqn = placement.parameter.fqn;
              if (fqn != "model.embed_tokens.weight" && fqn != down && fqn != "model.norm.weight") continue;
              check_holders(placement, layout);
              check_gather(placement, UseKind::owned, layout);
              check_gather(placement, UseKind::whole, layout);
            }
            REQUIRE(problems.empty());
          }
    }
}

TEST_CASE("Ulysses and context ranks take part in sharding") {
  LayoutSizes sizes = sizes_of(2, 2, {{"ep", 4}});
  sizes.ulysses = 2;
  sizes.cp = 2;
  const Layout layout(sizes);
  for (const Placement& placement : place_all(layout)) {
    check_holders(placement, layout);
    check_gather(placement, UseKind::owned, layout);
    check_gather(placement, UseKind::whole, layout);
  }
}

TEST_CASE("a name of one's own on another weight is placed like ep and emb") {
  base::Problems problems;
  const ParallelPlan plan =
      parse_plan(R"json({"extra_parallel_plan": {"wing": {"model.layers.*.self_attn.o_proj.weight": "Shard(0)"}}})json",
                 "own.json", problems);
  const Layout layout(sizes_of(1, 6, {{"wing", 3, GridPlacement::outer}}));
  const std::vector<Placement> placements =
      place(qwen3_moe_parameters({}), plan, layout, MasterSharding::sharded, problems);
  CHECK(problems.empty());
  const Placement& weight = find(placements, "model.layers.1.self_attn.o_proj.weight");
  CHECK(cuts_of(weight) == NamedCuts{{"wing", 0}, {"wing_fsdp", 1}});
  CHECK(weight.norm_group == "wing");
  CHECK(shard_box(weight, layout, 5) == Box{{{22, 33}, {9, 18}}});  // outer: rank 5 = (wing 2, wing_fsdp 1)
  CHECK(shard_box(weight, layout, 0) == Box{{{0, 11}, {0, 9}}});
  check_holders(weight, layout);
  check_gather(weight, UseKind::whole, layout);
  CHECK(find(placements, gate).extra.empty());
}

std::vector<std::string> problems_of(const std::vector<std::string>& patterns, std::int64_t size = 2) {
  base::Problems problems;
  std::string entries;
  for (const std::string& pattern : patterns)
    entries += (entries.empty() ? "\"" : ", \"") + pattern + "\": \"Shard(0)\"";
  const ParallelPlan plan = parse_plan("{\"extra_parallel_plan\": {\"ep\": {" + entries + "}}}", "plan.json", problems);
  const std::vector<Placement> placements =
      place(qwen3_moe_parameters({}), plan, Layout(sizes_of(1, 2, {{"ep", size}})), MasterSharding::sharded, problems);
  std::vector<std::vector<std::string>> stacks;
  for (const std::string layer : {"model.layers.0.mlp.experts.", "model.layers.1.mlp.experts."})
    stacks.push_back({layer + "gate_proj", layer + "up_proj", layer + "down_proj"});
  check_owned_stacks(placements, stacks, problems);
  return problems.list();
}

using Texts = std::vector<std::string>;

TEST_CASE("a norm named by a plan is refused once for all layers: it has no dim 1") {
  CHECK(problems_of({"model.layers.*.input_layernorm.weight"}) ==
        Texts{"model.layers.*.input_layernorm.weight of shape [33] cannot be split by ep: dim 0 is the extra "
              "parallel's and it has no dim 1 for FSDP; leave it out of the plan"});
  CHECK(problems_of({"model.norm.weight"}, 1).size() == 1);
}

TEST_CASE("experts of which only some are given to an extra parallel are refused, once for all layers") {
  CHECK(problems_of({"model.layers.*.mlp.experts.gate_proj", "model.layers.*.mlp.experts.up_proj"}) ==
        Texts{"parameters that are used together on their owner are split by different extra parallels (in 2 layers): "
              "model.layers.*.mlp.experts.gate_proj by ep, model.layers.*.mlp.experts.up_proj by ep, "
              "model.layers.*.mlp.experts.down_proj by none; give all of them to the same one in the plan"});
}

TEST_CASE("experts of one layer alone may be given to an extra parallel") {
  CHECK(problems_of({"model.layers.1.mlp.experts.*"}).empty());
}

TEST_CASE("a pattern of a group of size 1 is checked too") {
  CHECK(problems_of({"model.layers.*.mlp.expert.gate_proj"}, 1).size() == 1);
}

TEST_CASE("stages and lanes are not placed, nor stacks of unknown parameters: the programmer's errors") {
  base::Problems problems;
  LayoutSizes lanes;
  lanes.tp = 2;
  CHECK_THROWS_AS(place({}, built_in_plan(), Layout(lanes), MasterSharding::sharded, problems), std::logic_error);
  CHECK_THROWS_AS(check_owned_stacks({}, {{"a"}}, problems), std::logic_error);
}

TEST_CASE("the placement table shows each parameter's groups and its blocks on one rank") {
  const Layout layout(sizes_of(1, 4, {{"ep", 2}}));
  const std::string table = describe_placements(place_all(layout), layout, 3);
  const auto line_of = [&](const std::string& fqn) {
    const std::size_t begin = table.find(fqn + " ");
    REQUIRE(begin != std::string::npos);
    std::string line = table.substr(begin, table.find('\n', begin) - begin);
    line.erase(std::unique(line.begin(), line.end(), [](char a, char b) { return a == ' ' && b == ' '; }), line.end());
    return line;
  };
  CHECK(line_of(gate) == gate + " [5, 7, 33] ep, ep_fsdp [3, 5) [4, 7) [0, 33)");
  CHECK(line_of("model.norm.weight") == "model.norm.weight [33] fsdp [27, 33)");
}

TEST_CASE("a name whose parameters are all gathered whole is told so, one of owned parameters is not") {
  const std::vector<base::ParameterSpec> parameters{
      {"layers.0.o_proj", {6, 5}}, {"layers.0.experts", {3, 5, 7}}, {"layers.1.experts", {3, 5, 7}}};
  ParallelPlan plan;
  plan.patterns["wide"] = {{"layers.*.o_proj", 1}};
  plan.patterns["ep"] = {{"layers.*.experts", 2}};
  base::Problems problems;
  const auto placements =
      place(parameters, plan, Layout(sizes_of(1, 4, {{"wide", 2}, {"ep", 2}})), MasterSharding::sharded, problems);
  CHECK(problems.empty());
  const auto units = [](UseKind first_experts) {
    return std::vector<Unit>{{"a", {{"layers.0.o_proj", UseKind::whole}, {"layers.0.experts", first_experts}}},
                             {"b", {{"layers.1.experts", UseKind::whole}}}};
  };
  const std::string rest = " splits parameters that are gathered whole for every use: it saves memory, not traffic";
  CHECK(describe_whole_uses(placements, units(UseKind::owned)) == std::vector<std::string>{"wide" + rest});
  CHECK(describe_whole_uses(placements, units(UseKind::whole)) == std::vector<std::string>{"ep" + rest, "wide" + rest});
}

TEST_CASE("entries that shard nothing are named in one line") {
  const std::string line = describe_unused_entries(built_in_plan(), Layout(sizes_of(1, 2, {{"ep", 1}})));
  CHECK(line ==
        "the built-in plan (parallel_plans/qwen3_moe.json) has entries that this run does not use: emb (not named), ep "
        "(size 1); FSDP shards their parameters like all others");
  CHECK(describe_unused_entries(built_in_plan(), Layout(sizes_of(1, 2, {{"ep", 2}, {"emb", 2}}))).empty());
}

}  // namespace
}  // namespace tessera::plan
