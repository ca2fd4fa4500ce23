// If this failed, a checkpoint would miss elements, hold some twice, or be unreadable in another layout.
//
// Pure arithmetic, for every legal layout of up to sixteen ranks: replicas, one or two groups of every size, inner and
// outer, sharded masters and whole ones.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "checkpoint/states.h"
#include "plan/parallel_plan.h"
#include "support/catch.h"
#include "unit/plan/qwen3_moe_parameters.h"

namespace tessera::checkpoint {
namespace {

using layout::Box;
using layout::GridPlacement;
using layout::Layout;
using layout::LayoutSizes;

struct Case {
  LayoutSizes sizes;
  plan::MasterSharding masters{};

  [[nodiscard]] std::string describe() const {
    auto text = fmt::format("dp_replicate {} dp_shard {} ulysses {} cp {}{}", sizes.dp_replicate, sizes.dp_shard,
                            sizes.ulysses, sizes.cp, masters == plan::MasterSharding::whole ? " ddp" : "");
    for (const auto& x : sizes.extra)
      text += fmt::format(" {} {}{}", x.name, x.size, x.placement == GridPlacement::outer ? " outer" : "");
    return text;
  }
};

std::vector<std::int64_t> divisors(std::int64_t n) {
  std::vector<std::int64_t> list;
  for (std::int64_t d = 1; d <= n; ++d)
    if (n % d == 0) list.push_back(d);
  return list;
}

// None, ep of every size, emb of every size, both: each inner and outer.
std::vector<std::vector<layout::ExtraParallel>> extras_of(std::int64_t ranks) {
  std::vector<std::vector<layout::ExtraParallel>> lists{{}};
  for (const auto place : {GridPlacement::innermost, GridPlacement::outer})
    for (const auto ep : divisors(ranks))
      for (const auto emb : divisors(ranks)) {
        if (ep == 1 && emb == 1) continue;
        const auto other = place == GridPlacement::outer ? GridPlacement::innermost : GridPlacement::outer;
        lists.push_back({{"ep", ep, place}, {"emb", emb, place}});
        if (ep > 1 && emb > 1) lists.push_back({{"ep", ep, place}, {"emb", emb, other}});
      }
  return lists;
}

std::vector<Case> cases_of(std::int64_t world) {
  std::vector<Case> cases;
  for (const auto replicas : divisors(world))
    for (const auto& extra : extras_of(world / replicas))
      for (const auto masters : {plan::MasterSharding::sharded, plan::MasterSharding::whole}) {
        Case c;
        c.sizes = {.dp_replicate = replicas, .dp_shard = world / replicas, .extra = extra};
        c.masters = masters;
        cases.push_back(c);
        if (world % (4 * replicas) != 0) continue;  // the same ranks along other axes
        c.sizes.dp_shard /= 4;
        c.sizes.ulysses = c.sizes.cp = 2;
        cases.push_back(c);
      }
  return cases;
}

// Sizes are coprime with the numbers of ranks; some dims are smaller than most of them, some of size 1.
const std::vector<base::ParameterSpec>& resharded_parameters() {
  static const auto all = [] {
    auto list = plan::test::qwen3_moe_parameters({.layers = 1,
                                                  .hidden = 13,
                                                  .heads = 1,
                                                  .key_heads = 1,
                                                  .head_dim = 3,
                                                  .experts = 9,
                                                  .intermediate = 5,
                                                  .vocab = 23});
    list.push_back({"model.layers.0.mlp.shared_expert_gate.weight", {1, 13}});
    return list;
  }();
  return all;
}

const plan::ParallelPlan& plan_of_tests() {
  static const auto parsed = [] {
    base::Problems problems;
    auto plan = plan::parse_plan(R"json({"extra_parallel_plan": {
      "ep": {"model.layers.*.mlp.experts.gate_proj": "Shard(0)", "model.layers.*.mlp.experts.up_proj": "Shard(0)",
             "model.layers.*.mlp.experts.down_proj": "Shard(0)"},
      "emb": {"model.embed_tokens.weight": "Shard(0)"}}})json",
                                 "the plan", problems);
    problems.throw_if_any("the plan");
    return plan;
  }();
  return parsed;
}

std::vector<plan::Placement> placements_of(const Case& c, const Layout& layout) {
  base::Problems problems;
  auto placements = plan::place(resharded_parameters(), plan_of_tests(), layout, c.masters, problems);
  problems.throw_if_any("the placements");
  return placements;
}

// How many of `boxes` hold each element.
std::vector<int> counts(const std::vector<std::int64_t>& shape, const std::vector<Box>& boxes) {
  std::int64_t elements = 1;
  for (const auto size : shape) elements *= size;
  std::vector<int> counts(static_cast<std::size_t>(elements), 0);
  for (const auto& box : boxes) {
    auto index = std::vector<std::int64_t>(shape.size(), 0);
    for (std::int64_t k = 0; k < elements; ++k) {
      bool inside = true;
      for (std::size_t d = 0; d < shape.size(); ++d)
        inside = inside && box.dims[d].begin <= index[d] && index[d] < box.dims[d].end;
      counts[static_cast<std::size_t>(k)] += inside ? 1 : 0;
      for (std::size_t d = shape.size(); d-- > 0 && ++index[d] == shape[d];) index[d] = 0;
    }
  }
  return counts;
}

// The largest share if `ranks` ranks divide the box along its best dim.
std::int64_t fair_share(const Box& box, std::int64_t ranks) {
  auto best = box.elements();
  for (std::size_t dim = 0; dim < box.dims.size(); ++dim) {
    if (box.dims[dim].size() == 0) continue;
    const auto slice = box.elements() / box.dims[dim].size();
    best = std::min(best, (box.dims[dim].size() + ranks - 1) / ranks * slice);
  }
  return best;
}

using BoxKey = std::vector<std::pair<std::int64_t, std::int64_t>>;

BoxKey key_of(const Box& box) {
  BoxKey key;
  for (const auto& block : box.dims) key.emplace_back(block.begin, block.end);
  return key;
}

Box box_of(const BoxKey& key) {
  Box box;
  for (const auto& [begin, end] : key) box.dims.push_back({begin, end});
  return box;
}

// What all layouts make of a parameter, each different one once.
struct Seen {
  std::set<std::vector<BoxKey>> writings;  // boxes that the ranks write
  std::set<BoxKey> shards;                 // boxes that a rank keeps
};

// Every element is written once, by a rank that holds it, and those that hold the same share the work.
void check_layout(const Case& c, std::map<std::string, Seen>& seen) {
  const Layout layout(c.sizes);
  const auto placements = placements_of(c, layout);
  for (std::size_t k = 0; k < placements.size(); ++k) {
    const auto& placement = placements[k];
    const auto replicas = layout.group_size(placement.replicate_group);
    std::vector<Box> written;
    std::vector<BoxKey> keys;
    for (std::int64_t rank = 0; rank < layout.world(); ++rank) {
      const auto shard = plan::shard_box(placement, layout, rank);
      auto box = written_box(placement, k, layout, rank);
      if (layout::intersect(shard, box).elements() != box.elements() || box.elements() > fair_share(shard, replicas)) {
        CAPTURE(c.describe(), placement.parameter.fqn, rank);
        CHECK(layout::intersect(shard, box).elements() == box.elements());
        CHECK(box.elements() <= fair_share(shard, replicas));
      }
      seen[placement.parameter.fqn].shards.insert(key_of(shard));
      if (box.elements() == 0) continue;
      keys.push_back(key_of(box));
      written.push_back(std::move(box));
    }
    std::ranges::sort(keys);
    // A writing that another layout had has been checked.
    if (!seen[placement.parameter.fqn].writings.insert(keys).second) continue;
    const auto times = counts(placement.parameter.shape, written);
    if (std::ranges::all_of(times, [](int n) { return n == 1; })) continue;
    CAPTURE(c.describe(), placement.parameter.fqn);
    CHECK(std::ranges::all_of(times, [](int n) { return n == 1; }));
  }
}

// Whatever box is wanted, pieces of it are read: all of its elements, each once, and no other.
void check_reads(const std::string& fqn, const Seen& seen) {
  std::int64_t wrong = 0, pairs = 0;
  for (const auto& writing : seen.writings) {
    std::vector<Box> pieces;
    for (const auto& key : writing) pieces.push_back(box_of(key));
    for (const auto& key : seen.shards) {
      const auto wanted = box_of(key);
      std::int64_t read = 0;
      for (const auto& piece : pieces) read += layout::intersect(piece, wanted).elements();
      wrong += read == wanted.elements() ? 0 : 1;
      ++pairs;
    }
  }
  INFO(fqn << ": " << seen.writings.size() << " writings, " << seen.shards.size() << " shards");
  CHECK(wrong == 0);
  CHECK(pairs >= std::ssize(seen.writings));
}

TEST_CASE("in every layout each element is written once, and any other layout finds what it needs, each byte once") {
  std::map<std::string, Seen> seen;
  std::size_t layouts = 0;
  for (std::int64_t world = 1; world <= 16; ++world)
    for (const auto& c : cases_of(world)) {
      check_layout(c, seen);
      ++layouts;
    }
  CHECK(layouts > 1000);
  CHECK(seen.size() == resharded_parameters().size());
  CHECK(seen.at("model.layers.0.mlp.experts.gate_proj").writings.size() > 30);
  for (const auto& [fqn, boxes] : seen) check_reads(fqn, boxes);
}

TEST_CASE("ranks that hold the same take turns with the shorter blocks") {
  for (std::int64_t replicas = 1; replicas <= 8; ++replicas)
    for (const std::int64_t rows : {1, 2, 5, 7, 16}) {
      CAPTURE(replicas, rows);
      const Layout layout(LayoutSizes{.dp_replicate = replicas});
      base::Problems problems;
      const auto placements =
          plan::place({{"w", {rows, 3}}}, plan::ParallelPlan{}, layout, plan::MasterSharding::sharded, problems);
      std::set<std::int64_t> sums;
      for (std::int64_t rank = 0; rank < replicas; ++rank) {
        std::int64_t sum = 0;
        for (std::int64_t index = 0; index < replicas; ++index)
          sum += written_box(placements.at(0), static_cast<std::size_t>(index), layout, rank).elements();
        sums.insert(sum);
      }
      CHECK(sums == std::set<std::int64_t>{3 * rows});
    }
}

TEST_CASE("a long dim is divided, not a short one") {
  const Layout layout(LayoutSizes{.dp_replicate = 4});
  base::Problems problems;
  const auto placements = plan::place({{"wide", {2, 40}}, {"stack", {3, 5, 8}}}, plan::ParallelPlan{}, layout,
                                      plan::MasterSharding::whole, problems);
  CHECK(written_box(placements.at(0), 0, layout, 1) == Box{{{0, 2}, {10, 20}}});
  CHECK(written_box(placements.at(0), 3, layout, 1) == Box{{{0, 2}, {0, 10}}});
  CHECK(written_box(placements.at(1), 4, layout, 3) == Box{{{0, 3}, {0, 5}, {6, 8}}});
}

}  // namespace
}  // namespace tessera::checkpoint
