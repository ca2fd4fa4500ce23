// Whether the ranks that hold the same shard hold the same bits of it, in its master and its moments.
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

// One tensor of a shard's state: the master, or a moment.
struct StateHash {
  std::string fqn;
  std::string state;            // "master", "exp_avg", ...
  std::string replicate_group;  // see plan::Placement
  std::uint64_t hash = 0;       // XXH3 of this rank's bytes
};

// All masters, then all moments: the same tensors in the same order on every rank.
[[nodiscard]] std::vector<StateHash> hash_states(const fsdp::ParameterStore& store, const optim::Optimizer& optimizer);

// The same tensor on all ranks that hold it.
struct ReplicatedState {
  std::string fqn, state;
  layout::Group ranks;                // of the world
  std::vector<std::uint64_t> hashes;  // by rank of `ranks`
};

// "replicas of model.norm.weight differ in master: ranks 0, 1 hold 0123456789abcdef, rank 2 holds ...": the first state
// whose ranks differ, and how many more do. None if all are equal.
[[nodiscard]] std::optional<std::string> describe_difference(const std::vector<ReplicatedState>& states);

struct ReplicaCount {
  std::size_t states = 0;      // masters and moments on this rank
  std::size_t replicated = 0;  // of them held by other ranks too
};

// Hashes masters and moments and compares them with those of the ranks that hold the same shards; `step` is named in
// the message. Reads all of them once and moves 8 bytes a tensor. Collective over the world. Throws
// AgreedError(rank_failed) on every rank if replicas differ on any.
ReplicaCount check_replicas(const fsdp::ParameterStore& store, const optim::Optimizer& optimizer,
                            const layout::Layout& layout, const mesh::Mesh& mesh, std::int64_t step);

}  // namespace tessera::train
