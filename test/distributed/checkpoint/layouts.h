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
  Words words;  // of the command line

  [[nodiscard]] std::string describe() const;
};

enum class Placed { inner, outer };
// The options of named groups; those of size 1 are left out.
[[nodiscard]] Words groups_of(const std::vector<std::pair<std::string, std::int64_t>>& sizes,
                              Placed placed = Placed::inner);
[[nodiscard]] Words replicas(std::int64_t count, std::int64_t ranks);
[[nodiscard]] Words preset(const std::string& mode);

// Of every number of ranks up to four: each preset, ep and emb alone and together, inner and outer, two replicas.
[[nodiscard]] std::vector<CheckpointLayout> chosen_layouts();
// Every layout of up to `most` ranks, sharded by turns in each preset, and as ddp.
[[nodiscard]] std::vector<CheckpointLayout> all_layouts(std::int64_t most);

// The group of the first `ranks` ranks; null on the others. Collective over the world.
[[nodiscard]] std::shared_ptr<comm::Communicator> group_of_first(std::int64_t ranks);

// A run of `settings` on the first `ranks` ranks; null on the others. Collective over the world.
[[nodiscard]] std::unique_ptr<Start> start_on(std::int64_t ranks, const config::Settings& settings);

}  // namespace tessera::test
