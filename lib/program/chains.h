// Cuts the model steps into chains, which run as one graph, and exchanges, which communicate.
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

// neighbours: an exchange whose group has one rank is the identity inside a chain. none: every exchange is an
// instruction.
enum class Fusion : std::uint8_t { neighbours, none };

// One node of the forward pass: a chain, or an exchange that travels.
struct Node {
  enum class Type : std::uint8_t { chain, exchange };
  Type type = Type::chain;
  std::int32_t index = 0;  // of the chain, or of the model step
};

struct ForwardOrder {
  std::vector<Chain> chains;
  std::vector<Node> order;
  // By model step: the group of an exchange. It is the extra parallel that cuts the parameters of the segment between
  // two exchanges, or a dense axis. Alone for segments, and for groups of one rank.
  std::vector<layout::GroupId> exchange_groups;
};

// Ends a chain at each exchange that is not fused, at the borders of layers, around the experts if only they are
// recomputed, and before a segment that uses another unit that is gathered over more than one rank.
[[nodiscard]] ForwardOrder cut_into_chains(const architecture::Architecture& architecture,
                                           const plan::PlacementIndex& placements, const layout::Layout& layout,
                                           Recompute recompute, Fusion fusion);

// Returns whether the chain runs again before its backward. Under `full` these are all chains of layers except a merge
// that is a chain of its own, under `experts` those of the experts.
[[nodiscard]] bool is_recomputed(const Chain& chain, const architecture::Architecture& architecture,
                                 Recompute recompute);

}  // namespace tessera::program
