// Loads a checkpoint into the shards of this rank, whatever layout it was written in.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/parameter_spec.h"
#include "checkpoint/stored_checkpoint.h"
#include "fsdp/parameter_store.h"
#include "optim/optimizer.h"

namespace tessera::checkpoint {

// Error(bad_input) naming every parameter that the checkpoint lacks, has in another shape, or has beside the model's.
void require_same_parameters(const StoredCheckpoint& stored, const std::vector<base::ParameterSpec>& parameters);

struct Restored {
  std::uint64_t bytes_needed = 0;    // masters and moments of this rank, as they are stored
  std::uint64_t bytes_read = 0;      // for them: nothing but the parts that this rank holds
  std::uint64_t bytes_verified = 0;  // this rank's share of all, whose hashes were compared
  std::vector<std::string> absent;   // states that the checkpoint does not have; they were left as they are
};

// Verifies share `rank` of `ranks` of the checkpoint, then fills masters and moments from it, converting types, and
// sets the optimizer's count of steps, unless the checkpoint has no moments for it. Communicates with nobody: to be
// agreed on. Precondition: require_same_parameters has passed.
Restored restore(StoredCheckpoint& stored, fsdp::ParameterStore& store, optim::Optimizer& optimizer, std::int64_t rank,
                 std::int64_t ranks);

}  // namespace tessera::checkpoint
