// If this failed, ranks would run more threads than their host has cores, or exchange over the network within a group
// that could stay on one host, without a warning.
#include "train/hosts.h"

#include <sched.h>

#include <numeric>

#include "support/catch.h"
#include "support/ranks.h"

namespace tessera::train {
namespace {

using layout::GridPlacement;
using layout::Layout;
using Texts = std::vector<std::string>;

Layout layout_of(std::int64_t ranks, std::vector<layout::ExtraParallel> extra) {
  layout::LayoutSizes sizes;
  sizes.dp_shard = ranks;
  sizes.extra = std::move(extra);
  return Layout(sizes);
}

// Hosts of `each` ranks side by side, with `cores` cores.
Hosts hosts_of(std::int64_t count, std::int64_t each, std::int64_t cores) {
  Hosts hosts;
  for (std::int64_t h = 0; h < count; ++h) {
    std::vector<std::int64_t> ranks(static_cast<std::size_t>(each));
    std::iota(ranks.begin(), ranks.end(), h * each);
    hosts.all.push_back({.name = "node" + std::to_string(h), .ranks = std::move(ranks), .cores = cores});
  }
  return hosts;
}

Texts warnings(const Hosts& hosts, const Layout& layout, std::int64_t threads = 1) {
  return warnings_of(hosts, layout, std::vector<std::int64_t>(static_cast<std::size_t>(layout.world()), threads));
}

TEST_CASE("an outer group that crosses hosts where an inner one would not is warned about, by its name") {
  const auto hosts = hosts_of(2, 4, 8);
  const Texts told{
      "groups of ep cross hosts because their ranks stand apart; with extra_parallel_placement_innermost true each "
      "would "
      "be on one host"};
  CHECK(warnings(hosts, layout_of(8, {{"ep", 4, GridPlacement::outer}})) == told);
  CHECK(warnings(hosts, layout_of(8, {{"ep", 2, GridPlacement::outer}, {"emb", 4}})) == told);
  CHECK(warnings(hosts, layout_of(8, {{"ep", 4}})).empty());
  // Of 8 ranks on two hosts a group has both hosts in any placement; alone it crosses none.
  CHECK(warnings(hosts, layout_of(8, {{"ep", 8, GridPlacement::outer}})).empty());
  CHECK(warnings(hosts, layout_of(8, {{"ep", 1, GridPlacement::outer}})).empty());
  CHECK(warnings(hosts_of(1, 8, 8), layout_of(8, {{"ep", 4, GridPlacement::outer}})).empty());
}

TEST_CASE("a group of one name is judged by its own placement, whatever the other names do") {
  const auto list =
      warnings(hosts_of(2, 4, 8), layout_of(8, {{"ep", 4, GridPlacement::outer}, {"emb", 2, GridPlacement::outer}}));
  REQUIRE(list.size() == 2);
  CHECK_THAT(list[0], Catch::Matchers::StartsWith("groups of ep cross hosts"));
  CHECK_THAT(list[1], Catch::Matchers::StartsWith("groups of emb cross hosts"));
}

TEST_CASE("each host whose ranks have more threads than cores is warned about") {
  auto hosts = hosts_of(2, 3, 6);
  CHECK(warnings(hosts, layout_of(6, {}), 2).empty());
  hosts.all[1].cores = 5;
  CHECK(warnings(hosts, layout_of(6, {}), 2) ==
        Texts{"3 ranks on node1 have 6 threads together on 5 cores, which is slow; give fewer ranks, train.threads, or "
              "--bind-to none to mpirun"});
}

TEST_CASE("hosts are told by ranks on each, of many the first eight") {
  CHECK(hosts_of(2, 3, 6).describe() == "3 on node0, 3 on node1");
  CHECK_THAT(hosts_of(11, 1, 1).describe(), Catch::Matchers::EndsWith("1 on node7 and 3 more hosts"));
}

TEST_CASE("every rank finds all ranks of this machine, on one host, and its share of the cores") {
  const auto hosts = find_hosts(*test::world().communicator(), test::world().first_rank_of_host());
  CHECK_ON_ALL(hosts.all.size() == 1);
  std::vector<std::int64_t> ranks(static_cast<std::size_t>(test::world().size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  CHECK_ON_ALL(hosts.all.front().ranks == ranks);
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  ::sched_getaffinity(0, sizeof allowed, &allowed);
  // Ranks are not bound here: all of them share the same cores.
  CHECK_ON_ALL(hosts.all.front().cores == CPU_COUNT(&allowed));
  CHECK_ON_ALL(hosts.threads_per_rank == std::max<std::int64_t>(1, CPU_COUNT(&allowed) / test::world().size()));
  for (const auto rank : ranks) CHECK_ON_ALL(hosts.host_of(rank) == 0);
  CHECK_ON_ALL(warnings_of(hosts, layout_of(test::world().size(), {}),
                           std::vector<std::int64_t>(ranks.size(), CPU_COUNT(&allowed) + 1))
                   .size() == 1);
}

TEST_CASE("hosts of one name are several hosts: each has its own cores, and its own ranks in messages") {
  const auto n = test::world().size(), rank = test::world().rank();
  if (n == 1) return;
  // The last rank is on another machine, which has the name of this one.
  const auto hosts = find_hosts(*test::world().communicator(), rank == n - 1 ? n - 1 : 0);
  CHECK_ON_ALL(hosts.all.size() == 2);
  CHECK_ON_ALL(std::ssize(hosts.all[0].ranks) == n - 1 && hosts.all[1].ranks == std::vector{n - 1});
  CHECK_ON_ALL(hosts.host_of(n - 1) == 1 && hosts.host_of(0) == 0);
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  ::sched_getaffinity(0, sizeof allowed, &allowed);
  const auto sharing = rank == n - 1 ? 1 : n - 1;
  CHECK_ON_ALL(hosts.threads_per_rank == std::max<std::int64_t>(1, CPU_COUNT(&allowed) / sharing));
  const auto name = hosts.all[1].name.substr(0, hosts.all[1].name.find(' '));
  CHECK_ON_ALL(hosts.describe() == std::to_string(n - 1) + " on " + name + " (with rank 0), 1 on " + name +
                                       " (with rank " + std::to_string(n - 1) + ")");
}

}  // namespace
}  // namespace tessera::train
