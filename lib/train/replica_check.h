// Checks that the ranks that hold the same shard have the same bits in its master and its moments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fsdp/parameter_store.h"
#include "layout/layout.h"
#include "mesh/mesh.h"
#include "optim/optimizer.h"

namespace tessera::train {

// The hash of one tensor of a shard: of its master, or of a moment.
struct StateHash {
  std::string fqn;
  std::string state;                // "master", "exp_avg", ...
  layout::GroupId replicate_group;  // see plan::Placement
  std::uint64_t hash = 0;           // XXH3 of this rank's bytes
};

// Returns the hashes of all masters, then of all moments. Every rank has the same tensors in the same order.
[[nodiscard]] std::vector<StateHash> hash_states(const fsdp::ParameterStore& store, const optim::Optimizer& optimizer);

// The hashes of one tensor on all ranks that hold it.
struct ReplicatedState {
  std::string fqn, state;
  layout::Group ranks;                // of the world
  std::vector<std::uint64_t> hashes;  // by rank of `ranks`
};

// Describes the first state whose ranks differ, and counts the other ones: "replicas of model.norm.weight differ in
// master: ranks 0, 1 hold 0123456789abcdef, rank 2 holds ...". Returns nothing if all are equal.
[[nodiscard]] std::optional<std::string> describe_difference(const std::vector<ReplicatedState>& states);

struct ReplicaCount {
  std::size_t states = 0;      // masters and moments of this rank
  std::size_t replicated = 0;  // those that other ranks hold too
};

// Hashes masters and moments and compares the hashes with those of the ranks that hold the same shards. Reads each
// tensor once and sends 8 bytes for it. The message names `step`. Collective over the world. Throws
// AgreedError(rank_failed) on every rank if replicas differ on any.
ReplicaCount check_replicas(const fsdp::ParameterStore& store, const optim::Optimizer& optimizer,
                            const layout::Layout& layout, const mesh::Mesh& mesh, std::int64_t step);

}  // namespace tessera::train
