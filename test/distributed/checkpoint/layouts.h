// Layouts of the first ranks of the world, and runs in them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/small_run.h"

namespace tessera::test {

struct CheckpointLayout {
  std::int64_t ranks = 1;
  Words words;  // options of the command line

  [[nodiscard]] std::string describe() const;
};

enum class Placed { inner, outer };
// Returns the options for named groups; leaves out groups of size 1.
[[nodiscard]] Words groups_of(const std::vector<std::pair<std::string, std::int64_t>>& sizes,
                              Placed placed = Placed::inner);
[[nodiscard]] Words replicas(std::int64_t count, std::int64_t ranks);
[[nodiscard]] Words preset(const std::string& mode);

// Returns, for every number of ranks up to four, each preset, ep and emb alone and together, inner and outer, and two
// replicas.
[[nodiscard]] std::vector<CheckpointLayout> chosen_layouts();
// Returns every layout of up to `most` ranks: sharded, with the presets in turn, and as ddp.
[[nodiscard]] std::vector<CheckpointLayout> all_layouts(std::int64_t most);

// Returns the group of the first `ranks` ranks; null on the other ranks. Collective over the world.
[[nodiscard]] std::shared_ptr<comm::Communicator> group_of_first(std::int64_t ranks);

// Starts a run of `settings` on the first `ranks` ranks; returns null on the other ranks. Collective over the world.
[[nodiscard]] std::unique_ptr<Start> start_on(std::int64_t ranks, const config::Settings& settings);

}  // namespace tessera::test
