// If this failed for some legal layout, two ranks would hold the same shard without knowing, or an element would have
// no owner. Covers every world of up to 16 ranks, every factorisation of it, and up to two extra parallels in both
// placements.
#include "layout/layout.h"

#include "layout/block.h"
#include "support/catch.h"
#include "support/group_named.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace tessera::layout {
namespace {

void for_each_dense(std::int64_t world, const std::function<void(const LayoutSizes&)>& visit) {
  LayoutSizes sizes;
  const std::vector<std::int64_t*> axes{&sizes.pp, &sizes.dp_replicate, &sizes.dp_shard, &sizes.ulysses, &sizes.cp};
  const std::function<void(std::size_t, std::int64_t)> choose = [&](std::size_t axis, std::int64_t left) {
    if (axis == axes.size()) {
      sizes.tp = left;
      visit(sizes);
      return;
    }
    for (std::int64_t size = 1; size <= left; ++size)
      if (left % size == 0) {
        *axes[axis] = size;
        choose(axis + 1, left / size);
      }
  };
  choose(0, world);
}

// Every legal extra parallel of that name.
std::vector<ExtraParallel> extras_of(const LayoutSizes& sizes, const std::string& name) {
  std::vector<ExtraParallel> all;
  for (const bool folds : {false, true}) {
    if (folds && sizes.tp == 1) continue;
    for (const GridPlacement placement : {GridPlacement::innermost, GridPlacement::outer}) {
      ExtraParallel extra{name, 1, placement, folds};
      const std::int64_t ranks = divisible_ranks(sizes, extra);
      for (extra.size = 1; extra.size <= ranks; ++extra.size)
        if (ranks % extra.size == 0) all.push_back(extra);
    }
  }
  return all;
}

bool is_partition(const std::vector<Group>& groups, std::int64_t world) {
  std::set<std::int64_t> seen;
  std::size_t members = 0;
  for (const Group& group : groups) {
    seen.insert(group.begin(), group.end());
    members += group.size();
  }
  return members == static_cast<std::size_t>(world) && seen.size() == members && *seen.begin() == 0 &&
         *seen.rbegin() == world - 1;
}

std::size_t common_ranks(const Group& a, const Group& b) {
  return static_cast<std::size_t>(std::count_if(
      a.begin(), a.end(), [&](std::int64_t rank) { return std::find(b.begin(), b.end(), rank) != b.end(); }));
}

// Each rank's own view of a group agrees with the list of all groups.
void check_group(const Layout& layout, const GroupId& id) {
  const std::vector<Group> groups = layout.groups(id);
  REQUIRE(is_partition(groups, layout.world()));
  for (const Group& group : groups) {
    REQUIRE(static_cast<std::int64_t>(group.size()) == layout.group_size(id));
    for (std::size_t i = 0; i < group.size(); ++i) {
      const bool own = layout.position(group[i], id) == static_cast<std::int64_t>(i) &&
                       (i + 1 < group.size() || layout.group(group[i], id) == group);
      REQUIRE(own);
    }
  }
}

// Boxes of an odd-sized tensor cut by x on dim 0 and x_fsdp on dim 1 cover it exactly once in each stage, replica,
// lane.
void check_boxes(const Layout& layout, const std::string& x) {
  const auto owners_of_x = GroupId::of(x, ExtraAxis::owners), fsdp_of_x = GroupId::of(x, ExtraAxis::fsdp);
  const std::int64_t rows = 5;
  const std::int64_t columns = 7;
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> owners;
  for (std::int64_t rank = 0; rank < layout.world(); ++rank) {
    const Block row = block_of(rows, layout.group_size(owners_of_x), layout.position(rank, owners_of_x));
    const Block column = block_of(columns, layout.group_size(fsdp_of_x), layout.position(rank, fsdp_of_x));
    for (std::int64_t i = row.begin; i < row.end; ++i)
      for (std::int64_t j = column.begin; j < column.end; ++j) ++owners[{i, j}];
  }
  const std::int64_t copies = layout.world() / layout.group_size(owners_of_x.join(fsdp_of_x));
  REQUIRE(static_cast<std::int64_t>(owners.size()) == rows * columns);
  REQUIRE(std::all_of(owners.begin(), owners.end(), [&](const auto& owner) { return owner.second == copies; }));
}

void check_extra(const Layout& layout, const ExtraParallel& extra) {
  const std::string& x = extra.name;
  const LayoutSizes& sizes = layout.sizes();
  const auto owners = GroupId::of(x, ExtraAxis::owners), fsdp_of_x = GroupId::of(x, ExtraAxis::fsdp),
             replicas = GroupId::of(x, ExtraAxis::replicate);
  for (const GroupId& id : {owners, fsdp_of_x, replicas, owners.join(fsdp_of_x)}) check_group(layout, id);
  for (const Group& group : layout.groups(owners))
    for (const Group& fsdp : layout.groups(fsdp_of_x)) REQUIRE(common_ranks(group, fsdp) <= 1);
  const std::int64_t lanes = extra.folds_tp ? 1 : sizes.tp;
  REQUIRE(layout.group_size(owners) * layout.group_size(fsdp_of_x) * layout.group_size(replicas) ==
          layout.world() / (sizes.pp * lanes));
  const bool adjacent = extra.placement == GridPlacement::innermost;
  const Group first = layout.group(0, adjacent ? owners : fsdp_of_x);
  for (std::size_t i = 0; i < first.size(); ++i) REQUIRE(first[i] == static_cast<std::int64_t>(i) * lanes);
  check_boxes(layout, x);
}

TEST_CASE("dense groups of every layout of up to 16 ranks partition the ranks") {
  for (std::int64_t world = 1; world <= 16; ++world)
    for_each_dense(world, [&](const LayoutSizes& sizes) {
      const Layout layout(sizes);
      REQUIRE(layout.world() == world);
      for (const GroupId& id : layout.group_ids()) check_group(layout, id);
      REQUIRE(layout.group_size(test::group_named(layout, "fsdp")) == sizes.dp_shard * sizes.ulysses * sizes.cp);
      REQUIRE(layout.group_size(test::group_named(layout, "data")) == sizes.dp_replicate * sizes.dp_shard);
    });
}

TEST_CASE("an extra parallel of every legal size partitions the ranks and meets its FSDP group in one rank") {
  for (std::int64_t world = 1; world <= 16; ++world)
    for_each_dense(world, [&](const LayoutSizes& dense) {
      for (const ExtraParallel& extra : extras_of(dense, "x")) {
        LayoutSizes sizes = dense;
        sizes.extra = {extra};
        check_extra(Layout(sizes), extra);
      }
    });
}

TEST_CASE("two extra parallels have independent grids") {
  for (std::int64_t world = 1; world <= 16; ++world)
    for_each_dense(world, [&](const LayoutSizes& dense) {
      if (dense.pp > 1 || dense.cp > 1) return;  // they multiply the combinations, not the kinds
      for (const ExtraParallel& a : extras_of(dense, "a"))
        for (const ExtraParallel& b : extras_of(dense, "b")) {
          LayoutSizes both = dense;
          both.extra = {a, b};
          LayoutSizes second = dense;
          second.extra = {b};
          const Layout layout(both);
          const Layout expected(second);
          REQUIRE(layout.has_extra("a"));
          REQUIRE(layout.group(world - 1, test::group_named(layout, "b")) ==
                  expected.group(world - 1, test::group_named(expected, "b")));
          REQUIRE(layout.group(world / 2, test::group_named(layout, "b_fsdp")) ==
                  expected.group(world / 2, test::group_named(expected, "b_fsdp")));
          REQUIRE(layout.group_size(test::group_named(layout, "a")) == a.size);
          REQUIRE(layout.position(world - 1, test::group_named(layout, "b")) ==
                  expected.position(world - 1, test::group_named(expected, "b")));
        }
    });
}

std::vector<Group> groups_named(const Layout& layout, const std::string& name) {
  return layout.groups(test::group_named(layout, name));
}

TEST_CASE("four ranks: a group of two, inner, outer, in two replicas, and beside a group of four") {
  using Groups = std::vector<Group>;
  LayoutSizes sizes;
  sizes.dp_shard = 4;
  sizes.extra = {{"ep", 2}};
  CHECK(groups_named(Layout(sizes), "ep") == Groups{{0, 1}, {2, 3}});
  CHECK(groups_named(Layout(sizes), "ep_fsdp") == Groups{{0, 2}, {1, 3}});
  sizes.extra = {{"ep", 2}, {"emb", 4}};
  CHECK(groups_named(Layout(sizes), "ep") == Groups{{0, 1}, {2, 3}});
  CHECK(groups_named(Layout(sizes), "emb") == Groups{{0, 1, 2, 3}});
  CHECK(groups_named(Layout(sizes), "emb_fsdp") == Groups{{0}, {1}, {2}, {3}});
  sizes.extra = {{"ep", 2, GridPlacement::outer}};
  CHECK(groups_named(Layout(sizes), "ep") == Groups{{0, 2}, {1, 3}});
  CHECK(groups_named(Layout(sizes), "ep_fsdp") == Groups{{0, 1}, {2, 3}});
  sizes.dp_replicate = 2;
  sizes.dp_shard = 2;
  sizes.extra = {{"ep", 2}};
  CHECK(groups_named(Layout(sizes), "ep") == Groups{{0, 1}, {2, 3}});
  CHECK(groups_named(Layout(sizes), "ep_fsdp") == Groups{{0}, {1}, {2}, {3}});
  CHECK(groups_named(Layout(sizes), "ep_replicate") == Groups{{0, 2}, {1, 3}});
}

TEST_CASE("ranks that differ only in Ulysses, context or tensor parallel share their sequences") {
  LayoutSizes sizes;
  sizes.dp_replicate = 3;
  sizes.dp_shard = 2;
  sizes.ulysses = 2;
  sizes.tp = 2;
  const Layout layout(sizes);
  CHECK(layout.group_size(test::group_named(layout, "data")) == 6);
  for (std::int64_t rank = 0; rank < layout.world(); ++rank)
    CHECK(layout.position(rank, test::group_named(layout, "data")) == rank / 4);
}

TEST_CASE("one of the ranks that work on the same sequences counts their tokens, whatever they share them by") {
  for (const bool has_stages : {false, true}) {
    LayoutSizes sizes;
    sizes.pp = has_stages ? 2 : 1;
    sizes.dp_replicate = 3;
    sizes.dp_shard = 2;
    sizes.ulysses = 2;
    sizes.cp = 2;
    sizes.tp = 2;
    const Layout layout(sizes);
    std::set<std::int64_t> counted;
    for (std::int64_t rank = 0; rank < layout.world(); ++rank)
      if (counts_sequences(layout, rank)) CHECK(counted.insert(layout.position(rank, GroupId::data())).second);
    CHECK(counted.size() == 6);
    const auto ids = layout.group_ids();
    CHECK(std::ranges::count(ids, GroupId::stage()) == (has_stages ? 1 : 0));
    CHECK(layout.group_size(GroupId::stage()) == 48);
  }
  const Layout alone(LayoutSizes{});
  CHECK(counts_sequences(alone, 0));
}

TEST_CASE("groups join within a grid, and have the names of settings and logs") {
  const auto owners = GroupId::of("ep", ExtraAxis::owners), fsdp = GroupId::of("ep", ExtraAxis::fsdp);
  CHECK(owners.join(fsdp).name() == "ep+ep_fsdp");
  CHECK(fsdp.join(owners) == owners.join(fsdp));
  CHECK(GroupId::of("ep", ExtraAxis::replicate).join(fsdp).name() == "ep_replicate+ep_fsdp");
  CHECK(GroupId::world().name() == "world");
  CHECK(GroupId::fsdp().name() == "fsdp");
  CHECK(GroupId::data().name() == "data");
  CHECK(GroupId::of(DenseAxis::dp_replicate).join(GroupId::fsdp()).name() == "dp_replicate+fsdp");
  CHECK(GroupId::of(DenseAxis::dp_shard).join(GroupId::of(DenseAxis::cp)).name() == "dp_shard+cp");
  CHECK(GroupId().is_alone());
  CHECK(GroupId().name().empty());
  CHECK(GroupId().join(owners) == owners);
  CHECK(owners.join({}) == owners);
  CHECK_THROWS_AS(owners.join(GroupId::fsdp()), std::logic_error);
  CHECK_THROWS_AS(owners.join(GroupId::of("emb", ExtraAxis::owners)), std::logic_error);
}

TEST_CASE("a name of another layout is the programmer's error") {
  const Layout layout(LayoutSizes{});
  CHECK_FALSE(layout.has_extra("ep"));
  CHECK_THROWS_AS(layout.group(0, GroupId::of("ep", ExtraAxis::owners)), std::logic_error);
  CHECK_THROWS_AS(layout.extra_grid("ep"), std::logic_error);
  CHECK_THROWS_AS(layout.group(1, test::group_named(layout, "world")), std::logic_error);
  CHECK_THROWS_AS(layout.dense_grid().coordinate(0, "row"), std::logic_error);
  CHECK_THROWS_AS(Grid({{"a", 2}, {"a", 3}}), std::logic_error);
  LayoutSizes sizes;
  sizes.extra = {{"ep", 2}};
  CHECK_THROWS_AS(Layout(sizes), std::logic_error);
}

TEST_CASE("the printed groups name every rank of every group") {
  LayoutSizes sizes;
  sizes.dp_shard = 4;
  sizes.extra = {{"ep", 2}};
  CHECK(describe_groups(Layout(sizes), 3) ==
        "group                 size  ranks            of rank 3\n"
        "--------------------  ----  ---------------  ---------\n"
        "world                    4  {0,1,2,3}        {0,1,2,3}\n"
        "fsdp                     4  {0,1,2,3}        {0,1,2,3}\n"
        "data                     4  {0,1,2,3}        {0,1,2,3}\n"
        "dp_replicate+fsdp        4  {0,1,2,3}        {0,1,2,3}\n"
        "dp_replicate             1  each rank alone  {3}\n"
        "dp_shard                 4  {0,1,2,3}        {0,1,2,3}\n"
        "ep                       2  {0,1} {2,3}      {2,3}\n"
        "ep_fsdp                  2  {0,2} {1,3}      {1,3}\n"
        "ep_replicate             1  each rank alone  {3}\n"
        "ep+ep_fsdp               4  {0,1,2,3}        {0,1,2,3}\n"
        "ep_replicate+ep_fsdp     2  {0,2} {1,3}      {1,3}\n");
}

TEST_CASE("of a thousand ranks the first groups are shown, with their number, and the group of one rank") {
  LayoutSizes sizes;
  sizes.dp_shard = 1024;
  sizes.extra = {{"ep", 64}, {"emb", 8, GridPlacement::outer}};
  std::istringstream lines(describe_groups(Layout(sizes), 700));
  std::map<std::string, std::string> of;
  for (std::string line; std::getline(lines, line);) {
    CHECK(line.size() <= 160);
    of[line.substr(0, line.find(' '))] = line;
  }
  // 700 = 10 * 64 + 60 in blocks of 64, and 5 * 128 + 60 in strides of 128.
  CHECK_THAT(of["world"], Catch::Matchers::EndsWith("  {0,1,2,...,1023}"));
  CHECK_THAT(of["ep"], Catch::Matchers::ContainsSubstring(
                           " 64  {0,1,2,...,63} {64,65,66,...,127} {128,129,130,...,191} ... (16 groups) "));
  CHECK_THAT(of["ep"], Catch::Matchers::EndsWith("  {640,641,642,...,703}"));
  CHECK_THAT(of["ep_fsdp"], Catch::Matchers::ContainsSubstring(" 16  {0,64,128,...,960} {1,65,129,...,961} "));
  CHECK_THAT(of["ep_fsdp"], Catch::Matchers::ContainsSubstring(" ... (64 groups) "));
  CHECK_THAT(of["ep_fsdp"], Catch::Matchers::EndsWith("  {60,124,188,...,1020}"));
  CHECK_THAT(of["emb"], Catch::Matchers::ContainsSubstring(
                            "  8  {0,128,256,384,512,640,768,896} {1,129,257,385,513,641,769,897} ... "
                            "(128 groups) "));
  CHECK_THAT(of["emb_fsdp"], Catch::Matchers::EndsWith("  {640,641,642,...,767}"));
}

}  // namespace
}  // namespace tessera::layout
