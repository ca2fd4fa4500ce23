// Which ranks share a host, and how many threads each of them may use.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "layout/layout.h"

namespace tessera::train {

struct Host {
  std::string name;                 // of several hosts of one name: "node (with rank 4)"
  std::vector<std::int64_t> ranks;  // ascending
  std::int64_t cores = 0;           // that its ranks may run on, together
};

// The hosts of a world, by their first rank, the same on every rank; and what this rank learns for itself.
struct Hosts {
  std::vector<Host> all;
  // The cores that this rank may run on, shared evenly with the ranks of its host that may run there too; at least 1.
  std::int64_t threads_per_rank = 1;

  [[nodiscard]] std::int64_t host_of(std::int64_t rank) const;
  [[nodiscard]] std::string describe() const;  // "4 on node1, 4 on node2"
};

// Collective over `world`. `first_rank` is that of this rank's host (World::first_rank_of_host): ranks with another one
// are on another host, though it may have the same name.
[[nodiscard]] Hosts find_hosts(comm::Communicator& world, std::int64_t first_rank);

// A line for each host whose ranks have more threads than cores, and for each extra parallel whose outer placement
// lets a group cross hosts where the inner one would not.
[[nodiscard]] std::vector<std::string> warnings_of(const Hosts& hosts, const layout::Layout& layout,
                                                   const std::vector<std::int64_t>& threads_of_ranks);

}  // namespace tessera::train
