// The groups in which each collective is tested: of any size up to the world's, in several orders, undelayed and
// delayed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace tessera::test {

struct NamedGroup {
  std::string name;
  std::shared_ptr<comm::Communicator> communicator;
};

// The first call of either function makes the groups, collectively over the world; later calls return the same groups.
[[nodiscard]] const std::vector<NamedGroup>& groups_under_test();
// The group of all ranks.
[[nodiscard]] comm::Communicator& world_under_test();

}  // namespace tessera::test
