// If this failed, there would be two layouts of a few ranks between which a checkpoint cannot move.
#include "every_pair.h"
#include "support/catch.h"
#include "support/ranks.h"

namespace tessera::test {
namespace {

TEST_CASE("every layout of these ranks or fewer loads what every other one saved") {
  check_every_pair(all_layouts(world().size()), {"--model.num_hidden_layers", "2"});
}

}  // namespace
}  // namespace tessera::test
