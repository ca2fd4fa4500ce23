#define CATCH_CONFIG_EXTERNAL_INTERFACES
#include "groups.h"

#include <numeric>

#include "backend.h"
#include "support/catch.h"
#include "support/delaying_communicator.h"
#include "support/ranks.h"

namespace {

#if __has_include(<catch2/catch_all.hpp>)
using ListenerBase = Catch::EventListenerBase;
#else
using ListenerBase = Catch::TestEventListenerBase;
#endif

std::vector<tessera::test::NamedGroup> groups;

// Groups do not outlive the world.
class Release : public ListenerBase {
 public:
  using ListenerBase::ListenerBase;
  void testRunEnded(const Catch::TestRunStats& stats) override {
    ListenerBase::testRunEnded(stats);
    groups.clear();
  }
};
CATCH_REGISTER_LISTENER(Release)

}  // namespace

namespace tessera::test {

namespace {

std::vector<NamedGroup> make() {
  const auto all = make_backend();
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
  if (groups.empty()) groups = make();
  return groups;
}

comm::Communicator& world_under_test() { return *groups_under_test().front().communicator; }

}  // namespace tessera::test
