#include "groups.h"

#include <numeric>

#include "support/delaying_communicator.h"
#include "support/ranks.h"

namespace tessera::test {

namespace {

std::vector<NamedGroup> make() {
  const auto& all = world().communicator();
  std::vector<std::int64_t> backwards(static_cast<std::size_t>(world().size())), alike;
  std::iota(backwards.rbegin(), backwards.rend(), 0);
  for (auto k = world().rank() % 2; k < world().size(); k += 2) alike.push_back(k);
  return {{"all ranks", all},
          {"all ranks, delayed", std::make_shared<DelayingCommunicator>(all, 5)},
          {"all ranks backwards", all->make_group(backwards)},
          {"even and odd ranks, delayed", std::make_shared<DelayingCommunicator>(all->make_group(alike), 11)}};
}

}  // namespace

const std::vector<NamedGroup>& groups_under_test() {
  static const auto groups = make();
  return groups;
}

}  // namespace tessera::test
