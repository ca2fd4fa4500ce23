#include "train/hosts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bitset>
#include <cstring>
#include <map>

#include "base/error.h"

namespace tessera::train {
namespace {

constexpr std::size_t name_bytes = 64;
using Cores = std::bitset<CPU_SETSIZE>;

// What every rank tells all others.
struct Whereabouts {
  std::int64_t first_rank = 0;  // of its host
  std::array<char, name_bytes> host{};
  std::array<std::uint8_t, CPU_SETSIZE / 8> cores{};
};
static_assert(sizeof(Whereabouts) % sizeof(std::int32_t) == 0);

Whereabouts own_whereabouts(std::int64_t first_rank) {
  Whereabouts own{.first_rank = first_rank};
  if (::gethostname(own.host.data(), name_bytes - 1) != 0) std::strcpy(own.host.data(), "an unnamed host");
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof allowed, &allowed);
  for (std::size_t core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &allowed)) own.cores[core / 8] |= static_cast<std::uint8_t>(1U << (core % 8));
  return own;
}

Cores cores_of(const Whereabouts& w) {
  Cores cores;
  for (std::size_t core = 0; core < CPU_SETSIZE; ++core) cores[core] = (w.cores[core / 8] >> (core % 8) & 1U) != 0;
  return cores;
}

std::vector<Whereabouts> of_all_ranks(comm::Communicator& world, std::int64_t first_rank) {
  std::vector<Whereabouts> all(static_cast<std::size_t>(world.size()));
  all[static_cast<std::size_t>(world.rank())] = own_whereabouts(first_rank);
  constexpr auto words = static_cast<std::int64_t>(sizeof(Whereabouts) / sizeof(std::int32_t));
  comm::GatherBlock block{.type = comm::ElementType::int32, .pieces = {}};
  for (auto& w : all) block.pieces.push_back({&w, 1, words, words});
  world.gather_blocks({block}, nullptr)->wait();
  return all;
}

// Hosts of one name are told apart by their first ranks.
void tell_names_apart(std::vector<Host>& hosts) {
  std::map<std::string, int> counts;
  for (const auto& host : hosts) ++counts[host.name];
  for (auto& host : hosts)
    if (counts[host.name] > 1) host.name += fmt::format(" (with rank {})", host.ranks.front());
}

bool crosses_hosts(const Hosts& hosts, const layout::Group& group) {
  return std::any_of(group.begin(), group.end(),
                     [&](std::int64_t rank) { return hosts.host_of(rank) != hosts.host_of(group.front()); });
}

bool any_crosses(const Hosts& hosts, const layout::Layout& layout, const layout::GroupId& id) {
  const auto groups = layout.groups(id);
  return std::any_of(groups.begin(), groups.end(), [&](const auto& group) { return crosses_hosts(hosts, group); });
}

}  // namespace

std::int64_t Hosts::host_of(std::int64_t rank) const {
  const auto found = std::find_if(all.begin(), all.end(), [&](const Host& host) {
    return std::binary_search(host.ranks.begin(), host.ranks.end(), rank);
  });
  base::expect(found != all.end(), "rank {} is on no host", rank);
  return found - all.begin();
}

std::string Hosts::describe() const {
  constexpr std::size_t most = 8;
  std::vector<std::string> names;
  for (const auto& host : all)
    if (names.size() < most) names.push_back(fmt::format("{} on {}", host.ranks.size(), host.name));
  const auto more = all.size() > most ? fmt::format(" and {} more hosts", all.size() - most) : "";
  return fmt::format("{}{}", fmt::join(names, ", "), more);
}

Hosts find_hosts(comm::Communicator& world, std::int64_t first_rank) {
  const auto ranks = of_all_ranks(world, first_rank);
  Hosts hosts;
  std::map<std::int64_t, std::size_t> place;
  std::vector<Cores> cores;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto [at, is_new] = place.try_emplace(ranks[rank].first_rank, hosts.all.size());
    if (is_new) {
      hosts.all.push_back({.name = ranks[rank].host.data(), .ranks = {}});
      cores.emplace_back();
    }
    hosts.all[at->second].ranks.push_back(static_cast<std::int64_t>(rank));
    cores[at->second] |= cores_of(ranks[rank]);
  }
  tell_names_apart(hosts.all);
  for (std::size_t h = 0; h < cores.size(); ++h) hosts.all[h].cores = static_cast<std::int64_t>(cores[h].count());

  const auto& here = hosts.all[static_cast<std::size_t>(hosts.host_of(world.rank()))];
  const auto own = cores_of(ranks[static_cast<std::size_t>(world.rank())]);
  const auto sharing = std::count_if(here.ranks.begin(), here.ranks.end(), [&](std::int64_t rank) {
    return (cores_of(ranks[static_cast<std::size_t>(rank)]) & own).any();
  });
  hosts.threads_per_rank =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(own.count()) / std::max<std::int64_t>(1, sharing));
  return hosts;
}

std::vector<std::string> warnings_of(const Hosts& hosts, const layout::Layout& layout,
                                     const std::vector<std::int64_t>& threads_of_ranks) {
  std::vector<std::string> warnings;
  for (const auto& host : hosts.all) {
    std::int64_t threads = 0;
    for (const auto rank : host.ranks) threads += threads_of_ranks.at(static_cast<std::size_t>(rank));
    if (threads > host.cores)
      warnings.push_back(
          fmt::format("{} ranks on {} have {} threads together on {} cores, which is slow; give fewer ranks, "
                      "train.threads, or --bind-to none to mpirun",
                      host.ranks.size(), host.name, threads, host.cores));
  }
  for (const auto& extra : layout.sizes().extra) {
    if (extra.size == 1 || extra.placement == layout::GridPlacement::innermost) continue;
    auto sizes = layout.sizes();
    for (auto& other : sizes.extra) other.placement = layout::GridPlacement::innermost;
    const auto owners = layout::GroupId::of(extra.name, layout::ExtraAxis::owners);
    if (any_crosses(hosts, layout, owners) && !any_crosses(hosts, layout::Layout(sizes), owners))
      warnings.push_back(fmt::format(
          "groups of {} cross hosts because their ranks stand apart; with extra_parallel_placement_innermost true each "
          "would be on one host",
          extra.name));
  }
  return warnings;
}

}  // namespace tessera::train
