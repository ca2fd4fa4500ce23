// Cutting a model's steps into chains (run as one graph) and exchanges (real communications).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "architecture/architecture.h"
#include "layout/layout.h"
#include "plan/unit_storage.h"
#include "program/program.h"

namespace tessera::program {

enum class Recompute : std::uint8_t { none, full, experts };

// neighbours: an exchange whose group has one rank is the identity inside a chain; none: every exchange is an
// instruction.
enum class Fusion : std::uint8_t { neighbours, none };

// One node of the forward pass: a chain, or an exchange that travels.
struct Node {
  enum class Type : std::uint8_t { chain, exchange };
  Type type = Type::chain;
  std::int32_t index = 0;  // chain, or step of the architecture
};

struct ForwardOrder {
  std::vector<Chain> chains;
  std::vector<Node> order;
  // By step of the architecture: the group over which an exchange goes, that is the extra parallel that cuts the
  // parameters of the segment between the two exchanges, or a dense axis; alone if it has one rank, and for segments.
  std::vector<layout::GroupId> exchange_groups;
};

// Chains end at exchanges that are not fused, at the borders of layers, around the experts when only they are
// recomputed, and where the next segment uses another unit that has to be gathered over more than one rank.
[[nodiscard]] ForwardOrder cut_into_chains(const architecture::Architecture& architecture,
                                           const plan::PlacementIndex& placements, const layout::Layout& layout,
                                           Recompute recompute, Fusion fusion);

// The chain runs again before its backward: all of a layer but a merge that stands alone (full), the experts (experts).
[[nodiscard]] bool is_recomputed(const Chain& chain, const architecture::Architecture& architecture,
                                 Recompute recompute);

}  // namespace tessera::program
