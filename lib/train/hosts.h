// Finds the ranks that share a host, and the number of threads that each of them may use.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "layout/layout.h"

namespace tessera::train {

struct Host {
  std::string name;                 // if several hosts have one name: "node (with rank 4)"
  std::vector<std::int64_t> ranks;  // ascending
  std::int64_t cores = 0;           // number of cores that its ranks may run on, together
};

// The hosts of a world, which are the same on every rank, and this rank's share of its host.
struct Hosts {
  std::vector<Host> all;  // in the order of their first ranks
  // Number of cores that this rank may run on, divided evenly among the ranks of its host that share them; at least 1.
  std::int64_t threads_per_rank = 1;

  [[nodiscard]] std::int64_t host_of(std::int64_t rank) const;
  [[nodiscard]] std::string describe() const;  // "4 on node1, 4 on node2"
};

// Collective over `world`. `first_rank`: World::first_rank_of_host() of this rank. Ranks with different first ranks are
// on different hosts, even if those have the same name.
[[nodiscard]] Hosts find_hosts(comm::Communicator& world, std::int64_t first_rank);

// Returns one line for each host whose ranks have more threads than cores, and one for each extra parallel whose outer
// placement makes a group cross hosts although the inner placement would not. `threads_of_ranks`: by rank.
[[nodiscard]] std::vector<std::string> warnings_of(const Hosts& hosts, const layout::Layout& layout,
                                                   const std::vector<std::int64_t>& threads_of_ranks);

}  // namespace tessera::train
