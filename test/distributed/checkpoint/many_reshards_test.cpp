// If this failed, there would be two layouts of a few ranks between which a checkpoint could not be moved.
#include "every_pair.h"
#include "support/catch.h"
#include "support/ranks.h"

namespace tessera::test {
namespace {

// All of up to four ranks; of more, all of that many and some of fewer.
std::vector<CheckpointLayout> layouts_of(std::int64_t ranks) {
  auto layouts = all_layouts(ranks);
  if (ranks <= 4) return layouts;
  std::erase_if(layouts, [&](const CheckpointLayout& layout) { return layout.ranks < ranks; });
  for (const auto& layout : chosen_layouts()) layouts.push_back(layout);
  return layouts;
}

TEST_CASE("every layout of these ranks loads what every other one saved") {
  check_every_pair(layouts_of(world().size()), {"--model.num_hidden_layers", "2"});
}

}  // namespace
}  // namespace tessera::test
