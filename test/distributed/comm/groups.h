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

// Collective over the world at the first call of either; the same groups afterwards, until the tests have run.
[[nodiscard]] const std::vector<NamedGroup>& groups_under_test();
// All ranks.
[[nodiscard]] comm::Communicator& world_under_test();

}  // namespace tessera::test
